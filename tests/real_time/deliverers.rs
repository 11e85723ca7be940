//! Which threads of a scheduled cache run the listener and the destructors of removed values.

use crate::common::audited::{Audited, audited};
use crate::common::noted::{Noted, eventually, noting};
use crate::common::{HANG, MINUTE, must_end};
use cortado::{Builder, Cache, Clock};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

const MILLI: Duration = Duration::from_millis(1);
const SCHEDULER: &str = "cortado-scheduler";

fn on_schedule(builder: Builder<u64, Noted>) -> Builder<u64, Noted> {
    builder.scheduler(true).expiry_resolution(MILLI)
}

#[test]
fn the_schedulers_thread_runs_no_listener_and_no_destructor() {
    must_end(|| {
        let (cache, log) = noting(|builder| on_schedule(builder).max_capacity(200));
        for key in 0..1000 {
            cache.insert_with_ttl(key, Noted(log.clone()), MILLI * (key % 20) as u32);
        }
        eventually("all is gone", || log.counts() == (1000, 1000));
        (0..1000).for_each(|key| cache.insert(key, Noted(log.clone())));
        cache.invalidate_all();
        eventually("all is gone", || log.counts() == (2000, 2000));
        let threads = log.threads();
        assert!(threads.iter().all(|(_, name)| name != SCHEDULER), "on the scheduler's thread");
        assert!(threads.iter().any(|(_, name)| name == "cortado-worker"));
    });
}

/// Blocks the first time, until the other end is dropped.
struct Blocks(Mutex<Option<std::sync::mpsc::Receiver<()>>>);

impl Blocks {
    fn block(&self) {
        let wait = self.0.lock().unwrap().take();
        if let Some(wait) = wait {
            let _ = wait.recv();
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.block();
    }
}

#[test]
fn a_listener_or_a_destructor_that_is_stuck_holds_up_no_other_cache() {
    for destructor in [false, true] {
        must_end(move || {
            let (release, wait) = channel();
            let slow: Audited<u64, Blocks> = audited(
                Cache::builder()
                    .scheduler(true)
                    .expiry_resolution(MILLI)
                    .removal_listener(move |removed: cortado::Removed<u64, Blocks>| {
                        if !destructor {
                            removed.value().block();
                        }
                    })
                    .build(),
            );
            slow.insert_with_ttl(1, Blocks(Mutex::new(Some(wait))), MILLI);
            let others: Vec<_> = (0..10).map(|_| noting(on_schedule)).collect();
            for round in 1..=3 {
                for (cache, log) in &others {
                    (0..10).for_each(|key| {
                        cache.insert_with_ttl(key, Noted(log.clone()), MILLI);
                    });
                }
                let all = (10 * round, 10 * round);
                eventually("others are served", || {
                    others.iter().all(|(_, log)| log.counts() == all)
                });
            }
            drop(release);
        });
    }
}

/// The scheduler is in the middle of a run when the last handle goes.
#[test]
fn the_last_handle_drops_the_values_where_it_is_dropped() {
    must_end(|| {
        let (reached, reaches) = channel();
        let (release, released) = channel::<()>();
        let gate = Mutex::new(Some((reached, released)));
        let armed = Arc::new(AtomicBool::new(false));
        let arms = Arc::clone(&armed);
        let begun = Instant::now();
        let clock = Clock::custom(move || {
            let is_scheduler = thread::current().name() == Some(SCHEDULER);
            if is_scheduler
                && arms.load(SeqCst)
                && let Some((reached, released)) = gate.lock().unwrap().take()
            {
                reached.send(()).unwrap();
                let _ = released.recv();
            }
            begun.elapsed()
        });
        let (cache, log) = noting(|builder| on_schedule(builder).clock(clock));
        (0..100).for_each(|key| cache.insert(key, Noted(log.clone())));
        cache.run_pending_tasks();
        armed.store(true, SeqCst);
        cache.insert_with_ttl(100, Noted(log.clone()), MINUTE);
        reaches.recv_timeout(HANG / 2).expect("the scheduler runs");
        let other = (*cache).clone();
        cache.audit();
        drop((other, cache));
        drop(release);
        eventually("all are dropped", || log.counts().1 == 101);
        let here = thread::current().id();
        assert!(log.threads().iter().all(|(id, _)| *id == here), "{:?}", log.threads());
    });
}

/// Runs are counted by what they read of the clock. After a few that bring nothing back they become
/// rare.
#[test]
fn a_view_that_is_held_does_not_keep_the_scheduler_busy() {
    must_end(|| {
        let readings = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&readings);
        let begun = Instant::now();
        let clock = Clock::custom(move || {
            if thread::current().name() == Some(SCHEDULER) {
                counts.fetch_add(1, SeqCst);
            }
            begun.elapsed()
        });
        let (cache, log) = noting(|builder| builder.scheduler(true).clock(clock));
        let other: Audited<u64, u64> = audited(Cache::new(10));
        let view = other.pin();
        (0..100).for_each(|key| cache.insert(key, Noted(log.clone())));
        cache.invalidate_all();
        eventually("they are announced", || log.counts().0 == 100);
        let (before, since) = (readings.load(SeqCst), Instant::now());
        thread::sleep(Duration::from_secs(1));
        let made = readings.load(SeqCst) - before;
        let most = 100 + 10 * since.elapsed().as_secs();
        assert!(made < most, "{made} readings while nothing can be done");
        assert_eq!(log.counts().1, 0, "the view protects them");
        drop(view);
        eventually("they are dropped", || log.counts().1 == 100);
    });
}
