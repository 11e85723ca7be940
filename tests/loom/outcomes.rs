//! Loom models of loads that come to no value, and of guards: whole caches.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `a_failure_meets_a_waiter_that_cannot_use_it` | a load fails while two others wait, of which one cannot use the error: all end, one loader runs at a time, and the one that makes a value runs once | `waiters-adopt-any-outcome` |
//! | `an_absence_meets_a_load_of_a_value` | the same for a load that comes to `None` and one that makes a value | `absences-keep-the-flight`, `landings-forget-the-waiters` |
//! | `a_guard_is_dropped_while_others_want_its_key` | a guard is dropped on another thread while a load waits and a writer overtakes both: all end | `guards-keep-the-flight`, `flight-abandons-in-silence` |
//! | `a_guard_is_used_while_others_want_its_key` | a guard is used on another thread: a load that begins after a removal does not get its value | `loads-land-overtaken`, `loads-join-the-overtaken` |
//!
//! `LOOM_ENGINE_PREEMPTIONS` is the bound on preemptions, as in [`engine`](super::engine).

use crate::support::engine_world::{Ledger, Plain, Store, finish, model, race};
use cortado::LoadGuard;
use cortado::internals::sync::{set_thread_stripe, thread};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

type Guard = LoadGuard<u8, crate::support::engine_world::Value, Plain>;

/// Counts loaders by what they come to. None of its words is one of loom's.
#[derive(Default)]
struct Loaders {
    running: AtomicBool,
    with_value: AtomicUsize,
    without: AtomicUsize,
}

impl Loaders {
    fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// Runs a loader, during which others may come.
    fn run<T>(&self, makes: bool, result: T) -> T {
        assert!(!self.running.swap(true, Relaxed), "two loaders of one key run at once");
        thread::yield_now();
        let counter = if makes { &self.with_value } else { &self.without };
        counter.fetch_add(1, Relaxed);
        self.running.store(false, Relaxed);
        result
    }
}

/// A thread with a stripe of its own.
fn spawn(stripe: usize, work: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        set_thread_stripe(stripe);
        work();
    })
}

fn cache(ledger: &'static Ledger) -> Store {
    ledger.builder().build_with_hasher(Plain)
}

/// At the end nothing but `there` is in the cache, and of the other values nothing is left.
fn settle(cache: &Store, ledger: &Ledger, there: &[u8], others: &[u8]) {
    finish(cache);
    let found: Vec<u8> = cache.entries().map(|entry| entry.number()).collect();
    assert_eq!(found, there);
    assert!(there.iter().all(|&number| ledger.dropped(number) == 0));
    assert!(others.iter().all(|&number| ledger.dropped(number) == 1), "a value is left behind");
}

/// The load that fails has begun when the others come.
#[test]
fn a_failure_meets_a_waiter_that_cannot_use_it() {
    model(|| {
        let (ledger, loaders) = (Ledger::new(), Loaders::new());
        let cache = cache(ledger);
        let (fails, makes) = (cache.clone(), cache.clone());
        let failing = |cache: &Store, meanwhile: &dyn Fn()| {
            let load = || {
                meanwhile();
                loaders.run(false, Err(7_u8))
            };
            match cache.entry(1).or_try_insert_with(load) {
                Ok(entry) => assert_eq!(entry.number(), 1),
                Err(error) => assert_eq!(*error, 7),
            }
        };
        let threads = RefCell::new(Vec::new());
        failing(&cache, &|| {
            let (fails, makes) = (fails.clone(), makes.clone());
            loom::explore();
            threads.borrow_mut().push(spawn(1, move || failing(&fails, &|| ())));
            threads.borrow_mut().push(spawn(2, move || {
                let load = || loaders.run(true, Some(ledger.value(1)));
                let entry = makes.entry(1).or_optionally_insert_with(load);
                assert_eq!(entry.expect("its own loader makes a value").number(), 1);
            }));
        });
        threads.into_inner().into_iter().for_each(|thread| thread.join().unwrap());
        loom::stop_exploring();
        assert_eq!(loaders.with_value.load(Relaxed), 1);
        assert!((1..=2).contains(&loaders.without.load(Relaxed)));
        settle(&cache, ledger, &[1], &[]);
    });
}

#[test]
fn an_absence_meets_a_load_of_a_value() {
    model(|| {
        let (ledger, loaders) = (Ledger::new(), Loaders::new());
        let cache = cache(ledger);
        let makes = cache.clone();
        let mut absent = false;
        race(
            || {
                let load = || loaders.run(false, None);
                absent = cache.entry(1).or_optionally_insert_with(load).is_none();
            },
            [Box::new(move || {
                let entry = makes.entry(1).or_insert_with(|| loaders.run(true, ledger.value(1)));
                assert!(entry.is_fresh() && entry.number() == 1);
            })],
        );
        assert_eq!(loaders.with_value.load(Relaxed), 1);
        assert_eq!(loaders.without.load(Relaxed), usize::from(absent));
        settle(&cache, ledger, &[1], &[]);
    });
}

fn guard(cache: &Store) -> Guard {
    match cache.get_value_or_guard(&1) {
        Err(guard) => guard,
        _ => panic!("the key has no value"),
    }
}

/// A waiter, a thread that drops the guard, and one that removes the key.
#[test]
fn a_guard_is_dropped_while_others_want_its_key() {
    model(|| {
        let (ledger, loaders) = (Ledger::new(), Loaders::new());
        let cache = cache(ledger);
        let guard = guard(&cache);
        let waits = cache.clone();
        race(
            || cache.invalidate(&1),
            [
                Box::new(move || drop(guard)),
                Box::new(move || {
                    let load = || loaders.run(true, ledger.value(1));
                    let entry = waits.entry(1).or_insert_with(load);
                    assert_eq!((entry.number(), entry.is_fresh()), (1, true));
                }),
            ],
        );
        assert_eq!(loaders.with_value.load(Relaxed), 1);
        match cache.entries().count() {
            0 => settle(&cache, ledger, &[], &[1]),
            _ => settle(&cache, ledger, &[1], &[]),
        }
    });
}

/// A load that begins after the removal does not get what was loaded before it.
#[test]
fn a_guard_is_used_while_others_want_its_key() {
    model(|| {
        let (ledger, loaders) = (Ledger::new(), Loaders::new());
        let cache = cache(ledger);
        let guard = guard(&cache);
        race(
            || {
                cache.invalidate(&1);
                let load = || loaders.run(true, ledger.value(2));
                let entry = cache.entry(1).or_insert_with(load);
                assert_eq!((entry.number(), entry.is_fresh()), (2, true));
            },
            [Box::new(move || {
                let entry = guard.insert(ledger.value(1));
                assert!(entry.is_fresh() || entry.number() == 2);
            })],
        );
        settle(&cache, ledger, &[2], &[1]);
    });
}
