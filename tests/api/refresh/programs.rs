//! Random programs of all operations and of reloads, against a model: what is there, until when,
//! which reloads are under way, what was counted. Reloads run in jobs that the program runs or
//! drops, or at once: at the end of reads, and after the loads and views within which reads found
//! entries stale.
//!
//! `CORTADO_REFRESH_PROGRAMS` sets the number of programs. A fuzzer runs them, too.
#![allow(dead_code, reason = "the fuzzer has its own driver")]

use super::bench::{Bench, HARD, Plan, at_once_if, bench_without_listener};
use super::model::{Brings, KEYS, LIMIT, Model, RETRY, Step, step};
use crate::common::crowd::{draw, seed};
use crate::common::effort::scale;
use cortado::{Cache, Loaded, Op, Reloaded};
use std::fmt::Debug;
use std::time::Duration;

const LENGTH: usize = 60;

fn agree<T: PartialEq + Debug>(what: &str, given: T, expected: T) {
    assert_eq!(given, expected, "{what}");
}

/// What the upstream says.
fn plan(brings: Brings, value: u32) -> Plan {
    let seconds = Duration::from_secs;
    match brings {
        Brings::New => Ok(Reloaded::new(value)),
        Brings::NewFor(life) => Ok(Loaded::with_ttl(value, seconds(life)).into()),
        Brings::NotModified => Ok(Reloaded::not_modified()),
        Brings::NotModifiedFor(life) => Ok(Reloaded::not_modified_with_ttl(seconds(life))),
        Brings::Gone => Ok(Reloaded::gone()),
        Brings::Error => Err("down"),
        Brings::Panic => Err("panic"),
    }
}

/// Plans what the inline reloads of an operation bring, which the model has noted as jobs. The
/// operation ends with them.
fn foresee(b: &Bench, model: &Model, value: u32) {
    let brings = model.brings.unwrap_or(Brings::New);
    let inline = model.jobs.iter().filter(|job| model.is_inline && model.asks(Some(job)));
    (0..).zip(inline).for_each(|(nth, _)| b.plan(plan(brings, value + nth)));
}

/// The same, after the operation.
fn run_inline(model: &mut Model, value: u32) {
    let brings = model.brings.unwrap_or(Brings::New);
    for nth in 0..if model.is_inline { model.jobs.len() as u32 } else { 0 } {
        model.run(brings, value + nth);
    }
}

/// An operation that reads, perhaps more than once, and what the model says of that.
fn read<T: PartialEq + Debug>(
    b: &Bench,
    model: &mut Model,
    value: u32,
    expect: impl FnOnce(&mut Model) -> T,
    operate: impl FnOnce(&Cache<u32, u32>) -> T,
) {
    let expected = expect(model);
    foresee(b, model, value);
    agree("a read", operate(b.cache.cache()), expected);
    run_inline(model, value);
}

fn play_read(b: &Bench, model: &mut Model, step: Step, value: u32) {
    match step {
        Step::Get(key) => read(b, model, value, |model| model.read(key), |cache| cache.get(&key)),
        Step::Touch(key) => {
            let expect = |model: &mut Model| model.read(key).is_some();
            read(b, model, value, expect, |cache| cache.touch(&key));
        }
        Step::GetIf(key, accepts) => {
            let expect = |model: &mut Model| if accepts { model.read(key) } else { None };
            read(b, model, value, expect, |cache| cache.get_if(&key, |_, _| accepts));
        }
        Step::View(key, other) => {
            let expect = |model: &mut Model| (model.read(key), model.read(other));
            read(b, model, value, expect, |cache| {
                let view = cache.pin();
                let found = (view.get(&key).copied(), view.get(&other).copied());
                drop(view);
                cache.run_pending_tasks();
                found
            });
        }
        Step::Within(key, other) => {
            // A key that no step has otherwise, so that the load is one.
            let other = KEYS + other;
            read(
                b,
                model,
                value,
                |model| model.read(key),
                |cache| {
                    let mut found = None;
                    cache.get_with(other, || {
                        found = cache.get(&key);
                        value
                    });
                    cache.invalidate(&other);
                    found
                },
            );
        }
        Step::LoadingGet(key) => {
            let found = model.read(key);
            foresee(b, model, value);
            let (made, got) = (b.next_made(), b.cache.get(&key));
            let reloaded = !model.jobs.is_empty() && model.is_inline;
            run_inline(model, value);
            // The call that has reloaded returns what that brought, and loads what is gone.
            let found = match (model.value(key), model.brings) {
                _ if !reloaded => found,
                (Some(value), _) => Some(value),
                (None, Some(Brings::Gone)) => None,
                (None, Some(Brings::NewFor(_))) => Some(value),
                (None, _) => found,
            };
            let expected = match found {
                Some(found) => found,
                None => {
                    model.put(key, made, HARD.as_secs());
                    made
                }
            };
            agree("loading get", got, Ok(expected));
        }
        _ => unreachable!("no read"),
    }
}

