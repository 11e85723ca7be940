//! The end of a timer.

use crate::common::must_end;
use crate::jobs::{Bench, MS};
use crate::tasks::Gate;
use cortado::timer::{CancelOutcome, Handle, Missed, Rejection, Run, Stop, Timer, TimerError};
use cortado::{Clock, Job};
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

#[test]
fn a_cancelled_timer_returns_what_did_not_fire() {
    let bench = Bench::new();
    let first = bench.timer.after(5 * MS, bench.note("first")).unwrap();
    let series = bench.timer.every(7 * MS, Missed::Skip, bench.note("series")).unwrap();
    bench.walk(8);
    let late = bench.timer.after(9 * MS, bench.note("late")).unwrap();
    let mut unfired = bench.timer.shutdown(Stop::Cancel);
    unfired.sort_by_key(|it| it.deadline);
    let ids: Vec<_> = unfired.iter().map(|it| it.id).collect();
    assert_eq!(ids, [series.id(), late.id()]);
    assert_eq!(unfired[1].deadline - unfired[0].deadline, 3 * MS);
    assert_eq!((bench.timer.pending(), bench.timer.stats().cancelled), (0, 2));
    assert_eq!(bench.timer.after(MS, |_| ()).unwrap_err(), TimerError::Stopped);
    assert_eq!(first.cancel(), CancelOutcome::Finished);
    assert!(!late.reschedule(MS) && bench.timer.shutdown(Stop::FireAll).is_empty());
    // What did not fire can still be run by hand.
    bench.take();
    assert!(unfired.remove(1).run().is_none());
    assert_eq!(bench.take(), ["late 1 at 8 late 0"]);
    assert_eq!(bench.walk(20), [""; 0]);
}

#[test]
fn a_drain_runs_what_is_due_and_series_once() {
    let bench = Bench::new();
    let _due = bench.timer.after(5 * MS, bench.note("due")).unwrap();
    let _series = bench.timer.every(2 * MS, Missed::Burst, bench.note("series")).unwrap();
    let later = bench.timer.after(50 * MS, bench.note("later")).unwrap();
    bench.hand.advance(10 * MS);
    let unfired = bench.timer.shutdown(Stop::Drain(Duration::from_secs(60)));
    assert_eq!(bench.take(), ["series 1 at 10 late 8", "due 1 at 10 late 5"]);
    assert_eq!(unfired.len(), 1);
    assert_eq!(unfired[0].id, later.id());
}

#[test]
fn firing_all_runs_everything_now() {
    let bench = Bench::with(|builder| builder.max_batch(2));
    for (name, ms) in [("a", 5), ("b", 5000), ("c", 500_000)] {
        bench.timer.after(MS * ms, bench.note(name)).unwrap().detach();
    }
    bench.timer.after(Duration::MAX, bench.note("never")).unwrap().detach();
    let _series = bench.timer.every(7 * MS, Missed::Skip, bench.note("series")).unwrap();
    assert!(bench.timer.shutdown(Stop::FireAll).is_empty());
    let told: Vec<String> =
        ["a", "series", "b", "c", "never"].map(|name| format!("{name} 1 at 0 late 0")).into();
    assert_eq!(bench.take(), told);
    assert_eq!(bench.timer.pending(), 0);
}

/// From a job it returns at once: it waits neither for that job nor for others.
#[test]
fn a_job_may_end_its_timer() {
    for stop in [Stop::Cancel, Stop::Drain(Duration::from_secs(60)), Stop::FireAll] {
        let bench = Bench::new();
        let (timer, left) = (bench.timer.clone(), Arc::new(Mutex::new(None)));
        let told = Arc::clone(&left);
        let _job = bench.timer.after(MS, move |_| {
            *told.lock().unwrap() = Some(timer.shutdown(stop).len());
        });
        let _other = bench.timer.after(50 * MS, bench.note("other")).unwrap();
        let mut rest = bench.step(1);
        let expected = if stop == Stop::Cancel { 1 } else { 0 };
        assert_eq!(*left.lock().unwrap(), Some(expected), "{stop:?}");
        rest.extend(bench.step(50));
        assert_eq!(rest.len(), usize::from(stop != Stop::Cancel), "{stop:?}: {rest:?}");
        assert_eq!(bench.timer.after(MS, |_| ()).unwrap_err(), TimerError::Stopped);
    }
}

