//! Caches at the end of things: of threads, whose locals' destructors still use them, and of their
//! own last handles, dropped where the cache itself has called.

use crate::common::audited::{Audited, audited};
use crate::common::must_end;
use cortado::{Cache, Clock, ManualClock, Op};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};

type Numbers = Cache<u64, Arc<u64>>;

/// Uses the cache in every way when it is dropped.
struct Farewell {
    cache: Numbers,
    hand: ManualClock,
    thread: u64,
    done: Arc<AtomicUsize>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let Self { cache, hand, thread, done } = self;
        for n in 0..300 {
            let key = *thread << 32 | n;
            cache.insert(key, Arc::new(n));
            assert!(cache.get(&key).is_none_or(|value| *value == n));
            assert!(cache.pin().get(&key).is_none_or(|value| **value == n));
            cache.get_with(key + 1000, || Arc::new(n));
            cache.get_with(key + 3000, || cache.get_with(key + 4000, || Arc::new(n)));
            cache.entry(key + 2000).and_compute_with(|_| Op::Put(Arc::new(n)));
            cache.set_ttl(&key, Duration::from_millis(5));
            cache.invalidate(&(key + 1000));
        }
        hand.advance(Duration::from_secs(2));
        assert!(cache.entries().all(|entry| **entry < 300));
        cache.run_pending_tasks();
        done.fetch_add(1, SeqCst);
    }
}

std::thread_local! {
    static FAREWELL: RefCell<Option<Farewell>> = const { RefCell::new(None) };
}

/// Whether this thread's locals are made before those of the cache and of what it uses, or after
/// them: the order in which they end depends on it.
#[derive(Clone, Copy)]
enum First {
    Cache,
    Farewell,
}

