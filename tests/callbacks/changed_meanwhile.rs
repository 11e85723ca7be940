//! What changes an entry while a hook or a condition is being asked about it.

use crate::common::audited::audited;
use crate::common::{MINUTE, SECOND, must_end, yield_a_while};
use cortado::{Cache, Clock, EvictionPolicy, Expiration, Expiry, Op, RemovalCause, Removed};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A value that expires while a condition is asked leaves as expired, and is not returned: also if
/// the condition is asked for the second time, since the entry was replaced meanwhile.
#[test]
fn what_expires_while_the_condition_is_asked_is_not_removed_by_it() {
    must_end(|| {
        for replaced in [false, true] {
            let ((clock, hand), (told, causes)) = (Clock::manual(), channel());
            let told = move |removed: Removed<u32, u32>| told.send(removed.cause()).unwrap();
            let builder = Cache::builder().time_to_live(MINUTE).removal_listener(told);
            let cache = audited(builder.clock(clock).build());
            cache.insert(1, 1);
            let mut asked = 0;
            let removed = cache.remove_if(&1, |_, _| {
                asked += 1;
                if replaced && asked == 1 {
                    thread::scope(|scope| scope.spawn(|| cache.insert(1, 2)).join().unwrap());
                } else {
                    hand.advance(MINUTE);
                }
                true
            });
            assert_eq!((removed, asked), (None, 1 + u32::from(replaced)));
            cache.run_pending_tasks();
            assert_eq!(causes.try_iter().last(), Some(RemovalCause::Expired));
        }
    });
}

/// A load by a condition replaces the value that the condition refuses, though that gets another
/// lifetime while the loader runs. A lifetime of zero is a removal, which overtakes the load.
#[test]
fn a_lifetime_that_is_set_amid_a_load_by_condition_is_of_the_old_value() {
    must_end(|| {
        for life in [MINUTE, Duration::ZERO] {
            let cache = audited(Cache::<u32, u32>::new(100));
            cache.insert(1, 1);
            let sets = || {
                thread::scope(|scope| {
                    scope.spawn(|| assert!(cache.set_ttl(&1, life))).join().unwrap();
                });
                2
            };
            let loaded = cache.entry(1).or_insert_with_if(sets, |value| *value == 1);
            assert_eq!((*loaded, loaded.is_fresh()), (2, true));
            let kept = if life.is_zero() { Expiration::NoEntry } else { Expiration::Never };
            assert_eq!(cache.expires_in(&1), kept);
        }
    });
}

/// Gives an entry the time until an instant that it is told of later.
struct Until(Arc<Mutex<Option<Instant>>>, Mutex<Sender<()>>);

impl Expiry<u32, u32> for Until {
    fn expire_after_create(&self, _: &u32, _: &u32, now: Instant) -> Option<Duration> {
        let _ = self.1.lock().unwrap().send(());
        self.0.lock().unwrap().map(|end| end.saturating_duration_since(now))
    }
}

/// An insert that has waited for a computation asks the hook for the life that begins after it.
#[test]
fn the_life_after_a_wait_is_asked_for_after_it() {
    must_end(|| {
        for updates in [false, true] {
            let ((clock, hand), (told, asked)) = (Clock::manual(), channel());
            let end = Arc::new(Mutex::new(None));
            let policy = Until(Arc::clone(&end), Mutex::new(told));
            let cache = audited(Cache::builder().expire_after(policy).clock(clock).build());
            cache.insert_with_ttl(0, 0, 2 * MINUTE);
            let due = cache.expires_at(&0).due();
            assert!(due.is_some());
            *end.lock().unwrap() = due;
            if updates {
                cache.insert(1, 0);
                asked.recv().unwrap();
            }
            thread::scope(|scope| {
                cache.entry(1).and_compute_with(|_| {
                    scope.spawn(|| cache.insert(1, 1));
                    asked.recv().unwrap();
                    yield_a_while();
                    hand.advance(MINUTE);
                    Op::Nop
                });
            });
            assert_eq!(cache.get(&1), Some(1));
            assert_eq!(cache.expires_at(&1).due(), due, "updates: {updates}");
        }
    });
}

