//! Every operation, dropped after each number of polls, in each situation of its key. Each poll
//! either leaves everything as it is, or ends the operation with its whole effect. Dropping the
//! future changes nothing, and leaves nothing behind.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::must_end;
use crate::hand::{Boxed, Gate, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Loaded, Op, RemovalCause};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The values that a case puts in: whose they are.
const THERE: u64 = 10;
const OWN: u64 = 1;
const OTHERS: u64 = 20;
const WAITERS: u64 = 30;
const LAST: u64 = 99;

const KEY: u64 = 5;
/// How often the futures of the user's are pending.
const PENDING: u32 = 2;
/// A minute: the lifetime that operations give.
const MINUTE: Duration = Duration::from_secs(60);

type Operation = for<'a> fn(&'a Cache<u64, u64>) -> Boxed<'a, ()>;
/// The value of the key after the operation, by the value before it.
type Effect = fn(Option<u64>) -> Option<u64>;

async fn own<T>(value: T) -> T {
    pends(PENDING).await;
    value
}

/// One row: the name, the operation, its effect.
macro_rules! row {
    ($effect:ident, $cache:ident => $operation:expr) => {
        (
            stringify!($operation),
            (|$cache| {
                Box::pin(async move {
                    let _ = $operation.await;
                })
            }) as Operation,
            $effect as Effect,
        )
    };
}

fn same(before: Option<u64>) -> Option<u64> {
    before
}

fn put(_: Option<u64>) -> Option<u64> {
    Some(OWN)
}

fn gone(_: Option<u64>) -> Option<u64> {
    None
}

fn replaced(before: Option<u64>) -> Option<u64> {
    before.map(|_| OWN)
}

fn loaded(before: Option<u64>) -> Option<u64> {
    before.or(Some(OWN))
}

fn defaulted(before: Option<u64>) -> Option<u64> {
    before.or(Some(0))
}

/// Of a load that replaces the first value.
fn refreshed(before: Option<u64>) -> Option<u64> {
    before.filter(|value| *value != THERE).or(Some(OWN))
}

/// Of a condition that holds for the first value only.
fn judged(before: Option<u64>) -> Option<u64> {
    before.filter(|value| *value != THERE)
}

const FAILS: Result<u64, u8> = Err(1);
const WORKS: Result<u64, u8> = Ok(OWN);
const REFUSES: Result<[(u64, u64); 1], u8> = Err(1);

