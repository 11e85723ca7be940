//! Loom models of timers. Time stands still in them: a job without delay is due, all others never.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `an_insertion_wakes_the_thread` | a job that is due sooner than the thread would wake up runs | `timer-inserts-in-silence` |
//! | `a_job_runs_or_is_cancelled` | a job that is cancelled while it is handed out runs or is cancelled, never both, and the counts agree | `timer-cancels-waiting-only` |
//! | `an_insertion_meets_the_end` | a job that is inserted during a shutdown is refused, runs, or is returned | `timer-accepts-after-the-end` |
//! | `the_end_waits_for_what_runs` | no job runs after a shutdown | `timer-ends-without-waiting` |
//! | `the_end_sees_what_comes_back` | a future that is woken during a shutdown without a thread is polled by it | `timer-ends-on-an-old-look` |
//! | `the_end_wakes_the_task_that_awaits_it` | a task that awaits the end is woken by what comes back, and polls it | `timer-ends-before-it-is-awaited` |
//! | `an_end_that_nobody_awaits_ends` | the end of the last run ends a timer that settles in the background | `timer-sleeps-at-its-end` |
//! | `a_future_is_woken_while_it_is_polled` | no wake-up of an async job is lost | `task-forgets-wakes` |
//! | `an_abort_meets_the_first_poll` | an async job that is aborted ends, whether it waits, is polled for the first time, or is pending | `timer-forgets-aborts` |
//! | `an_event_that_finds_the_operation_busy_is_not_lost` | two events, each of which holds one half of the condition: the operation completes, once | `handoff-finish-forgets-requests`, `handoff-request-is-relaxed` |
//! | `an_event_meets_an_operation_that_begins_to_watch` | an event during the linking completes the operation, and nothing of it stays behind | `operations-try-once`, `operations-unlink-once` |
//! | `an_event_wakes_the_task_that_awaits_it` | a task that awaits an event is woken by it | `watched-looks-first` |
//! | `an_event_meets_the_timeout` | either ends the operation, once, and nothing of it stays behind | `operations-end-twice` |

use crate::support::explore::model;
use cortado::Clock;
use cortado::internals::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};
use cortado::internals::sync::plain::Arc as Plain;
use cortado::internals::sync::{Arc, Condvar, Mutex, thread};
use cortado::timer::{
    Builder, CancelOutcome, DelayedOp, DelayedOps, Outcome, Stop, Timer, TimerError,
};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

fn builder() -> Builder {
    Timer::builder().clock(Clock::custom(|| Duration::ZERO)).run_here()
}

/// Runs what is due until a shutdown is under way and nothing waits, as a thread would that has
/// nothing else to do.
fn drive(timer: &Timer) {
    timer.poll(&mut 8);
}

#[test]
fn an_insertion_wakes_the_thread() {
    model(|| {
        let timer = builder().start().unwrap();
        let ran = Arc::new((Mutex::new(false), Condvar::new()));
        let note = Arc::clone(&ran);
        timer.after(HOUR, |_| ()).unwrap().detach();
        let job = timer.after(Duration::ZERO, move |_| {
            *note.0.lock() = true;
            note.1.notify_all();
        });
        job.unwrap().detach();
        let mut has_run = ran.0.lock();
        while !*has_run {
            has_run = ran.1.wait(has_run);
        }
        drop(has_run);
        assert_eq!(timer.shutdown(Stop::Cancel).len(), 1);
    });
}

#[test]
fn a_job_runs_or_is_cancelled() {
    model(|| {
        let timer = builder().manual();
        let runs = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&runs);
        let job = timer.after(Duration::ZERO, move |_| _ = count.fetch_add(1, SeqCst));
        let id = job.unwrap().detach();
        let driven = timer.clone();
        let driver = thread::spawn(move || drive(&driven));
        let cancelled = timer.cancel(id);
        driver.join().unwrap();
        let expected = usize::from(cancelled != CancelOutcome::Cancelled);
        assert_eq!(runs.load(SeqCst), expected, "{cancelled:?}");
        assert_eq!((timer.pending(), timer.running()), (0, 0));
    });
}

#[test]
fn an_insertion_meets_the_end() {
    model(|| {
        let timer = builder().start().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        let (inserting, note) = (timer.clone(), Arc::clone(&ran));
        let inserter = thread::spawn(move || {
            let job = inserting.after(Duration::ZERO, move |_| note.store(true, SeqCst));
            match job {
                Ok(job) => Some(job.detach()),
                Err(error) => {
                    assert_eq!(error, TimerError::Stopped);
                    None
                }
            }
        });
        let unfired = timer.shutdown(Stop::Cancel);
        let has_run = ran.load(SeqCst);
        let is_accepted = inserter.join().unwrap().is_some();
        assert_eq!(unfired.len() + usize::from(has_run), usize::from(is_accepted));
        assert_eq!(timer.pending(), 0);
    });
}