/// A key of which all have one hash. The thread of this name does something once, when it compares
/// two that differ.
#[derive(Clone)]
struct Meets(u32, Meanwhile);

const INSERTING: &str = "inserting";

impl Hash for Meets {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Meets {
    fn eq(&self, other: &Self) -> bool {
        if self.0 != other.0 && thread::current().name() == Some(INSERTING) {
            let meanwhile = self.1.lock().unwrap().take();
            if let Some(meanwhile) = meanwhile {
                meanwhile();
            }
        }
        self.0 == other.0
    }
}

impl Eq for Meets {}

/// Gives each value a minute, whatever there was before.
struct Minute;

impl Expiry<Meets, u32> for Minute {
    fn expire_after_create(&self, _: &Meets, _: &u32, _: Instant) -> Option<Duration> {
        Some(MINUTE)
    }

    fn expire_after_update(
        &self,
        _: &Meets,
        _: &u32,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(MINUTE)
    }
}

/// An insert that has waited for a computation, and finds another one when it wants to ask its hook
/// once more, waits again and asks then.
#[test]
fn an_insert_that_waits_twice_asks_its_hook() {
    must_end(|| {
        let meanwhile = Meanwhile::default();
        let key = |number| Meets(number, Arc::clone(&meanwhile));
        let (clock, _hand) = Clock::manual();
        let cache = audited(Cache::builder().expire_after(Minute).clock(clock).build());
        cache.insert(key(1), 0);
        let ((begun, beginning), (end, ending)) = (channel(), channel::<()>());
        let (held, holding) = channel();
        let (release, released) = channel::<()>();
        let (started, computing) = channel();
        thread::scope(|scope| {
            // The key with which the insert compares its own when it wakes.
            let (other, another) = (cache.clone(), key(2));
            scope.spawn(move || {
                other.entry(another).and_compute_with(|_| {
                    held.send(()).unwrap();
                    released.recv().unwrap();
                    Op::Nop
                });
            });
            holding.recv().unwrap();
            cache.entry(key(1)).and_compute_with(|_| {
                let (inserts, own) = (cache.clone(), key(1));
                let inserting = thread::Builder::new().name(INSERTING.into());
                inserting.spawn_scoped(scope, move || inserts.insert(own, 1)).unwrap();
                (0..20).for_each(|_| yield_a_while());
                let (computes, own) = (cache.clone(), key(1));
                *meanwhile.lock().unwrap() = Some(Box::new(move || {
                    let computing = thread::spawn(move || {
                        computes.entry(own).and_compute_with(|_| {
                            begun.send(()).unwrap();
                            ending.recv().unwrap();
                            Op::Nop
                        });
                    });
                    beginning.recv().unwrap();
                    started.send(computing).unwrap();
                }));
                Op::Nop
            });
            // Until the insert has met the other computation.
            while meanwhile.lock().unwrap().is_some() {
                yield_a_while();
            }
            (0..20).for_each(|_| yield_a_while());
            end.send(()).unwrap();
            release.send(()).unwrap();
        });
        computing.recv().unwrap().join().unwrap();
        assert_eq!(cache.get(&key(1)), Some(1));
        assert_eq!(cache.expires_in(&key(1)), Expiration::Due(MINUTE));
    });
}

/// A load by a condition ends though its key is written each time the condition is asked.
#[test]
fn a_condition_that_never_sees_the_same_entry_twice_comes_to_an_end() {
    must_end(|| {
        let cache = audited(Cache::<u32, u32>::new(100));
        cache.insert(1, 0);
        let mut asked = 0;
        let loaded = cache.entry(1).or_insert_with_if(
            || 7,
            |_| {
                asked += 1;
                thread::scope(|scope| _ = scope.spawn(|| cache.insert(1, asked)));
                asked == 1
            },
        );
        assert_eq!((*loaded, loaded.is_fresh(), asked), (2, false, 3));
        assert_eq!(cache.get(&1), Some(3));
        // Also if the condition refuses each of them.
        let mut asked = 10;
        let loaded = cache.entry(1).or_insert_with_if(
            || 7,
            |_| {
                asked += 1;
                thread::scope(|scope| _ = scope.spawn(|| cache.insert(1, asked)));
                true
            },
        );
        assert_eq!((*loaded, loaded.is_fresh()), (7, true));
        assert_eq!(cache.get(&1), Some(asked));
    });
}

/// A lifetime that is set while the weigher is asked about a loaded value is that of the old value.
#[test]
fn a_lifetime_that_is_set_while_a_loaded_value_is_weighed_is_of_the_old_value() {
    must_end(|| {
        let cell = Arc::new(OnceLock::<Cache<u32, u32>>::new());
        let of_weigher = Arc::downgrade(&cell);
        let cache = audited(
            Cache::builder()
                .weigher(move |_, &value| {
                    if value == 2 {
                        let cell = of_weigher.upgrade().unwrap();
                        let sets = move || assert!(cell.get().unwrap().set_ttl(&1, MINUTE));
                        thread::spawn(sets).join().unwrap();
                    }
                    1
                })
                .build(),
        );
        assert!(cell.set((*cache).clone()).is_ok());
        cache.insert(1, 1);
        assert_eq!(*cache.entry(1).or_insert_with_if(|| 2, |&value| value == 1), 2);
        assert_eq!((cache.get(&1), cache.expires_in(&1)), (Some(2), Expiration::Never));
        // The same while the condition is asked, with the load under way.
        let asked = Mutex::new(Vec::new());
        let loaded = cache.entry(1).or_insert_with_if(
            || 4,
            |&value| {
                asked.lock().unwrap().push(value);
                let meanwhile = || match value {
                    2 => cache.insert(1, 3),
                    _ => assert!(cache.set_ttl(&1, MINUTE)),
                };
                thread::scope(|scope| scope.spawn(meanwhile).join().unwrap());
                true
            },
        );
        assert_eq!((*loaded, asked.into_inner().unwrap()), (4, vec![2, 3]));
        assert_eq!((cache.get(&1), cache.expires_in(&1)), (Some(4), Expiration::Never));
        drop(cell);
    });
}

/// A read hook that ends an entry a second later, when it is told to.
struct Ends(Arc<AtomicBool>);

impl Expiry<u32, u32> for Ends {
    fn expire_after_create(&self, _: &u32, _: &u32, _: Instant) -> Option<Duration> {
        Some(MINUTE)
    }

    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        if self.0.swap(false, SeqCst) { Some(SECOND) } else { current }
    }
}

