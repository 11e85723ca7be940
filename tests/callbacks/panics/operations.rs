//! The operations in which the user's code panics, and what each calls.

use crate::common::SECOND;
use crate::common::fuse::{
    Borrowed, Key, MISSING, MISSING_TOO, Name, Place, RECENT, Subject, THERE, Value, reach,
};
use cortado::Entry;
use cortado::Loaded;
use cortado::Op;
use std::any::Any;
use std::time::Duration;

/// What an operation returns is kept until the fuse is out, so that only the cache drops things.
type Kept = Vec<Box<dyn Any>>;
pub type Operation = (&'static str, fn(&Subject, &mut Kept));

pub const OPERATIONS: [Operation; 45] = [
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
pub fn is_early(place: Place, operation: &str) -> bool {
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
pub fn callers(place: Place) -> &'static [&'static str] {
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
pub fn is_of_one_key(operation: &str) -> bool {
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