/// The same with a thread.
#[test]
fn a_timer_with_a_thread_ends_in_every_way() {
    for stop in [Stop::Cancel, Stop::Drain(Duration::from_secs(60)), Stop::FireAll] {
        let timer = Timer::new();
        let (begun, begins) = channel();
        let (release, wait) = channel::<()>();
        let finished = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&finished);
        let job = timer.after(Duration::ZERO, move |_| {
            begun.send(()).unwrap();
            let _ = wait.recv();
            count.fetch_add(1, SeqCst);
        });
        job.unwrap().detach();
        begins.recv().unwrap();
        if stop == Stop::FireAll {
            timer.after(Duration::from_secs(3600), |_| ()).unwrap().detach();
        }
        let ending = timer.clone();
        let end = std::thread::spawn(move || ending.shutdown(stop).len());
        drop(release);
        assert_eq!((end.join().unwrap(), finished.load(SeqCst)), (0, 1), "{stop:?}");
        assert_eq!((timer.pending(), timer.running()), (0, 0));
    }
}

#[test]
fn the_last_handle_ends_the_timer() {
    let held = Arc::new(());
    let bench = Bench::new();
    for _ in 0..10 {
        let (held, timer) = (Arc::clone(&held), bench.timer.clone());
        // A job that holds its own timer keeps it, as a cycle does; one that holds a handle not.
        let job = bench.timer.after(MS, move |_| drop((held, timer)));
        job.unwrap().detach();
    }
    assert_eq!(Arc::strong_count(&held), 11);
    bench.step(1);
    assert_eq!(Arc::strong_count(&held), 1);
    let (captured, timer) = (Arc::clone(&held), Timer::new());
    timer.after(Duration::from_secs(3600), move |_| drop(captured)).unwrap().detach();
    drop(timer);
    assert_eq!(Arc::strong_count(&held), 1, "what did not fire is dropped with the timer");
}

/// Whether the timer still takes jobs. This one is far away, and is cancelled at once.
fn accepts(timer: &Timer) -> bool {
    timer.after(Duration::from_secs(3600), |_| ()).map(drop::<Handle>).is_ok()
}

/// `FireAll` is stricter than `Drain`, whichever comes first.
#[test]
fn a_drain_does_not_take_back_that_all_jobs_fire() {
    let bench = Bench::with(|builder| builder.max_batch(1));
    let timer = bench.timer.clone();
    let first = bench.timer.after(MS, move |_| {
        assert!(timer.shutdown(Stop::Drain(Duration::ZERO)).is_empty());
    });
    first.unwrap().detach();
    bench.timer.after(Duration::from_secs(3600), bench.note("second")).unwrap().detach();
    assert!(bench.timer.shutdown(Stop::FireAll).is_empty());
    assert_eq!(bench.take(), ["second 1 at 0 late 0"]);
}

/// While all jobs fire, the caller of a drain waits as long as it said, and cancels nothing.
#[test]
fn a_drain_cancels_nothing_that_is_to_fire() {
    let timer = Timer::builder().run_here().start().unwrap();
    let (begun, begins) = channel();
    let (release, wait) = channel::<()>();
    let long = timer.after(Duration::ZERO, move |_| {
        begun.send(()).unwrap();
        let _ = wait.recv();
    });
    long.unwrap().detach();
    timer.after(Duration::from_secs(3600), |_| ()).unwrap().detach();
    begins.recv().unwrap();
    let firing = timer.clone();
    let end = std::thread::spawn(move || firing.shutdown(Stop::FireAll).len());
    while accepts(&timer) {
        std::thread::yield_now();
    }
    assert!(timer.shutdown(Stop::Drain(Duration::ZERO)).is_empty());
    release.send(()).unwrap();
    assert_eq!(end.join().unwrap(), 0);
    assert_eq!((timer.pending(), timer.stats().fired), (0, 2));
}

