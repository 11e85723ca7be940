//! The workers on real threads, and a client's handoff. Nothing here asserts a time: `HANG` only
//! bounds how long a failure takes, and `NEVER` is not reached.
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cortado::internals::executor::{Counts, Handoff, Limits, Ticket, Workers};
use cortado::{Execute, Job};

const HANG: Duration = Duration::from_secs(60);
const NEVER: Duration = Duration::from_secs(100_000);
const SOON: Duration = Duration::from_millis(1);

/// No job is ever blocked.
const PATIENT: Limits = Limits { patience: NEVER, linger: NEVER, threads: usize::MAX, parallel: 1 };
/// Every job is blocked soon.
const IMPATIENT: Limits =
    Limits { patience: SOON, linger: NEVER, threads: usize::MAX, parallel: 1 };

fn next<T>(events: &Receiver<T>) -> T {
    events.recv_timeout(HANG).expect("the workers hang")
}

/// Waits for what comes about by itself.
fn wait_until(workers: &Workers, reached: impl Fn(Counts) -> bool) -> Counts {
    let start = Instant::now();
    loop {
        let counts = workers.counts();
        if reached(counts) {
            return counts;
        }
        assert!(start.elapsed() < HANG, "never reached: {counts:?}");
        thread::yield_now();
    }
}

/// A job that tells the name of its thread.
fn telling(tell: &Sender<String>) -> Job {
    let tell = tell.clone();
    Box::new(move || tell.send(thread::current().name().unwrap_or("?").to_owned()).unwrap())
}

/// A job that tells that it has begun and waits until the sender is dropped.
fn blocking(begun: &Sender<()>) -> (Job, Sender<()>) {
    let (release, wait) = channel::<()>();
    let begun = begun.clone();
    let job = move || {
        begun.send(()).unwrap();
        let _ = wait.recv();
    };
    (Box::new(job), release)
}

#[test]
fn one_thread_runs_one_job_after_the_other() {
    let workers = Workers::with_limits(PATIENT);
    assert_eq!(workers.counts().threads_started, 0);
    let (tell, told) = channel();
    for _ in 0..10 {
        workers.execute(telling(&tell));
        assert_eq!(next(&told), "cortado-worker");
        wait_until(&workers, |counts| counts.busy == 0);
    }
    assert_eq!(workers.counts().threads_started, 1);
}

#[test]
fn short_jobs_run_in_order_and_never_two_at_once() {
    const JOBS: usize = 1_000;
    let workers = Workers::with_limits(PATIENT);
    let (tell, told) = channel();
    let inside = Arc::new(Mutex::new(()));
    for number in 0..JOBS {
        let (tell, inside) = (tell.clone(), Arc::clone(&inside));
        workers.execute(Box::new(move || {
            let alone = inside.try_lock().is_ok();
            tell.send((number, alone)).unwrap();
        }));
    }
    for number in 0..JOBS {
        assert_eq!(next(&told), (number, true));
    }
    let counts = wait_until(&workers, |counts| counts.busy == 0);
    assert!(counts.threads_started <= 2, "{counts:?}");
}

#[test]
fn blocked_jobs_hold_up_only_themselves() {
    const BLOCKED: usize = 20;
    const SHORT: usize = 200;
    for limits in [IMPATIENT, Limits { patience: Limits::default().patience, ..IMPATIENT }] {
        let workers = Workers::with_limits(limits);
        let (begun, begins) = channel();
        let (tell, told) = channel();
        let mut releases = Vec::new();
        for _ in 0..BLOCKED {
            let (job, release) = blocking(&begun);
            releases.push(release);
            workers.execute(job);
            for _ in 0..SHORT / BLOCKED {
                workers.execute(telling(&tell));
            }
        }
        (0..SHORT).for_each(|_| assert_eq!(next(&told), "cortado-worker"));
        (0..BLOCKED).for_each(|_| next(&begins));
        let counts = wait_until(&workers, |counts| counts.busy == BLOCKED);
        assert!(counts.threads <= BLOCKED + 3, "{counts:?}");
        drop(releases);
        // Those that are not needed end at once, though the linger is long.
        wait_until(&workers, |counts| counts.busy == 0 && counts.threads <= 2);
        workers.execute(telling(&tell));
        next(&told);
    }
}

