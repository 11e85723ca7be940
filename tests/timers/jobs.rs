//! What a timer promises of its jobs, one promise at a time, on a manual clock.

use crate::common::crowd::draw;
use cortado::timer::{
    Builder, CancelOutcome, Handle, OnPanic, Rejection, Run, Timer, TimerError, TimerId,
};
use cortado::{Clock, Job, ManualClock};
use std::panic::panic_any;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const MS: Duration = Duration::from_millis(1);

/// A timer on a manual clock, and what its jobs noted.
pub struct Bench {
    pub timer: Timer,
    pub hand: ManualClock,
    pub log: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|builder| builder)
    }

    pub fn with(set_up: impl FnOnce(Builder) -> Builder) -> Self {
        let (clock, hand) = Clock::manual();
        let timer = set_up(Timer::builder().clock(clock)).manual();
        Self { timer, hand, log: Arc::default() }
    }

    /// A job that notes its name, when it runs and what it is told.
    pub fn note(&self, name: &'static str) -> impl FnMut(Run) + Send + use<> {
        let (log, hand) = (Arc::clone(&self.log), self.hand.clone());
        move |run| {
            let (now, late) = (hand.now().as_millis(), run.late.as_millis());
            log.lock().unwrap().push(format!("{name} {} at {now} late {late}", run.number));
        }
    }

    /// Moves the clock in one step, and polls. Returns what was noted.
    pub fn step(&self, ms: u32) -> Vec<String> {
        self.hand.advance(MS * ms);
        self.timer.poll(&mut u32::MAX.clone());
        self.take()
    }

    /// Moves the clock by milliseconds, polling after each.
    pub fn walk(&self, ms: u32) -> Vec<String> {
        (0..ms).flat_map(|_| self.step(1)).collect()
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

#[test]
fn a_job_runs_once_at_its_time_and_not_inside_the_caller() {
    let bench = Bench::new();
    let mut kept = vec![bench.timer.after(5 * MS, bench.note("a")).unwrap()];
    kept.push(bench.timer.after(Duration::ZERO, bench.note("b")).unwrap());
    let at = kept[0].id();
    assert!(bench.take().is_empty(), "not inside the caller");
    assert_eq!((bench.timer.pending(), bench.timer.contains(at)), (2, true));
    assert_eq!(bench.step(0), ["b 1 at 0 late 0"]);
    assert_eq!(bench.walk(4), [""; 0]);
    assert_eq!(bench.step(1), ["a 1 at 5 late 0"]);
    assert_eq!((bench.timer.pending(), bench.timer.contains(at)), (0, false));
    let past = bench.timer.next_deadline();
    assert_eq!(past, None);
    let start = std::time::Instant::now();
    kept.push(bench.timer.at(start, bench.note("past")).unwrap());
    assert_eq!(bench.step(0).len(), 1);
    kept.push(bench.timer.after(Duration::MAX, bench.note("never")).unwrap());
    assert_eq!(bench.step(u32::MAX), [""; 0]);
    assert_eq!(bench.timer.pending(), 1);
}

#[test]
fn a_handle_cancels_when_it_is_dropped_unless_detached() {
    let bench = Bench::new();
    let count = Arc::new(());
    let held = Arc::clone(&count);
    drop(bench.timer.after(MS, move |_| drop(held)).unwrap());
    assert_eq!((bench.timer.pending(), Arc::strong_count(&count)), (0, 1), "captures are dropped");
    let id = bench.timer.after(MS, bench.note("detached")).unwrap().detach();
    assert_eq!(bench.step(1).len(), 1);
    assert_eq!(bench.timer.cancel(id), CancelOutcome::Finished);
    assert_eq!(bench.timer.stats().cancelled, 1);
}

#[test]
fn cancel_tells_what_it_met() {
    let bench = Bench::new();
    let waiting = bench.timer.after(MS, bench.note("no")).unwrap();
    let id = waiting.id();
    assert_eq!(waiting.cancel(), CancelOutcome::Cancelled);
    assert_eq!(bench.timer.cancel(id), CancelOutcome::Finished);

    // In its own run.
    let (timer, told) = (bench.timer.clone(), Arc::new(Mutex::new(Vec::new())));
    let note = Arc::clone(&told);
    let series = bench.timer.every_with_gap(MS, move |run| {
        note.lock().unwrap().push(timer.cancel(run.id));
        note.lock().unwrap().push(timer.cancel(run.id));
        assert_eq!((timer.pending(), timer.running()), (0, 1));
    });
    let series = series.unwrap();
    assert_eq!(bench.walk(5), [""; 0]);
    assert_eq!(
        *told.lock().unwrap(),
        [CancelOutcome::Running, CancelOutcome::Finished],
        "one run only"
    );
    assert_eq!(series.cancel(), CancelOutcome::Finished);
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0));
}

#[test]
fn a_job_is_moved_both_ways() {
    let bench = Bench::new();
    let job = bench.timer.after(10 * MS, bench.note("job")).unwrap();
    assert!(job.reschedule(20 * MS));
    assert_eq!(bench.walk(19), [""; 0]);
    assert!(job.reschedule(Duration::ZERO));
    assert_eq!(bench.step(0), ["job 1 at 19 late 0"]);
    assert!(!job.reschedule(MS), "it has ended");
    assert!(!bench.timer.reschedule(job.id(), MS));
}

