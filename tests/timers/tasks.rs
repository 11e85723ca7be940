//! Async jobs.

use crate::common::must_end;
use crate::jobs::{Bench, MS};
use cortado::timer::{CancelOutcome, Missed, Rejection, Repeat, Stop, Timer, TimerError};
use std::future::{Future, pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

/// A future that is ready when it is told so.
#[derive(Clone, Default)]
pub struct Gate(Arc<Mutex<(usize, Option<Waker>)>>);

impl Gate {
    pub async fn pass(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 > 0 {
                state.0 -= 1;
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub fn open(&self) {
        self.0.lock().unwrap().0 += 1;
        self.wake();
    }

    /// Wakes the future, which goes on waiting unless the gate is open.
    pub fn wake(&self) {
        let waker = self.0.lock().unwrap().1.take();
        waker.into_iter().for_each(Waker::wake);
    }

    /// Gives the waker of the future up, which would keep the future, and that this gate.
    pub fn forget(&self) {
        let waker = self.0.lock().unwrap().1.take();
        drop(waker);
    }
}

#[test]
fn a_run_lasts_until_its_future_ends() {
    let bench = Bench::new();
    let (gate, inner) = (Gate::default(), Gate::default());
    let ended = Arc::new(AtomicUsize::new(0));
    let (first, second, count) = (gate.clone(), inner.clone(), Arc::clone(&ended));
    let job = bench.timer.after(MS, move |run| async move {
        first.pass().await;
        second.pass().await;
        count.fetch_add(run.number as usize, SeqCst);
    });
    let job = job.unwrap();
    bench.step(1);
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 1));
    assert_eq!(bench.timer.cancel(job.id()), CancelOutcome::Running);
    gate.open();
    assert_eq!(ended.load(SeqCst), 0, "not polled by whoever wakes it");
    bench.step(0);
    inner.open();
    bench.step(0);
    assert_eq!((ended.load(SeqCst), bench.timer.running()), (1, 0));
    assert_eq!((bench.timer.stats().fired, bench.timer.stats().lateness.count()), (1, 1));
    gate.open();
}

#[test]
fn a_series_of_futures_does_not_overlap_and_survives_panics() {
    let bench = Bench::new();
    let gate = Gate::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (inner, note, hand) = (gate.clone(), Arc::clone(&log), bench.hand.clone());
    let _series = bench.timer.every(10 * MS, Missed::Skip, move |run| {
        let (gate, note, hand) = (inner.clone(), Arc::clone(&note), hand.clone());
        async move {
            note.lock().unwrap().push((run.number, hand.now().as_millis()));
            gate.pass().await;
            assert!(run.number != 2, "the second panics in its second poll");
        }
    });
    bench.walk(35);
    assert_eq!(*log.lock().unwrap(), [(1, 10)], "the first is still running");
    gate.open();
    bench.walk(10);
    assert_eq!(*log.lock().unwrap(), [(1, 10), (2, 40)], "and the next multiple after its end");
    gate.open();
    bench.walk(10);
    assert_eq!(*log.lock().unwrap(), [(1, 10), (2, 40), (3, 50)]);
    assert_eq!(bench.timer.stats().panicked, 1);
    gate.forget();
}

#[test]
fn a_gap_begins_when_the_future_ends() {
    let bench = Bench::new();
    let gate = Gate::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (inner, note, hand) = (gate.clone(), Arc::clone(&log), bench.hand.clone());
    let _series = bench.timer.every_with_gap(10 * MS, move |_| {
        let (gate, note, hand) = (inner.clone(), Arc::clone(&note), hand.clone());
        async move {
            note.lock().unwrap().push(hand.now().as_millis());
            gate.pass().await;
        }
    });
    bench.walk(17);
    gate.open();
    bench.walk(20);
    assert_eq!(*log.lock().unwrap(), [10, 28], "woken at 17, polled at 18");
    gate.forget();
}

/// A run of a list waits for the end of the future before it, and comes at once then.
#[test]
fn a_list_of_intervals_does_not_overlap() {
    let bench = Bench::new();
    let gate = Gate::default();
    let log = Arc::new(Mutex::new(Vec::new()));
    let (inner, note, hand) = (gate.clone(), Arc::clone(&log), bench.hand.clone());
    let tries = bench.timer.intervals([MS, 2 * MS, 5 * MS], Repeat::Once, move |run| {
        let (gate, note, now) = (inner.clone(), Arc::clone(&note), hand.now().as_millis());
        async move {
            note.lock().unwrap().push((run.number, run.remaining, now));
            gate.pass().await;
        }
    });
    let _tries = tries.unwrap();
    bench.walk(9);
    gate.open();
    gate.open();
    bench.walk(20);
    let expected = [(1, Some(2), 1), (2, Some(1), 10), (3, Some(0), 15)];
    assert_eq!(*log.lock().unwrap(), expected);
    gate.open();
    bench.step(0);
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0));
    let none = bench.timer.intervals([], Repeat::Forever, |_| pending());
    assert_eq!(none.unwrap_err(), TimerError::Empty);
}