fn operations() -> Vec<(&'static str, Operation, Effect)> {
    vec![
        row!(same, c => c.get(&KEY)),
        row!(same, c => c.get_entry(&KEY)),
        row!(same, c => c.touch(&KEY)),
        row!(same, c => c.get_many(&[KEY])),
        row!(same, c => c.run_pending_tasks()),
        row!(put, c => c.insert(KEY, OWN)),
        row!(put, c => c.insert_with_ttl(KEY, OWN, MINUTE)),
        row!(put, c => c.insert_until(KEY, OWN, std::time::Instant::now() + MINUTE)),
        row!(put, c => c.insert_many([(KEY, OWN)])),
        row!(gone, c => c.remove(&KEY)),
        row!(gone, c => c.remove_entry(&KEY)),
        row!(gone, c => c.invalidate(&KEY)),
        row!(gone, c => c.invalidate_many(&[KEY])),
        row!(judged, c => c.remove_if(&KEY, |_, value| *value == THERE)),
        row!(same, c => c.remove_if(&KEY, |_, _| false)),
        row!(judged, c => c.retain(|_, value| *value != THERE)),
        row!(same, c => c.set_ttl(&KEY, MINUTE)),
        row!(same, c => c.set_expires_at(&KEY, std::time::Instant::now() + MINUTE)),
        row!(same, c => c.persist(&KEY)),
        row!(replaced, c => c.replace(KEY, OWN)),
        row!(loaded, c => c.get_with(KEY, own(OWN))),
        row!(loaded, c => c.get_with_by_ref(&KEY, own(OWN))),
        row!(refreshed, c => {
            c.load_if(&KEY, |_| own(Loaded::new(OWN)), |value, _| *value == THERE)
        }),
        row!(loaded, c => c.try_get_with(KEY, own(WORKS))),
        row!(same, c => c.try_get_with(KEY, own(FAILS))),
        row!(loaded, c => c.try_get_with_by_ref(&KEY, own(WORKS))),
        row!(loaded, c => c.optionally_get_with(KEY, own(Some(OWN)))),
        row!(same, c => c.optionally_get_with(KEY, own(None))),
        row!(loaded, c => c.optionally_get_with_by_ref(&KEY, own(Some(OWN)))),
        row!(loaded, c => c.get_many_with([KEY], |_| own([(KEY, OWN)]))),
        row!(same, c => c.get_many_with([KEY], |_| own([(KEY, OWN); 0]))),
        row!(same, c => c.try_get_many_with([KEY], |_| own(REFUSES))),
        row!(loaded, c => c.load(KEY, own(Loaded::with_ttl(OWN, MINUTE)))),
        row!(loaded, c => c.load_by_ref(&KEY, own(Some(Loaded::new(OWN))))),
        row!(same, c => c.load(KEY, own(None::<Loaded<u64>>))),
        row!(same, c => c.load(KEY, own(Loaded::with_ttl(OWN, Duration::ZERO)))),
        row!(loaded, c => c.entry(KEY).or_insert(OWN)),
        row!(defaulted, c => c.entry(KEY).or_default()),
        row!(defaulted, c => c.entry_by_ref(&KEY).or_default()),
        row!(loaded, c => c.entry_by_ref(&KEY).or_insert_with(own(OWN))),
        row!(refreshed, c => c.entry(KEY).or_insert_with_if(own(OWN), |it| *it == THERE)),
        row!(refreshed, c => c.entry_by_ref(&KEY).or_insert_with_if(own(OWN), |it| *it == THERE)),
        row!(loaded, c => c.entry(KEY).or_optionally_insert_with(own(Some(OWN)))),
        row!(same, c => c.entry(KEY).or_try_insert_with(own(FAILS))),
        row!(loaded, c => c.entry_by_ref(&KEY).or_load_with(own(Loaded::new(OWN)))),
        row!(put, c => c.entry(KEY).and_compute_with(|_| own(Op::Put(OWN)))),
        row!(gone, c => c.entry(KEY).and_compute_with(|_| own(Op::Remove))),
        row!(same, c => c.entry(KEY).and_compute_with(|_| own(Op::Nop))),
        row!(put, c => c.entry_by_ref(&KEY).and_compute_with(|_| own(Op::Put(OWN)))),
        row!(put, c => c.entry(KEY).and_try_compute_with(|_| own(Ok::<_, u8>(Op::Put(OWN))))),
        row!(same, c => c.entry_by_ref(&KEY).and_try_compute_with(|_| own(Err::<Op<u64>, u8>(1)))),
        row!(put, c => c.entry(KEY).and_upsert_with(|_| own(OWN))),
        row!(put, c => c.entry_by_ref(&KEY).and_upsert_with(|_| own(OWN))),
    ]
}

/// What others do with the key while the operation is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Nothing,
    /// A task that loads a missing value.
    Load,
    Computation,
}

#[derive(Clone, Copy, Debug)]
struct Situation {
    there: bool,
    others: Others,
    /// Polls before the others end.
    polls: u32,
    /// Polls after that; `None` if the future is dropped before the others end.
    later: Option<u32>,
}

struct Bench {
    cache: TasksAudited<u64, u64>,
    told: Arc<Mutex<Vec<(u64, RemovalCause)>>>,
}

impl Bench {
    fn new(there: bool) -> Self {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let cache = Cache::builder().max_capacity(100).record_stats(true).removal_listener(
            move |removed: cortado::Removed<u64, u64>| {
                log.lock().unwrap().push((*removed.value(), removed.cause()));
            },
        );
        let bench = Self { cache: tasks_audited(cache.build()), told };
        if there {
            at_once(bench.cache.insert(KEY, THERE));
        }
        bench
    }

    /// The value of the key, and what has left.
    fn state(&self) -> (Option<u64>, Vec<u64>) {
        self.cache.sync().run_pending_tasks();
        let told = self.told.lock().unwrap().iter().map(|told| told.0).collect();
        (self.cache.sync().peek(&KEY).map(|entry| *entry), told)
    }

    fn value(&self) -> Option<u64> {
        self.state().0
    }

    /// Every value that came is there, or was announced, once.
    fn check_balance(&self) {
        let (there, mut all) = self.state();
        all.extend(there);
        assert_eq!(all.len() as u64, self.cache.stats().insertions, "values told and there");
        let times = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), times, "a value left twice");
    }
}