fn play(b: &Bench, model: &mut Model, step: Step, value: u32) {
    let seconds = Duration::from_secs;
    let hard = HARD.as_secs();
    let cache = b.cache.cache();
    match step {
        Step::Advance(by) => {
            b.advance(by);
            model.now += by;
            model.expire();
        }
        Step::Insert(key) => {
            cache.insert(key, value);
            model.put(key, value, hard);
        }
        Step::InsertFor(key, life) => {
            cache.insert_with_ttl(key, value, seconds(life));
            model.put(key, value, life);
        }
        Step::Remove(key) => {
            let removed = model.nodes.remove(&key).map(|node| node.value);
            agree("remove", cache.remove(&key), removed);
        }
        Step::SetTtl(key, life) => {
            let now = model.now;
            let node = model.nodes.get_mut(&key).map(|node| node.end = now + life);
            agree("set_ttl", cache.set_ttl(&key, seconds(life)), node.is_some());
            model.expire();
        }
        Step::Clear => {
            cache.invalidate_all();
            model.nodes.clear();
        }
        Step::Put(key) => {
            let put = cache.entry(key).and_upsert_with(|_| value);
            agree("put", put.is_old_value_replaced(), model.value(key).is_some());
            model.put(key, value, hard);
        }
        Step::Look(key) => {
            let mut seen = None;
            cache.entry(key).and_compute_with(|entry| {
                seen = entry.map(|entry| *entry);
                Op::Nop
            });
            agree("look", seen, model.value(key));
        }
        Step::Refresh(key) => {
            let expected = model.refresh(key);
            foresee(b, model, value);
            let made = if model.value(key).is_some() { value } else { b.next_made() };
            agree("refresh", b.cache.refresh(&key), expected);
            run_inline(model, made);
        }
        Step::MakeStale(key) => {
            agree("make_stale", cache.make_stale(&key), model.make_stale(key));
        }
        Step::MakeAllStale => {
            cache.make_all_stale();
            (0..KEYS).for_each(|key| _ = model.make_stale(key));
        }
        Step::RunJob(brings) => {
            model.brings = Some(brings);
            let is_asked = model.asks(model.jobs.front());
            if is_asked {
                b.plan(plan(brings, value));
            }
            let made = if is_asked { value } else { b.next_made() };
            b.jobs.run_one();
            model.run(brings, made);
        }
        Step::DropJob => {
            b.jobs.drop_one();
            model.drop_job();
        }
        read => play_read(b, model, read, value),
    }
}

fn compare(b: &Bench, model: &Model) {
    for key in 0..KEYS {
        let node = model.nodes.get(&key);
        agree("value", b.cache.cache().peek(&key).map(|entry| *entry), node.map(|node| node.value));
        let left = node.map(|node| Duration::from_secs(node.end - model.now));
        agree("life", b.cache.cache().expires_in(&key).due(), left);
        let failed = node.map(|node| node.failed).filter(|failed| *failed > 0);
        agree("failure", b.cache.last_failure(&key).map(|failure| failure.in_a_row), failed);
    }
    let stats = b.cache.stats();
    agree("under way", stats.reloads_under_way, model.jobs.len() as u64);
    let counted = (stats.reloads, stats.reload_failures, stats.reloads_skipped);
    agree("counts", counted, (model.reloads, model.failures, model.skipped));
}

/// Plays the steps that the numbers stand for, and compares after each.
pub fn run(is_inline: bool, program: &[u64]) {
    let b = bench_without_listener(|builder| {
        let builder = builder.refresh_limit(LIMIT).refresh_retry(Duration::from_secs(RETRY));
        at_once_if(is_inline)(builder)
    });
    let mut model = Model { is_inline, ..Model::default() };
    let mut steps = Vec::new();
    // A step makes up to ten values.
    for (number, &random) in (100..).zip(program) {
        let step = step(random);
        steps.push(step);
        let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(&b, &mut model, step, 10 * number);
            compare(&b, &model);
        }));
        if let Err(panic) = played {
            eprintln!("inline {is_inline}: {steps:#?}\n{model:#?}");
            std::panic::resume_unwind(panic);
        }
    }
}

fn random_programs(is_inline: bool) {
    for program in 0..scale("CORTADO_REFRESH_PROGRAMS", 2_000) {
        let mut random = seed(program);
        let program: Vec<u64> = (0..LENGTH).map(|_| draw(&mut random)).collect();
        run(is_inline, &program);
    }
}

#[test]
fn random_programs_in_jobs() {
    random_programs(false);
}

#[test]
fn random_programs_inline() {
    random_programs(true);
}
