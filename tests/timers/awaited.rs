//! The end of a timer, as tasks await it.

use crate::common::must_end;
use crate::jobs::{Bench, MS};
use crate::tasks::Gate;
use cortado::Clock;
use cortado::timer::{Stop, Timer, TimerError, TimerId, Unfired};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const STOPS: [Stop; 4] = [Stop::Cancel, Stop::Drain(HOUR), Stop::Settle, Stop::FireAll];

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// An end that the test polls.
struct End<'a> {
    future: Pin<Box<dyn Future<Output = Vec<Unfired>> + Send + 'a>>,
    woken: Arc<Woken>,
}

impl<'a> End<'a> {
    /// An end that has begun, and waits.
    fn begin(timer: &'a Timer, stop: Stop) -> Self {
        let mut end = Self { future: Box::pin(timer.shutdown_async(stop)), woken: Arc::default() };
        assert_eq!(end.poll(), Poll::Pending);
        end
    }

    /// Returns the jobs that did not fire.
    fn poll(&mut self) -> Poll<Vec<TimerId>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        polled.map(|left| left.iter().map(|job| job.id).collect())
    }

    /// Polls it as long as it is woken.
    fn run(&mut self) -> Poll<Vec<TimerId>> {
        let mut polled = Poll::Pending;
        while polled.is_pending() && self.woken.0.swap(false, SeqCst) {
            polled = self.poll();
        }
        polled
    }
}

/// A job that waits for a gate is running.
fn gated() -> (Bench, Gate) {
    let (bench, gate) = (Bench::new(), Gate::default());
    let inner = gate.clone();
    let job = bench.timer.after(MS, move |_| async move { inner.pass().await });
    job.unwrap().detach();
    bench.step(1);
    assert_eq!(bench.timer.running(), 1);
    (bench, gate)
}

/// The same on the thread of a timer.
fn gated_on_a_thread(clock: Clock) -> (Timer, Gate) {
    let timer = Timer::builder().clock(clock).run_here().start().unwrap();
    let (gate, (begins, begun)) = (Gate::default(), channel());
    let inner = gate.clone();
    let job = timer.after(Duration::ZERO, move |_| async move {
        begins.send(()).unwrap();
        inner.pass().await;
    });
    job.unwrap().detach();
    begun.recv().unwrap();
    (timer, gate)
}

/// The job needs the thread of the task, which therefore must not be blocked.
#[test]
fn a_job_that_awaits_its_runtime_ends() {
    let builders =
        [tokio::runtime::Builder::new_current_thread, tokio::runtime::Builder::new_multi_thread];
    for (stop, builder) in STOPS.into_iter().flat_map(|stop| builders.map(|it| (stop, it))) {
        let runtime = builder().worker_threads(1).enable_time().build().unwrap();
        let end = async move {
            let timer = Timer::builder().on_tokio().start().unwrap();
            let (begins, begun) = tokio::sync::oneshot::channel();
            let job = timer.after(Duration::ZERO, |_| async {
                begins.send(()).unwrap();
                tokio::time::sleep(5 * MS).await;
                tokio::spawn(async {}).await.unwrap();
            });
            job.unwrap().detach();
            begun.await.unwrap();
            if stop != Stop::Drain(HOUR) {
                timer.after(2 * HOUR, |_| ()).unwrap().detach();
            }
            let unfired = timer.shutdown_async(stop).await.len();
            let expected = usize::from(matches!(stop, Stop::Cancel | Stop::Settle));
            assert_eq!(unfired, expected, "{stop:?}");
            assert_eq!((timer.pending(), timer.running()), (0, 0), "{stop:?}");
        };
        // In a task of its own: the future is `Send`.
        must_end(move || runtime.block_on(async { tokio::spawn(end).await.unwrap() }));
    }
}

#[test]
fn the_end_of_the_last_job_wakes_the_task() {
    for stop in STOPS {
        let (bench, gate) = gated();
        let mut end = End::begin(&bench.timer, stop);
        assert_eq!(end.run(), Poll::Pending, "nothing has happened");
        gate.open();
        assert_eq!(end.run(), Poll::Ready(vec![]), "{stop:?}");
        assert_eq!(bench.timer.running(), 0, "{stop:?}");
    }
}

