//! Performs the operations of histories by threads.

use super::play::{MAKES, ORDER, Subject};
use super::{Answer, NEVER, Op, Shown, Time};
use crate::common::crowd::draw;
use cortado::{Cache, CompResult, Entry, Loaded, Op as Decision};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn seconds(life: Option<Duration>) -> Time {
    life.map_or(NEVER, |life| life.as_secs())
}

pub fn seen(entry: Option<&Entry<u64, u64>>) -> Shown {
    entry.map(|entry| (**entry, seconds(entry.expires_in())))
}

std::thread_local! {
    /// When the loader of this thread's operation began and ended, if it was run.
    static LOADER: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
    static LASTS: Cell<u64> = const { Cell::new(1) };
}

/// An operation begins on this thread.
pub fn begin() {
    LOADER.set(None);
}

/// When the loader of the operation that ends on this thread began and ended.
pub fn loader_ran() -> Option<(u64, u64)> {
    LOADER.get()
}

/// What loaders and computations take, which is longer than what others do.
pub fn dwell() {
    (0..20).for_each(|_| std::hint::spin_loop());
}

/// A run of a loader, or a part of it. Now and then it lasts longer than several operations.
pub fn make() {
    let started = ORDER.fetch_add(1, Ordering::SeqCst);
    let began = LOADER.get().map_or(started, |(began, _)| began);
    let mut state = LASTS.get();
    let drawn = draw(&mut state);
    LASTS.set(state);
    dwell();
    if drawn.is_multiple_of(8) {
        (0..drawn >> 54).for_each(|_| std::hint::spin_loop());
    }
    LOADER.set(Some((began, ORDER.fetch_add(1, Ordering::SeqCst))));
}

fn load(cache: &Cache<u64, u64>, key: u64, op: Op) -> Answer {
    /// An error of another type.
    #[derive(Debug)]
    struct Other(u64);

    let made = |value: u64| {
        make();
        value
    };
    match op {
        Op::LoadIf(value) if value % 2 == 1 => {
            let load = |_: Option<Entry<u64, u64>>| Loaded::new(made(value));
            Answer::Value(Some(cache.load_if(&key, load, |old, _| old.is_multiple_of(2))))
        }
        Op::LoadIf(value) => {
            let entry = cache.entry(key);
            let entry = entry.or_insert_with_if(|| made(value), |old| old.is_multiple_of(2));
            Answer::Value(Some(*entry))
        }
        Op::LoadOptionally { value, makes } => {
            Answer::Value(cache.optionally_get_with(key, || makes.then_some(made(value))))
        }
        Op::LoadFallibly { value, fails, other_type } => {
            let load = || {
                let value = made(value);
                if fails { Err(value) } else { Ok(value) }
            };
            let loaded = if other_type {
                cache.try_get_with(key, || load().map_err(Other)).map_err(|error| error.0)
            } else {
                cache.try_get_with(key, load).map_err(|error| *error)
            };
            loaded.map_or_else(Answer::Failed, |value| Answer::Value(Some(value)))
        }
        Op::Guard { value, drops } => match cache.get_value_or_guard(&key) {
            Ok(value) => Answer::Value(Some(value)),
            Err(guard) if drops => {
                dwell();
                drop(guard);
                Answer::Value(None)
            }
            Err(guard) => Answer::Value(Some(*guard.insert(made(value)))),
        },
        Op::Load(value) => Answer::Value(Some(cache.get_with(key, || made(value)))),
        _ => unreachable!("{op:?} is no load"),
    }
}

pub fn perform(subject: &Subject, key: u64, op: Op) -> Answer {
    let cache = subject.cache();
    let compute = |decision: Decision<u64>| {
        let mut shown = None;
        let result = cache.entry(key).and_compute_with(|entry| {
            shown = seen(entry.as_ref());
            dwell();
            decision
        });
        match (result, decision, shown) {
            (CompResult::Inserted(new), Decision::Put(put), None)
            | (CompResult::ReplacedWith(new), Decision::Put(put), Some(_)) => assert_eq!(*new, put),
            (CompResult::Removed(old), Decision::Remove, Some(_))
            | (CompResult::Unchanged(old), Decision::Nop, Some(_)) => {
                assert_eq!(seen(Some(&old)), shown);
            }
            (CompResult::StillNone(_), Decision::Nop | Decision::Remove, None) => {}
            (result, _, _) => panic!("{decision:?} of {shown:?} came to {result:?}"),
        }
        Answer::Entry(shown)
    };
    match op {
        Op::Get => Answer::Value(cache.get(&key)),
        Op::GetIf => Answer::Value(cache.get_if(&key, |value, _| value % 2 == 1)),
        Op::MakeStale => Answer::Was(cache.make_stale(&key)),
        Op::GetEntry => Answer::Entry(seen(cache.get_entry(&key).as_ref())),
        Op::Peek => Answer::Entry(seen(cache.peek(&key).as_ref())),
        Op::Touch => Answer::Was(cache.touch(&key)),
        Op::Insert(value) => {
            cache.insert(key, value);
            Answer::Done
        }
        Op::InsertFor(value, life) => {
            cache.insert_with_ttl(key, value, Duration::from_secs(life));
            Answer::Done
        }
        Op::Remove => Answer::Value(cache.remove(&key)),
        Op::RemoveIfOdd => Answer::Value(cache.remove_if(&key, |_, value| value % 2 == 1)),
        Op::Clear => {
            cache.invalidate_all();
            Answer::Done
        }
        Op::Put(value) => compute(Decision::Put(value)),
        Op::Upsert(value) => {
            let mut shown = None;
            let entry = cache.entry(key).and_upsert_with(|entry| {
                shown = seen(entry.as_ref());
                dwell();
                value
            });
            assert_eq!((*entry, entry.is_old_value_replaced()), (value, shown.is_some()));
            Answer::Entry(shown)
        }
        Op::Replace(value) => match cache.replace(key, value) {
            Ok(old) => Answer::Value(Some(*old)),
            Err(same) => {
                assert_eq!(same, value);
                Answer::Value(None)
            }
        },
        Op::ComputeRemove => compute(Decision::Remove),
        Op::Look => compute(Decision::Nop),
        Op::SetTtl(life) => Answer::Was(cache.set_ttl(&key, Duration::from_secs(life))),
        Op::Persist => Answer::Was(cache.persist(&key)),
        Op::Reload(value) => {
            MAKES.set(value);
            Answer::Was(subject.refresh(key))
        }
        Op::ExpiresIn => Answer::Life(cache.expires_in(&key).into_options().map(seconds)),
        loads => load(cache, key, loads),
    }
}
