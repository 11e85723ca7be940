//! `get_within` where loads run inline: they are loads like any other.

use super::bench::Bench;
use crate::common::audited::{LoadingAudited, loading_audited};
use crate::common::{HANG, watched};
use cortado::{Builder, Cache, Job, LoadError, LoadLimits, Loaded, LoadingCache};
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
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
    let load = move |_: &u32| {
        let plan = next.lock().unwrap().take();
        plan.map_or(Ok(Loaded::new(1)), |plan| plan())
    };
    let builder = configure(Cache::builder().refresh_inline(true).record_stats(true));
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
    let b: Bench = super::bench::bench(|builder| builder.refresh_inline(true));
    assert_eq!(b.cache.get_within(&7, AMPLE), Ok(1));
    assert_eq!((b.cache.stats().misses, b.cache.stats().loads), (1, 1));
}
