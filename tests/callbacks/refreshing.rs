//! The stored loader and the refresh policy: panics of theirs, and what they do with the cache.
//! Reloads run at once, so that this thread's fuse counts them.

use crate::common::effort::{effort, is_sampled};
use crate::common::fuse::{
    Borrowed, Key, MISSING, MISSING_TOO, Name, Place, REFRESH_PLACES, Subject, THERE, Timing,
    Value, arm, disarm, reach,
};
use crate::common::{HANG, SECOND, watched};
use crate::reentrancy::{ALWAYS, INNER, Inner};
use cortado::{Cache, LoadLimits, Loaded, Loader, LoadingCache, Op, Reloaded};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};

/// What a reload brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Brings {
    New,
    NotModified,
    Gone,
    Error,
}

const BRINGS: [Brings; 4] = [Brings::New, Brings::NotModified, Brings::Gone, Brings::Error];

/// The stored loader. What makes its values comes when the cache is there.
#[derive(Clone)]
struct Upstream(Brings, Arc<OnceLock<Box<dyn Fn() -> Value + Send + Sync>>>);

impl Upstream {
    fn made(&self) -> Value {
        self.1.get().expect("the cache is there")()
    }
}

impl Loader<Key, Value> for Upstream {
    type Error = ();

    fn load(&self, _: &Key) -> Result<Loaded<Value>, ()> {
        reach(Place::Stored);
        if self.0 == Brings::Error { Err(()) } else { Ok(Loaded::new(self.made())) }
    }

    fn reload(&self, _: &Key, _: &Value) -> Result<Reloaded<Value>, ()> {
        reach(Place::Stored);
        match self.0 {
            Brings::New => Ok(Reloaded::new(self.made())),
            Brings::NotModified => Ok(Reloaded::not_modified()),
            Brings::Gone => Ok(Reloaded::gone()),
            Brings::Error => Err(()),
        }
    }
}