#[test]
fn the_end_waits_for_what_runs() {
    model(|| {
        let timer = builder().manual();
        let (begun, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (begins, ends) = (Arc::clone(&begun), Arc::clone(&ended));
        let job = timer.after(Duration::ZERO, move |_| {
            begins.store(true, SeqCst);
            ends.store(true, SeqCst);
        });
        job.unwrap().detach();
        let driven = timer.clone();
        let driver = thread::spawn(move || drive(&driven));
        let unfired = timer.shutdown(Stop::Cancel).len();
        let (has_begun, has_ended) = (begun.load(SeqCst), ended.load(SeqCst));
        assert_eq!(has_begun, has_ended, "it runs on");
        assert_eq!(unfired, usize::from(!has_begun));
        driver.join().unwrap();
        assert_eq!(ended.load(SeqCst), has_ended, "it began after the end");
    });
}

/// What an async job waits for, and whether it has passed.
struct Gate {
    state: Mutex<(bool, Option<Waker>)>,
    has_passed: AtomicBool,
}

/// A timer with an async job that waits for a gate.
fn gated(timer: Builder) -> (Timer, Plain<Gate>) {
    let timer = timer.manual();
    let state = Mutex::new((false, None));
    let gate = Plain::new(Gate { state, has_passed: AtomicBool::new(false) });
    let passed = Plain::clone(&gate);
    let job = timer.after(Duration::ZERO, move |_| async move {
        poll_fn(|context| {
            let mut state = passed.state.lock();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        passed.has_passed.store(true, SeqCst);
    });
    job.unwrap().detach();
    (timer, gate)
}

fn open(gate: &Plain<Gate>) {
    let waker = {
        let mut state = gate.state.lock();
        state.0 = true;
        state.1.take()
    };
    waker.into_iter().for_each(Waker::wake);
}

#[test]
fn the_end_sees_what_comes_back() {
    model(|| {
        let (timer, gate) = gated(builder());
        drive(&timer);
        let opens = Plain::clone(&gate);
        let opener = thread::spawn(move || open(&opens));
        assert!(timer.shutdown(Stop::FireAll).is_empty());
        assert!(gate.has_passed.load(SeqCst) && timer.running() == 0, "it has ended");
        opener.join().unwrap();
    });
}

#[test]
fn the_end_wakes_the_task_that_awaits_it() {
    model(|| {
        let (timer, gate) = gated(builder());
        drive(&timer);
        let opens = Plain::clone(&gate);
        let opener = thread::spawn(move || open(&opens));
        let woken = Plain::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Plain::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut end = pin!(timer.shutdown_async(Stop::Cancel));
        let mut polled = end.as_mut().poll(&mut context);
        opener.join().unwrap();
        while polled.is_pending() {
            assert!(woken.0.swap(false, SeqCst), "it was woken");
            polled = end.as_mut().poll(&mut context);
        }
        assert!(gate.has_passed.load(SeqCst) && timer.running() == 0, "it has ended");
    });
}

/// Notes that it is dropped, or that a job waits, for a thread that waits for that.
struct Noted<T>(Mutex<Option<T>>, Condvar);

impl<T> Noted<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(None), Condvar::new()))
    }

    fn note(&self, value: T) {
        *self.0.lock() = Some(value);
        self.1.notify_all();
    }

    fn wait(&self) -> T {
        let mut noted = self.0.lock();
        loop {
            if let Some(value) = noted.take() {
                return value;
            }
            noted = self.1.wait(noted);
        }
    }
}

struct Dropped(Arc<Noted<()>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.note(());
    }
}

#[test]
fn an_end_that_nobody_awaits_ends() {
    model(|| {
        let (jobs, over) = (Noted::<cortado::Job>::new(), Noted::new());
        let (queue, dropped) = (Arc::clone(&jobs), Dropped(Arc::clone(&over)));
        let timer = Timer::builder().clock(Clock::custom(|| Duration::ZERO));
        let timer = timer.executor(move |job: cortado::Job| queue.note(job)).start().unwrap();
        timer.after(HOUR, move |_| drop(dropped)).unwrap().detach();
        let settles = timer.clone();
        let job = timer.after(Duration::ZERO, move |_| drop(settles.shutdown(Stop::Settle)));
        job.unwrap().detach();
        // The last run ends on this thread while the timer's own looks for what there is to do.
        jobs.wait()();
        over.wait();
    });
}

#[test]
fn a_future_is_woken_while_it_is_polled() {
    model(|| {
        let timer = Timer::builder().clock(Clock::custom(|| Duration::ZERO));
        let (timer, gate) = gated(timer.executor(|job: cortado::Job| job()));
        let opens = Plain::clone(&gate);
        let opener = thread::spawn(move || open(&opens));
        drive(&timer);
        opener.join().unwrap();
        assert!(gate.has_passed.load(SeqCst) && timer.running() == 0, "it was woken");
    });
}