#[test]
fn an_async_job_may_be_planned_for_an_instant() {
    let bench = Bench::new();
    let late = Arc::new(Mutex::new(None));
    let told = Arc::clone(&late);
    let past = Instant::now();
    bench.hand.advance(5 * MS);
    let job = bench.timer.at(past, move |run| async move {
        *told.lock().unwrap() = Some(run.number);
    });
    let _job = job.unwrap();
    assert_eq!(*late.lock().unwrap(), None, "not inside the caller");
    bench.step(100);
    assert_eq!(*late.lock().unwrap(), Some(1));
}

/// An executor that drops polls loses no wake-up.
#[test]
fn a_dropped_poll_is_made_again() {
    for rejection in [Rejection::default(), Rejection::RunHere, Rejection::Discard] {
        let calls = AtomicUsize::new(0);
        let bench = Bench::with(|builder| {
            builder.rejection(rejection).executor(move |job: cortado::Job| {
                if calls.fetch_add(1, SeqCst) == 0 {
                    job();
                }
            })
        });
        let gate = Gate::default();
        let (inner, ended) = (gate.clone(), Arc::new(AtomicUsize::new(0)));
        let count = Arc::clone(&ended);
        let _job = bench.timer.after(MS, move |_| async move {
            inner.pass().await;
            count.fetch_add(1, SeqCst);
        });
        bench.step(1);
        assert_eq!(bench.timer.running(), 1);
        gate.open();
        bench.walk(20);
        assert_eq!((bench.timer.running(), ended.load(SeqCst)), (0, 1), "{rejection:?}");
    }
}

#[test]
fn a_timer_runs_futures_of_a_runtime() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).enable_time().build().unwrap();
    runtime.block_on(async {
        let timer = Timer::builder().on_tokio().start().unwrap();
        let (send, mut told) = tokio::sync::mpsc::channel(1);
        let job = timer.after(MS, move |run| async move {
            tokio::time::sleep(2 * MS).await;
            send.send(run.number).await.unwrap();
        });
        let _job = job.unwrap();
        assert_eq!(told.recv().await, Some(1));
        let unfired = tokio::task::spawn_blocking(move || timer.shutdown(Stop::Cancel).len());
        assert_eq!(unfired.await.unwrap(), 0);
    });
}

/// By `on_tokio` a future is polled as tasks are, and a job that may block is not.
#[test]
fn on_tokio_polls_futures_on_the_runtimes_own_threads() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().unwrap();
    // The one thread of this runtime beside those for jobs that block.
    let own = std::thread::current().id();
    runtime.block_on(async {
        let timer = Timer::builder().on_tokio().start().unwrap();
        let (send, mut told) = tokio::sync::mpsc::unbounded_channel();
        let here = move || std::thread::current().id() == own;
        let (tell, tell_sync) = (send.clone(), send);
        let job = timer.after(Duration::ZERO, move |_| {
            let begun = here();
            async move {
                let first = here();
                tokio::time::sleep(MS).await;
                tell.send([begun, first, here()]).unwrap();
            }
        });
        job.unwrap().detach();
        assert_eq!(told.recv().await, Some([true; 3]));
        let job = timer.after(Duration::ZERO, move |_| tell_sync.send([here(); 3]).unwrap());
        job.unwrap().detach();
        assert_eq!(told.recv().await, Some([false; 3]));
    });
}

