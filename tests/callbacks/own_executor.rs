//! An executor of the user's: the listener and the destructors run there, and what it drops is
//! offered again.

use crate::common::audited::{Audited, audited};
use crate::common::noted::{Log, Noted, Notes, eventually, noting};
use crate::common::{MINUTE, kept, must_end};
use cortado::{Cache, Clock, Job, ManualClock, Overflow, RemovalCause};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

/// Values leave by all ways, and the cache is read until all have been announced and dropped. No
/// call asks for all maintenance, which would deliver.
fn churn(cache: &Notes, log: &Log, hand: &ManualClock) {
    for n in 0..3000 {
        let key = n % 400;
        match n % 5 {
            0 | 1 => cache.insert(key, Noted(log.clone())),
            2 => cache.insert_with_ttl(key, Noted(log.clone()), MINUTE),
            3 => cache.invalidate(&key),
            _ => drop(cache.entry(key).and_compute_with(|_| cortado::Op::Remove)),
        }
        if n % 100 == 0 {
            hand.advance(2 * MINUTE);
        }
    }
    cache.invalidate_all();
    let removed = || {
        // An operation that leaves no value, and time for what is to ripen.
        assert!(cache.get_entry(&7777).is_none());
        cache.invalidate(&7777);
        hand.advance(Duration::from_millis(20));
        let stats = cache.stats();
        RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum::<u64>()
    };
    eventually("all is delivered", || removed() == 1800 && log.counts() == (1800, 1800));
}

#[test]
fn with_an_executor_the_listener_and_destructors_run_nowhere_else() {
    must_end(|| {
        for drops in [false, true] {
            let (jobs, queue) = channel::<Job>();
            let runs = move || {
                queue.into_iter().for_each(|job| job());
            };
            let runner = thread::spawn(runs);
            let taken = AtomicU64::new(0);
            let executor = move |job: Job| {
                if !drops || taken.fetch_add(1, SeqCst).is_multiple_of(2) {
                    jobs.send(job).unwrap();
                }
            };
            let (clock, hand) = Clock::manual();
            let (cache, log) =
                noting(|builder| builder.max_capacity(100).clock(clock).executor(executor));
            churn(&cache, &log, &hand);
            let threads = log.threads();
            assert!(threads.iter().all(|(id, _)| *id == runner.thread().id()), "{drops}");
            drop(cache);
            runner.join().unwrap();
        }
    });
}

#[test]
fn an_executor_may_run_jobs_at_once() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let inline = |job: Job| job();
        let (cache, log) =
            noting(|builder| builder.max_capacity(100).clock(clock).executor(inline));
        churn(&cache, &log, &hand);
        assert!(log.threads().iter().all(|(id, _)| *id == thread::current().id()));
    });
}

/// Each notice makes the next one. The jobs that follow each other are nested in such an executor.
#[test]
fn a_chain_of_listeners_on_an_executor_that_runs_jobs_at_once_does_not_grow_the_stack() {
    must_end(|| {
        const LINKS: u64 = 200_000;
        let slot: &'static OnceLock<Cache<u64, u64>> = kept(OnceLock::new());
        let told = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&told);
        let inline = |job: Job| job();
        let cache: Audited<u64, u64> = audited(
            Cache::builder()
                .executor(inline)
                .removal_listener(move |removed| {
                    counts.fetch_add(1, SeqCst);
                    let (cache, key) = (slot.get().expect("set before"), *removed.key());
                    if key < LINKS {
                        cache.insert(key + 1, key);
                        cache.invalidate(&(key + 1));
                    }
                })
                .build(),
        );
        assert!(slot.set((*cache).clone()).is_ok());
        cache.insert(1, 1);
        cache.invalidate(&1);
        cache.run_pending_tasks();
        assert_eq!(told.load(SeqCst), LINKS);
    });
}

/// The scheduler's thread serves all caches of the process. So an executor that runs jobs at once
/// runs them on another thread.
#[test]
fn the_scheduler_does_not_call_the_executor() {
    must_end(|| {
        let (told, names) = channel();
        let name = || thread::current().name().map(str::to_owned);
        let cache = audited(
            Cache::<u64, u64>::builder()
                .time_to_live(Duration::from_millis(5))
                .scheduler(true)
                .executor(move |job: Job| {
                    told.send(name()).unwrap();
                    job();
                })
                .removal_listener(|_| {})
                .build(),
        );
        cache.insert(1, 1);
        let name = names.recv().unwrap();
        assert!(name.is_some() && name.as_deref() != Some("cortado-scheduler"), "{name:?}");
    });
}

/// An executor that is stuck, gone, or in a listener that is stuck does not let removed values pile
/// up: operations drop what it is too far behind with.
#[test]
fn what_an_executor_does_not_drop_is_bounded() {
    const CAPACITY: u64 = 100;
    const WRITES: u64 = 30_000;
    struct Counted(Arc<AtomicU64>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    must_end(|| {
        for (scheduled, discards) in [(false, false), (true, false), (false, true)] {
            let living = Arc::new(AtomicU64::new(0));
            let kept: Arc<Mutex<Vec<Job>>> = Arc::default();
            let keeps = Arc::clone(&kept);
            let mut builder = Cache::builder()
                .max_capacity(3 * CAPACITY)
                .weigher(|_, _| 3)
                .scheduler(scheduled)
                .executor(move |job| keeps.lock().unwrap().push(job));
            if discards {
                builder =
                    builder.removal_listener(|_| {}).notification_limit(10, Overflow::Discard);
            }
            let cache = audited(builder.build());
            for key in 0..WRITES {
                living.fetch_add(1, SeqCst);
                cache.insert(key, Counted(Arc::clone(&living)));
            }
            // Views of other tests may hold more back for a while. A read runs the pass that is due
            // after them, and a write that does nothing else drops what that has given up.
            eventually("operations drop what is too much", || {
                drop(cache.get_entry(&WRITES));
                cache.invalidate(&WRITES);
                living.load(SeqCst) < 4_096 + 10 * CAPACITY
            });
            // The last of them may have dropped its whole share, which is 16 batches of 248.
            assert!(living.load(SeqCst) > CAPACITY + 100, "the rest is the executor's");
            let stats = cache.stats();
            assert!(stats.pending_drops > 100);
            let weight = 3 * stats.pending_drops;
            assert!(scheduled || stats.pending_drop_weight == weight, "{stats:?}");
            eventually("all is dropped", || {
                cache.run_pending_tasks();
                living.load(SeqCst) <= CAPACITY + 10 && cache.stats().pending_drops == 0
            });
            assert_eq!(cache.stats().pending_drop_weight, 0);
        }
    });
}