#[test]
fn a_job_may_do_anything_to_its_timer() {
    let bench = Bench::new();
    let (timer, note) = (bench.timer.clone(), bench.note("inner"));
    let outer = bench.timer.after(MS, move |run| {
        assert!(!run.reschedule(MS), "a job of one run has no next one");
        assert_eq!(timer.poll(&mut 1000), 0, "not inside each other");
        timer.after(Duration::ZERO, note).unwrap().detach();
        assert_eq!(timer.cancel(run.id), CancelOutcome::Running);
        let _ = (timer.pending(), timer.next_deadline(), timer.stats(), format!("{timer:?}"));
    });
    let _outer = outer.unwrap();
    assert_eq!(bench.step(1), ["inner 1 at 1 late 0"]);
}

#[test]
fn a_panic_harms_no_other_job() {
    for on_panic in [OnPanic::Continue, OnPanic::Stop] {
        let told = Arc::new(Mutex::new(Vec::new()));
        let note = Arc::clone(&told);
        let bench = Bench::with(|builder| {
            builder.on_panic(on_panic).panic_hook(move |panic| {
                note.lock().unwrap().push((panic.id, panic.message().map(str::to_owned)));
                panic_any("a hook may panic, too");
            })
        });
        let bad = bench.timer.every_with_gap(MS, |run| match run.number {
            2 => panic_any(7),
            number => panic!("run {number}"),
        });
        let bad = bad.unwrap();
        let _good = bench.timer.every_with_gap(MS, bench.note("good")).unwrap();
        assert_eq!(bench.walk(3).len(), 3);
        let runs = if on_panic == OnPanic::Continue { 3 } else { 1 };
        let expected = [Some("run 1".to_owned()), None, Some("run 3".to_owned())];
        let expected: Vec<_> =
            expected.into_iter().map(|text| (bad.id(), text)).take(runs).collect();
        assert_eq!(*told.lock().unwrap(), expected);
        assert_eq!(bench.timer.stats().panicked, runs as u64);
        assert_eq!(bench.timer.pending(), if on_panic == OnPanic::Continue { 2 } else { 1 });
    }
}

/// What a job captured may panic when it is dropped.
#[test]
fn a_destructor_that_panics_harms_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let bench = Bench::new();
    for _ in 0..3 {
        let bomb = Bomb;
        let job = bench.timer.after(MS, move |_| drop(bomb)).unwrap();
        match bench.timer.stats().added {
            1 => assert_eq!(job.cancel(), CancelOutcome::Cancelled),
            _ => _ = job.detach(),
        }
    }
    let _good = bench.timer.after(MS, bench.note("good")).unwrap();
    assert_eq!(bench.step(1).len(), 1);
}

#[test]
fn the_number_of_jobs_is_bounded_and_exact() {
    let bench = Bench::with(|builder| builder.max_pending(3));
    let after = |ms: u32| bench.timer.after(MS * ms, |_| ());
    let mut kept: Vec<Handle> = (1..=3).map(|ms| after(ms).unwrap()).collect();
    let refused = Arc::new(());
    let held = Arc::clone(&refused);
    assert_eq!(bench.timer.after(MS, move |_| drop(held)).unwrap_err(), TimerError::Full);
    assert_eq!(Arc::strong_count(&refused), 1, "the refused job is dropped");
    assert_eq!(kept.remove(2).cancel(), CancelOutcome::Cancelled);
    kept.push(after(5).unwrap());
    assert_eq!(bench.timer.pending(), 3);
    bench.step(2);
    assert_eq!(bench.timer.pending(), 1);
    let stats = bench.timer.stats();
    assert_eq!((stats.added, stats.fired, stats.cancelled), (4, 2, 1));
    assert_eq!(stats.lateness.max(), MS, "the first was polled a millisecond late");
}

#[test]
fn nonsense_is_refused() {
    let bench = Bench::new();
    let short = Duration::from_micros(999);
    let (timer, job) = (&bench.timer, |_: Run| ());
    assert_eq!(timer.every(short, Default::default(), job).unwrap_err(), TimerError::TooShort);
    assert_eq!(timer.every_with_gap(short, job).unwrap_err(), TimerError::TooShort);
    let (clock, _hand) = Clock::manual();
    assert_eq!(Timer::builder().clock(clock).start().unwrap_err().setting(), "clock");
    assert_eq!(Timer::builder().tick(short).start().unwrap_err().setting(), "tick");
}

/// An executor that drops the first jobs that it is given.
fn refuses(times: usize) -> impl Fn(Job) + Send + Sync {
    let left = AtomicUsize::new(times);
    move |job| {
        if left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err() {
            job();
        }
    }
}

