//! Jobs that are aborted.

use crate::common::must_end;
use crate::jobs::{Bench, MS};
use crate::tasks::Gate;
use cortado::Job;
use cortado::timer::{CancelOutcome, Handle, Missed, Rejection, Stop, Timer};
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A job that runs until its gate is opened, and what it holds.
fn gated(bench: &Bench, gate: &Gate) -> (Handle, Arc<()>) {
    let held = Arc::new(());
    let (gate, captured) = (gate.clone(), Arc::clone(&held));
    let job = bench.timer.after(MS, move |_| async move {
        let _captured = &captured;
        gate.pass().await;
    });
    (job.unwrap(), held)
}

#[test]
fn a_job_that_waits_is_cancelled() {
    let bench = Bench::new();
    let job = bench.timer.after(MS, bench.note("job")).unwrap();
    assert_eq!(job.abort(), CancelOutcome::Cancelled);
    let ended = bench.timer.after(MS, bench.note("ended")).unwrap();
    assert_eq!(bench.step(1).len(), 1);
    assert_eq!(ended.abort(), CancelOutcome::Finished);
}

#[test]
fn a_future_that_is_pending_is_dropped_by_the_next_poll() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let (job, held) = gated(&bench, &gate);
    bench.step(1);
    assert_eq!(job.abort(), CancelOutcome::Running);
    assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (1, 2), "not by the caller");
    bench.step(0);
    assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (0, 1));
    assert_eq!((bench.timer.stats().panicked, bench.timer.stats().fired), (0, 1));
    gate.open();
    bench.step(0);
}

/// Also if it was cancelled first. `cancel` alone leaves the run alone.
#[test]
fn a_run_that_was_cancelled_is_aborted_by_a_handle_of_its_own() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let (job, held) = gated(&bench, &gate);
    bench.step(1);
    assert_eq!(bench.timer.cancel(job.id()), CancelOutcome::Running);
    bench.step(0);
    assert_eq!(Arc::strong_count(&held), 2);
    assert_eq!(job.abort(), CancelOutcome::Finished, "no run would follow");
    bench.step(0);
    assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (0, 1));
}

#[test]
fn a_series_ends_with_the_run_that_is_aborted() {
    let bench = Bench::new();
    let runs = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&runs);
    let series = bench.timer.every(MS, Missed::Skip, move |_| {
        let count = Arc::clone(&count);
        async move {
            if count.fetch_add(1, SeqCst) == 1 {
                pending::<()>().await;
            }
        }
    });
    let series = series.unwrap();
    bench.walk(2);
    // The second run is dropped as a future that nobody can wake, unless it is aborted first.
    assert!(matches!(series.abort(), CancelOutcome::Running | CancelOutcome::Cancelled));
    bench.walk(5);
    assert_eq!((runs.load(SeqCst), bench.timer.running(), bench.timer.pending()), (2, 0, 0));
}

/// A future may abort its own job: it goes on to its next point of waiting, and no further.
#[test]
fn a_job_may_abort_itself() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let (own, told) = (Arc::new(Mutex::new(None::<Handle>)), Arc::new(AtomicUsize::new(0)));
    let (handle, count) = (Arc::clone(&own), Arc::clone(&told));
    let job = bench.timer.after(MS, move |_| async move {
        let handle = handle.lock().unwrap().take().unwrap();
        assert_eq!(handle.abort(), CancelOutcome::Running);
        count.fetch_add(1, SeqCst);
        gate.pass().await;
        count.fetch_add(1, SeqCst);
    });
    *own.lock().unwrap() = Some(job.unwrap());
    bench.step(1);
    assert_eq!((told.load(SeqCst), bench.timer.running()), (1, 0));
}

/// The executor drops every job but the first, so that polls become errands.
#[test]
fn an_executor_that_refuses_does_not_keep_the_future() {
    for rejection in [Rejection::default(), Rejection::Discard, Rejection::RunHere] {
        let calls = AtomicUsize::new(0);
        let executor = move |job: Job| {
            if calls.fetch_add(1, SeqCst) == 0 {
                job();
            }
        };
        let bench = Bench::with(|builder| builder.executor(executor).rejection(rejection));
        let (job, held) = gated(&bench, &Gate::default());
        bench.step(1);
        let _ = job.abort();
        bench.walk(20);
        assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (0, 1), "{rejection:?}");
    }
}