/// In manual mode nothing but `poll` looks at the clock.
#[test]
fn polling_wakes_the_task_at_the_limit() {
    let (bench, gate) = gated();
    let later = bench.timer.after(20 * MS, bench.note("later")).unwrap().detach();
    bench.timer.after(5 * MS, bench.note("in time")).unwrap().detach();
    let mut end = End::begin(&bench.timer, Stop::Drain(10 * MS));
    assert_eq!(bench.walk(9), ["in time 1 at 6 late 0"]);
    std::thread::sleep(10 * MS);
    assert_eq!(end.run(), Poll::Pending, "woken by the job; the timer's clock counts");
    bench.hand.advance(MS);
    assert_eq!(end.run(), Poll::Pending, "nobody has looked");
    bench.step(0);
    assert_eq!((bench.timer.pending(), end.run()), (1, Poll::Ready(vec![later])));
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 1));
    gate.forget();
}

/// Its own limit, an earlier one of another drain, and its own while all jobs fire.
#[test]
fn the_timers_thread_wakes_the_task_at_the_limit() {
    must_end(|| {
        let (timer, gate) = gated_on_a_thread(Clock::default());
        let later = timer.after(HOUR, |_| ()).unwrap().detach();
        let unfired = pollster::block_on(timer.shutdown_async(Stop::Drain(5 * MS)));
        assert_eq!((unfired[0].id, timer.running()), (later, 1));
        gate.open();

        let (timer, gate) = gated_on_a_thread(Clock::default());
        drop(End::begin(&timer, Stop::Drain(5 * MS)));
        assert!(pollster::block_on(timer.shutdown_async(Stop::Drain(HOUR))).is_empty());
        assert_eq!(timer.running(), 1);
        gate.open();

        let (timer, gate) = gated_on_a_thread(Clock::default());
        let all = End::begin(&timer, Stop::FireAll);
        assert!(pollster::block_on(timer.shutdown_async(Stop::Drain(5 * MS))).is_empty());
        assert_eq!(timer.running(), 1);
        gate.open();
        assert!(pollster::block_on(all.future).is_empty());
    });
}

/// The thread sleeps without end when it learns of the limit.
#[test]
fn a_limit_wakes_the_timers_thread() {
    must_end(|| {
        let (timer, gate) = gated_on_a_thread(Clock::default());
        let all = End::begin(&timer, Stop::FireAll);
        let drains = End::begin(&timer, Stop::Drain(100 * MS));
        // The thread polls the job, and so forgets the limit until the task is polled.
        gate.wake();
        std::thread::sleep(10 * MS);
        assert!(pollster::block_on(drains.future).is_empty());
        assert_eq!(timer.running(), 1);
        gate.open();
        assert!(pollster::block_on(all.future).is_empty());
    });
}

/// A drain ends also by a clock that fails for good.
#[test]
fn a_broken_clock_does_not_hold_up_the_task() {
    must_end(|| {
        let is_broken = Arc::new(AtomicBool::new(false));
        let broken = Arc::clone(&is_broken);
        let clock = Clock::custom(move || {
            assert!(!broken.load(SeqCst), "a reading that fails");
            Duration::ZERO
        });
        let (timer, gate) = gated_on_a_thread(clock);
        let end = End::begin(&timer, Stop::Drain(5 * MS));
        is_broken.store(true, SeqCst);
        assert!(pollster::block_on(end.future).is_empty());
        assert_eq!(timer.running(), 1);
        gate.open();
    });
}

#[test]
fn a_future_that_was_not_polled_has_ended_nothing() {
    let bench = Bench::new();
    drop(bench.timer.shutdown_async(Stop::Cancel));
    assert!(bench.timer.after(MS, |_| ()).is_ok());
}

/// The end goes on in the background.
#[test]
fn a_dropped_future_leaves_the_end_begun() {
    for stop in [Stop::Cancel, Stop::Drain(10 * MS), Stop::Settle, Stop::FireAll] {
        let (bench, gate) = gated();
        let held = Arc::new(());
        for (ms, name) in [(5, "in time"), (20, "later")] {
            let (captured, mut note) = (Arc::clone(&held), bench.note(name));
            let job = bench.timer.after(MS * ms, move |run| {
                let _captured = &captured;
                note(run);
            });
            job.unwrap().detach();
        }
        let end = End::begin(&bench.timer, stop);
        let woken = Arc::clone(&end.woken);
        drop(end);
        assert_eq!(Arc::strong_count(&woken), 1, "{stop:?} keeps the waker");
        let refused = bench.timer.after(MS, |_| ());
        assert_eq!(refused.unwrap_err(), TimerError::Stopped, "{stop:?}");
        let mut fired = bench.take();
        fired.extend(bench.walk(10));
        let expected: &[&str] = match stop {
            Stop::Cancel | Stop::Settle => &[],
            Stop::Drain(_) => &["in time 1 at 6 late 0"],
            Stop::FireAll => &["in time 1 at 1 late 0", "later 1 at 1 late 0"],
        };
        assert_eq!(fired, expected, "{stop:?}");
        // Nobody waits for the future that runs, but settling goes on as long as a job runs.
        let left = if stop == Stop::Settle { 2 } else { 0 };
        let held_by = || Arc::strong_count(&held) - 1;
        assert_eq!((bench.timer.running(), bench.timer.pending(), held_by()), (1, left, left));
        gate.open();
        bench.step(0);
        assert_eq!((bench.timer.running(), bench.timer.pending(), held_by()), (0, 0, 0));
    }
}

