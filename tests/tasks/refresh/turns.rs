//! Executors and wakers that poll another task at once, inside of the poll of this one. That task
//! may wait for what this one loads, since this one goes on without it.

use super::bench::SOFT;
use crate::common::audited::{tasks_audited, tasks_loading_audited};
use crate::common::must_end;
use crate::hand::{Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Clock, Job, Loaded};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};

/// Loads key 1, and in that load key 2.
async fn nested(cache: &Cache<u32, u32>) -> u32 {
    let outer = cache.get_with(1, async {
        let two = cache.get_with(2, async { (pends(1).await, 2).1 }).await;
        pends(1).await;
        two - 1
    });
    outer.await
}

/// The reload waits for key 2, whose end polls it, inside of the load of key 1. Then it waits for
/// key 1.
#[test]
fn a_reload_that_an_executor_polls_at_once_waits_for_the_outer_load() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let own: Arc<OnceLock<Cache<u32, u32>>> = Arc::default();
        let (seen, inner) = (Arc::new(Mutex::new(None)), Arc::clone(&own));
        let sees = Arc::clone(&seen);
        let builder = Cache::builder().refresh_after_write(SOFT).clock(clock).record_stats(true);
        let cache = tasks_loading_audited(builder.executor(|job: Job| job()).build_with_loader(
            move |key: u32| {
                let (inner, sees) = (Arc::clone(&inner), Arc::clone(&sees));
                async move {
                    let cache = inner.get().unwrap();
                    let two = cache.get_with(2, async { 22 }).await;
                    let one = cache.get_with(1, async { 11 }).await;
                    *sees.lock().unwrap() = Some((one, two));
                    Ok::<_, ()>(Loaded::new(key))
                }
            },
        ));
        assert!(own.set(cache.cache().clone()).is_ok());
        at_once(cache.insert(3, 300));
        hand.advance(SOFT);
        let mut outer = Task::waiting(nested(cache.cache()));
        assert_eq!(at_once(cache.get(&3)), Ok(300));
        assert!(!outer.poll());
        assert_eq!(cache.stats().reload_failures, 0);
        outer.run();
        assert_eq!((outer.result(), *seen.lock().unwrap()), (1, Some((1, 2))));
        assert_eq!((cache.stats().reloads, at_once(cache.get(&3))), (1, Ok(3)));
    });
}

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that is polled by whoever wakes it, at once.
struct AtOnce(Mutex<Option<Work>>, AtomicBool);

impl AtOnce {
    fn start(work: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let task = Arc::new(Self(Mutex::new(Some(Box::pin(work))), AtomicBool::new(false)));
        Arc::clone(&task).wake();
        task
    }
}

impl Wake for AtOnce {
    fn wake(self: Arc<Self>) {
        self.1.store(true, SeqCst);
        let Ok(mut place) = self.0.try_lock() else { return };
        while self.1.swap(false, SeqCst) {
            let Some(work) = place.as_mut() else { return };
            let waker = Waker::from(Arc::clone(&self));
            if work.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                *place = None;
            }
        }
    }
}

#[test]
fn a_task_that_a_waker_polls_at_once_waits_for_the_outer_load() {
    must_end(|| {
        let cache = tasks_audited(Cache::<u32, u32>::new(100));
        let mut outer = Task::waiting(nested(&cache));
        let (other, seen) = ((*cache).clone(), Arc::new(Mutex::new(None)));
        let sees = Arc::clone(&seen);
        let task = AtOnce::start(async move {
            let two = other.get_with(2, async { 22 }).await;
            let one = other.get_with(1, async { 11 }).await;
            *sees.lock().unwrap() = Some((one, two));
        });
        outer.run();
        assert_eq!((outer.result(), *seen.lock().unwrap()), (1, Some((1, 2))));
        assert!(task.0.lock().unwrap().is_none());
    });
}