#[test]
fn an_abort_meets_the_first_poll() {
    model(|| {
        let (timer, waker) = (builder().manual(), Plain::new(Mutex::new(None)));
        let kept = Plain::clone(&waker);
        let job = timer.after(Duration::ZERO, move |_| {
            poll_fn(move |context| {
                // Without it nobody could wake the future, which ends then.
                *kept.lock() = Some(context.waker().clone());
                Poll::<()>::Pending
            })
        });
        let driven = timer.clone();
        let driver = thread::spawn(move || drive(&driven));
        let outcome = job.unwrap().abort();
        driver.join().unwrap();
        drive(&timer);
        assert_eq!((timer.pending(), timer.running()), (0, 0), "{outcome:?}");
        let waker = waker.lock().take();
        drop(waker);
    });
}

/// An operation whose condition is two relaxed flags, which nothing but the operations orders.
struct Both {
    flags: [AtomicBool; 2],
    completions: AtomicUsize,
}

impl Both {
    fn new() -> Plain<Self> {
        let flags = [AtomicBool::new(false), AtomicBool::new(false)];
        Plain::new(Self { flags, completions: AtomicUsize::new(0) })
    }
}

impl DelayedOp for Both {
    fn try_complete(&self) -> bool {
        self.flags.iter().all(|flag| flag.load(Relaxed))
    }

    fn on_complete(&self) {
        self.completions.fetch_add(1, SeqCst);
    }
}

#[test]
fn an_event_that_finds_the_operation_busy_is_not_lost() {
    model(|| {
        let timer = builder().manual();
        let ops: Arc<DelayedOps<u8>> = Arc::new(DelayedOps::new(&timer));
        let op = Both::new();
        let watch = ops.try_complete_else_watch(Plain::clone(&op), Duration::MAX, [1, 2]);
        drop(watch.unwrap());
        let event = |flag: usize, ops: Arc<DelayedOps<u8>>, op: Plain<Both>| {
            op.flags[flag].store(true, Relaxed);
            ops.check(&(flag as u8 + 1))
        };
        let (other_ops, other) = (Arc::clone(&ops), Plain::clone(&op));
        let thread = thread::spawn(move || event(0, other_ops, other));
        let own = event(1, Arc::clone(&ops), Plain::clone(&op));
        assert_eq!(own + thread.join().unwrap(), 1, "completed by one of them");
        assert_eq!(op.completions.load(SeqCst), 1);
        assert_eq!((ops.pending(), ops.watched()), (0, 0));
    });
}

#[test]
fn an_event_meets_an_operation_that_begins_to_watch() {
    model(|| {
        let timer = builder().manual();
        let ops: Arc<DelayedOps<u8>> = Arc::new(DelayedOps::new(&timer));
        let op = Both::new();
        op.flags[0].store(true, Relaxed);
        let (other_ops, other) = (Arc::clone(&ops), Plain::clone(&op));
        let thread = thread::spawn(move || {
            other.flags[1].store(true, Relaxed);
            other_ops.check(&2);
        });
        drop(ops.try_complete_else_watch(Plain::clone(&op), HOUR, [1, 2]).unwrap());
        thread.join().unwrap();
        assert_eq!(op.completions.load(SeqCst), 1, "it was completed");
        assert_eq!((ops.pending(), ops.watched(), timer.pending()), (0, 0, 0), "it left nothing");
    });
}

struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Plain<Self>) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn an_event_wakes_the_task_that_awaits_it() {
    model(|| {
        let timer = builder().manual();
        let ops: Arc<DelayedOps<u8>> = Arc::new(DelayedOps::new(&timer));
        let mut watched = pin!(ops.watch([1], Duration::MAX).unwrap());
        let checks = Arc::clone(&ops);
        let thread = thread::spawn(move || checks.check(&1));
        let woken = Plain::new(Woken(AtomicBool::new(false)));
        let waker = Waker::from(Plain::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let first = watched.as_mut().poll(&mut context);
        assert_eq!(thread.join().unwrap(), 1);
        if first.is_pending() {
            assert!(woken.0.load(SeqCst), "it was woken");
            assert_eq!(watched.poll(&mut context), Poll::Ready(Outcome::Completed));
        }
    });
}

#[test]
fn an_event_meets_the_timeout() {
    model(|| {
        let timer = builder().manual();
        let ops: Arc<DelayedOps<u8>> = Arc::new(DelayedOps::new(&timer));
        let op = Both::new();
        let watch = ops.try_complete_else_watch(Plain::clone(&op), Duration::ZERO, [1]);
        drop(watch.unwrap());
        let (other_ops, other) = (Arc::clone(&ops), Plain::clone(&op));
        let thread = thread::spawn(move || {
            other.flags.iter().for_each(|flag| flag.store(true, Relaxed));
            other_ops.check(&1)
        });
        drive(&timer);
        thread.join().unwrap();
        assert_eq!(op.completions.load(SeqCst), 1, "exactly once");
        assert_eq!((ops.pending(), ops.watched(), timer.pending()), (0, 0, 0));
    });
}