/// Of two drains the one that ends earlier counts, whichever comes first.
#[test]
fn the_earlier_of_two_drains_counts() {
    let timer = Timer::new();
    let (inner, (send, told)) = (timer.clone(), channel());
    let left = timer.after(Duration::from_secs(3600), |_| ()).unwrap().detach();
    timer
        .after(Duration::ZERO, move |_| {
            // Until the outer drain is under way.
            while accepts(&inner) {
                std::thread::yield_now();
            }
            assert!(inner.shutdown(Stop::Drain(Duration::ZERO)).is_empty());
        })
        .unwrap()
        .detach();
    let ending = timer.clone();
    std::thread::spawn(move || {
        let left = ending.shutdown(Stop::Drain(Duration::from_secs(7200)));
        send.send(left.iter().map(|it| it.id).collect::<Vec<_>>()).unwrap();
    });
    assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(vec![left]));

    let bench = Bench::new();
    let timer = bench.timer.clone();
    let ends = move |_: Run| {
        timer.shutdown(Stop::Drain(10 * MS));
        timer.shutdown(Stop::Drain(Duration::from_secs(60)));
    };
    bench.timer.after(MS, ends).unwrap().detach();
    let _later = bench.timer.after(50 * MS, bench.note("later")).unwrap();
    bench.walk(60);
    assert_eq!((bench.take(), bench.timer.pending()), (vec![], 0));
}

/// In manual mode there is no thread that would end a drain in the background.
#[test]
fn a_drain_in_the_background_ends_by_polling() {
    let held = Arc::new(());
    for stride in [1, 5, 100] {
        let bench = Bench::new();
        let (timer, captured) = (bench.timer.clone(), Arc::clone(&held));
        let drains = move |_: Run| _ = timer.shutdown(Stop::Drain(10 * MS));
        bench.timer.after(MS, drains).unwrap().detach();
        bench.timer.after(11 * MS, bench.note("in time")).unwrap().detach();
        let late = bench.timer.after(12 * MS, move |_| drop(captured)).unwrap();
        bench.step(1);
        for _ in 0..10 {
            bench.step(stride);
        }
        assert_eq!(bench.timer.stats().fired, 2, "{stride}");
        assert_eq!((bench.timer.pending(), Arc::strong_count(&held)), (0, 1), "{stride}");
        assert_eq!((late.cancel(), bench.timer.stats().cancelled), (CancelOutcome::Finished, 1));
    }
}

/// What the timer has to do for itself is no job: it does not count as cancelled.
#[test]
fn the_end_of_a_drain_counts_jobs_only() {
    let calls = AtomicUsize::new(0);
    // It runs the job and its first poll, and drops the second poll, which becomes an errand.
    let bench = Bench::with(|builder| {
        builder.executor(move |job: cortado::Job| {
            if calls.fetch_add(1, SeqCst) == 0 {
                job();
            }
        })
    });
    let timer = bench.timer.clone();
    let job = bench.timer.after(MS, move |_| async move {
        timer.shutdown(Stop::Drain(5 * MS));
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        })
        .await;
    });
    job.unwrap().detach();
    bench.step(1);
    assert_eq!((bench.timer.waiting_in_the_wheel(), bench.timer.running()), (1, 1));
    bench.walk(6);
    assert_eq!((bench.timer.waiting_in_the_wheel(), bench.timer.running()), (0, 0));
    assert_eq!(bench.timer.stats().cancelled, 0);
}

/// A drain lasts as long as it was told by the timer's clock, which may be a slow one.
#[test]
fn a_drain_ends_by_the_timers_clock() {
    let start = Instant::now();
    let clock = Clock::custom(move || start.elapsed() / 100);
    let timer = Timer::builder().clock(clock).start().unwrap();
    let (send, told) = channel();
    timer.after(2 * MS, move |_| send.send(()).unwrap()).unwrap().detach();
    // Due after 200 real milliseconds. The drain may last for ten real seconds.
    assert!(timer.shutdown(Stop::Drain(100 * MS)).is_empty());
    assert_eq!(told.try_recv(), Ok(()));
}

