//! Where the reloads of an executor begin that runs jobs at once: at the end of the read that
//! triggers them. Inside user code and views that read leaves them to the next operation.

use super::bench::{Bench, SOFT, at_once, bench};
use crate::common::SECOND;
use crate::common::audited::{Audited, LoadingAudited, audited, loading_audited};
use cortado::{Cache, Clock, Expiry, LoadLimits, Loaded, Op, Reloaded};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The value 1 of the key 7, stale.
pub fn stale() -> Bench {
    let b = bench(at_once);
    assert_eq!(b.cache.get(&7), Ok(1));
    b.advance(SOFT.as_secs());
    assert_eq!(b.asked(), [(7, None)]);
    b
}

impl Bench {
    /// A read in the midst of something, where the reload must not run.
    fn read_amid(&self) {
        assert_eq!((self.cache.get(&7), self.cache.cache().get(&7)), (Ok(1), Some(1)));
        assert_eq!((self.asked(), self.pending()), (vec![], 1));
    }

    /// The reload is left to the next operation, whatever that is and on whatever thread.
    fn is_left(&self, place: &str) {
        assert_eq!((self.asked(), self.pending()), (vec![], 1), "{place}");
        let next: [fn(&Bench); 3] = [
            |b| assert_eq!(b.cache.cache().get(&99), None),
            |b| b.cache.insert(98, 98),
            |b| b.cache.run_pending_tasks(),
        ];
        let next = next[place.len() % next.len()];
        thread::scope(|scope| scope.spawn(|| next(self)).join().unwrap());
        self.is_reloaded(place);
    }

    /// The reload has run once.
    fn is_reloaded(&self, place: &str) {
        assert_eq!((self.asked(), self.pending()), (vec![(7, Some(1))], 0), "{place}");
        assert_eq!(self.cache.get(&7), Ok(2), "{place}");
    }
}

#[test]
fn after_the_read() {
    let b = stale();
    assert_eq!(b.cache.cache().get(&7), Some(1));
    b.is_reloaded("read");
}

/// Those who ask the cache for a value that it makes itself get what their call has made.
#[test]
fn the_call_that_runs_it_returns_the_new_value() {
    type Get = fn(&Bench) -> u32;
    let gets: [Get; 3] = [
        |b| b.cache.get(&7).unwrap(),
        |b| *b.cache.get_entry(&7).unwrap(),
        |b| {
            let limits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };
            b.cache.get_within(&7, limits).unwrap()
        },
    ];
    for get in gets {
        let b = stale();
        assert_eq!((get(&b), b.asked()), (2, vec![(7, Some(1))]));
        // It is fresh. When it is stale, a failure leaves it.
        assert_eq!((get(&b), b.asked()), (2, vec![]));
        b.advance(SOFT.as_secs());
        b.plan(Err("down"));
        assert_eq!((get(&b), b.asked()), (2, vec![(7, Some(2))]));
        b.advance(1);
        b.plan(Ok(Reloaded::not_modified()));
        assert_eq!((get(&b), b.asked()), (2, vec![(7, Some(2))]));
        // If the value is gone, the key has none, and is loaded.
        b.advance(SOFT.as_secs());
        b.plan(Ok(Reloaded::gone()));
        assert_eq!((get(&b), b.asked()), (3, vec![(7, Some(2)), (7, None)]));
    }
}

#[test]
fn after_the_view() {
    let b = stale();
    let view = b.cache.cache().pin();
    assert_eq!(view.get(&7), Some(&1));
    drop(view);
    b.is_left("view");
}

#[test]
fn after_views_of_other_caches_and_inner_ones() {
    let (b, other) = (stale(), audited(Cache::<u32, u32>::new(10)));
    let outer = other.pin();
    let inner = b.cache.cache().pin();
    b.read_amid();
    drop(inner);
    b.read_amid();
    drop(outer);
    b.is_left("view of another cache");
}

/// All that were left run, however many these are.
#[test]
fn as_many_as_were_left() {
    let b = bench(at_once);
    (0..5).for_each(|key| assert!(b.cache.get(&key).is_ok()));
    b.advance(SOFT.as_secs());
    b.asked();
    let view = b.cache.cache().pin();
    (0..5).for_each(|key| assert!(view.get(&key).is_some()));
    assert_eq!(b.pending(), 5);
    drop(view);
    b.cache.run_pending_tasks();
    assert_eq!((b.pending(), b.asked().len()), (0, 5));
}

type Amid = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Runs what a test leaves, once, in each kind of callback.
#[derive(Clone, Default)]
struct Hook(Amid);

impl Hook {
    fn call(&self) {
        let amid = self.0.lock().unwrap().take();
        amid.into_iter().for_each(|amid| amid());
    }
}

impl Expiry<u32, u32> for Hook {
    fn expire_after_create(&self, key: &u32, _: &u32, _: Instant) -> Option<Duration> {
        if *key == 1 {
            self.call();
        }
        None
    }

    fn expire_after_read(
        &self,
        key: &u32,
        _: &u32,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        if *key == 2 {
            self.call();
        }
        current
    }
}

type Operation = fn(&Cache<u32, u32>, &Hook);