/// A future that waits when its runtime ends is polled by the timer's thread.
#[test]
fn a_future_outlives_the_runtime_of_its_timer() {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).build().unwrap();
    let timer = runtime.block_on(async { Timer::builder().on_tokio().start().unwrap() });
    let (gate, (send, told)) = (Gate::default(), channel());
    let inner = gate.clone();
    let job = timer.after(Duration::ZERO, move |_| async move {
        let name = || std::thread::current().name().map(str::to_owned);
        send.send(name()).unwrap();
        inner.pass().await;
        send.send(name()).unwrap();
    });
    job.unwrap().detach();
    told.recv().unwrap();
    // The runtime's thread has left the poll when it has ended.
    drop(runtime);
    gate.open();
    assert_eq!(told.recv().unwrap().as_deref(), Some("cortado-timer"));
    drop(timer.shutdown(Stop::Cancel));
    assert_eq!(timer.running(), 0);
}

/// A future that waits when its timer is dropped ends at its next wake-up, if nobody can poll it.
#[test]
fn a_future_without_a_driver_is_dropped() {
    let held = Arc::new(());
    let gate = Gate::default();
    let bench = Bench::new();
    let (inner, captured) = (gate.clone(), Arc::clone(&held));
    let job = bench.timer.after(MS, move |_| async move {
        inner.pass().await;
        drop(captured);
    });
    job.unwrap().detach();
    bench.step(1);
    assert!(bench.timer.shutdown(Stop::Drain(Duration::ZERO)).is_empty());
    assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (1, 2));
    gate.open();
    assert_eq!((bench.timer.running(), Arc::strong_count(&held)), (0, 1));
}

/// Panics when it is dropped.
struct PanicsWhenDropped(Arc<AtomicUsize>);

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        panic!("a destructor that fails");
    }
}

/// Nobody can wake a future that has kept no waker. It is dropped, and its run ends: also if its
/// destructor panics, and without harm to the other jobs of its batch.
#[test]
fn a_future_that_nobody_can_wake_ends() {
    let executors: [fn(cortado::timer::Builder) -> cortado::timer::Builder; 2] =
        [|builder| builder, |builder| builder.executor(|job: cortado::Job| job())];
    for set_up in executors {
        let bench = Bench::with(set_up);
        let dropped = Arc::new(AtomicUsize::new(0));
        let captured = Arc::clone(&dropped);
        let lost = bench.timer.after(MS, move |_| async move {
            let _captured = PanicsWhenDropped(captured);
            pending::<()>().await;
        });
        lost.unwrap().detach();
        let _other = bench.timer.after(MS, bench.note("other")).unwrap();
        let series = bench.timer.every(MS, Missed::Skip, |_| pending::<()>());
        series.unwrap().detach();
        assert_eq!(bench.step(1), ["other 1 at 1 late 0"]);
        assert_eq!((bench.timer.running(), dropped.load(SeqCst)), (0, 1));
        bench.walk(4);
        assert_eq!(bench.timer.stats().fired, 2 + 5, "the series goes on");
        assert_eq!(bench.timer.shutdown(Stop::Cancel).len(), 1);
    }
}

/// Says when it is dropped whether the gate is unlocked.
struct LocksWhenDropped(Gate, std::sync::mpsc::Sender<bool>);

impl Drop for LocksWhenDropped {
    fn drop(&mut self) {
        self.1.send(self.0.0.try_lock().is_ok()).unwrap();
    }
}

/// The last waker may be dropped anywhere, with locks of its owner held. The future is dropped
/// where jobs run.
#[test]
fn a_future_is_not_dropped_by_who_drops_its_waker() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let (inner, (send, told)) = (gate.clone(), channel());
    let job = bench.timer.after(MS, move |_| async move {
        let _says = LocksWhenDropped(inner.clone(), send);
        inner.pass().await;
    });
    job.unwrap().detach();
    bench.step(1);
    gate.0.lock().unwrap().1 = None;
    assert!(told.try_recv().is_err(), "under a lock that it needs");
    assert_eq!(bench.timer.running(), 1);
    bench.step(0);
    assert_eq!((told.try_recv(), bench.timer.running()), (Ok(true), 0));
}