/// The destructor of a job that the end of a drain drops may end the timer, and waits for nothing:
/// it is code that the timer runs.
#[test]
fn a_destructor_that_ends_the_timer_waits_for_nothing() {
    struct Ends(Timer);
    impl Drop for Ends {
        fn drop(&mut self) {
            drop(self.0.shutdown(Stop::Cancel));
        }
    }
    must_end(|| {
        let bench = Bench::new();
        let waits = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&waits);
        let job = bench.timer.after(MS, move |_| {
            poll_fn(move |context| {
                *kept.lock().unwrap() = Some(context.waker().clone());
                Poll::<()>::Pending
            })
        });
        job.unwrap().detach();
        let timer = bench.timer.clone();
        let drains = bench.timer.after(MS, move |_| drop(timer.shutdown(Stop::Drain(10 * MS))));
        drains.unwrap().detach();
        let ends = Ends(bench.timer.clone());
        bench.timer.after(50 * MS, move |_| _ = &ends).unwrap().detach();
        bench.step(1);
        bench.step(20);
        assert_eq!(bench.timer.pending(), 0);
        // The waker keeps the future, which keeps the waker.
        drop(waits.lock().unwrap().take());
    });
}

/// A name that no thread can have is refused.
#[test]
fn a_thread_name_with_a_zero_byte_is_an_error() {
    let refused = Timer::builder().thread_name("a\0b").start();
    assert_eq!(refused.expect_err("refused").setting(), "thread_name");
}

/// What a refused job holds may use the timer when it is dropped.
#[test]
fn the_destructor_of_a_refused_job_may_use_the_timer() {
    struct Asks(Handle, Arc<AtomicUsize>);
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.reschedule(MS);
            self.1.fetch_add(1, SeqCst);
        }
    }
    must_end(|| {
        let told = Arc::new(AtomicUsize::new(0));
        let bench = Bench::with(|builder| builder.max_pending(2));
        let mut holders = [1, 2]
            .map(|_| Asks(bench.timer.after(MS, |_| ()).unwrap(), Arc::clone(&told)))
            .into_iter();
        let full = holders.next();
        let refused = bench.timer.after(MS, move |_| drop(full));
        assert_eq!((refused.unwrap_err(), told.load(SeqCst)), (TimerError::Full, 1));
        bench.timer.shutdown(Stop::Cancel).into_iter().for_each(drop);
        let stopped = holders.next();
        let refused = bench.timer.after(MS, move |_| drop(stopped));
        assert_eq!((refused.unwrap_err(), told.load(SeqCst)), (TimerError::Stopped, 2));
    });
}

/// Jobs take long, so that some are still to begin at the limit.
#[test]
fn no_job_begins_after_the_limit_of_a_drain_that_is_awaited() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let inner = gate.clone();
    let running = bench.timer.after(MS, move |_| async move { inner.pass().await });
    running.unwrap().detach();
    bench.step(1);
    for _ in 0..20 {
        let hand = bench.hand.clone();
        bench.timer.after(MS, move |_| hand.advance(5 * MS)).unwrap().detach();
    }
    let mut end = Box::pin(bench.timer.shutdown_async(Stop::Drain(10 * MS)));
    assert!(end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    bench.step(1);
    gate.forget();
    // At 1, 6 and perhaps 11 ms after the drain has begun.
    let fired = bench.timer.stats().fired - 1;
    assert!(fired <= 3, "{fired} jobs began, the last one 86 ms after the limit");
}

/// The caller polls the future itself, although the clock stands, wherever in a tick that is.
#[test]
fn a_drain_by_hand_makes_up_for_a_poll_that_was_dropped() {
    for within in [Duration::ZERO, MS / 2, MS - Duration::from_nanos(1)] {
        must_end(move || {
            let calls = AtomicUsize::new(0);
            let bench = Bench::with(|builder| {
                builder.executor(move |job: Job| {
                    if calls.fetch_add(1, SeqCst) == 0 {
                        job();
                    }
                })
            });
            let gate = Gate::default();
            let inner = gate.clone();
            let job = bench.timer.after(MS, move |_| async move { inner.pass().await });
            job.unwrap().detach();
            bench.hand.advance(MS + within);
            bench.timer.poll(&mut 1024);
            assert_eq!(bench.timer.running(), 1);
            gate.open();
            bench.timer.shutdown(Stop::Drain(Duration::MAX)).clear();
            assert_eq!(bench.timer.running(), 0);
        });
    }
}