/// Operations of another cache, in the midst of which its user's code runs.
const OPERATIONS: [(&str, Operation); 10] = [
    ("create hook", |cache, _| cache.insert(1, 1)),
    ("read hook", |cache, _| {
        cache.insert(2, 2);
        assert_eq!(cache.get(&2), Some(2));
    }),
    ("weigher", |cache, _| cache.insert(3, 3)),
    ("load", |cache, hook| assert_eq!(cache.get_with(4, || (hook.call(), 4).1), 4)),
    ("load in a load", |cache, hook| {
        let inner = || cache.get_with(5, || (hook.call(), 5).1);
        assert_eq!(cache.get_with(4, inner), 5);
    }),
    ("load of many", |cache, hook| {
        let load = |_: &[&u32]| {
            hook.call();
            [(4, 4)]
        };
        assert_eq!(cache.get_many_with([4], load), [Some(4)]);
    }),
    ("condition", |cache, hook| {
        cache.insert(6, 6);
        assert_eq!(cache.remove_if(&6, |_, _| (hook.call(), true).1), Some(6));
    }),
    ("retain", |cache, hook| {
        cache.insert(6, 6);
        cache.retain(|_, _| (hook.call(), true).1);
    }),
    ("computation", |cache, hook| {
        cache.entry(6).and_compute_with(|_| (hook.call(), Op::Put(6)).1);
    }),
    ("guarded load", |cache, hook| {
        assert_eq!(cache.load(6, || (hook.call(), Loaded::new(6)).1), 6);
    }),
];

#[test]
fn after_the_users_code() {
    for (place, operate) in OPERATIONS {
        let b = Arc::new(stale());
        let hook = Hook::default();
        let weigher = hook.clone();
        let builder = Cache::builder().expire_after(hook.clone()).weigher(move |key, _| {
            if *key == 3 {
                weigher.call();
            }
            1
        });
        let other: Audited<u32, u32> = audited(builder.build());
        let reader = Arc::clone(&b);
        *hook.0.lock().unwrap() = Some(Box::new(move || reader.read_amid()));
        operate(&other, &hook);
        assert!(hook.0.lock().unwrap().is_none(), "{place}: not called");
        b.is_left(place);
    }
}

/// The loader of a reload reads another stale key, and one of the keys' loaders the first again.
#[test]
fn after_the_reload_in_which_it_was_found() {
    let b = stale();
    b.cache.insert(8, 80);
    b.advance(SOFT.as_secs());
    let cache = b.cache.cache().clone();
    let order: Arc<OnceLock<Option<u32>>> = Arc::default();
    let seen = Arc::clone(&order);
    *b.upstream.1.lock().unwrap() = Some(Box::new(move || {
        let _ = seen.set(cache.get(&8));
        assert_eq!((cache.get(&7), cache.stats().reloads_under_way), (Some(1), 2));
    }));
    assert_eq!(b.cache.get(&7), Ok(2));
    assert_eq!(order.get(), Some(&Some(80)));
    assert_eq!((b.asked(), b.pending()), (vec![(7, Some(1)), (8, Some(80))], 0));
    assert_eq!((b.cache.get(&7), b.cache.get(&8)), (Ok(2), Ok(3)));
}

/// When the computation has ended, its key is free for the reload.
#[test]
fn after_a_computation_of_the_key_itself() {
    let b = stale();
    let kept = b.cache.cache().entry(7).and_compute_with(|_| {
        b.read_amid();
        Op::Nop
    });
    drop(kept);
    b.is_reloaded("computation of the key");
    // What the computation writes is fresh.
    b.advance(SOFT.as_secs());
    drop(b.cache.cache().entry(7).and_compute_with(|_| (b.cache.get(&7), Op::Put(50)).1));
    assert_eq!((b.asked(), b.cache.get(&7), b.pending()), (vec![], Ok(50), 0));
    b.advance(1);
    assert_eq!(b.cache.cache().expires_in(&7).due(), Some(99 * SECOND));
}

#[test]
fn a_load_that_was_begun_under_a_view_changes_nothing() {
    let b = stale();
    let view = b.cache.cache().pin();
    assert_eq!(view.get(&7), Some(&1));
    let Err(guard) = b.cache.cache().get_value_or_guard(&9) else { panic!() };
    assert_eq!(b.asked(), []);
    drop(view);
    b.is_left("end of the view");
    drop(guard);
}

/// A cache whose values count up.
pub fn counting(clock: Clock, limit: usize) -> LoadingAudited<u32, u32, ()> {
    let made = AtomicU32::new(0);
    let builder = Cache::builder().refresh_after_write(SOFT).executor(|job: cortado::Job| job());
    let load = move |_: u32| Ok::<_, ()>(Loaded::new(made.fetch_add(1, Relaxed)));
    loading_audited(builder.refresh_limit(limit).clock(clock).build_with_loader(load))
}

/// `Loaded::with_ttl` of zero: the callers get the value, and the cache does not keep it.
#[test]
fn a_value_that_is_not_kept_is_the_callers() {
    type Get = fn(&LoadingAudited<u32, u32, ()>) -> u32;
    let gets: [Get; 3] = [
        |cache| cache.get(&1).unwrap(),
        |cache| *cache.get_entry(&1).unwrap(),
        |cache| {
            let limits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };
            cache.get_within(&1, limits).unwrap()
        },
    ];
    for get in gets {
        let (clock, hand) = Clock::manual();
        let made = Arc::new(AtomicU32::new(0));
        let makes = Arc::clone(&made);
        let load = move |_: u32| {
            let n = makes.fetch_add(1, Relaxed);
            let ttl = if n == 0 { 10 * SOFT } else { Duration::ZERO };
            Ok::<_, ()>(Loaded::with_ttl(n, ttl))
        };
        let builder = Cache::builder()
            .refresh_after_write(SOFT)
            .executor(|job: cortado::Job| job())
            .clock(clock);
        let cache = loading_audited(builder.build_with_loader(load));
        assert_eq!(cache.get(&1), Ok(0));
        hand.advance(SOFT);
        assert_eq!((get(&cache), made.load(Relaxed)), (1, 2));
        assert!(!cache.contains_key(&1));
    }
}
