//! Panics of the user's code, wherever an operation of a task calls or polls it. The operation has
//! happened or has not; other tasks go on; nothing is lost, told twice or leaked.

use crate::common::effort::{effort, is_sampled};
use crate::common::fuse::{
    Key, MISSING, Name, PLACES, Place, Seen, TASK_PLACES, THERE, Timing, arm, disarm,
};
use crate::common::{Watch, watched};
use crate::fused::{Course, Fused, Operation, Others, operations, run};
use crate::hand::Task;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// Every one is one write of one key at most, but for these.
const OF_SEVERAL_KEYS: [&str; 9] = [
    "load many",
    "load replaces what goes",
    "load is overtaken",
    "get_many",
    "insert many",
    "invalidate many",
    "invalidate some",
    "retain",
    "maintenance",
];

/// Whether a panic there comes before anything has happened.
fn is_early(place: Place, operation: &str) -> bool {
    match place {
        Place::Loader | Place::Compute => true,
        Place::Weigher
        | Place::Create
        | Place::Update
        | Place::Read
        | Place::Hash
        | Place::Eq
        | Place::Condition => !OF_SEVERAL_KEYS.contains(&operation),
        _ => false,
    }
}

/// Whether a panic there may be caught: in a delivery, or in a call of somebody's waker.
fn may_be_caught(place: Place) -> bool {
    let calls = [Place::Clone, Place::DropKey, Place::DropValue, Place::Wake, Place::DropWaker];
    place.is_listener() || calls.contains(&place)
}

/// Operations that call the user's code there, whatever the hashes and the moment are.
fn callers(place: Place) -> &'static [&'static str] {
    match place {
        Place::Weigher => &["insert", "replace", "load", "load replaces", "compute", "insert many"],
        Place::Create => &["insert", "load", "compute"],
        Place::Update => &["replace", "load replaces", "compute replaces", "compute upserts"],
        Place::Read => &["get", "get_entry", "get_many", "touch"],
        Place::Loader => &[
            "load",
            "load by reference",
            "load fails",
            "load or fail",
            "load nothing",
            "load many",
            "load many fails",
            "load with a lifetime",
            "load for no time",
            "load replaces",
        ],
        Place::Compute => &[
            "compute",
            "compute replaces",
            "compute removes",
            "compute nothing",
            "compute fails",
            "compute upserts",
        ],
        Place::Condition => &["remove_if", "retain", "invalidate some", "load replaces"],
        Place::Hash => &["get", "insert", "replace", "remove", "load", "compute"],
        Place::Eq => &["get", "replace", "remove", "compute replaces"],
        Place::Clone => &["get", "remove", "load", "load by reference", "replace"],
        Place::DropKey | Place::DropValue => &["maintenance"],
        Place::Clock => &["get", "insert", "replace", "remove", "compute", "maintenance"],
        Place::DropFuture => &["load", "load what is there", "compute", "compute fails"],
        _ if place.is_listener() => &["replace", "remove", "compute removes", "maintenance"],
        // Of the operation's own waker, of those who wait for it, of the one it waits by.
        Place::Wake => &["load", "compute", "replace", "remove"],
        _ => &["load", "compute", "replace", "remove"],
    }
}

/// Lets the `nth` call of `place` panic. False if there were fewer calls. `done` is what is seen
/// after the operation if nothing panics.
fn try_one(
    (place, nth): (Place, u32),
    operation: (&str, u64, Operation),
    course: Course,
    (timing, capacity, idles): Setting,
    done: &Seen,
) -> bool {
    let s = Fused::new(timing, capacity, idles);
    let roomy = s.is_roomy();
    let name = operation.0;
    let left = Cell::new(false);
    let hands = (
        // Nothing is printed: to find the lines of a backtrace may take longer than a case has.
        || arm(place, nth, move || resume_unwind(Box::new(format!("of the {place:?}")))),
        || left.set(disarm()),
    );
    let ran = run(&s, operation, course, hands, place == Place::Wake);
    let tripped = !left.get();
    s.settle();
    let caught = s.cache.stats().listener_panics + s.cache.stats().drop_panics;
    match &ran.result {
        Ok(()) if tripped => {
            assert!(may_be_caught(place), "it is swallowed");
            let is_wakers = [Place::Wake, Place::DropWaker].contains(&place);
            assert!(caught == 1 || is_wakers && caught == 0, "{caught} panics are counted");
        }
        Ok(()) => assert_eq!(caught, 0),
        Err(message) => {
            assert_eq!(*message, format!("of the {place:?}"));
            assert!(!place.is_listener() && caught == 0);
        }
    }
    let (before, after) = (&ran.before, &ran.after);
    if ran.result.is_err() && is_early(place, name) && roomy {
        assert_eq!(before, after, "the operation has happened");
    } else if !OF_SEVERAL_KEYS.contains(&name) && roomy {
        assert!(after == before || after == done, "half done: {before:?}, {after:?}, {done:?}");
    } else if roomy {
        for (n, entry) in after.iter().enumerate() {
            assert!([before[n], done[n]].contains(entry), "half done: {before:?}, {after:?}");
        }
    }
    if ran.result.is_ok() && !course.is_dropped && roomy {
        assert_eq!(after, done, "an operation that returns has happened");
    }
    s.check(tripped.into());
    // Everything still works, for these keys too.
    for key in [THERE, MISSING] {
        Task::new(s.tasks.insert(Key(key), s.value())).end();
        let found = Task::new(s.tasks.get(&Name(key))).end();
        assert!(found.is_some() || !roomy);
        Task::new(s.tasks.invalidate(&Name(key))).end();
        assert!(s.serial_of(key).is_none());
        let loaded = Task::new(s.tasks.get_with(Key(key), async { s.value() })).end();
        let upsert = Task::new(s.tasks.entry(Key(key)).and_upsert_with(async |old| {
            assert!(old.is_none_or(|old| old.serial == loaded.serial));
            s.value()
        }));
        assert!(upsert.end().serial > loaded.serial);
    }
    s.check(tripped.into());
    let living = Arc::clone(&s.living);
    drop(s);
    let (living, most) = (living.load(SeqCst), if tripped { place.most_leaked() } else { 0 });
    assert!((0..=most).contains(&living), "{living} values that nobody has dropped");
    tripped
}

