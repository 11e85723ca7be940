//! Ends in which a timer settles: what is due runs, and nothing else.

use crate::common::must_end;
use crate::jobs::{Bench, MS};
use crate::tasks::Gate;
use cortado::timer::{Missed, Rejection, Stop, Timer, TimerError};
use cortado::{Clock, Job};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn what_is_due_runs_and_a_series_once() {
    let bench = Bench::with(|builder| builder.max_batch(1));
    let _due = bench.timer.after(5 * MS, bench.note("due")).unwrap();
    let _series = bench.timer.every(2 * MS, Missed::Burst, bench.note("series")).unwrap();
    let later = bench.timer.after(11 * MS, bench.note("later")).unwrap();
    bench.hand.advance(10 * MS);
    let unfired = bench.timer.shutdown(Stop::Settle);
    assert_eq!(bench.take(), ["series 1 at 10 late 8", "due 1 at 10 late 5"]);
    assert_eq!(unfired.iter().map(|job| job.id).collect::<Vec<_>>(), [later.id()]);
    assert_eq!(bench.timer.after(MS, |_| ()).unwrap_err(), TimerError::Stopped);
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0));
}

/// Jobs that are due are run one after the other, however long that takes, and none that comes due
/// meanwhile.
#[test]
fn what_comes_due_meanwhile_does_not_run() {
    let bench = Bench::new();
    for name in ["first", "second"] {
        let (hand, mut note) = (bench.hand.clone(), bench.note(name));
        let job = bench.timer.after(MS, move |run| {
            note(run);
            hand.advance(HOUR);
        });
        job.unwrap().detach();
    }
    let later = bench.timer.after(2 * MS, bench.note("later")).unwrap();
    bench.hand.advance(MS);
    let unfired = bench.timer.shutdown(Stop::Settle);
    assert_eq!(bench.take(), ["first 1 at 1 late 0", "second 1 at 3600001 late 3600000"]);
    assert_eq!(unfired.iter().map(|job| job.id).collect::<Vec<_>>(), [later.id()]);
}

/// The worker is busy when the timer settles; a job that is due waits for it in the queue.
#[test]
fn a_thread_waits_for_what_runs_and_for_what_is_queued() {
    must_end(|| {
        let jobs = Arc::new(Mutex::new(VecDeque::<Job>::new()));
        let queue = Arc::clone(&jobs);
        let (queued, told) = channel();
        let executor = move |job| {
            queue.lock().unwrap().push_back(job);
            queued.send(()).unwrap();
        };
        let timer = Timer::builder().executor(executor).start().unwrap();
        let (send, ran) = channel();
        for number in 0..3 {
            let send = send.clone();
            timer.after(Duration::ZERO, move |_| send.send(number).unwrap()).unwrap().detach();
            told.recv().unwrap();
        }
        let later = timer.after(HOUR, |_| ()).unwrap();
        let settling = timer.clone();
        let end = std::thread::spawn(move || settling.shutdown(Stop::Settle));
        while timer.after(HOUR, |_| ()).is_ok() {}
        assert!(!end.is_finished() && ran.try_recv().is_err());
        while let Some(job) = { jobs.lock().unwrap().pop_front() } {
            job();
        }
        let unfired = end.join().unwrap();
        assert!(unfired.iter().any(|job| job.id == later.id()));
        assert_eq!(ran.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    });
}

/// An executor that refuses does not keep a job that is due from running, however late it refuses,
/// and however often it has refused before.
#[test]
fn an_executor_that_refuses_loses_no_job() {
    for rejection in [Rejection::Retry(HOUR), Rejection::RunHere, Rejection::Discard] {
        for refused_before in [false, true] {
            must_end(move || {
                let (clock, hand) = Clock::manual();
                let (late, runs) = (hand.clone(), Arc::new(AtomicUsize::new(0)));
                let refuses = move |_: Job| late.advance(2 * MS);
                let builder = Timer::builder().clock(clock).executor(refuses).rejection(rejection);
                let (timer, count) = (builder.manual(), Arc::clone(&runs));
                timer.after(MS, move |_| _ = count.fetch_add(1, SeqCst)).unwrap().detach();
                timer.after(HOUR, |_| ()).unwrap().detach();
                hand.advance(MS);
                if refused_before {
                    timer.poll(&mut 1);
                }
                // One that has left out its only run is over.
                let is_over = refused_before && rejection == Rejection::Discard;
                assert_eq!(timer.shutdown(Stop::Settle).len(), 1, "{rejection:?}");
                assert_eq!(runs.load(SeqCst), usize::from(!is_over), "{rejection:?}");
            });
        }
    }
}

/// Many jobs are due when the clock is set back.
#[test]
fn a_clock_that_goes_back_loses_no_job() {
    let runs = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(100));
    let reading = Arc::clone(&now);
    let clock = Clock::custom(move || MS * reading.load(SeqCst) as u32);
    let timer = Timer::builder().clock(clock).manual();
    for _ in 0..200 {
        let (count, now) = (Arc::clone(&runs), Arc::clone(&now));
        let job = timer.after(MS, move |_| {
            count.fetch_add(1, SeqCst);
            now.store(50, SeqCst);
        });
        job.unwrap().detach();
    }
    now.store(101, SeqCst);
    assert!(timer.shutdown(Stop::Settle).is_empty());
    assert_eq!(runs.load(SeqCst), 200);
}

