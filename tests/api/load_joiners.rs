//! Who joins a load, and what those get who did. Whoever looks for a load of its key compares keys:
//! by that a test knows that a thread has found the load.

use crate::common::audited::{Audited, audited};
use crate::common::fuse::{Key, Name, Place, arm};
use crate::common::{SECOND, must_end, yield_a_while};
use cortado::{Cache, Clock, Entry, Op};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);
std::thread_local! {
    /// What the clock shows to this thread.
    static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

type Loads = Audited<Key, u64>;

/// Heavy is what is a thousand or more.
fn cache(life: Duration) -> Loads {
    let life = cortado::expire::on_write(move |_: &Key, _: &u64| Some(life));
    let builder = Cache::builder().max_capacity(100).weigher(|_, &value| (value / 10) as u32);
    audited(builder.expire_after(life).clock(Clock::custom(|| NOW.get())).build())
}

/// A load that has begun and goes on until it is told to end.
struct Leader<'scope> {
    end: Sender<u64>,
    thread: ScopedJoinHandle<'scope, u64>,
}

impl<'scope> Leader<'scope> {
    fn begin<'a: 'scope>(scope: &'scope Scope<'scope, 'a>, cache: &'a Loads) -> Self {
        let (begun, beginning) = channel();
        let (end, told) = channel();
        let load = move || {
            begun.send(()).unwrap();
            told.recv().unwrap()
        };
        let thread = scope.spawn(move || cache.get_with(Key(1), load));
        beginning.recv().unwrap();
        Self { end, thread }
    }

    /// Lets it end with this value; what its caller gets.
    fn end(self, value: u64) -> u64 {
        self.end.send(value).unwrap();
        self.thread.join().unwrap()
    }
}

/// A thread that asks for the key while its load runs. When this returns, it has found the load,
/// and the clock shows it `now`.
fn joining<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, 'a>,
    cache: &'a Loads,
    now: Duration,
    load: impl FnOnce() -> u64 + Send + 'scope,
) -> ScopedJoinHandle<'scope, Entry<Key, u64>> {
    let (found, finding) = channel();
    let thread = scope.spawn(move || {
        arm(Place::Eq, 1, move || {
            NOW.set(now);
            found.send(()).unwrap();
        });
        cache.entry(Key(1)).or_insert_with(load)
    });
    finding.recv().unwrap();
    thread
}

#[test]
fn who_wakes_when_the_life_of_the_value_is_over_loads_again() {
    for late in [Duration::ZERO, MILLI, 100 * SECOND] {
        must_end(move || {
            let (cache, loads) = (cache(SECOND), AtomicUsize::new(0));
            std::thread::scope(|scope| {
                let leader = Leader::begin(scope, &cache);
                let waiters = [0; 3].map(|_| {
                    joining(scope, &cache, SECOND + late, || {
                        loads.fetch_add(1, SeqCst);
                        20
                    })
                });
                assert_eq!(leader.end(10), 10);
                let entries = waiters.map(|waiter| waiter.join().unwrap());
                // One of them loads, for all.
                assert_eq!(loads.load(SeqCst), 1);
                assert_eq!(entries.iter().filter(|entry| entry.is_fresh()).count(), 1);
                for entry in entries {
                    assert_eq!((*entry, entry.expires_in()), (20, Some(SECOND)));
                }
            });
        });
    }
}

#[test]
fn who_wakes_while_the_value_lives_shares_it() {
    must_end(|| {
        let cache = cache(SECOND);
        std::thread::scope(|scope| {
            let leader = Leader::begin(scope, &cache);
            let waiters = [0; 3].map(|n| {
                let now = SECOND - MILLI * (n + 1);
                joining(scope, &cache, now, || unreachable!("it was loaded"))
            });
            assert_eq!(leader.end(10), 10);
            for waiter in waiters {
                let entry = waiter.join().unwrap();
                assert_eq!(
                    (*entry, entry.expires_in(), entry.is_fresh()),
                    (10, Some(MILLI), false)
                );
            }
        });
    });
}

/// They have waited for it; it has no life that could be over.
#[test]
fn a_value_that_is_not_kept_reaches_all_who_have_joined() {
    for (life, value) in [(Duration::ZERO, 10), (SECOND, 10_000)] {
        must_end(move || {
            let cache = cache(life);
            std::thread::scope(|scope| {
                let leader = Leader::begin(scope, &cache);
                let waiters = [0, 1, 100].map(|seconds| {
                    joining(scope, &cache, seconds * SECOND, || unreachable!("it was loaded"))
                });
                assert_eq!(leader.end(value), value);
                for (waiter, now) in waiters.into_iter().zip([0, 1, 100]) {
                    let entry = waiter.join().unwrap();
                    let left = life.saturating_sub(now * SECOND);
                    assert_eq!((*entry, entry.expires_in()), (value, Some(left)));
                }
            });
            assert_eq!(cache.get(&Name(1)), None);
            assert_eq!(cache.get_with(Key(1), || 20), 20);
        });
    }
}