/// A cancelled timer waits for the futures that run, and polls them: on its thread, or where the
/// caller is the driver.
#[test]
fn a_cancelled_timer_lets_its_futures_end() {
    for manual in [false, true] {
        let (gate, ended) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
        let builder = Timer::builder().run_here();
        let timer = if manual { builder.manual() } else { builder.start().unwrap() };
        let (begun, beginning) = channel();
        let (inner, count) = (gate.clone(), Arc::clone(&ended));
        let job = timer.after(Duration::ZERO, move |_| async move {
            begun.send(()).unwrap();
            inner.pass().await;
            inner.pass().await;
            count.fetch_add(1, SeqCst);
        });
        job.unwrap().detach();
        while beginning.try_recv().is_err() {
            if manual {
                timer.poll(&mut u32::MAX.clone());
            }
            std::thread::yield_now();
        }
        let other = timer.clone();
        let opener = std::thread::spawn(move || {
            while other.after(MS, |_| ()).is_ok() {
                std::thread::yield_now();
            }
            for _ in 0..2 {
                while gate.0.lock().unwrap().1.is_none() {
                    std::thread::yield_now();
                }
                gate.open();
            }
        });
        drop(timer.shutdown(Stop::Cancel));
        opener.join().unwrap();
        assert_eq!((ended.load(SeqCst), timer.running()), (1, 0), "{manual}");
    }
}

/// In manual mode nobody moves the clock while a drain waits for a future.
#[test]
fn a_drain_by_hand_does_not_wait_for_ever() {
    must_end(|| {
        let (bench, gate) = (Bench::new(), Gate::default());
        let inner = gate.clone();
        let job = bench.timer.after(MS, move |_| async move { inner.pass().await });
        job.unwrap().detach();
        bench.step(1);
        let _later = bench.timer.after(MS, |_| ()).unwrap();
        assert_eq!(bench.timer.shutdown(Stop::Drain(2 * MS)).len(), 1);
        assert_eq!(bench.timer.running(), 1);
        gate.open();
    });
}

/// Ready after so many polls; wakes itself.
fn ready_after(mut polls: u32) -> impl Future<Output = ()> + Send {
    poll_fn(move |context| {
        if polls == 0 {
            return Poll::Ready(());
        }
        polls -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// A wake-up is no job, and does not wait for the next tick, though the clock stands between two.
#[test]
fn a_wake_up_needs_no_tick_and_is_no_job() {
    let bench = Bench::new();
    bench.timer.after(MS, |_| ready_after(3)).unwrap().detach();
    bench.hand.advance(MS + MS / 2);
    assert_eq!(bench.timer.poll(&mut 100), 1);
    assert_eq!(bench.timer.running(), 0);
    // Nor does a run that its executor has refused.
    let refuses = |builder: cortado::timer::Builder| {
        builder.executor(drop::<cortado::Job>).rejection(Rejection::RunHere)
    };
    let bench = Bench::with(refuses);
    bench.hand.advance(MS / 2);
    bench.timer.after(Duration::ZERO, |_| ()).unwrap().detach();
    bench.hand.advance(MS);
    while bench.timer.poll(&mut 100) > 0 {}
    assert_eq!(bench.timer.stats().fired, 1);
}

/// A drain by hand ends at its limit, also if a future wakes itself for ever.
#[test]
fn a_drain_by_hand_ends_beside_a_busy_future() {
    must_end(|| {
        let bench = Bench::new();
        bench.timer.after(MS, |_| ready_after(u32::MAX)).unwrap().detach();
        bench.hand.advance(MS);
        bench.timer.poll(&mut 3);
        assert!(bench.timer.shutdown(Stop::Drain(Duration::ZERO)).is_empty());
        assert_eq!(bench.timer.running(), 1);
    });
}
