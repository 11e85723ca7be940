//! Panics of the user's code, wherever the cache calls it.

mod operations;

use crate::common::Watch;
use crate::common::effort::effort;
use crate::common::effort::is_sampled;
use crate::common::fuse::{
    Key, MISSING, Name, PLACES, Place, Seen, Subject, THERE, Timing, arm, disarm,
};
use crate::common::watched;
use operations::{OPERATIONS, Operation, callers, is_early, is_of_one_key};
use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::panic::resume_unwind;
use std::sync::atomic::Ordering::SeqCst;

/// With which clock, capacity and idle time.
type Setting = (Timing, u64, bool);

const MOVED: [Setting; 3] =
    [(Timing::Moved, 1000, false), (Timing::Moved, 1000, true), (Timing::Moved, 12, false)];
const BY_THE_SYSTEM: [Setting; 5] = [
    (Timing::Short, 1000, false),
    (Timing::Short, 1000, true),
    (Timing::Long, 1000, false),
    (Timing::Long, 1000, true),
    (Timing::Short, 12, false),
];

/// With what every operation begins.
fn begun((timing, capacity, idles): Setting) -> Subject {
    let subject = Subject::new(timing, capacity, idles);
    subject.fill();
    subject
}

/// Lets the `nth` call of `place` during the operation panic. False if there were fewer calls.
/// `done` is what is seen after it if nothing panics.
fn try_one(
    place: Place,
    nth: u32,
    (name, operation): Operation,
    setting: Setting,
    done: &Seen,
) -> bool {
    let subject = begun(setting);
    let roomy = subject.is_roomy();
    let before = subject.seen();
    let mut kept = Vec::new();
    // Nothing is printed: to find the lines of a backtrace may take longer than a case has.
    arm(place, nth, move || resume_unwind(Box::new(format!("of the {place:?}"))));
    let result = catch_unwind(AssertUnwindSafe(|| operation(&subject, &mut kept)));
    let tripped = !disarm();
    kept.clear();
    let caught = subject.cache.stats().listener_panics + subject.cache.stats().drop_panics;
    match (&result, tripped) {
        (Ok(()), false) => assert_eq!(caught, 0),
        // What the maintenance drops, and the listeners, which clone, are caught and counted.
        (Ok(()), true) => {
            let clones = matches!(place, Place::Clone | Place::DropKey | Place::DropValue);
            assert!(place.is_listener() || clones);
            assert_eq!(caught, 1);
        }
        (Err(panic), _) => {
            let message = panic.downcast_ref::<String>().expect("the message of the panic");
            assert_eq!(*message, format!("of the {place:?}"));
            assert!(!place.is_listener() && caught == 0);
        }
    }
    let after = subject.seen();
    if result.is_err() && is_early(place, name) && roomy {
        assert_eq!(before, after, "the operation has happened");
    } else if is_of_one_key(name) && roomy {
        assert!(after == before || after == *done, "half done: {before:?}, {after:?}, {done:?}");
    } else if roomy {
        for (n, entry) in after.iter().enumerate() {
            assert!([before[n], done[n]].contains(entry), "half done: {before:?}, {after:?}");
        }
    }
    if result.is_ok() && roomy {
        assert_eq!(after, *done, "an operation that returns has happened");
    }
    subject.check();
    // Everything still works, for these keys too.
    for key in [THERE, MISSING] {
        subject.insert(key);
        subject.cache.run_pending_tasks();
        if roomy {
            assert!(subject.cache.get(&Name(key)).is_some());
        }
        subject.cache.invalidate(&Name(key));
        assert!(subject.serial_of(key).is_none());
        let expected = subject.value();
        let serial = expected.serial;
        assert_eq!(subject.cache.get_with(Key(key), || expected).serial, serial);
    }
    subject.check();
    let living = std::sync::Arc::clone(&subject.living);
    drop(subject);
    let (living, most) = (living.load(SeqCst), if tripped { place.most_leaked() } else { 0 });
    assert!((0..=most).contains(&living), "{living} values that nobody has dropped");
    tripped
}

fn try_all(places: &'static [Place]) {
    watched(move |watch| try_each(places, &MOVED, watch));
}

fn try_all_by_the_system(places: &'static [Place]) {
    watched(move |watch| try_each(places, &BY_THE_SYSTEM, watch));
}

fn try_each(places: &[Place], settings: &[Setting], watch: &Watch) {
    for &place in places {
        let mut reached = BTreeSet::new();
        for operation in OPERATIONS {
            for &setting in settings {
                let is_first = setting == settings[0];
                if !is_first && !is_sampled((place, operation.0, setting)) {
                    continue;
                }
                let subject = begun(setting);
                operation.1(&subject, &mut Vec::new());
                let done = subject.seen();
                drop(subject);
                // Far above what any operation calls.
                let name = operation.0;
                let one = |nth: &u32| {
                    let (timing, capacity, idles) = setting;
                    watch.begin(format!(
                        "{place:?} {nth} in {name}, {timing:?}, capacity {capacity}, idles {idles}"
                    ));
                    try_one(place, *nth, operation, setting, &done)
                };
                let is_tried =
                    |nth: &u32| [1, 199].contains(nth) || is_sampled((place, nth, name, setting));
                let calls = (1..200).filter(is_tried).take_while(one).last().unwrap_or(0);
                assert!(calls < 199, "{place:?} is called without end");
                if calls > 0 {
                    reached.insert(operation.0);
                }
            }
        }
        assert!(!reached.is_empty(), "{place:?} is not called");
        for name in callers(place).iter().filter(|_| effort() == 100) {
            assert!(reached.contains(name), "{place:?} is not called by {name}");
        }
    }
}

#[test]
fn of_the_weigher_and_the_hooks() {
    try_all(&PLACES[..4]);
}

#[test]
fn of_the_loader_the_computation_and_the_conditions() {
    try_all(&PLACES[4..7]);
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
fn by_the_systems_clock_of_what_is_asked() {
    try_all_by_the_system(&PLACES[..7]);
}

#[test]
fn by_the_systems_clock_of_hash_eq_and_clone() {
    try_all_by_the_system(&PLACES[7..10]);
}

#[test]
fn by_the_systems_clock_of_destructors_and_listeners() {
    try_all_by_the_system(&PLACES[10..12]);
    try_all_by_the_system(&PLACES[13..]);
}
