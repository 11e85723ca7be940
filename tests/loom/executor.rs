//! Loom models of a client's handoff, of tasks in jobs, and of the workers. Time stands still in
//! them: a job is blocked at once or never, and an idle worker ends at once or waits, as the limits
//! of the model say.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `no_request_is_lost` | what was left before a request is seen by a job, and there is one job at a time | `handoff-request-is-relaxed`, `handoff-overlooks-a-running-job`, `handoff-finish-forgets-requests` |
//! | `what_a_dropped_job_leaves_is_seen_by_the_next` | the same, if jobs are dropped unrun or broken off | `handoff-drop-stays-out`, `handoff-overlooks-a-running-job` |
//! | `a_task_is_polled_after_each_wake` | a wake, also one during a poll, is followed by a poll that sees what came before it; each poll sees what the one before it did | `task-wake-is-relaxed`, `task-forgets-wakes` |
//! | `a_worker_that_ends_strands_no_job` | jobs that come while the worker ends run, one at a time | `executor-ends-in-two-steps`, `executor-submits-in-silence` |
//! | `a_worker_that_waits_strands_no_job` | jobs that come while the worker goes to sleep run, one at a time | `executor-submits-in-silence` |
//! | `a_blocked_job_strands_no_job` | a job behind a blocked one runs | `executor-takes-in-silence` |

use std::time::Duration;

use crate::support::explore::model;
use cortado::internals::executor::{Execute, Handoff, Limits, Ticket, Workers, spawn};
use cortado::internals::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cortado::internals::sync::{Arc, Condvar, Mutex, thread};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A client whose work and jobs are relaxed words that nothing but the handoff orders.
struct Client {
    handoff: Handoff,
    work: [AtomicUsize; 2],
    seen: [AtomicUsize; 2],
    jobs: AtomicUsize,
    /// Raised by one job for its duration.
    inside: AtomicUsize,
    /// So many jobs are dropped: the first before it begins, the next while it runs.
    drops: AtomicUsize,
}

impl Client {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            handoff: Handoff::new(),
            work: Default::default(),
            seen: Default::default(),
            jobs: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            drops: AtomicUsize::new(0),
        })
    }

    fn leave_work(&self, word: usize) {
        self.work[word].store(1, Relaxed);
        self.run(self.handoff.request());
    }

    /// Is the executor: runs a job, and the ones that follow it, on this thread.
    fn run(&self, mut ticket: Option<Ticket>) {
        while let Some(submitted) = ticket.take() {
            if self.drops.load(Relaxed) == 2 {
                self.drops.store(1, Relaxed);
                return;
            }
            let running = submitted.begin();
            assert_eq!(self.inside.swap(1, Relaxed), 0, "two jobs at once");
            // A job that does not see what the one before it did counts wrongly.
            self.jobs.store(self.jobs.load(Relaxed) + 1, Relaxed);
            let broken_off = self.drops.load(Relaxed) == 1;
            if broken_off {
                self.drops.store(0, Relaxed);
            } else {
                for word in 0..2 {
                    self.seen[word].store(self.work[word].load(Relaxed), Relaxed);
                }
            }
            self.inside.store(0, Relaxed);
            if broken_off {
                return;
            }
            ticket = running.finish();
        }
    }

    fn has_seen_all(&self) -> bool {
        self.seen.iter().all(|seen| seen.load(Relaxed) == 1)
    }
}

fn leave_work_on_two_threads(client: &Arc<Client>) {
    let other = {
        let client = Arc::clone(client);
        thread::spawn(move || client.leave_work(1))
    };
    client.leave_work(0);
    other.join().unwrap();
}

#[test]
fn no_request_is_lost() {
    model(|| {
        let client = Client::new();
        leave_work_on_two_threads(&client);
        assert!(!client.handoff.is_out());
        assert!(client.has_seen_all(), "a request was lost");
        assert!((1..=2).contains(&client.jobs.load(Relaxed)), "a job too many, or miscounted");
    });
}

#[test]
fn what_a_dropped_job_leaves_is_seen_by_the_next() {
    for drops in [1, 2] {
        model(move || {
            let client = Client::new();
            client.drops.store(drops, Relaxed);
            leave_work_on_two_threads(&client);
            // The last job may have been dropped, or have seen only what was left before it.
            for _ in 0..2 {
                client.run(client.handoff.request());
            }
            assert!(!client.handoff.is_out());
            assert!(client.has_seen_all(), "work was forgotten");
        });
    }
}