/// The thread of a timer ends though a task that has awaited its end is gone.
#[test]
fn the_thread_ends_after_a_dropped_future() {
    must_end(|| {
        for stop in STOPS {
            let (timer, gate) = gated_on_a_thread(Clock::default());
            drop(End::begin(&timer, stop));
            gate.open();
            assert!(timer.shutdown(stop).is_empty(), "{stop:?}");
            assert_eq!(timer.running(), 0, "{stop:?}");
        }
    });
}

/// Each job that did not fire is returned once, by the call that has taken it out.
#[test]
fn several_tasks_await_one_end() {
    let (bench, gate) = gated();
    let later = bench.timer.after(20 * MS, |_| ()).unwrap().detach();
    let mut drains = [HOUR, HOUR].map(|limit| End::begin(&bench.timer, Stop::Drain(limit)));
    let mut cancels = End::begin(&bench.timer, Stop::Cancel);
    for drain in &mut drains {
        assert_eq!(drain.run(), Poll::Ready(vec![]), "woken by the stricter end");
    }
    let mut other = End::begin(&bench.timer, Stop::FireAll);
    drop(drains);
    assert_eq!((cancels.run(), other.run()), (Poll::Pending, Poll::Pending));
    gate.open();
    assert_eq!(cancels.run(), Poll::Ready(vec![later]));
    assert_eq!(other.run(), Poll::Ready(vec![]));
    // A thread is woken by a task, too.
    must_end(|| {
        let (timer, gate) = gated_on_a_thread(Clock::default());
        timer.after(HOUR, |_| ()).unwrap().detach();
        let draining = timer.clone();
        let thread = std::thread::spawn(move || draining.shutdown(Stop::Drain(HOUR)).len());
        let end = End::begin(&timer, Stop::Cancel);
        let by_thread = thread.join().unwrap();
        gate.open();
        assert_eq!(by_thread + pollster::block_on(end.future).len(), 1);
    });
}

/// Ends its timer when it is dropped.
struct Ends(Timer, Stop, Arc<AtomicUsize>);

impl Drop for Ends {
    fn drop(&mut self) {
        let unfired = pollster::block_on(self.0.shutdown_async(self.1));
        self.2.fetch_add(1 + unfired.len(), SeqCst);
    }
}

/// From a job, or from what a job drops, it returns at once: neither waits for itself.
#[test]
fn jobs_and_destructors_may_await_the_end() {
    for stop in STOPS {
        must_end(move || {
            let bench = Bench::new();
            let (timer, left) = (bench.timer.clone(), Arc::new(Mutex::new(None)));
            let told = Arc::clone(&left);
            let job = bench.timer.after(MS, move |_| async move {
                *told.lock().unwrap() = Some(timer.shutdown_async(stop).await.len());
            });
            job.unwrap().detach();
            bench.timer.after(50 * MS, |_| ()).unwrap().detach();
            bench.step(1);
            assert_eq!(*left.lock().unwrap(), Some(usize::from(stop == Stop::Cancel)), "{stop:?}");

            let (bench, dropped) = (Bench::new(), Arc::new(AtomicUsize::new(0)));
            let ends = Ends(bench.timer.clone(), stop, Arc::clone(&dropped));
            bench.timer.after(MS, move |_| drop(ends)).unwrap().detach();
            bench.step(1);
            assert_eq!(dropped.load(SeqCst), 1, "{stop:?}");
        });
    }
}

/// In manual mode the task runs the jobs, some at each poll.
#[test]
fn a_task_that_runs_jobs_leaves_others_their_turn() {
    let bench = Bench::new();
    let runs = Arc::new(AtomicUsize::new(0));
    for _ in 0..1000 {
        let count = Arc::clone(&runs);
        bench.timer.after(MS, move |_| _ = count.fetch_add(1, SeqCst)).unwrap().detach();
    }
    let mut end = End::begin(&bench.timer, Stop::FireAll);
    assert!((1..500).contains(&runs.load(SeqCst)), "{} at once", runs.load(SeqCst));
    assert_eq!(end.run(), Poll::Ready(vec![]));
    assert_eq!(runs.load(SeqCst), 1000);
}