type Loading = LoadingCache<Key, Value, ()>;
type Operation = (&'static str, fn(&Subject, &Loading));

const AMPLE: LoadLimits = LoadLimits { soft: HANG, hard: HANG };

/// What is done with [`THERE`], which is stale, and with keys that are missing.
const OPERATIONS: [Operation; 21] = [
    ("get", |s, _| drop(s.cache.get(&Name(THERE)))),
    ("get if", |s, _| drop(s.cache.get_if(&Name(THERE), |_, _| true))),
    ("get and stale", |s, _| {
        assert!(s.cache.make_stale(&Name(THERE)));
        drop(s.cache.get(&Name(THERE)));
    }),
    ("get and all stale", |s, _| {
        s.cache.make_all_stale();
        drop(s.cache.get(&Name(THERE)));
    }),
    ("touch", |s, _| _ = s.cache.touch(&Name(THERE))),
    ("pin", |s, _| {
        let view = s.cache.pin();
        assert!(view.get(&Name(THERE)).is_some());
        drop(view);
        s.cache.run_pending_tasks();
    }),
    ("loading get", |_, loading| drop(loading.get(&Borrowed(THERE)))),
    ("loading get of none", |_, loading| drop(loading.get(&Borrowed(MISSING)))),
    ("get_within", |_, loading| drop(loading.get_within(&Key(THERE), AMPLE))),
    ("get_within of none", |_, loading| drop(loading.get_within(&Key(MISSING), AMPLE))),
    ("get_many", |_, loading| {
        drop(loading.get_many(&[Key(MISSING), Key(THERE), Key(MISSING_TOO)]))
    }),
    ("refresh", |_, loading| _ = loading.refresh(&Key(THERE))),
    ("refresh of none", |_, loading| _ = loading.refresh(&Key(MISSING))),
    ("insert", |s, _| s.insert(MISSING)),
    ("replace", |s, _| s.insert(THERE)),
    ("load", |s, _| drop(s.cache.get_with(Key(MISSING), || s.value()))),
    ("load replaces", |s, _| {
        drop(s.cache.entry(Key(THERE)).or_insert_with_if(|| s.value(), |_| true));
    }),
    ("load if", |s, _| {
        drop(s.cache.load_if(&Borrowed(THERE), |_| Loaded::new(s.value()), |_, _| true));
    }),
    ("guard", |s, _| match s.cache.get_value_or_guard(&Borrowed(MISSING)) {
        Err(guard) => drop(guard.insert(s.value())),
        _ => unreachable!("the key has no value"),
    }),
    ("compute", |s, _| drop(s.cache.entry(Key(THERE)).and_compute_with(|_| Op::Put(s.value())))),
    ("load in a load", |s, _| {
        drop(s.cache.get_with(Key(MISSING), || {
            drop(s.cache.get(&Name(THERE)));
            s.value()
        }));
    }),
];

/// The operations that call the user's code there, whatever reloads bring.
const CALLERS: [(Place, &[&str]); 2] = [
    (
        Place::Stored,
        &[
            "get",
            "get if",
            "get and stale",
            "get and all stale",
            "touch",
            "pin",
            "loading get",
            "loading get of none",
            "get_within",
            "get_within of none",
            "get_many",
            "refresh",
            "refresh of none",
            "load in a load",
        ],
    ),
    (
        Place::RefreshPolicy,
        &[
            "insert",
            "replace",
            "load",
            "load replaces",
            "load if",
            "guard",
            "compute",
            "load in a load",
        ],
    ),
];

/// A cache with entries that are stale.
fn begun(brings: Brings) -> (Subject, Loading) {
    let upstream = Upstream(brings, Arc::default());
    let loading = Mutex::new(None);
    let stored = upstream.clone();
    let subject = Subject::made(Timing::Moved, Cache::builder(), (1000, false), |builder| {
        let policy = |_: &Key, _: &Value, _| {
            reach(Place::RefreshPolicy);
            Some(5 * SECOND)
        };
        let builder =
            builder.refresh_after(policy).executor(|job: cortado::Job| job()).refresh_retry(SECOND);
        let made = builder.build_with_loader(stored);
        let cache = made.cache().clone();
        *loading.lock().unwrap() = Some(made);
        cache
    });
    assert!(upstream.1.set(Box::new(subject.maker())).is_ok());
    subject.fill();
    (subject, loading.into_inner().unwrap().expect("it was made"))
}

/// Everything still works, and nothing leaks.
fn end(subject: Subject, loading: Loading) {
    subject.check();
    assert_eq!(subject.cache.stats().reloads_under_way, 0);
    for key in [THERE, MISSING] {
        subject.insert(key);
        assert!(loading.refresh(&Key(key)), "the key's flight is still there");
        subject.cache.invalidate(&Name(key));
        let expected = subject.value();
        let serial = expected.serial;
        assert_eq!(subject.cache.get_with(Key(key), || expected).serial, serial);
    }
    subject.check();
    let living = Arc::clone(&subject.living);
    drop((subject, loading));
    assert_eq!(living.load(SeqCst), 0, "values that nobody has dropped");
}

/// Lets the `nth` call of `place` in the operation panic. False if there were fewer calls.
fn panics(place: Place, nth: u32, (name, operation): Operation, brings: Brings) -> bool {
    let (subject, loading) = begun(brings);
    let before = (subject.serial_of(THERE), subject.serial_of(MISSING));
    arm(place, nth, || resume_unwind(Box::new("planned")));
    let result = catch_unwind(AssertUnwindSafe(|| operation(&subject, &loading)));
    let tripped = !disarm();
    let stats = subject.cache.stats();
    let planned = u64::from(brings == Brings::Error);
    // After a reload, or its failure, the same call may go on to a load.
    let of_several =
        ["loading get", "get_many", "get_within", "load replaces", "load if", "load in a load"];
    let is_several = of_several.contains(&name);
    match (&result, tripped) {
        (Err(panic), _) => {
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"planned"));
            let after = (subject.serial_of(THERE), subject.serial_of(MISSING));
            assert!(is_several || after == before, "{name} has happened");
        }
        // Of a load that a call has only started.
        (Ok(()), true) if name == "refresh of none" => {}
        // Of a reload: it is counted, and the old value stays.
        (Ok(()), true) => {
            assert!(stats.reload_failures >= 1, "{name}: a panic that nobody has seen");
            let failure = loading.last_failure(&Name(THERE));
            let is_noted = failure.is_some_and(|failure| failure.error.is_none());
            let is_kept = subject.serial_of(THERE) == before.0;
            assert!(is_several || (is_noted && is_kept), "{name}: the old value is gone");
        }
        (Ok(()), false) => assert!(stats.reload_failures <= planned),
    }
    end(subject, loading);
    tripped
}