/// Polls at most so many times. Each poll does nothing, or everything.
fn poll(bench: &Bench, task: &mut Task<'_, ()>, times: u32, effect: Effect) -> bool {
    for _ in 0..times {
        let before = bench.state();
        if task.poll() {
            assert_eq!(bench.value(), effect(before.0), "the effect");
            return true;
        }
        assert_eq!(bench.state(), before, "the operation is half done");
    }
    false
}

fn drop_in_silence<T>(bench: &Bench, task: Task<'_, T>) {
    let before = bench.state();
    drop(task);
    assert_eq!(bench.state(), before, "the drop changes something");
}

/// Runs one case; true if the operation came to its end.
fn case(operation: Operation, effect: Effect, situation: Situation) -> bool {
    let Situation { there, others, polls, later } = situation;
    let bench = Bench::new(there);
    let cache = &*bench.cache;
    let gate = Gate::default();
    let mut other = match others {
        Others::Nothing => None,
        Others::Load => Some(Task::waiting(async {
            cache.get_with(KEY, async { (gate.passed().await, OTHERS).1 }).await;
        })),
        Others::Computation => Some(Task::waiting(async {
            let computation = |_| async { (gate.passed().await, Op::Put(OTHERS)).1 };
            cache.entry(KEY).and_compute_with(computation).await;
        })),
    };
    let mut task = Task::new(operation(cache));
    let mut is_ready = poll(&bench, &mut task, polls, effect);
    let mut waiter = Task::new(cache.get_with(KEY, async { WAITERS }));
    let waits = !waiter.poll();
    let mut task = Some(task);
    if later.is_none() {
        drop_in_silence(&bench, task.take().unwrap());
    }
    gate.open();
    if let Some(other) = &mut other {
        other.run();
    }
    if let (Some(mut task), Some(later)) = (task, later) {
        is_ready |= poll(&bench, &mut task, later, effect);
        drop_in_silence(&bench, task);
    }
    // The waiter gets what is there, unless the operation has changed it after the load it joined.
    waiter.run();
    let (seen, now) = (waiter.result(), bench.value());
    if waits && later.is_none() && now.is_some() {
        assert_eq!(now, Some(seen), "the waiter");
    }
    at_once(cache.insert(KEY, LAST));
    assert_eq!(at_once(cache.get(&KEY)), Some(LAST));
    assert_eq!(at_once(cache.entry(KEY).and_upsert_with(|_| async { 100 })).into_value(), 100);
    bench.check_balance();
    is_ready
}

/// Runs the case with every number of polls, until the operation ends or can only wait.
fn all(there: bool, others: Others) {
    must_end(move || {
        for (name, operation, effect) in operations() {
            let run = |polls, later| {
                let situation = Situation { there, others, polls, later };
                // Shown if the case fails.
                eprintln!("{name}, {situation:?}");
                case(operation, effect, situation)
            };
            for polls in 0..PENDING + 2 {
                if run(polls, None) {
                    break;
                }
                let ends = (0..PENDING + 4).any(|later| run(polls, Some(later)));
                assert!(ends, "{name} does not end");
            }
        }
    });
}

#[test]
fn of_a_missing_key_alone() {
    all(false, Others::Nothing);
}

#[test]
fn of_a_present_key_alone() {
    all(true, Others::Nothing);
}

#[test]
fn beside_a_load() {
    all(false, Others::Load);
}

#[test]
fn beside_a_computation_of_a_missing_key() {
    all(false, Others::Computation);
}

#[test]
fn beside_a_computation_of_a_present_key() {
    all(true, Others::Computation);
}

/// A cache is closed at the first poll. What the close waits for then, a listener on another
/// thread, it may leave to others.
#[test]
fn of_a_close_at_any_time() {
    must_end(|| {
        for polls in 0..4 {
            let bench = Bench::new(true);
            let gate = Gate::default();
            let mut computation = Task::waiting(async {
                let compute = |_| async { (gate.passed().await, Op::Put(OTHERS)).1 };
                bench.cache.entry(KEY).and_compute_with(compute).await;
            });
            let mut close = Task::new(bench.cache.close());
            (0..polls).for_each(|_| _ = close.poll());
            drop(close);
            assert_eq!(bench.value(), if polls == 0 { Some(THERE) } else { None });
            gate.open();
            computation.run();
            // What was under way at the close is not kept.
            assert_eq!(bench.value(), if polls == 0 { Some(OTHERS) } else { None });
            at_once(bench.cache.close());
            assert_eq!(bench.state().0, None);
            assert!(bench.state().1.contains(&THERE));
        }
    });
}