fn farewells(first: First, listens: bool) {
    let (clock, hand) = Clock::manual();
    let mut builder = Cache::builder()
        .max_capacity(1000)
        .clock(clock)
        .time_to_live(Duration::from_secs(1))
        .record_stats(true);
    if listens {
        builder = builder.removal_listener(drop);
    }
    let cache = audited(builder.build());
    let done = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (1..=8)
        .map(|thread| {
            let (cache, hand, done) = (cache.clone(), hand.clone(), Arc::clone(&done));
            std::thread::spawn(move || {
                if matches!(first, First::Cache) {
                    (0..100).for_each(|n| cache.insert(n, Arc::new(n)));
                    cache.run_pending_tasks();
                }
                FAREWELL.set(Some(Farewell { cache: cache.clone(), hand, thread, done }));
                cache.insert(thread, Arc::new(thread));
                assert!(cache.get(&thread).is_none_or(|value| *value == thread));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(done.load(SeqCst), 8);
    cache.audit();
    assert_eq!(cache.stats().listener_panics + cache.stats().drop_panics, 0);
    assert!(cache.entry_count() <= 1000);
}

#[test]
fn destructors_of_thread_locals_use_the_cache() {
    must_end(|| {
        for first in [First::Cache, First::Farewell] {
            for listens in [false, true] {
                farewells(first, listens);
            }
        }
    });
}

#[test]
fn the_last_handle_is_dropped_by_the_destructor_of_a_thread_local() {
    std::thread_local! {
        static LAST: RefCell<Option<Numbers>> = const { RefCell::new(None) };
    }
    must_end(|| {
        for early in [false, true] {
            let value = Arc::new(7);
            let inside = Arc::clone(&value);
            std::thread::spawn(move || {
                if early {
                    LAST.set(None);
                }
                let cache: Numbers = Cache::builder().removal_listener(|_| {}).build();
                (0..100).for_each(|key| cache.insert(key, Arc::clone(&inside)));
                cache.invalidate(&1);
                LAST.set(Some(cache));
            })
            .join()
            .unwrap();
            assert_eq!(Arc::strong_count(&value), 1);
        }
    });
}

/// The listener of one cache, or a value in it, holds the last handle on another.
#[test]
fn the_last_handle_is_dropped_by_another_cache() {
    must_end(|| {
        let value = Arc::new(7);
        let filled = |listens: bool| -> Numbers {
            let mut builder = Cache::builder();
            if listens {
                builder = builder.removal_listener(|_| {});
            }
            let cache = builder.build();
            (0..100).for_each(|key| cache.insert(key, Arc::clone(&value)));
            cache
        };
        for listens in [false, true] {
            let slot = Arc::new(Mutex::new(Some(filled(listens))));
            let hand = Arc::clone(&slot);
            let outer: Audited<u32, u32> = audited(
                Cache::builder()
                    .removal_listener(move |_| drop(hand.lock().unwrap().take()))
                    .build(),
            );
            outer.insert(1, 1);
            outer.invalidate(&1);
            assert!(slot.lock().unwrap().is_none());
            assert_eq!(Arc::strong_count(&value), 1);

            let holder: Cache<u32, Numbers> = Cache::builder().build();
            holder.insert(1, filled(listens));
            holder.insert(2, filled(listens));
            holder.invalidate(&1);
            drop(holder);
            assert_eq!(Arc::strong_count(&value), 1);
        }
    });
}

/// A hook, a loader, a computation and a weigher drop all handles but the one that is in use.
#[test]
fn a_callback_drops_all_other_handles() {
    must_end(|| {
        let value = Arc::new(7);
        let slot: Arc<Mutex<Vec<Numbers>>> = Arc::default();
        let clear = |slot: &Mutex<Vec<Numbers>>| drop(std::mem::take(&mut *slot.lock().unwrap()));
        for callback in 0..4 {
            let (weighing, telling) = (Arc::clone(&slot), Arc::clone(&slot));
            let cache = audited(
                Cache::builder()
                    .max_capacity(10)
                    .weigher(move |_, _| {
                        if callback == 0 {
                            clear(&weighing);
                        }
                        1
                    })
                    .removal_listener(move |_| {
                        if callback == 1 {
                            clear(&telling);
                        }
                    })
                    .build(),
            );
            slot.lock().unwrap().extend((0..3).map(|_| cache.clone()));
            (0..20).for_each(|key| cache.insert(key, Arc::clone(&value)));
            cache.get_with(100, || {
                if callback == 2 {
                    clear(&slot);
                }
                Arc::clone(&value)
            });
            cache.entry(101).and_compute_with(|_| {
                if callback == 3 {
                    clear(&slot);
                }
                Op::Put(Arc::clone(&value))
            });
            assert!(slot.lock().unwrap().is_empty(), "callback {callback} was not reached");
            cache.audit();
            drop(cache);
            assert_eq!(Arc::strong_count(&value), 1);
        }
    });
}

/// Where the scheduler's thread calls the user's code.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Called {
    Listener,
    DropOfKey,
    DropOfValue,
    Clock,
}

/// Takes the last handle out of its slot when `at` is called on another thread than the test's.
#[derive(Clone)]
struct Last {
    at: Called,
    test: std::thread::ThreadId,
    slot: Arc<Mutex<Option<Cache<Part, Part>>>>,
    living: Arc<AtomicUsize>,
}

impl Last {
    fn called(&self, place: Called) {
        if place == self.at && std::thread::current().id() != self.test {
            let last = self.slot.lock().unwrap().take();
            drop(last);
        }
    }

    fn part(&self, place: Called) -> Part {
        self.living.fetch_add(1, SeqCst);
        Part { place, last: self.clone() }
    }
}

/// A key or a value.
struct Part {
    place: Called,
    last: Last,
}

impl Drop for Part {
    fn drop(&mut self) {
        self.last.called(self.place);
        self.last.living.fetch_sub(1, SeqCst);
    }
}

/// All keys are one.
impl PartialEq for Part {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Part {}

impl std::hash::Hash for Part {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

#[test]
fn the_last_handle_is_dropped_on_the_schedulers_thread() {
    must_end(|| {
        for at in [Called::Listener, Called::DropOfKey, Called::DropOfValue, Called::Clock] {
            let last = Last {
                at,
                test: std::thread::current().id(),
                slot: Arc::default(),
                living: Arc::default(),
            };
            let (telling, reading, begun) = (last.clone(), last.clone(), Instant::now());
            let cache: Cache<Part, Part> = Cache::builder()
                .scheduler(true)
                .expiry_resolution(Duration::from_millis(1))
                .clock(Clock::custom(move || {
                    reading.called(Called::Clock);
                    begun.elapsed()
                }))
                .removal_listener(move |_| telling.called(Called::Listener))
                .build();
            let (key, value) = (last.part(Called::DropOfKey), last.part(Called::DropOfValue));
            cache.insert_with_ttl(key, value, Duration::from_millis(20));
            *last.slot.lock().unwrap() = Some(cache);
            // The entry ends, or the clock is read, on the scheduler's thread; and all is gone.
            while last.slot.lock().unwrap().is_some() || last.living.load(SeqCst) > 0 {
                std::thread::yield_now();
            }
        }
    });
}

/// Two listeners, each of which closes the other's cache while that one is at it: neither can wait
/// for the other.
#[test]
fn listeners_may_close_each_others_caches() {
    type Other = Arc<Mutex<Option<Cache<u64, u64>>>>;
    must_end(|| {
        let both = Arc::new(Barrier::new(2));
        let others: [Other; 2] = Default::default();
        let caches = others.each_ref().map(|other| {
            let (both, other) = (Arc::clone(&both), Arc::clone(other));
            let calls = AtomicUsize::new(0);
            let builder = Cache::builder().removal_listener(move |_| {
                if calls.fetch_add(1, SeqCst) == 0 {
                    both.wait();
                    let other = other.lock().unwrap().take();
                    other.expect("there are two").close();
                    both.wait();
                }
            });
            audited(builder.build())
        });
        *others[0].lock().unwrap() = Some(Cache::clone(&caches[1]));
        *others[1].lock().unwrap() = Some(Cache::clone(&caches[0]));
        std::thread::scope(|scope| {
            for cache in &caches {
                scope.spawn(|| {
                    (0..10).for_each(|key| cache.insert(key, key));
                    cache.invalidate(&0);
                    cache.run_pending_tasks();
                });
            }
        });
        assert!(caches.iter().all(|cache| cache.entries().count() == 0), "both are closed");
    });
}