/// An entry that a load's condition keeps is not shared if it has ended while the condition was
/// asked: by a read, or by an eviction.
#[test]
fn what_ends_while_the_condition_is_asked_is_not_shared() {
    must_end(|| {
        for (evicts, writes) in [(false, false), (true, false), (false, true), (true, true)] {
            let (ends, (clock, hand)) = (Arc::new(AtomicBool::new(false)), Clock::manual());
            let builder = Cache::builder().expire_after(Ends(Arc::clone(&ends))).clock(clock);
            let builder = builder.max_capacity(1).eviction_policy(EvictionPolicy::lru());
            let cache = audited(builder.build());
            cache.insert(1, 10);
            let mut joins = None;
            let loaded = cache.entry(1).or_insert_with_if(
                || 30,
                |&value| {
                    if value != 20 {
                        if value == 10 {
                            // There is no load yet.
                            thread::scope(|scope| _ = scope.spawn(|| cache.insert(1, 20)));
                        }
                        return value == 10;
                    }
                    if evicts {
                        cache.insert(2, 0);
                        cache.run_pending_tasks();
                    } else {
                        ends.store(true, SeqCst);
                        assert_eq!(cache.get(&1), Some(20));
                        hand.advance(2 * SECOND);
                    }
                    assert_eq!(cache.get(&1), None);
                    let other = (*cache).clone();
                    joins = Some(thread::spawn(move || other.get_with(1, || 99)));
                    yield_a_while();
                    if writes {
                        // This overtakes the load, after the other call has joined it.
                        thread::scope(|scope| _ = scope.spawn(|| cache.insert(1, 40)));
                    }
                    false
                },
            );
            let expected: &[u32] = if writes { &[40] } else { &[30] };
            assert!(expected.contains(&loaded), "{} {evicts} {writes}", *loaded);
            let joined = joins.unwrap().join().unwrap();
            assert!([30, 40, 99].contains(&joined), "{joined} {evicts} {writes}");
        }
    });
}