/// After the clock was set back, its deadline is behind the wheel's clock.
#[test]
fn a_job_that_came_too_late_is_handed_out_once() {
    let (time, inline) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let queue = Arc::new(Mutex::new(Vec::<Job>::new()));
    let (read, queued, at_once) = (Arc::clone(&time), Arc::clone(&queue), Arc::clone(&inline));
    let clock = Clock::custom(move || Duration::from_millis(read.load(SeqCst) as u64));
    let executor = move |job: Job| match at_once.load(SeqCst) {
        true => job(),
        false => queued.lock().unwrap().push(job),
    };
    let timer = Timer::builder().clock(clock).executor(executor).manual();
    timer.after(MS, |_| ()).unwrap().detach();
    time.store(100, SeqCst);
    timer.poll(&mut 1024);
    time.store(10, SeqCst);
    let mut end = Box::pin(timer.shutdown_async(Stop::Drain(MS)));
    assert!(end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    time.store(20, SeqCst);
    inline.store(true, SeqCst);
    let job = queue.lock().unwrap().pop().unwrap();
    job();
    let mut budget = 1000;
    timer.poll(&mut budget);
    assert!(budget > 900, "{budget} of 1000 are left");
    assert_eq!(timer.stats().fired, 0);
}

/// The end of a drain that somebody keeps, and does not poll, holds back no future that runs.
#[test]
fn a_drain_that_is_not_polled_lets_running_futures_end() {
    must_end(|| {
        let timer = Timer::builder().run_here().start().unwrap();
        let (gate, (sender, told), (begins, begun)) = (Gate::default(), channel(), channel());
        let inner = gate.clone();
        let job = timer.after(Duration::ZERO, move |_| async move {
            begins.send(()).unwrap();
            inner.pass().await;
            sender.send(()).unwrap();
        });
        job.unwrap().detach();
        begun.recv().unwrap();
        let mut end = Box::pin(timer.shutdown_async(Stop::Drain(20 * MS)));
        assert!(end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        // Its limit is over.
        std::thread::sleep(60 * MS);
        gate.open();
        told.recv().unwrap();
        drop(end);
    });
}

/// Keeps the jobs that it is given, unless it is full.
#[derive(Clone, Default)]
struct Keeps {
    jobs: Arc<Mutex<Vec<Job>>>,
    is_full: Arc<AtomicBool>,
}

impl cortado::Execute for Keeps {
    fn execute(&self, job: Job) {
        if !self.is_full.load(SeqCst) {
            self.jobs.lock().unwrap().push(job);
        }
    }
}

#[test]
fn no_job_that_is_due_after_the_limit_of_a_drain_runs_or_is_lost() {
    for is_dropped in [true, false] {
        let keeps = Keeps::default();
        let executor = keeps.clone();
        let bench = Bench::with(|builder| builder.rejection(Rejection::Discard).executor(executor));
        bench.timer.after(Duration::ZERO, bench.note("in time")).unwrap().detach();
        bench.timer.after(2000 * MS, bench.note("late")).unwrap().detach();
        let mut context = Context::from_waker(Waker::noop());
        let mut end = Box::pin(bench.timer.shutdown_async(Stop::Drain(1000 * MS)));
        assert!(end.as_mut().poll(&mut context).is_pending());
        keeps.is_full.store(!is_dropped, SeqCst);
        bench.hand.advance(3000 * MS);
        bench.timer.poll(&mut 1000);
        if is_dropped {
            drop(end);
            let jobs = std::mem::take(&mut *keeps.jobs.lock().unwrap());
            jobs.into_iter().for_each(|job| job());
            assert!(!bench.take().iter().any(|told| told.starts_with("late")));
        } else {
            let Poll::Ready(unfired) = end.as_mut().poll(&mut context) else { panic!("it waits") };
            assert_eq!(unfired.len(), 2, "{:?}", bench.timer.stats());
        }
    }
}