/// What makes a load outdated that is under way.
type Overtake = (&'static str, fn(&Loads));

const OVERTAKES: [Overtake; 7] = [
    ("invalidate", |cache| cache.invalidate(&Name(1))),
    ("remove", |cache| assert_eq!(cache.remove(&Name(1)), None)),
    ("remove_if", |cache| assert_eq!(cache.remove_if(&Name(1), |_, _| true), None)),
    ("invalidate_all", |cache| cache.invalidate_all()),
    ("insert and remove", |cache| {
        cache.insert(Key(1), 5);
        assert_eq!(cache.remove(&Name(1)), Some(5));
    }),
    ("insert and invalidate_all", |cache| {
        cache.insert(Key(1), 5);
        cache.invalidate_all();
    }),
    ("insert for no time", |cache| cache.insert_with_ttl(Key(1), 5, Duration::ZERO)),
];

/// Runs rounds until one goes as planned. A thread that has found the load may be so slow that it
/// is overtaken before the thread begins to wait. Then it is not joined, as by one who comes later.
fn until_planned(round: impl Fn(&str, fn(&Loads)) -> bool + Copy + Send + 'static) {
    for (name, overtake) in OVERTAKES {
        must_end(move || assert!((0..100).any(|_| round(name, overtake)), "{name}: never joined"));
    }
}

#[test]
fn a_load_that_begins_after_a_removal_has_returned_is_its_own() {
    until_planned(|name, overtake| {
        let cache = cache(SECOND);
        std::thread::scope(|scope| {
            let mut leader = Some(Leader::begin(scope, &cache));
            let joined = joining(scope, &cache, Duration::ZERO, || 15);
            yield_a_while();
            overtake(&cache);
            let loaded = cache.get_with(Key(1), || {
                // Who comes now joins this load.
                let joins = joining(scope, &cache, Duration::ZERO, || unreachable!("joined"));
                assert_eq!(leader.take().map(|leader| leader.end(10)), Some(10), "{name}");
                assert_eq!(cache.get(&Name(1)), None, "{name}: the older result was kept");
                scope.spawn(move || assert_eq!(*joins.join().unwrap(), 20));
                20
            });
            let was_first = leader.map(|leader| leader.end(10)).is_none();
            let expected = if was_first { 20 } else { 15 };
            assert_eq!((loaded, cache.get(&Name(1))), (expected, Some(expected)), "{name}");
            *joined.join().unwrap() == 10
        })
    });
}

#[test]
fn a_load_that_ends_after_a_later_one_gets_what_that_has_put_there() {
    until_planned(|name, overtake| {
        let cache = cache(SECOND);
        std::thread::scope(|scope| {
            let leader = Leader::begin(scope, &cache);
            let joined = joining(scope, &cache, Duration::ZERO, || 20);
            overtake(&cache);
            assert_eq!(cache.get_with(Key(1), || 20), 20, "{name}");
            assert_eq!(cache.get(&Name(1)), Some(20), "{name}");
            assert_eq!(leader.end(10), 20, "{name}");
            assert_eq!(cache.get(&Name(1)), Some(20), "{name}");
            // Or what somebody has found who came between an insert and the removal.
            let joined = *joined.join().unwrap();
            assert!([5, 20].contains(&joined), "{name}: {joined}");
            joined == 20
        })
    });
}

#[test]
fn a_computation_that_begins_after_a_removal_has_returned_does_not_wait() {
    for puts in [false, true] {
        until_planned(move |name, overtake| {
            let cache = cache(SECOND);
            std::thread::scope(|scope| {
                let leader = Leader::begin(scope, &cache);
                let joined = joining(scope, &cache, Duration::ZERO, || 15);
                yield_a_while();
                overtake(&cache);
                let mut found = None;
                cache.entry(Key(1)).and_compute_with(|entry| {
                    found = entry.map(|entry| *entry);
                    assert_eq!(leader.end(10), found.unwrap_or(10), "{name}");
                    assert_eq!(cache.get(&Name(1)), found, "{name}: the older result was kept");
                    if puts { Op::Put(30) } else { Op::Nop }
                });
                // What somebody may have loaded who was not joined.
                let joined = *joined.join().unwrap();
                let later = if joined == 15 { Some(15) } else { found };
                let expected = if puts { Some(30) } else { later };
                assert_eq!(cache.get(&Name(1)), expected, "{name}");
                joined == 10
            })
        });
    }
}
