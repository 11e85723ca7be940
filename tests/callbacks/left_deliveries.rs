//! What an operation causes inside of a load, a computation or a callback is left to the next
//! operation on its cache that is outside of these, in order.

use crate::common::audited::{Audited, audited};
use crate::common::{HANG, kept, must_end, panic_of};
use cortado::{Cache, Op, Removed};
use std::cell::Cell;
use std::future::{Future, pending};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::time::Instant;

/// The key of a computation, under which destructors count.
const TALLY: u64 = 0;
/// Values from here on count their destruction.
const COUNTED: u64 = 10_000;

std::thread_local! {
    /// Whether this thread is inside of a computation.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// A cache and what its listener was told.
fn telling() -> (Audited<u64, u64>, Arc<Mutex<Vec<u64>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let builder = Cache::builder().record_stats(true);
    let cache = audited(
        builder
            .removal_listener(move |removed: Removed<u64, u64>| {
                log.lock().unwrap().push(*removed.value());
                assert_ne!(*removed.value(), 13, "of the listener");
            })
            .build(),
    );
    (1..20).for_each(|key| cache.insert(key, key));
    (cache, told)
}

#[test]
fn what_is_left_is_delivered_by_the_next_operation_on_the_cache() {
    must_end(|| {
        let ((cache, told), (other, others)) = (telling(), telling());
        cache.entry(1).and_compute_with(|_| {
            cache.get_with(100, || {
                other.entry(1).and_compute_with(|_| {
                    cache.invalidate(&2);
                    other.invalidate(&3);
                    Op::Remove
                });
                cache.invalidate(&4);
                assert_eq!(other.get_with(100, || 9), 9);
                100
            });
            assert!(told.lock().unwrap().is_empty() && others.lock().unwrap().is_empty());
            Op::Put(5)
        });
        // The computation is an operation on the one cache, and its end is outside.
        assert_eq!(*told.lock().unwrap(), [2, 4, 1]);
        assert!(others.lock().unwrap().is_empty());
        assert_eq!(other.get(&50), None);
        assert_eq!(*others.lock().unwrap(), [3, 1], "of the other cache");
    });
}

#[test]
fn also_when_it_ends_by_a_panic() {
    must_end(|| {
        let ((cache, told), (other, others)) = (telling(), telling());
        let remove = || -> ! {
            cache.invalidate(&2);
            // Its listener panics.
            cache.invalidate(&13);
            other.invalidate(&3);
            panic!("mine");
        };
        assert_eq!(panic_of(|| cache.entry(1).and_compute_with(|_| remove())), "mine");
        assert!(told.lock().unwrap().is_empty() && others.lock().unwrap().is_empty());
        assert_eq!((cache.get(&50), other.get(&50)), (None, None));
        assert_eq!(*told.lock().unwrap(), [2, 13]);
        assert_eq!(*others.lock().unwrap(), [3], "of the other cache");
        other.invalidate(&4);
        assert_eq!(panic_of(|| cache.get_with(100, || other.get_with(101, || remove()))), "mine");
        assert_eq!(*others.lock().unwrap(), [3, 4]);
        assert_eq!(panic_of(|| other.remove_if(&5, |_, _| remove())), "mine");
        assert_eq!((cache.stats().listener_panics, cache.get(&1)), (1, Some(1)));
        // Nothing is left of it on this thread.
        cache.invalidate(&6);
        assert_eq!(*told.lock().unwrap(), [2, 13, 6]);
    });
}

/// Its destructor counts it under the key of the computation.
struct Counts(u64, &'static OnceLock<Cache<u64, Counts>>, Arc<AtomicU64>);

impl Drop for Counts {
    fn drop(&mut self) {
        if self.0 < COUNTED {
            return;
        }
        assert!(!INSIDE.get(), "a destructor inside of something");
        let (slot, dropped) = (self.1, &self.2);
        let tally = dropped.fetch_add(1, SeqCst) + 1;
        let cache = slot.get().expect("set before the first use");
        cache.entry(TALLY).and_compute_with(|_| Op::Put(Self(tally, slot, Arc::clone(dropped))));
    }
}

#[test]
fn a_destructor_may_write_the_key_of_the_computation_that_removed_its_value() {
    must_end(|| {
        let slot: &'static OnceLock<Cache<u64, Counts>> = kept(OnceLock::new());
        let dropped = Arc::new(AtomicU64::new(0));
        let cache: Audited<u64, Counts> = audited(Cache::builder().record_stats(true).build());
        assert!(slot.set((*cache).clone()).is_ok());
        let value = |number| Counts(number, slot, Arc::clone(&dropped));
        (COUNTED..COUNTED + 2000).for_each(|key| cache.insert(key, value(key)));
        cache.entry(TALLY).and_compute_with(|_| {
            INSIDE.set(true);
            for key in COUNTED..COUNTED + 2000 {
                cache.invalidate(&key);
                cache.run_pending_tasks();
            }
            INSIDE.set(false);
            Op::Put(value(1))
        });
        let begun = Instant::now();
        while dropped.load(SeqCst) < 2000 {
            assert!(begun.elapsed() < HANG, "{} dropped", dropped.load(SeqCst));
            cache.run_pending_tasks();
        }
        let tally = cache.get_entry(&TALLY).map(|tally| tally.0);
        assert_eq!((tally, cache.stats().drop_panics), (Some(2000), 0));
    });
}

#[test]
fn notifications_of_a_key_stay_in_order_inside_and_outside() {
    must_end(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let logs = Arc::clone(&log);
        let tell = move |removed: Removed<u64, u64>| {
            logs.lock().unwrap().push((*removed.key(), *removed.value()));
        };
        let cache: Audited<u64, u64> = audited(Cache::builder().removal_listener(tell).build());
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..3000 {
                        let key = 10 * thread + n % 3;
                        let write = || cache.insert(key, n);
                        match n % 4 {
                            0 => write(),
                            1 => {
                                _ = cache.get_with(1000 + thread * 10_000 + n, || {
                                    write();
                                    n
                                })
                            }
                            2 => drop(cache.entry(500 + thread).and_compute_with(|_| {
                                write();
                                Op::Put(n)
                            })),
                            _ => drop(cache.entry(key).and_compute_with(|_| Op::Put(n))),
                        }
                    }
                });
            }
        });
        cache.run_pending_tasks();
        let told = log.lock().unwrap();
        for key in (0..30).chain(500..503) {
            let of_key: Vec<_> =
                told.iter().filter(|told| told.0 == key).map(|told| told.1).collect();
            assert!(of_key.windows(2).all(|pair| pair[0] < pair[1]), "key {key}: {of_key:?}");
        }
        assert_eq!(told.len(), 3 * (3000 - 3) + 3 * (750 - 1));
    });
}

