//! Panics of the user's code, wherever the cache calls it.

use crate::common::effort::{effort, is_sampled};
use crate::common::fuse::{
    Borrowed, Key, MISSING, MISSING_TOO, Name, PLACES, Place, RECENT, Seen, Subject, THERE, Timing,
    Value, arm, disarm, reach,
};
use crate::common::{SECOND, Watch, watched};
use cortado::{Entry, Loaded, Op};
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// What an operation returns is kept until the fuse is out, so that only the cache drops things.
type Kept = Vec<Box<dyn Any>>;
type Operation = (&'static str, fn(&Subject, &mut Kept));

const OPERATIONS: [Operation; 45] = [
    ("get", |s, kept| kept.push(Box::new(s.cache.get(&Name(THERE))))),
    ("get_entry", |s, kept| kept.push(Box::new(s.cache.get_entry(&Name(THERE))))),
    ("get missing", |s, kept| kept.push(Box::new(s.cache.get(&Name(MISSING))))),
    ("peek", |s, kept| kept.push(Box::new(s.cache.peek(&Name(THERE))))),
    ("get if", |s, kept| {
        kept.push(Box::new(s.cache.get_if(&Name(THERE), |_, _| {
            reach(Place::Condition);
            true
        })));
    }),
    ("get if not", |s, _| {
        let found = s.cache.get_if(&Name(THERE), |_, _| {
            reach(Place::Condition);
            false
        });
        assert!(found.is_none());
    }),
    ("pin", |s, _| has(s, s.cache.pin().get(&Name(THERE)).is_some())),
    ("touch", |s, _| has(s, s.cache.touch(&Name(THERE)))),
    ("insert", |s, _| s.insert(MISSING)),
    ("replace", |s, _| s.insert(THERE)),
    ("insert for no time", |s, _| {
        s.cache.insert_with_ttl(Key(MISSING), s.value(), Duration::ZERO);
    }),
    ("replace for no time", |s, _| {
        s.cache.insert_with_ttl(Key(THERE), s.value(), Duration::ZERO);
    }),
    ("remove", |s, kept| kept.push(Box::new(s.cache.remove(&Name(THERE))))),
    ("remove_if", |s, kept| {
        let removed = s.cache.remove_if(&Name(THERE), |_, _| {
            reach(Place::Condition);
            true
        });
        kept.push(Box::new(removed));
    }),
    ("invalidate", |s, _| s.cache.invalidate(&Name(THERE))),
    ("invalidate_all", |s, _| s.cache.invalidate_all()),
    ("retain", |s, _| {
        s.cache.retain(|_, _| {
            reach(Place::Condition);
            false
        });
    }),
    ("set_ttl", |s, _| has(s, s.cache.set_ttl(&Name(THERE), s.timing.other_life()))),
    ("set_ttl zero", |s, _| has(s, s.cache.set_ttl(&Name(THERE), Duration::ZERO))),
    ("load", |s, kept| {
        let load = || {
            reach(Place::Loader);
            s.value()
        };
        kept.push(Box::new(s.cache.get_with(Key(MISSING), load)));
    }),
    ("load what is there", |s, kept| {
        kept.push(Box::new(s.cache.entry(Key(THERE)).or_insert_with(|| s.value())));
    }),
    ("load fails", |s, kept| {
        let load = || {
            reach(Place::Loader);
            Err::<Value, _>(s.value())
        };
        kept.push(Box::new(s.cache.entry(Key(MISSING)).or_try_insert_with(load).unwrap_err()));
    }),
    ("load or fail", |s, kept| {
        kept.push(Box::new(s.cache.try_get_with(Key(MISSING), || loads(s))))
    }),
    ("load nothing", |s, _| {
        let load = || {
            reach(Place::Loader);
            None::<Value>
        };
        assert!(s.cache.optionally_get_with_by_ref(&Borrowed(MISSING), load).is_none());
    }),
    ("load with a lifetime", |s, kept| {
        let load = || loads(s).map(|value| Loaded::with_ttl(value, s.timing.other_life()));
        kept.push(Box::new(s.cache.load_by_ref(&Borrowed(MISSING), load)));
    }),
    ("load replaces", |s, kept| {
        let condition = |_: &Value| {
            reach(Place::Condition);
            true
        };
        let load = || loads(s).unwrap();
        kept.push(Box::new(s.cache.entry(Key(RECENT)).or_insert_with_if(load, condition)));
    }),
    ("load if", |s, kept| {
        let condition = |_: &Value, _| {
            reach(Place::Condition);
            true
        };
        let load = |old: Option<Entry<Key, Value>>| {
            drop(old);
            loads(s).map(|value| Some(Loaded::with_ttl(value, s.timing.other_life())))
        };
        kept.push(Box::new(s.cache.load_if(&Borrowed(RECENT), load, condition)));
    }),
    ("load is overtaken", |s, kept| {
        let load = || {
            reach(Place::Loader);
            s.insert(MISSING);
            s.value()
        };
        kept.push(Box::new(s.cache.entry(Key(MISSING)).or_insert_with(load)));
    }),
    ("load replaces what goes", |s, kept| {
        let load = || {
            reach(Place::Loader);
            s.cache.invalidate(&Name(RECENT));
            s.cache.run_pending_tasks();
            s.value()
        };
        kept.push(Box::new(s.cache.entry(Key(RECENT)).or_insert_with_if(load, |_| true)));
        s.cache.run_pending_tasks();
    }),
    ("load by a guard", |s, kept| {
        let Err(guard) = s.cache.get_value_or_guard(&Borrowed(MISSING)) else {
            panic!("the key has no value")
        };
        kept.push(Box::new(guard.insert(s.value())));
    }),
    ("drop a guard", |s, _| {
        let result = s.cache.get_value_or_guard(&Borrowed(MISSING));
        assert!(result.is_err());
    }),
    ("load many", |s, kept| {
        let keys = [Key(MISSING), Key(RECENT), Key(MISSING_TOO), Key(MISSING)];
        kept.push(Box::new(s.cache.get_many_with(keys, |keys| {
            reach(Place::Loader);
            keys.iter().map(|key| (Key(key.0), s.value())).collect::<Vec<_>>()
        })));
    }),
    ("load many fails", |s, kept| {
        let fails = |_: &[&Key]| {
            reach(Place::Loader);
            Err::<Vec<(Key, Value)>, _>(s.value())
        };
        let keys = [Key(MISSING), Key(MISSING_TOO)];
        kept.push(Box::new(s.cache.try_get_many_with(keys, fails).unwrap_err()));
    }),
    ("insert many", |s, _| {
        s.cache.insert_many([(Key(MISSING), s.value()), (Key(THERE), s.value())]);
    }),
    ("invalidate many", |s, _| s.cache.invalidate_many(&[Name(THERE), Name(2)])),
    ("invalidate some", |s, _| {
        let condition = |_: &Key, value: &Value| {
            reach(Place::Condition);
            value.serial.is_multiple_of(2)
        };
        assert!(s.cache.invalidate_entries_if(condition).is_ok());
    }),
    ("compute fails", |s, kept| {
        let failed = s.cache.entry(Key(THERE)).and_try_compute_with(|_| {
            reach(Place::Compute);
            Err::<Op<Value>, _>(s.value())
        });
        kept.push(Box::new(failed.err()));
    }),
    ("compute upserts", |s, kept| {
        let upserted = s.cache.entry_by_ref(&Borrowed(THERE)).and_upsert_with(|_| {
            reach(Place::Compute);
            s.value()
        });
        kept.push(Box::new(upserted));
    }),
    ("compute replaces value", |s, kept| {
        kept.push(Box::new(s.cache.replace(Key(THERE), s.value())));
    }),
    ("compute replaces for a time", |s, kept| {
        let life = s.timing.other_life();
        kept.push(Box::new(s.cache.replace_with_ttl(Key(THERE), s.value(), life)));
    }),
    ("compute nothing", |s, kept| compute(s, kept, THERE, |_| Op::Nop)),
    ("compute", |s, kept| compute(s, kept, MISSING, |s| Op::Put(s.value()))),
    ("compute replaces", |s, kept| compute(s, kept, THERE, |s| Op::Put(s.value()))),
    ("compute removes", |s, kept| compute(s, kept, THERE, |_| Op::Remove)),
    ("maintenance", |s, _| {
        s.advance(70 * SECOND);
        s.cache.run_pending_tasks();
        // Other threads of the process may hold the epoch up for a moment.
        while s.cache.run_pending_tasks_up_to(64).reclamations > 0 {
            std::thread::yield_now();
        }
    }),
];

/// Of a key that is there, unless the capacity is so small that it may have been evicted.
fn has(s: &Subject, found: bool) {
    assert!(found || !s.is_roomy());
}

fn loads(s: &Subject) -> Result<Value, Value> {
    reach(Place::Loader);
    Ok(s.value())
}

fn compute(s: &Subject, kept: &mut Kept, key: u64, op: fn(&Subject) -> Op<Value>) {
    let result = s.cache.entry(Key(key)).and_compute_with(|_| {
        reach(Place::Compute);
        op(s)
    });
    kept.push(Box::new(result));
}

/// Whether a panic there comes before anything has happened.
fn is_early(place: Place, operation: &str) -> bool {
    match place {
        Place::Clone | Place::DropKey | Place::DropValue | Place::Clock => false,
        _ if place.is_listener() => false,
        // What it did with other keys before, it did.
        Place::Condition | Place::Eq => !OF_SEVERAL_KEYS.contains(&operation),
        Place::Loader => true,
        _ => !OF_SEVERAL_WRITES.contains(&operation),
    }
}

/// The operations that call the user's code there whatever the hashes and the moment are. (Others
/// may.)
fn callers(place: Place) -> &'static [&'static str] {
    match place {
        Place::Weigher => &[
            "insert",
            "replace",
            "compute",
            "compute replaces",
            "compute upserts",
            "compute replaces value",
            "load",
            "load or fail",
            "load with a lifetime",
            "load replaces",
            "load by a guard",
            "load many",
            "insert many",
        ],
        Place::Create => &["insert", "compute", "load", "load by a guard", "load many"],
        Place::Update => &[
            "replace",
            "compute replaces",
            "compute upserts",
            "compute replaces value",
            "load replaces",
            "insert many",
        ],
        Place::Read => &["get", "get_entry", "pin", "touch"],
        Place::Loader => &[
            "load",
            "load fails",
            "load or fail",
            "load nothing",
            "load with a lifetime",
            "load replaces",
            "load many",
            "load many fails",
        ],
        Place::Compute => &[
            "compute",
            "compute replaces",
            "compute removes",
            "compute nothing",
            "compute fails",
            "compute upserts",
        ],
        Place::Condition => &["remove_if", "retain", "load replaces", "invalidate some"],
        Place::Hash => &["get", "insert", "replace", "remove", "compute", "load"],
        Place::Eq => &["get", "replace", "remove", "compute replaces"],
        // Of a value, or of a key that is given by reference.
        Place::Clone => &["get", "remove", "load", "load nothing", "load by a guard"],
        // In other operations when a grace period happens to be over.
        Place::DropKey | Place::DropValue => &["maintenance"],
        Place::Listener | Place::SecondListener | Place::EvictionListener => {
            &["insert", "replace", "remove", "compute replaces", "maintenance"]
        }
        Place::Clock => {
            &["get", "insert", "replace", "remove", "compute", "compute replaces", "maintenance"]
        }
        _ => unreachable!("only tasks have it"),
    }
}

/// Whether the operation is about one key only, and so happens or does not.
fn is_of_one_key(operation: &str) -> bool {
    !OF_SEVERAL_KEYS.contains(&operation)
}

const OF_SEVERAL_WRITES: [&str; 6] = [
    "load many",
    "load is overtaken",
    "load replaces what goes",
    "insert many",
    "invalidate many",
    "drain",
];

const OF_SEVERAL_KEYS: [&str; 10] = [
    "load replaces what goes",
    "load is overtaken",
    "invalidate_all",
    "retain",
    "maintenance",
    "load many",
    "insert many",
    "invalidate many",
    "drain",
    "invalidate some",
];

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