/// Without patience running out, a job behind a long one waits for it.
#[test]
fn a_job_that_makes_progress_is_waited_for() {
    let workers = Workers::with_limits(PATIENT);
    let (begun, begins) = channel();
    let (tell, told) = channel();
    let (job, release) = blocking(&begun);
    workers.execute(job);
    next(&begins);
    workers.execute(telling(&tell));
    // The second thread watches and does not take the job.
    let counts = wait_until(&workers, |counts| counts.threads == 2);
    assert_eq!((counts.busy, counts.waiting), (1, 1));
    assert!(told.try_recv().is_err());
    drop(release);
    next(&told);
}

#[test]
fn a_job_that_panics_stops_nobody() {
    /// Panics once more when what was thrown is dropped.
    struct Twice;
    impl Drop for Twice {
        fn drop(&mut self) {
            panic!("seeded: second");
        }
    }
    let workers = Workers::with_limits(PATIENT);
    let (tell, told) = channel();
    for round in 1..=3 {
        workers.execute(Box::new(|| std::panic::panic_any(Twice)));
        workers.execute(telling(&tell));
        next(&told);
        assert_eq!(workers.counts().panics, round);
    }
}

#[test]
fn a_job_may_submit_jobs() {
    fn countdown(workers: &Arc<Workers>, left: usize, tell: Sender<String>) {
        let again = Arc::clone(workers);
        workers.execute(match left {
            0 => telling(&tell),
            _ => Box::new(move || countdown(&again, left - 1, tell)),
        });
    }
    let workers = Arc::new(Workers::with_limits(PATIENT));
    let (tell, told) = channel();
    countdown(&workers, 100, tell);
    assert_eq!(next(&told), "cortado-worker");
}

#[test]
fn the_waiting_jobs_of_dropped_workers_run() {
    let (tell, told) = channel();
    let (begun, begins) = channel();
    let workers = Workers::with_limits(PATIENT);
    let (job, release) = blocking(&begun);
    workers.execute(job);
    next(&begins);
    (0..10).for_each(|_| workers.execute(telling(&tell)));
    drop((workers, tell));
    assert!(told.try_recv().is_err());
    drop(release);
    assert_eq!(told.iter().count(), 10);
}

#[test]
fn without_a_thread_jobs_are_dropped_and_with_one_they_wait() {
    struct Dropped(Sender<&'static str>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.send("dropped").unwrap();
            panic!("seeded: a destructor");
        }
    }
    let (tell, told) = channel();
    let none = Workers::with_limits(Limits { threads: 0, ..IMPATIENT });
    let dropped = Dropped(tell.clone());
    none.execute(Box::new(move || dropped.0.send("ran").unwrap()));
    assert_eq!(told.try_recv(), Ok("dropped"));
    let counts = none.counts();
    assert_eq!((counts.waiting, counts.panics, counts.threads), (0, 1, 0));

    let one = Workers::with_limits(Limits { threads: 1, ..IMPATIENT });
    let (begun, begins) = channel();
    let (job, release) = blocking(&begun);
    one.execute(job);
    next(&begins);
    one.execute(Box::new(move || tell.send("ran").unwrap()));
    assert_eq!(one.counts().waiting, 1);
    drop(release);
    assert_eq!(next(&told), "ran");
}

#[test]
fn idle_threads_end_and_others_begin() {
    let workers = Workers::with_limits(Limits { linger: SOON, ..PATIENT });
    let (tell, told) = channel();
    for round in 1..=3 {
        workers.execute(telling(&tell));
        next(&told);
        let counts = wait_until(&workers, |counts| counts.threads == 0);
        assert_eq!(counts.threads_started, round);
    }
}