/// What a task waits for, and what its polls did, in relaxed words that nothing but the task
/// orders.
struct Errand {
    news: [AtomicUsize; 2],
    polls: AtomicUsize,
    done: AtomicUsize,
    waker: Mutex<Option<Waker>>,
}

impl Errand {
    /// Polled by hand, or by an executor that runs jobs at once. `count` is the task's own.
    fn poll(&self, count: &mut usize, waker: &Waker) -> Poll<()> {
        assert_eq!(self.polls.load(Relaxed), *count, "a poll does not see the one before it");
        *count += 1;
        self.polls.store(*count, Relaxed);
        if *count == 1 {
            *self.waker.lock() = Some(waker.clone());
        }
        if self.news.iter().any(|news| news.load(Relaxed) == 0) {
            return Poll::Pending;
        }
        self.done.store(1, Relaxed);
        Poll::Ready(())
    }
}

#[test]
fn a_task_is_polled_after_each_wake() {
    model(|| {
        let errand = Arc::new(Errand {
            news: Default::default(),
            polls: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            waker: Mutex::new(None),
        });
        let (shared, mut count) = (Arc::clone(&errand), 0);
        let work = poll_fn(move |context| shared.poll(&mut count, context.waker()));
        spawn(Box::pin(work), Box::new(|job| job()));
        let waker = errand.waker.lock().take().unwrap();
        let other = {
            let (errand, waker) = (Arc::clone(&errand), waker.clone());
            thread::spawn(move || {
                errand.news[1].store(1, Relaxed);
                waker.wake();
            })
        };
        errand.news[0].store(1, Relaxed);
        waker.wake();
        other.join().unwrap();
        assert_eq!(errand.done.load(Relaxed), 1, "a wake was lost");
    });
}

/// What a model's jobs did.
struct Done {
    jobs: Mutex<usize>,
    more: Condvar,
    /// Relaxed: nothing but the workers orders the jobs that use it.
    inside: AtomicUsize,
}

impl Done {
    fn new() -> Arc<Self> {
        let (jobs, more) = (Mutex::new(0), Condvar::new());
        Arc::new(Self { jobs, more, inside: AtomicUsize::new(0) })
    }

    fn tell(&self) {
        *self.jobs.lock() += 1;
        self.more.notify_all();
    }

    fn wait_for(&self, number: usize) {
        let mut jobs = self.jobs.lock();
        while *jobs < number {
            jobs = self.more.wait(jobs);
        }
    }
}

/// Submits a job that has to be alone.
fn submit(workers: &Workers, done: &Arc<Done>) {
    let done = Arc::clone(done);
    workers.execute(Box::new(move || {
        assert_eq!(done.inside.swap(1, Relaxed), 0, "two jobs at once");
        done.inside.store(0, Relaxed);
        done.tell();
    }));
}

/// Two threads submit jobs that are never blocked.
fn submit_on_two_threads(linger: Duration) {
    model(move || {
        let limits = Limits { patience: Duration::MAX, linger, threads: 3, parallel: 1 };
        let workers = Arc::new(Workers::with_limits(limits));
        let done = Done::new();
        let other = {
            let (workers, done) = (Arc::clone(&workers), Arc::clone(&done));
            thread::spawn(move || submit(&workers, &done))
        };
        submit(&workers, &done);
        done.wait_for(1);
        submit(&workers, &done);
        done.wait_for(3);
        other.join().unwrap();
        assert_eq!(workers.counts().panics, 0);
    });
}

#[test]
fn a_worker_that_ends_strands_no_job() {
    submit_on_two_threads(Duration::ZERO);
}

#[test]
fn a_worker_that_waits_strands_no_job() {
    submit_on_two_threads(Duration::MAX);
}

#[test]
fn a_blocked_job_strands_no_job() {
    model(|| {
        let limits = Limits {
            patience: Duration::ZERO,
            linger: Duration::MAX,
            threads: usize::MAX,
            parallel: 1,
        };
        let workers = Arc::new(Workers::with_limits(limits));
        let done = Done::new();
        for _ in 0..2 {
            // Each waits until both have begun.
            let done = Arc::clone(&done);
            workers.execute(Box::new(move || {
                done.tell();
                done.wait_for(2);
            }));
        }
        done.wait_for(2);
    });
}
