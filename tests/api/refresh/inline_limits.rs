//! `get_within` where jobs run at once. Its loads are loads like any other.

use super::bench::{Bench, SOFT};
use super::inline::counting;
use crate::common::audited::{LoadingAudited, loading_audited};
use crate::common::{HANG, watched};
use cortado::{Builder, Cache, Clock, Job, LoadError, LoadLimits, Loaded, LoadingCache};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::thread;

const AMPLE: LoadLimits = LoadLimits { soft: HANG, hard: HANG };

type Error = &'static str;
type Plan = Box<dyn FnOnce() -> Result<Loaded<u32>, Error> + Send>;
type Handle = LoadingCache<u32, u32, Error>;
type Loading = LoadingAudited<u32, u32, Error>;

/// A cache whose loader does what is planned, once, and makes 1 otherwise.
fn planned(configure: fn(Builder<u32, u32>) -> Builder<u32, u32>) -> (Loading, impl Fn(Plan)) {
    let plan = Arc::new(Mutex::new(None::<Plan>));
    let next = Arc::clone(&plan);
    let load = move |_: u32| {
        let plan = next.lock().unwrap().take();
        plan.map_or(Ok(Loaded::new(1)), |plan| plan())
    };
    let builder =
        configure(Cache::builder().executor(|job: cortado::Job| job()).record_stats(true));
    let cache = loading_audited(builder.build_with_loader(load));
    (cache, move |next| *plan.lock().unwrap() = Some(next))
}

#[test]
fn a_loader_that_asks_for_its_own_key_panics() {
    watched(|watch| {
        watch.begin("a loader that asks for its key".to_owned());
        let asks: [fn(&Handle); 2] =
            [|cache| drop(cache.get(&7)), |cache| drop(cache.get_within(&7, AMPLE))];
        for ask in asks {
            let (cache, plan) = planned(|builder| builder);
            let own: Handle = cache.clone();
            plan(Box::new(move || {
                ask(&own);
                Ok(Loaded::new(2))
            }));
            let load = || cache.get_within(&7, AMPLE);
            assert!(catch_unwind(AssertUnwindSafe(load)).is_err());
            assert_eq!(cache.stats().load_failures, 1);
            assert_eq!(cache.get_within(&7, AMPLE), Ok(1));
        }
    });
}

/// A listener within the load could wait for it.
#[test]
fn nothing_is_delivered_within_the_load() {
    static LOADS: AtomicBool = AtomicBool::new(false);
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let (cache, plan) = planned(|builder| {
        builder.executor(|job: Job| job()).removal_listener(|_| {
            assert!(!LOADS.load(Relaxed));
            TOLD.fetch_add(1, Relaxed);
        })
    });
    cache.insert(8, 80);
    let own = cache.clone();
    plan(Box::new(move || {
        LOADS.store(true, Relaxed);
        own.invalidate(&8);
        own.run_pending_tasks();
        LOADS.store(false, Relaxed);
        Ok(Loaded::new(2))
    }));
    assert_eq!(cache.get_within(&7, AMPLE), Ok(2));
    cache.run_pending_tasks();
    assert_eq!((TOLD.load(Relaxed), cache.stats().listener_panics), (1, 0));
}

#[test]
fn those_who_wait_get_the_error() {
    watched(|watch| {
        watch.begin("a caller that waits for the load".to_owned());
        let (cache, plan) = planned(|builder| builder);
        let ((wait, waits), own) = (channel(), cache.cache().clone());
        let (give, waiter) = channel();
        plan(Box::new(move || {
            let waiter = thread::spawn(move || {
                own.within(HANG, async |tasks| {
                    let mut load = pin!(tasks.try_get_with(7, async { Err::<u32, _>("its own") }));
                    poll_fn(|context| {
                        let poll = load.as_mut().poll(context);
                        let _ = wait.send(poll.is_pending());
                        poll
                    })
                    .await
                })
            });
            assert!(waits.recv().unwrap());
            give.send(waiter).unwrap();
            Err("down")
        }));
        let down = Arc::new("down");
        assert_eq!(cache.get_within(&7, AMPLE), Err(LoadError::Failed(Arc::clone(&down))));
        assert_eq!(waiter.recv().unwrap().join().unwrap(), Ok(Err(down)));
        assert_eq!(cache.stats().load_failures, 1);
    });
}

/// A miss is counted once.
#[test]
fn a_load_is_one_miss() {
    let b: Bench = super::bench::bench(|builder| builder.executor(|job: cortado::Job| job()));
    assert_eq!(b.cache.get_within(&7, AMPLE), Ok(1));
    assert_eq!((b.cache.stats().misses, b.cache.stats().loads), (1, 1));
}

/// Its own reload waits for the end of the view.
#[test]
fn inside_a_view_it_returns_the_stale_value() {
    watched(|watch| {
        watch.begin("a wait for a reload of its own".to_owned());
        let (clock, hand) = Clock::manual();
        let cache = counting(clock, usize::MAX);
        cache.get(&1).unwrap();
        hand.advance(SOFT);
        let view = cache.cache().pin();
        assert_eq!(cache.get_within(&1, AMPLE), Ok(0));
        drop(view);
        assert_eq!(cache.get(&1), Ok(1));
    });
}

/// What a loader has triggered begins when its own reload is over, and has given its place back.
#[test]
fn a_reload_has_its_place_until_its_loader_returns() {
    let reads = Arc::new(OnceLock::<Weak<LoadingAudited<u32, u32, ()>>>::new());
    let cache = Arc::clone(&reads);
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder()
        .refresh_after_write(SOFT)
        .executor(|job: cortado::Job| job())
        .refresh_limit(2);
    let cache =
        Arc::new(loading_audited(builder.clock(clock).build_with_loader(move |key: u32| {
            let cache = cache.get().and_then(Weak::upgrade);
            cache.inspect(|cache| _ = cache.cache().get(&(key + 1)));
            Ok::<_, ()>(Loaded::new(key))
        })));
    (1..=3).for_each(|key| cache.insert(key, 0));
    reads.set(Arc::downgrade(&cache)).unwrap();
    hand.advance(SOFT);
    // The loader of 1 reads 2, and that of 2 reads 3.
    cache.get(&1).unwrap();
    let counts = || {
        let stats = cache.stats();
        (stats.reloads, stats.reloads_under_way, stats.reloads_skipped)
    };
    assert_eq!(counts(), (2, 1, 0));
    cache.run_pending_tasks();
    assert_eq!(counts(), (3, 0, 0));
}
