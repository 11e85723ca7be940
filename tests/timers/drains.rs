//! A drain ends when no job is left that can run within its limit.

use crate::common::must_end;
use crate::jobs::{Bench, MS};
use crate::tasks::Gate;
use cortado::timer::{Builder, Missed, Rejection, Run, Stop, Timer, TimerId, Unfired};
use cortado::{Clock, Job};
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// A clock that only the test moves, as one of the user's. A thread can wait for it.
#[derive(Clone, Default)]
struct Hand(Arc<AtomicUsize>);

impl Hand {
    fn timer(&self, set_up: impl FnOnce(Builder) -> Builder) -> Timer {
        let millis = Arc::clone(&self.0);
        let clock = Clock::custom(move || MS * millis.load(SeqCst) as u32);
        set_up(Timer::builder().clock(clock)).start().unwrap()
    }

    fn set(&self, ms: usize) {
        self.0.store(ms, SeqCst);
    }
}

fn ids(unfired: &[Unfired]) -> Vec<TimerId> {
    unfired.iter().map(|job| job.id).collect()
}

/// Drains as a thread or as a task.
fn drain(timer: &Timer, limit: Duration, is_task: bool) -> Vec<TimerId> {
    if is_task {
        ids(&pollster::block_on(timer.shutdown_async(Stop::Drain(limit))))
    } else {
        ids(&timer.shutdown(Stop::Drain(limit)))
    }
}

/// The clock stands: so no wait for a limit would end.
#[test]
fn a_drain_waits_for_no_job_that_is_due_after_its_limit() {
    for is_task in [false, true] {
        for run_here in [false, true] {
            must_end(move || {
                let timer = Hand::default().timer(|it| if run_here { it.run_here() } else { it });
                let hourly = timer.every(HOUR, Missed::Skip, |_| ()).unwrap().detach();
                assert_eq!(drain(&timer, HOUR - MS, is_task), [hourly]);
            });
        }
    }
}

/// They are far away, and in one bucket of the wheel, which begins before the limit.
#[test]
fn a_drain_tells_the_earliest_of_many_jobs() {
    must_end(|| {
        let timer = Hand::default().timer(|builder| builder);
        for later in 1..=1000 {
            timer.after(HOUR + MS * later, |_| ()).unwrap().detach();
        }
        assert_eq!(drain(&timer, HOUR, false).len(), 1000);
    });
}

/// A job that is never due is beyond every limit.
#[test]
fn a_drain_without_a_limit_waits_for_no_job_that_never_runs() {
    must_end(|| {
        let timer = Hand::default().timer(|builder| builder);
        let never = timer.after(Duration::MAX, |_| ()).unwrap().detach();
        assert_eq!(drain(&timer, Duration::MAX, true), [never]);
    });
}

/// What can run within the limit does: what runs now, what waits in an executor, what is due later.
#[test]
fn a_drain_ends_with_the_last_job_that_can_run() {
    for is_task in [false, true] {
        must_end(move || {
            let hand = Hand::default();
            let timer = hand.timer(|builder| builder);
            let (gate, (begins, begun)) = (Gate::default(), channel());
            let inner = gate.clone();
            let running = timer.after(Duration::ZERO, move |_| async move {
                begins.send(()).unwrap();
                inner.pass().await;
            });
            running.unwrap().detach();
            begun.recv().unwrap();
            let hourly = timer.every(HOUR, Missed::Skip, |_| ()).unwrap().detach();
            timer.after(10 * MS, |_| ()).unwrap().detach();
            let draining = timer.clone();
            let end = std::thread::spawn(move || drain(&draining, HOUR - MS, is_task));
            while timer.after(HOUR, |_| ()).is_ok() {
                std::thread::yield_now();
            }
            gate.open();
            while timer.running() > 0 {
                std::thread::yield_now();
            }
            hand.set(10);
            assert_eq!(end.join().unwrap(), [hourly]);
            assert_eq!((timer.stats().fired, timer.pending(), timer.running()), (2, 0, 0));
        });
    }
}

/// The executor drops the job, and the next attempt would come after the limit.
#[test]
fn a_drain_waits_for_no_attempt_after_its_limit() {
    must_end(|| {
        let rejection = Rejection::Retry(HOUR);
        let timer = Hand::default().timer(|it| it.executor(drop::<Job>).rejection(rejection));
        let refused = timer.after(Duration::ZERO, |_| ()).unwrap().detach();
        assert_eq!(drain(&timer, HOUR - MS, false), [refused]);
        assert_eq!(timer.stats().rejected, 1);
    });
}

/// Nobody awaits it: the last job that can run begins it, and the next poll ends it.
#[test]
fn a_drain_in_the_background_ends_with_the_last_job_that_can_run() {
    let (bench, held) = (Bench::new(), Arc::new(()));
    let (timer, captured) = (bench.timer.clone(), Arc::clone(&held));
    let drains = move |_: Run| _ = timer.shutdown(Stop::Drain(HOUR - MS));
    bench.timer.after(MS, drains).unwrap().detach();
    let in_time = bench.note("in time");
    bench.timer.after(5 * MS, in_time).unwrap().detach();
    bench.timer.after(HOUR + MS, move |_| drop(captured)).unwrap().detach();
    assert_eq!((bench.walk(4), bench.timer.pending()), (vec![], 2));
    assert_eq!(bench.step(1), ["in time 1 at 5 late 0"]);
    assert_eq!((bench.timer.pending(), Arc::strong_count(&held)), (0, 1));
}

/// A task that drains in manual mode is woken by the end of the job that it waits for.
#[test]
fn a_task_that_drains_by_hand_waits_for_no_later_job() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let inner = gate.clone();
    let running = bench.timer.after(MS, move |_| async move { inner.pass().await });
    running.unwrap().detach();
    bench.step(1);
    let later = bench.timer.after(HOUR, |_| ()).unwrap().detach();
    let mut context = Context::from_waker(Waker::noop());
    let mut end = Box::pin(bench.timer.shutdown_async(Stop::Drain(HOUR - MS)));
    assert!(end.as_mut().poll(&mut context).is_pending());
    gate.open();
    let Poll::Ready(unfired) = end.as_mut().poll(&mut context) else { panic!("it waits") };
    assert_eq!(ids(&unfired), [later]);
}