/// With which clock, capacity and idle time. Only a small cache evicts, and only one that idles
/// prolongs lives.
type Setting = (Timing, u64, bool);

const MOVED: [Setting; 3] =
    [(Timing::Moved, 1000, false), (Timing::Moved, 1000, true), (Timing::Moved, 12, false)];
const BY_THE_SYSTEM: [Setting; 2] = [(Timing::Short, 1000, false), (Timing::Long, 1000, false)];

fn try_all(places: &'static [Place]) {
    let each = move |watch: &Watch| places.iter().for_each(|&place| try_each(place, &MOVED, watch));
    watched(each);
}

fn try_all_by_the_system(places: &'static [Place]) {
    watched(move |watch| places.iter().for_each(|&it| try_each(it, &BY_THE_SYSTEM, watch)));
}

fn is_waker(place: Place) -> bool {
    [Place::CloneWaker, Place::Wake, Place::DropWaker].contains(&place)
}

fn try_each(place: Place, settings: &[Setting], watch: &Watch) {
    let mut reached = BTreeSet::new();
    for operation in operations() {
        for course in Course::ALL {
            for &setting in settings {
                let (timing, capacity, idles) = setting;
                if course.others != Others::Nobody && (capacity, idles) != (1000, false) {
                    continue;
                }
                // A waker is called only where there is somebody to wait for.
                let is_typical = course.others == Others::Nobody || is_waker(place);
                let is_first = is_typical && !course.is_dropped && setting == settings[0];
                if !is_first && !is_sampled((place, operation.0, setting, course)) {
                    continue;
                }
                let s = Fused::new(timing, capacity, idles);
                let whole = Course { is_dropped: false, ..course };
                let done = run(&s, operation, whole, (|| {}, || {}), false).after;
                drop(s);
                let name = operation.0;
                let one = |nth: &u32| {
                    let settings =
                        format!("{timing:?}, capacity {capacity}, idles {idles}, {course:?}");
                    watch.begin(format!("{place:?} {nth} in {name}, {settings}"));
                    try_one((place, *nth), operation, course, setting, &done)
                };
                // Far above what any operation calls.
                let calls = (1..300).take_while(one).count();
                assert!(calls < 299, "{place:?} is called without end");
                if calls > 0 {
                    reached.insert(name);
                }
            }
        }
    }
    assert!(!reached.is_empty(), "{place:?} is not called");
    for name in callers(place).iter().filter(|_| effort() == 100) {
        assert!(reached.contains(name), "{place:?} is not called by {name}");
    }
}

#[test]
fn of_the_weigher_and_the_hooks() {
    try_all(&PLACES[..4]);
}

#[test]
fn of_the_futures_and_the_conditions() {
    try_all(&PLACES[4..7]);
    try_all(&TASK_PLACES[..1]);
}

#[test]
fn of_hash_eq_and_clone() {
    try_all(&PLACES[7..10]);
}

#[test]
fn of_the_destructors() {
    try_all(&PLACES[10..12]);
}

#[test]
fn of_the_clock() {
    try_all(&PLACES[12..13]);
}

#[test]
fn of_the_listeners() {
    try_all(&PLACES[13..]);
}

#[test]
fn of_the_listener_that_awaits() {
    try_all(&TASK_PLACES[1..4]);
}

#[test]
fn of_the_wakers() {
    try_all(&TASK_PLACES[4..]);
}

#[test]
fn by_the_systems_clock_of_what_is_asked() {
    try_all_by_the_system(&PLACES[..7]);
}

#[test]
fn by_the_systems_clock_of_the_rest() {
    try_all_by_the_system(&PLACES[7..12]);
    try_all_by_the_system(&PLACES[13..]);
    try_all_by_the_system(&TASK_PLACES);
}
