//! The drain status: every transition, and no lost request on real threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use cortado::internals::drain::{DrainStatus, Left, Request, Status, Urge};

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
    assert_eq!(pass.finish(Left::Nothing), Status::Idle);
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
    assert_eq!(pass.finish(Left::Nothing), Status::Required);
    assert_eq!(status.status(), Status::Required);

    let pass = status.begin();
    assert_eq!(status.request(), Request::HandedOver);
    assert_eq!(pass.finish(Left::More), Status::Required);
    assert_eq!(status.begin().finish(Left::More), Status::Required);
    assert_eq!(status.status(), Status::Required);
    assert_eq!(status.begin().finish(Left::Nothing), Status::Idle);
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

/// Threads leave work in a counter; passes take at most three pieces. When all are done and no pass
/// is required, no work is left.
#[test]
fn work_left_is_work_required() {
    const PIECES: usize = 20_000;
    let status = DrainStatus::new();
    let left = AtomicUsize::new(0);
    let lock = Mutex::new(0_usize);
    let maintain = || {
        while let Ok(mut done) = lock.try_lock() {
            let pass = status.begin();
            let taken = left.load(Relaxed).min(3);
            let before = left.fetch_sub(taken, Relaxed);
            *done += taken;
            let _ = pass.finish(if before > taken { Left::More } else { Left::Nothing });
            drop(done);
            if !status.should_drain(Urge::Delayable) {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..PIECES {
                    left.fetch_add(1, Relaxed);
                    if status.request() == Request::Run {
                        maintain();
                    }
                }
            });
        }
    });
    let remained = left.load(Relaxed);
    assert!(remained == 0 || status.status() == Status::Required, "{remained} forgotten");
    maintain();
    assert_eq!(left.load(Relaxed), 0);
    assert_eq!(*lock.lock().unwrap(), 3 * PIECES);
    assert_eq!(status.status(), Status::Idle);
}