/// An idle worker sleeps once, for all of its linger. One that looked at times would wake up
/// hundreds of times; the bound leaves room for spurious wake-ups.
#[test]
fn nobody_wakes_up_while_there_is_nothing_to_do() {
    let linger = Duration::from_millis(500);
    let workers = Workers::with_limits(Limits { linger, ..IMPATIENT });
    let (tell, told) = channel();
    let (begun, begins) = channel();
    // One thread is in a job, one or two have nothing to do.
    let (job, release) = blocking(&begun);
    workers.execute(job);
    next(&begins);
    workers.execute(telling(&tell));
    next(&told);
    wait_until(&workers, |counts| counts.threads == 1);
    let woken = workers.counts().wake_ups;
    drop(release);
    let counts = wait_until(&workers, |counts| counts.threads == 0);
    assert!(woken <= 20, "woken {woken} times");
    assert!(counts.wake_ups - woken <= 10, "{counts:?}");
}

#[test]
fn there_is_one_executor_for_the_process() {
    assert!(std::ptr::eq(Workers::global(), Workers::global()));
    let (tell, told) = channel();
    Workers::global().execute(telling(&tell));
    assert_eq!(next(&told), "cortado-worker");
    wait_until(Workers::global(), |counts| counts.threads == 0);
}

#[test]
fn a_function_is_an_executor() {
    let executor: Box<dyn Execute> = Box::new(|job: Job| job());
    let (tell, told) = channel();
    executor.execute(Box::new(move || tell.send(()).unwrap()));
    next(&told);
}

#[test]
fn a_ticket_is_given_to_the_first_request_only() {
    let handoff = Handoff::new();
    assert!(!handoff.is_out());
    let queued = handoff.request().unwrap();
    assert!(handoff.is_out() && handoff.request().is_none());
    let running = queued.begin();
    assert!(handoff.is_out());
    assert!(running.finish().is_none(), "the request before the beginning was seen by it");
    assert!(!handoff.is_out());

    let running = handoff.request().unwrap().begin();
    assert!(handoff.request().is_none());
    let again = running.finish().expect("requested again");
    assert!(handoff.request().is_none());
    assert!(again.begin().finish().is_none());
}

#[test]
fn after_a_drop_the_next_request_gets_a_ticket() {
    let handoff = Handoff::new();
    drop(handoff.request());
    assert!(!handoff.is_out());
    drop(handoff.request().expect("a request after a drop gets a ticket").begin());
    assert!(!handoff.is_out());
    let queued = handoff.request().expect("a request after a broken job gets a ticket");
    assert!(queued.begin().finish().is_none());
    assert!(!handoff.is_out());
}

/// A client of which each seventh job panics.
struct Client {
    handoff: Handoff,
    work: AtomicUsize,
    done: AtomicUsize,
    jobs: AtomicUsize,
    inside: Mutex<()>,
}

impl Client {
    fn submit(self: &Arc<Self>, workers: &Arc<Workers>, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        let (client, again) = (Arc::clone(self), Arc::clone(workers));
        workers.execute(Box::new(move || {
            let running = ticket.begin();
            let alone = client.inside.try_lock().expect("two jobs at once");
            if client.jobs.fetch_add(1, SeqCst) % 7 == 6 {
                drop(alone);
                resume_unwind(Box::new("seeded"));
            }
            client.done.fetch_add(client.work.swap(0, SeqCst), SeqCst);
            drop(alone);
            client.submit(&again, running.finish());
        }));
    }
}

/// All work is done by one job at a time, and whoever waits for it requests another after
/// jobs that panicked.
#[test]
fn no_request_is_lost_on_real_threads() {
    const ROUNDS: usize = 2_000;
    let workers = Arc::new(Workers::with_limits(IMPATIENT));
    let client = Arc::new(Client {
        handoff: Handoff::new(),
        work: AtomicUsize::new(0),
        done: AtomicUsize::new(0),
        jobs: AtomicUsize::new(0),
        inside: Mutex::new(()),
    });
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    client.work.fetch_add(1, SeqCst);
                    client.submit(&workers, client.handoff.request());
                }
            });
        }
    });
    wait_until(&workers, |_| {
        if client.work.load(SeqCst) > 0 {
            client.submit(&workers, client.handoff.request());
        }
        client.done.load(SeqCst) == 2 * ROUNDS
    });
    wait_until(&workers, |counts| counts.busy == 0 && counts.waiting == 0);
    assert!(!client.handoff.is_out());
    assert_eq!(workers.counts().panics as usize, client.jobs.load(SeqCst) / 7);
}
