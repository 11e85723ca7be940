//! The drain status: every transition, and no lost request on real threads.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Barrier, Mutex};
use std::thread;

use cortado::internals::drain::{DrainStatus, Remaining, Request, Status, Urge};

fn asks(status: &DrainStatus) -> (bool, bool) {
    (status.should_drain(Urge::Delayable), status.should_drain(Urge::Now))
}

#[test]
fn every_transition() {
    let status = DrainStatus::new();
    assert_eq!(status.status(), Status::Idle);
    assert_eq!(asks(&status), (false, true));

    let pass = status.begin();
    assert_eq!(status.status(), Status::ProcessingToIdle);
    assert_eq!(asks(&status), (false, false));
    assert_eq!(pass.finish(Remaining::Nothing), Status::Idle);
    assert_eq!(status.status(), Status::Idle);

    assert_eq!(status.request(), Request::Run);
    assert_eq!(status.status(), Status::Required);
    assert_eq!(asks(&status), (true, true));
    assert_eq!(status.request(), Request::Run);
    assert_eq!(status.status(), Status::Required);

    let pass = status.begin();
    assert_eq!(status.status(), Status::ProcessingToIdle);
    assert_eq!(status.request(), Request::HandedOver);
    assert_eq!(status.status(), Status::ProcessingToRequired);
    assert_eq!(asks(&status), (false, false));
    assert_eq!(status.request(), Request::HandedOver);
    assert_eq!(pass.finish(Remaining::Nothing), Status::Required);
    assert_eq!(status.status(), Status::Required);

    let pass = status.begin();
    assert_eq!(status.request(), Request::HandedOver);
    assert_eq!(pass.finish(Remaining::More), Status::Required);
    assert_eq!(status.begin().finish(Remaining::More), Status::Required);
    assert_eq!(status.status(), Status::Required);
    assert_eq!(status.begin().finish(Remaining::Nothing), Status::Idle);
}

#[test]
fn a_pass_that_unwinds_is_required_again() {
    let status = DrainStatus::new();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _pass = status.begin();
        panic!("seeded");
    }));
    assert!(unwound.is_err());
    assert_eq!(status.status(), Status::Required);
}

/// In each round threads leave work in a counter and passes take at most two pieces of it. When a
/// round is over and no pass is required, no work is left.
#[test]
fn work_left_is_work_required() {
    const ROUNDS: usize = 3_000;
    const THREADS: usize = 3;
    const PIECES: usize = 5;
    let status = DrainStatus::new();
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
            let _ = pass.finish(if before > taken { Remaining::More } else { Remaining::Nothing });
            drop(done);
            if !status.should_drain(Urge::Delayable) {
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
                        if status.request() == Request::Run {
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
            if status.status() == Status::Idle {
                forgotten += left.load(Relaxed);
            }
        }
        forgotten
    });
    assert_eq!(forgotten, 0, "idle with work left");
    maintain();
    assert_eq!(left.load(Relaxed), 0);
    assert_eq!(*lock.lock().unwrap(), ROUNDS * THREADS * PIECES);
    assert_eq!(status.status(), Status::Idle);
}