#[test]
fn a_refused_run_is_tried_again_made_here_or_left_out() {
    let retry = Rejection::Retry(5 * MS);
    for (rejection, once, series) in [
        (
            retry,
            vec!["once 1 at 11 late 10"],
            vec!["series 1 at 11 late 10", "series 2 at 12 late 0"],
        ),
        (Rejection::RunHere, vec!["once 1 at 1 late 0"], vec!["series 1 at 1 late 0"]),
        (Rejection::Discard, vec![], vec!["series 3 at 3 late 0"]),
    ] {
        let bench = Bench::with(|builder| builder.executor(refuses(2)).rejection(rejection));
        let _once = bench.timer.after(MS, bench.note("once")).unwrap();
        assert_eq!(bench.walk(12), once, "{rejection:?}");
        assert!(bench.timer.stats().rejected > 0);

        let bench = Bench::with(|builder| builder.executor(refuses(2)).rejection(rejection));
        let _series = bench.timer.every_with_gap(MS, bench.note("series")).unwrap();
        let told = bench.walk(12);
        assert_eq!(told[..series.len()], series, "{rejection:?}");
        assert_eq!((bench.timer.pending(), bench.timer.stats().rejected > 0), (1, true));
    }
}

/// Jobs in the queue of an executor wait, and can be cancelled and moved.
#[test]
fn a_queued_job_can_be_cancelled_and_moved() {
    let queue: Arc<Mutex<Vec<Job>>> = Arc::default();
    let jobs = Arc::clone(&queue);
    let bench = Bench::with(|builder| builder.executor(move |job| jobs.lock().unwrap().push(job)));
    let run =
        || queue.lock().unwrap().drain(..).collect::<Vec<Job>>().into_iter().for_each(|job| job());
    let cancelled = bench.timer.after(MS, bench.note("cancelled")).unwrap();
    let moved = bench.timer.after(MS, bench.note("moved")).unwrap();
    let _stays = bench.timer.after(MS, bench.note("stays")).unwrap();
    bench.step(1);
    assert_eq!(
        (queue.lock().unwrap().len(), bench.timer.pending(), bench.timer.running()),
        (3, 3, 0)
    );
    assert_eq!(cancelled.cancel(), CancelOutcome::Cancelled);
    assert!(moved.reschedule(4 * MS));
    run();
    assert_eq!(bench.take(), ["stays 1 at 1 late 0"]);
    bench.step(4);
    run();
    assert_eq!(bench.take(), ["moved 1 at 5 late 0"]);
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0));
}

/// However many are due, the lock is held for a batch at a time.
#[test]
fn a_burst_is_handed_out_in_batches() {
    let bench = Bench::with(|builder| builder.max_batch(100));
    let (timer, most) = (bench.timer.clone(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..1000 {
        let (timer, most) = (timer.clone(), Arc::clone(&most));
        let job = bench.timer.after(MS, move |_| {
            // Those that are out of the wheel and have not run.
            let queued = timer.pending() - timer.waiting_in_the_wheel();
            most.fetch_max(queued, SeqCst);
        });
        job.unwrap().detach();
    }
    bench.step(1);
    assert_eq!(bench.timer.pending(), 0);
    assert_eq!(most.load(SeqCst), 99);
    assert_eq!(bench.timer.poll(&mut 0), 0);
}

/// Random jobs, half of them cancelled, some moved, one in a thousand panics: each runs once or is
/// cancelled, and never early. `CORTADO_TIMER_JOBS` sets their number.
#[test]
fn each_job_ends_exactly_once() {
    let jobs = crate::common::effort::scale("CORTADO_TIMER_JOBS", 100_000);
    let bench = Bench::with(|builder| builder.max_batch(64));
    let runs = Arc::new(AtomicUsize::new(0));
    let (mut state, mut open, mut cancelled) = (1, Vec::<TimerId>::new(), 0);
    for number in 0..jobs {
        let delay = Duration::from_micros(draw(&mut state) % 1_000_000);
        let runs = Arc::clone(&runs);
        let job = bench.timer.after(delay, move |_| {
            runs.fetch_add(1, SeqCst);
            assert!(number % 1000 != 0, "one in a thousand panics");
        });
        open.push(job.unwrap().detach());
        let other = (draw(&mut state) % open.len() as u64) as usize;
        match draw(&mut state) % 4 {
            0 | 1 => {
                let found = bench.timer.cancel(open.swap_remove(other));
                cancelled += usize::from(found == CancelOutcome::Cancelled);
            }
            2 => {
                let _ = bench.timer.reschedule(open[other], delay);
            }
            _ => bench.hand.advance(Duration::from_micros(draw(&mut state) % 100)),
        }
        if number % 50 == 0 {
            bench.timer.poll(&mut 40);
        }
    }
    bench.step(10_000);
    let stats = bench.timer.stats();
    assert_eq!(bench.timer.pending(), 0);
    assert_eq!(runs.load(SeqCst) + cancelled, jobs as usize);
    assert_eq!((stats.fired, stats.cancelled), (runs.load(SeqCst) as u64, cancelled as u64));
    // Of fewer, those that would panic may all be cancelled.
    assert!(jobs < 10_000 || stats.panicked > 0);
    assert!(cancelled > jobs as usize / 10);
    crate::common::crowd::counted(jobs, "jobs");
}
