//! User code that uses the cache: from wherever an operation of a task calls or polls it, every
//! operation, of threads and of tasks.

use crate::common::effort::{effort, is_sampled};
use crate::common::fuse::{
    Borrowed, Key, Name, PLACES, Place, TASK_PLACES, Timing, Value, arm, disarm,
};
use crate::common::refusals::{JOIN, is_refused, must_be_refused};
use crate::common::watched;
use crate::fused::{Course, Fused, Operation, Others, operations, run};
use crate::hand::Task;
use cortado::{Loaded, Op};
use std::cell::Cell;
use std::future::{Future, ready};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A key that the outer operation has nothing to do with, and one that is not there.
const OTHER: u64 = 2;
const OTHER_MISSING: u64 = 302;

/// What the callback does, with the key of the outer operation. The names are those of the matrix
/// of threads, if the same is refused.
type Inner = (&'static str, fn(&Fused, u64));

/// Runs an operation to its end, within the callback.
fn end<T>(operation: impl Future<Output = T> + Send) {
    Task::new(operation).end();
}

const INNER: [Inner; 39] = [
    // Of threads.
    ("get", |s, key| drop(s.cache.get(&Name(key)))),
    ("insert", |s, key| s.insert(key)),
    ("remove", |s, key| drop(s.cache.remove(&Name(key)))),
    ("invalidate_all", |s, _| s.cache.invalidate_all()),
    ("retain", |s, _| s.cache.retain(|_, _| false)),
    ("run_pending_tasks", |s, _| s.cache.run_pending_tasks()),
    ("load", |s, key| drop(s.cache.get_with(Key(key), || s.value()))),
    ("load other", |s, _| drop(s.cache.get_with(Key(OTHER_MISSING), || s.value()))),
    ("load many", |s, key| {
        drop(s.cache.get_many_with([Key(OTHER_MISSING), Key(key)], |keys| {
            keys.iter().map(|key| (Key(key.0), s.value())).collect::<Vec<_>>()
        }));
    }),
    ("load by a guard", |s, key| match s.cache.get_value_or_guard(&Borrowed(key)) {
        Err(guard) => drop(guard.insert(s.value())),
        Ok(value) => assert!(value.serial > 0),
    }),
    ("upsert", |s, key| drop(s.cache.entry(Key(key)).and_upsert_with(|_| s.value()))),
    ("policy", |s, _| assert!(s.cache.policy().max_capacity().is_some())),
    // Of tasks.
    ("get", |s, key| end(s.tasks.get(&Name(key)))),
    ("get if", |s, key| end(s.tasks.get_if(&Name(key), |_, _| true))),
    ("load if", |s, key| {
        let load = |_| ready(Loaded::new(s.value()));
        end(s.tasks.load_if(&Borrowed(key), load, |_, _| true));
    }),
    ("load by a guard", |s, key| {
        end(async {
            if let Err(guard) = s.tasks.get_value_or_guard(&Borrowed(key)).await {
                guard.insert(s.value());
            }
        });
    }),
    ("load many", |s, key| {
        end(s.tasks.get_many_with([Key(OTHER_MISSING), Key(key)], |keys| {
            ready(keys.iter().map(|key| (Key(key.0), s.value())).collect::<Vec<_>>())
        }));
    }),
    ("get_many", |s, key| end(s.tasks.get_many(&[Name(key), Name(OTHER)]))),
    ("insert", |s, key| end(s.tasks.insert(Key(key), s.value()))),
    ("insert other", |s, _| end(s.tasks.insert(Key(OTHER), s.value()))),
    ("insert_many", |s, key| {
        end(s.tasks.insert_many([(Key(OTHER), s.value()), (Key(key), s.value())]));
    }),
    ("remove", |s, key| end(s.tasks.remove(&Name(key)))),
    ("remove other", |s, _| end(s.tasks.remove(&Name(OTHER)))),
    ("remove_if", |s, key| end(s.tasks.remove_if(&Name(key), |_, _| true))),
    ("invalidate_many", |s, key| end(s.tasks.invalidate_many(&[Name(OTHER), Name(key)]))),
    ("invalidate some", |s, _| {
        assert!(s.tasks.invalidate_entries_if(|_, _| true).is_ok());
    }),
    ("retain", |s, _| end(s.tasks.retain(|_, _| false))),
    ("set_ttl", |s, key| end(s.tasks.set_ttl(&Name(key), Duration::ZERO))),
    ("run_pending_tasks", |s, _| end(s.tasks.run_pending_tasks())),
    ("load", |s, key| end(s.tasks.get_with(Key(key), async { s.value() }))),
    ("load", |s, key| end(s.tasks.get_with_by_ref(&Borrowed(key), async { s.value() }))),
    ("load other", |s, _| end(s.tasks.get_with(Key(OTHER_MISSING), async { s.value() }))),
    ("load fails", |s, key| {
        end(s.tasks.try_get_with(Key(key), async { Err::<Value, _>(()) }));
    }),
    ("load nothing", |s, key| end(s.tasks.optionally_get_with(Key(key), async { None }))),
    ("replace", |s, key| end(s.tasks.replace(Key(key), s.value()))),
    ("compute", |s, key| {
        end(s.tasks.entry(Key(key)).and_compute_with(async |_| Op::Put(s.value())));
    }),
    ("compute other", |s, _| {
        end(s.tasks.entry(Key(OTHER)).and_compute_with(async |_| Op::<Value>::Remove));
    }),
    ("upsert", |s, key| end(s.tasks.entry(Key(key)).and_upsert_with(async |_| s.value()))),
    ("drop a future", |s, key| {
        let mut task = Task::new(s.tasks.get_with(Key(key + 400), std::future::pending()));
        assert!(!task.poll());
    }),
];

/// Lets the `nth` call of `place` in `outer` do `inner`; false if there were fewer calls.
fn one(
    (place, nth): (Place, u32),
    outer: (&'static str, u64, Operation),
    inner: Inner,
    course: Course,
    (timing, capacity): (Timing, u64),
) -> bool {
    let s = Fused::new(timing, capacity, false);
    let (name, key, _) = outer;
    // As a slot, so that it can be taken, or the cache would never be dropped.
    let slot = Arc::new(Mutex::new(Some(s.clone())));
    let hand = Arc::clone(&slot);
    let left = Cell::new(false);
    let hands = (
        || {
            arm(place, nth, move || {
                let s = hand.lock().unwrap().take().expect("armed once");
                inner.1(&s, key);
            });
        },
        || left.set(disarm()),
    );
    let ran = run(&s, outer, course, hands, place == Place::Wake);
    let reached = !left.get();
    slot.lock().unwrap().take();
    let must = reached && must_be_refused(place, (name, key), inner.0);
    assert!(ran.result.is_err() || !must, "{place:?} {nth}: {} in {name} is not refused", inner.0);
    // The code of a load or a computation calls its waker, too.
    let is_cancelled = course.is_dropped && place == Place::DropFuture;
    let refused = is_refused(place, name, inner.0) && !is_cancelled;
    if let Err(message) = ran.result {
        let messages = [
            "a load or computation waits for its own key",
            "an expiry hook, a weigher or a condition writes the key that it was asked about",
        ];
        assert!(messages.contains(&&*message), "{message}");
        assert!(refused, "{place:?} {nth}: {} in {name}", inner.0);
    }
    s.settle();
    let stats = s.cache.stats();
    let caught = stats.listener_panics + stats.drop_panics;
    assert!(caught == 0 || refused);
    s.check(caught as usize);
    Task::new(s.tasks.insert(Key(key), s.value())).end();
    assert!(Task::new(s.tasks.get(&Name(key))).end().is_some() || capacity < 1000);
    s.check(caught as usize);
    let living = Arc::clone(&s.living);
    drop(s);
    assert_eq!(living.load(SeqCst), 0, "values that nobody has dropped");
    reached
}

fn from(places: &'static [Place]) {
    from_each(places, |place, inner| settings(Timing::Moved, place, inner));
}

/// By the system's clock hooks are asked once or twice, and operations read it at other moments.
fn by_the_system(places: &'static [Place]) {
    from_each(places, |place, inner| {
        let all = Timing::BY_THE_SYSTEM.map(|timing| settings(timing, place, inner));
        let with_others = |course: &Course| course.others != Others::Nobody;
        all.into_iter().flatten().filter(|(_, course, _)| with_others(course)).collect()
    });
}

/// What is tried in each operation, also where a share of the others is.
const ALWAYS: &str = "insert other";

type Setting = (Timing, Course, u64);

fn from_each(places: &'static [Place], settings: fn(Place, &str) -> Vec<Setting>) {
    watched(move |watch| {
        for &place in places {
            let mut reached = 0;
            for outer in operations() {
                for inner in INNER {
                    for (timing, course, capacity) in settings(place, inner.0) {
                        // The first few calls, which are those of different steps.
                        for nth in 1..=5 {
                            let (inner_name, outer_name) = (inner.0, outer.0);
                            let is_first = nth == 1 && inner_name == ALWAYS;
                            let case = (place, nth, inner_name, outer_name, capacity);
                            if !is_first && !is_sampled(case) {
                                continue;
                            }
                            watch.begin(format!(
                                "{place:?} {nth}: {inner_name} in {outer_name}, {course:?}, \
                                 {timing:?}, capacity {capacity}"
                            ));
                            if !one((place, nth), outer, inner, course, (timing, capacity)) {
                                break;
                            }
                            reached += 1;
                        }
                    }
                }
            }
            let least = if effort() == 100 { INNER.len() } else { 1 };
            assert!(reached >= least, "{place:?} is reached {reached} times only");
        }
    });
}

fn settings(timing: Timing, place: Place, inner: &str) -> Vec<Setting> {
    let beside = |others| Course { others, is_dropped: false };
    let mut settings =
        vec![(timing, beside(Others::Waiter), 1000), (timing, beside(Others::Nobody), 12)];
    if place == Place::DropFuture {
        settings.push((timing, Course { others: Others::Waiter, is_dropped: true }, 1000));
    }
    // The operation waits, and what it waits for is on this thread: so a call that waits for the
    // same would never return.
    if [Place::CloneWaker, Place::DropWaker].contains(&place) && !JOIN.contains(&inner) {
        settings.push((timing, beside(Others::Load), 1000));
    }
    settings
}

#[test]
fn from_the_weigher_and_the_hooks() {
    from(&PLACES[..4]);
}

#[test]
fn from_the_futures_and_the_conditions() {
    from(&PLACES[4..7]);
    from(&TASK_PLACES[..1]);
}

#[test]
fn from_hash_eq_and_clone() {
    from(&PLACES[7..10]);
}

#[test]
fn from_the_destructors() {
    from(&PLACES[10..12]);
}

#[test]
fn from_the_clock() {
    from(&PLACES[12..13]);
}

#[test]
fn from_the_listeners() {
    from(&PLACES[13..]);
}

#[test]
fn from_the_listener_that_awaits() {
    from(&TASK_PLACES[1..4]);
}

#[test]
fn from_the_wakers() {
    from(&TASK_PLACES[4..]);
}

#[test]
fn by_the_systems_clock_from_what_is_asked() {
    by_the_system(&PLACES[..7]);
}

#[test]
fn by_the_systems_clock_from_the_rest() {
    by_the_system(&PLACES[7..12]);
    by_the_system(&PLACES[13..]);
    by_the_system(&TASK_PLACES);
}