#[test]
fn panics_of_the_stored_loader_and_the_refresh_policy() {
    watched(|watch| {
        for (place, callers) in CALLERS {
            let mut reached = BTreeSet::new();
            for operation in OPERATIONS {
                for brings in BRINGS {
                    let one = |nth: &u32| {
                        let name = operation.0;
                        watch.begin(format!("{place:?} {nth} in {name}, {brings:?}"));
                        panics(place, *nth, operation, brings)
                    };
                    let calls = (1..20).take_while(one).count();
                    assert!(calls < 19, "{place:?} is called without end");
                    if calls > 0 {
                        reached.insert(operation.0);
                    }
                }
            }
            for name in callers {
                assert!(reached.contains(name), "{place:?} is not called by {name}");
            }
        }
    });
}

/// Lets the first call of `place` in the operation do `inner` with the operation's key. False if
/// there was none.
fn uses(place: Place, (name, operation): Operation, inner: Inner, brings: Brings) -> bool {
    let (subject, loading) = begun(brings);
    let keys = ["of none", "insert", "guard"];
    let is_missing = keys.iter().any(|it| name.ends_with(it)) || ["load"].contains(&name);
    let key = if is_missing { MISSING } else { THERE };
    let hand = Mutex::new(Some(subject.clone()));
    arm(place, 1, move || {
        let subject = hand.lock().unwrap().take().expect("armed once");
        inner.1(&subject, key);
    });
    let result = catch_unwind(AssertUnwindSafe(|| operation(&subject, &loading)));
    let reached = !disarm();
    if let Err(panic) = &result {
        let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        let allowed = match place {
            Place::Stored => "a load or computation waits for its own key",
            _ => "an expiry hook, a weigher or a condition writes the key that it was asked about",
        };
        let either = ["a load or computation waits for its own key", allowed];
        assert!(either.contains(&message.unwrap_or_default().as_str()), "{}", inner.0);
    }
    // A load that asks for its own key would wait for itself (one that `refresh` has started does
    // so in a job, which catches the panic); a policy that writes the key that it was asked
    // about makes its own answer outdated.
    let is_load =
        place == Place::Stored && name.ends_with("of none") && !name.starts_with("refresh");
    let is_asked = place == Place::RefreshPolicy && ["insert", "replace"].contains(&name);
    if reached && ((is_load && inner.0 == "load") || (is_asked && inner.0 == "insert")) {
        assert!(result.is_err(), "{} in {name} is not refused", inner.0);
    }
    end(subject, loading);
    reached
}

#[test]
fn uses_of_the_cache_by_the_stored_loader_and_the_refresh_policy() {
    watched(|watch| {
        for place in REFRESH_PLACES {
            let mut reached = 0;
            for operation in OPERATIONS {
                for inner in INNER {
                    for brings in BRINGS {
                        let (name, inner_name) = (operation.0, inner.0);
                        let case = (place, name, inner_name, brings);
                        if inner_name != ALWAYS && !is_sampled(case) {
                            continue;
                        }
                        watch.begin(format!("{place:?}: {inner_name} in {name}, {brings:?}"));
                        reached += usize::from(uses(place, operation, inner, brings));
                    }
                }
            }
            let least = if effort() == 100 { 7 * INNER.len() } else { 1 };
            assert!(reached >= least, "{place:?} is reached {reached} times only");
        }
    });
}