/// After the end of a timer nobody polls, but an abort still ends the run.
#[test]
fn a_run_that_outlives_its_timer_is_aborted() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let (job, held) = gated(&bench, &gate);
    bench.step(1);
    drop(bench.timer.shutdown(Stop::Drain(Duration::ZERO)));
    assert_eq!(Arc::strong_count(&held), 2);
    assert_eq!(job.abort(), CancelOutcome::Finished);
    bench.step(0);
    assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (0, 1));
}

/// Aborted while its closure or its first poll runs, before or after the end begins.
#[test]
fn an_abort_before_the_first_wait_survives_the_end() {
    for (aborts_first, stop) in [true, false].iter().flat_map(|&first| {
        [Stop::Cancel, Stop::Drain(Duration::ZERO), Stop::Settle].map(|stop| (first, stop))
    }) {
        must_end(move || {
            let timer = Timer::new();
            let (begun, begins) = channel();
            let (release, wait) = channel::<()>();
            let job = timer.after(Duration::ZERO, move |_| {
                begun.send(()).unwrap();
                let _ = wait.recv();
                std::future::poll_fn(|context| {
                    // The waker lives on: only an abort ends it.
                    std::mem::forget(context.waker().clone());
                    std::task::Poll::<()>::Pending
                })
            });
            let mut job = Some(job.unwrap());
            begins.recv().unwrap();
            let mut abort = || _ = job.take().map(Handle::abort);
            if aborts_first {
                abort();
            }
            let ending = timer.clone();
            let end = std::thread::spawn(move || ending.shutdown(stop).len());
            while timer.after(Duration::from_secs(3600), |_| ()).is_ok() {}
            abort();
            drop(release);
            end.join().unwrap();
            while timer.running() > 0 {
                std::thread::yield_now();
            }
        });
    }
}

/// What the future holds aborts other jobs when it is dropped, and its own.
#[test]
fn a_destructor_may_abort() {
    struct Aborts(Vec<Handle>);
    impl Drop for Aborts {
        fn drop(&mut self) {
            self.0.drain(..).for_each(|handle| _ = handle.abort());
        }
    }
    must_end(|| {
        let (bench, gate) = (Bench::new(), Gate::default());
        let (other, held) = gated(&bench, &gate);
        let aborts = Arc::new(Mutex::new(Aborts(vec![other])));
        let (captured, waits) = (Arc::clone(&aborts), Gate::default());
        let job = bench.timer.after(MS, move |_| async move {
            let _captured = captured;
            waits.pass().await;
        });
        bench.step(1);
        drop(aborts);
        assert_eq!(job.unwrap().abort(), CancelOutcome::Running);
        bench.step(0);
        bench.step(0);
        assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (0, 1));
    });
}

/// Threads abort jobs at any moment of their lives: each run ends, whatever it waits for.
#[test]
fn every_run_ends_in_any_race() {
    must_end(|| {
        let timer = Timer::new();
        let (hand_over, handles) = channel::<Handle>();
        let aborts = std::thread::spawn(move || {
            let outcomes = handles.iter().map(Handle::abort);
            outcomes.filter(|&it| it == CancelOutcome::Running).count()
        });
        for round in 0..2_000_u64 {
            let job = timer.after(Duration::ZERO, move |_| async move {
                let mut turns = round % 4;
                std::future::poll_fn(move |context| {
                    turns = turns.saturating_sub(1);
                    if turns > 0 {
                        context.waker().wake_by_ref();
                    }
                    // The waker lives on: only an abort ends it.
                    std::mem::forget(context.waker().clone());
                    std::task::Poll::<()>::Pending
                })
                .await;
            });
            hand_over.send(job.unwrap()).unwrap();
        }
        drop(hand_over);
        aborts.join().unwrap();
        drop(timer.shutdown(Stop::Settle));
        assert_eq!((timer.pending(), timer.running()), (0, 0));
    });
}