/// A bulk load that is cancelled has left the board as a whole when the listener runs: the listener
/// may load one of its keys.
#[test]
fn the_listener_of_a_cancelled_bulk_load_may_load_its_keys() {
    must_end(|| {
        for panics in [false, true] {
            let slot = Arc::new(OnceLock::<Cache<u64, u64>>::new());
            let inner = Arc::clone(&slot);
            let loads = move |_| {
                inner.get().unwrap().get_with(2, || 7);
            };
            let cache = audited(Cache::builder().removal_listener(loads).build());
            slot.set(cache.clone()).unwrap();
            cache.insert(9, 1);
            let mut load = Box::pin(async {
                let tasks = cache.future();
                let values = tasks.get_many_with([1, 2, 3], |_| async {
                    // The old value's removal is announced when the loads have ended.
                    cache.insert(9, 2);
                    assert!(!panics, "mine");
                    pending::<Vec<(u64, u64)>>().await
                });
                values.await
            });
            let mut poll = || load.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if panics {
                assert_eq!(panic_of(poll), "mine");
            } else {
                assert!(poll().is_pending());
            }
            drop(load);
            cache.run_pending_tasks();
            assert_eq!((cache.get(&1), cache.get(&2)), (None, Some(7)));
            cache.invalidate_all();
            kept(cache.clone());
        }
    });
}

/// A listener of one cache writes the other, whose listener writes the first. What is caused in the
/// other one is told before that write returns; deliveries of one cache do not nest.
#[test]
fn listeners_of_two_caches_may_write_each_others() {
    must_end(|| {
        let log = Arc::new(Mutex::new(Vec::new()));
        let second: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
        let first: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
        let (logs, writes) = (Arc::clone(&log), Arc::clone(&second));
        let of_first = move |removed: Removed<u64, u64>| {
            logs.lock().unwrap().push(("first begins", *removed.value()));
            writes.get().unwrap().insert(1, removed.value() + 10);
            logs.lock().unwrap().push(("first ends", *removed.value()));
        };
        let (logs, writes) = (Arc::clone(&log), Arc::clone(&first));
        let of_second = move |removed: Removed<u64, u64>| {
            logs.lock().unwrap().push(("second", *removed.value()));
            if *removed.value() < 20 {
                writes.get().unwrap().insert(1, removed.value() + 100);
            }
        };
        let one = audited(Cache::builder().removal_listener(of_first).build());
        let other = audited(Cache::builder().removal_listener(of_second).build());
        assert!(first.set(one.clone()).is_ok() && second.set(other.clone()).is_ok());
        other.insert(1, 0);
        one.insert(1, 1);
        one.insert(1, 2);
        let expected = [
            ("first begins", 1),
            ("second", 0),
            ("first ends", 1),
            ("first begins", 2),
            ("second", 11),
            ("first ends", 2),
            ("first begins", 100),
            ("second", 12),
            ("first ends", 100),
            ("first begins", 111),
            ("second", 110),
            ("first ends", 111),
        ];
        assert_eq!(*log.lock().unwrap(), expected);
        // They own each other.
        kept((one, other));
    });
}
