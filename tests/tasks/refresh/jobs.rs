//! What a job of a reload keeps while it waits in the executor.

use super::bench::{Jobs, SOFT};
use crate::common::audited::tasks_loading_audited;
use crate::common::must_end;
use crate::hand::{Gate, at_once};
use cortado::future::{Cache, CacheBuilder};
use cortado::{Clock, Job, Loaded, ManualClock};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;

/// Settings of a cache whose jobs wait, and something that lives as long as the cache.
fn watched() -> (CacheBuilder<u32, u32>, ManualClock, Jobs, Arc<()>) {
    let (clock, hand) = Clock::manual();
    let (jobs, life) = (Jobs::default(), Arc::new(()));
    let (queue, kept) = (jobs.clone(), Arc::clone(&life));
    let builder = Cache::builder()
        .refresh_after_write(SOFT)
        .executor(move |job: Job| queue.0.lock().unwrap().push_back(job))
        .weigher(move |_, _| Arc::strong_count(&kept).min(1) as u32)
        .clock(clock);
    (builder, hand, jobs, life)
}

/// The job has what it needs, and finds no cache when it runs at last.
fn outlive(jobs: &Jobs, life: &Arc<()>, drop_cache: impl FnOnce()) {
    assert_eq!((jobs.0.lock().unwrap().len(), Arc::strong_count(life)), (1, 2));
    drop_cache();
    assert_eq!(Arc::strong_count(life), 1);
    assert_eq!(jobs.run(), 1);
}

#[test]
fn a_job_that_waits_keeps_no_cache() {
    let (builder, hand, jobs, life) = watched();
    let loader = |key: u32| async move { Ok::<_, ()>(Loaded::new(key)) };
    let cache = tasks_loading_audited(builder.build_with_loader(loader));
    at_once(cache.insert(7, 1));
    hand.advance(SOFT);
    assert_eq!(at_once(cache.get(&7)), Ok(1));
    outlive(&jobs, &life, || drop(cache));
}

/// Says when it is dropped whether the gate is unlocked.
struct LocksWhenDropped(Gate, Sender<bool>);

impl Drop for LocksWhenDropped {
    fn drop(&mut self) {
        self.1.send(self.0.0.try_lock().is_ok()).unwrap();
    }
}

/// An executor that panics when it gets the job of a wake ends that job, and does not reach who
/// wakes.
#[test]
fn a_panic_of_the_executor_does_not_reach_a_waker() {
    let (clock, hand) = Clock::manual();
    let (jobs, gate, panics) = (Jobs::default(), Gate::default(), Arc::new(AtomicBool::new(false)));
    let (queue, upstream, fails) = (jobs.clone(), gate.clone(), Arc::clone(&panics));
    let builder = Cache::builder().refresh_after_write(SOFT).clock(clock);
    let builder = builder.executor(move |job: Job| {
        assert!(!fails.swap(false, SeqCst), "no room");
        queue.0.lock().unwrap().push_back(job);
    });
    let cache = tasks_loading_audited(builder.build_with_loader(move |key: u32| {
        let gate = upstream.clone();
        async move {
            gate.passed().await;
            Ok::<_, ()>(Loaded::new(key))
        }
    }));
    at_once(cache.insert(7, 1));
    hand.advance(SOFT);
    assert_eq!((at_once(cache.get(&7)), jobs.run()), (Ok(1), 1));
    panics.store(true, SeqCst);
    gate.open();
    assert!(!panics.load(SeqCst), "the wake has submitted a job");
    assert_eq!(cache.cache().stats().reloads_under_way, 0, "which is dropped, and its reload ends");
}

/// The last waker may be dropped anywhere, with locks of its owner held. The loader's future is
/// dropped by a job.
#[test]
fn a_loader_is_not_dropped_by_who_drops_its_waker() {
    let (builder, hand, jobs, _life) = watched();
    let (gate, (send, told)) = (Gate::default(), channel());
    let upstream = gate.clone();
    let cache = tasks_loading_audited(builder.build_with_loader(move |key: u32| {
        let (gate, send) = (upstream.clone(), send.clone());
        async move {
            let _says = LocksWhenDropped(gate.clone(), send);
            gate.passed().await;
            Ok::<_, ()>(Loaded::new(key))
        }
    }));
    at_once(cache.insert(7, 1));
    hand.advance(SOFT);
    assert_eq!((at_once(cache.get(&7)), jobs.run()), (Ok(1), 1));
    gate.0.lock().unwrap().1.clear();
    assert!(told.try_recv().is_err(), "under a lock that it needs");
    assert_eq!((jobs.run(), told.try_recv()), (1, Ok(true)));
    assert_eq!(cache.stats().reloads_under_way, 0);
}

/// A loader that wakes itself shares its executor with others; where jobs run at once, they do not
/// nest.
#[test]
fn a_loader_that_wakes_itself_leaves_others_their_turn() {
    must_end(|| {
        let (builder, hand, jobs, _life) = watched();
        let done = Arc::new(AtomicBool::new(false));
        let loader = move |key: u32| {
            let done = Arc::clone(&done);
            async move {
                if key == 1 {
                    poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if done.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                } else {
                    done.store(true, SeqCst);
                }
                Ok::<_, ()>(Loaded::new(10 * key))
            }
        };
        let cache = tasks_loading_audited(builder.build_with_loader(loader));
        (1..3).for_each(|key| at_once(cache.insert(key, key)));
        hand.advance(SOFT);
        assert_eq!((at_once(cache.get(&1)), at_once(cache.get(&2))), (Ok(1), Ok(2)));
        while jobs.run() > 0 {}
        assert_eq!((at_once(cache.get(&1)), at_once(cache.get(&2))), (Ok(10), Ok(20)));

        let (clock, hand) = Clock::manual();
        let builder = Cache::builder().refresh_after_write(SOFT).clock(clock);
        let cache = tasks_loading_audited(builder.executor(|job: Job| job()).build_with_loader(
            |key: u32| async move {
                let mut polls = 0;
                poll_fn(|context| {
                    polls += 1;
                    context.waker().wake_by_ref();
                    if polls > 1_000_000 { Poll::Ready(()) } else { Poll::Pending }
                })
                .await;
                Ok::<_, ()>(Loaded::new(10 * key))
            },
        ));
        at_once(cache.insert(1, 1));
        hand.advance(SOFT);
        assert_eq!(at_once(cache.get(&1)), Ok(10));
    });
}