/// Where nobody waits until the timer has settled, a drain takes the rest at its limit.
#[test]
fn a_drain_after_a_settling_that_nobody_awaits_returns_the_rest() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let waits = gate.clone();
    bench.timer.after(MS, move |_| async move { waits.pass().await }).unwrap().detach();
    let later = bench.timer.after(HOUR, |_| ()).unwrap().detach();
    bench.step(1);
    let mut settles = Box::pin(bench.timer.shutdown_async(Stop::Settle));
    let mut context = Context::from_waker(Waker::noop());
    assert!(settles.as_mut().poll(&mut context).is_pending());
    drop(settles);
    let rest = bench.timer.shutdown(Stop::Drain(Duration::ZERO));
    assert_eq!(rest.iter().map(|job| job.id).collect::<Vec<_>>(), [later]);
    gate.open();
    bench.step(0);
    assert_eq!(bench.timer.running(), 0);
}

/// Of two calls the stricter one counts, whichever comes first.
#[test]
fn the_strictest_end_counts() {
    let ends = [
        (Stop::Cancel, &[][..]),
        (Stop::Settle, &["due"]),
        (Stop::FireAll, &["due", "soon", "far"]),
        (Stop::Drain(10 * MS), &["due", "soon"]),
        (Stop::Drain(20 * MS), &["due", "soon", "late"]),
    ];
    for (n, &(first, fired)) in ends.iter().enumerate() {
        for &(second, _) in &ends[n..] {
            for order in [[first, second], [second, first]] {
                let bench = Bench::with(|builder| builder.max_batch(1));
                let timer = bench.timer.clone();
                let ends = bench.timer.after(MS, move |_| {
                    order.iter().for_each(|&stop| drop(timer.shutdown(stop)));
                });
                ends.unwrap().detach();
                let mut jobs = vec![("due", MS), ("soon", 6 * MS), ("far", HOUR)];
                jobs.extend((first == Stop::Drain(20 * MS)).then_some(("late", 15 * MS)));
                for (name, delay) in jobs {
                    bench.timer.after(delay, bench.note(name)).unwrap().detach();
                }
                let told = bench.walk(30);
                let names: Vec<_> = told.iter().filter_map(|it| it.split(' ').next()).collect();
                assert_eq!(names, fired, "{order:?}");
                assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0), "{order:?}");
            }
        }
    }
}

/// While another call settles, a drain takes no job out: the other one returns what is left.
#[test]
fn a_drain_leaves_the_rest_to_the_call_that_settles() {
    must_end(|| {
        let timer = Timer::new();
        let (begun, begins) = channel();
        let (release, wait) = channel::<()>();
        let job = timer.after(Duration::ZERO, move |_| {
            begun.send(()).unwrap();
            let _ = wait.recv();
        });
        job.unwrap().detach();
        begins.recv().unwrap();
        timer.after(HOUR, |_| ()).unwrap().detach();
        let settling = timer.clone();
        let settles = std::thread::spawn(move || settling.shutdown(Stop::Settle).len());
        while timer.after(HOUR, |_| ()).map(drop).is_ok() {}
        assert!(timer.shutdown(Stop::Drain(Duration::ZERO)).is_empty());
        drop(release);
        assert_eq!(settles.join().unwrap(), 1);
    });
}
