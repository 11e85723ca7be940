//! The drain status: every transition, and no lost request on real threads.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use cortado::internals::drain::DrainStatus;

#[test]
fn every_transition() {
    let status = DrainStatus::default();
    assert!(!status.is_required(), "idle");

    let pass = status.begin();
    assert!(!status.is_required(), "a pass is running");
    pass.finish(false);
    assert!(!status.is_required(), "idle again");

    for _ in 0..2 {
        status.request();
        assert!(status.is_required());
    }

    let pass = status.begin();
    assert!(!status.is_required(), "the pass takes care of both requests");
    for _ in 0..2 {
        status.request();
        assert!(!status.is_required(), "a pass is running");
    }
    pass.finish(false);
    assert!(status.is_required(), "requested meanwhile");

    let pass = status.begin();
    status.request();
    pass.finish(true);
    assert!(status.is_required(), "requested meanwhile, and work is left");
    status.begin().finish(true);
    assert!(status.is_required(), "work is left");
    status.begin().finish(false);
    assert!(!status.is_required(), "idle at the end");
}

#[test]
fn a_pass_that_unwinds_is_required_again() {
    let status = DrainStatus::default();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _pass = status.begin();
        panic!("seeded");
    }));
    assert!(unwound.is_err());
    assert!(status.is_required());
}

/// In each round threads leave work in a counter and passes take at most two pieces of it. When a
/// round is over and no pass is required, no work is left.
#[test]
fn work_left_is_work_required() {
    const ROUNDS: usize = 3_000;
    const THREADS: usize = 3;
    const PIECES: usize = 5;
    let status = DrainStatus::default();
    let left = AtomicUsize::new(0);
    let lock = Mutex::new(0_usize);
    let maintain = || {
        while let Ok(mut done) = lock.try_lock() {
            let pass = status.begin();
            let taken = left.load(Relaxed).min(2);
            let before = left.fetch_sub(taken, Relaxed);
            *done += taken;
            // Lets the others request between the last look and the end of the pass.
            thread::yield_now();
            pass.finish(before > taken);
            drop(done);
            if !status.is_required() {
                return;
            }
        }
    };
    let round = Barrier::new(THREADS + 1);
    let forgotten = thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    round.wait();
                    for _ in 0..PIECES {
                        left.fetch_add(1, Relaxed);
                        status.request();
                        if status.is_required() {
                            maintain();
                        }
                    }
                    round.wait();
                }
            });
        }
        let mut forgotten = 0;
        for _ in 0..ROUNDS {
            round.wait();
            round.wait();
            if !status.is_required() {
                forgotten += left.load(Relaxed);
            }
        }
        forgotten
    });
    assert_eq!(forgotten, 0, "idle with work left");
    maintain();
    assert_eq!(left.load(Relaxed), 0);
    assert_eq!(*lock.lock().unwrap(), ROUNDS * THREADS * PIECES);
    assert!(!status.is_required());
}
