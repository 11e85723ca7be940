//! Threads that run reloads. A reload that another thread runs is an operation of its own: it lasts
//! from the call that has submitted it to the end of its job.

use super::play::{MAKES, ORDER, RELOADS, Record};
use super::reloads::BEGUN;
use super::{Event, Op, Time};
use cortado::Job;
use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;

const WORKERS: usize = 2;

/// Whether a call has begun a reload, once it has answered. It answers without waiting for its
/// jobs.
type HasBegun = Arc<OnceLock<bool>>;

/// A call that asks for a reload: its operation, and when it began, in the order of all events and
/// by the clock.
#[derive(Clone, Copy)]
struct Asked {
    op: Op,
    began: u64,
    from: Time,
}

std::thread_local! {
    /// The call of this thread, if it asks for a reload.
    static ASKED: Cell<Option<Asked>> = const { Cell::new(None) };
    /// The answer that the last job of this thread's call waits for.
    static AWAITED: RefCell<Option<HasBegun>> = const { RefCell::new(None) };
}

/// Notes whether the call that begins on this thread asks for a reload.
pub fn begin(op: Op, began: u64, from: Time) {
    ASKED.set(matches!(op, Op::Reload(_)).then_some(Asked { op, began, from }));
}

/// Tells the last job that the call which ends on this thread has submitted whether the call has
/// begun a reload. If not, it has handed on one that another call had left.
pub fn answer(has_begun: bool) {
    if let Some(awaited) = AWAITED.take() {
        awaited.set(has_begun).expect("a call answers once");
    }
}

/// A job, and what is known of its reload.
struct Submitted {
    job: Job,
    began: u64,
    /// The call, if that asks for a reload.
    asked: Option<Asked>,
    has_begun: HasBegun,
    from: Time,
    /// What the stored loader makes if there is no entry.
    makes: u64,
}

/// An executor whose threads note the reloads of their jobs.
pub struct Jobs {
    record: Arc<Record>,
    queue: Sender<Submitted>,
}

impl Jobs {
    pub fn new(record: &Arc<Record>) -> (Self, Vec<JoinHandle<()>>) {
        let (queue, submitted) = channel();
        let submitted = Arc::new(Mutex::new(submitted));
        let worker = |_| {
            let (record, submitted) = (Arc::clone(record), Arc::clone(&submitted));
            std::thread::spawn(move || work(&record, &submitted))
        };
        (Self { record: Arc::clone(record), queue }, (0..WORKERS).map(worker).collect())
    }

    pub fn submit(&self, job: Job) {
        let record = &self.record;
        let began = ORDER.fetch_add(1, SeqCst);
        let (asked, has_begun) = (ASKED.get(), HasBegun::default());
        if asked.is_some() {
            let earlier = AWAITED.replace(Some(Arc::clone(&has_begun)));
            earlier.into_iter().for_each(|earlier| earlier.set(false).expect("not the last one"));
        }
        record.jobs.fetch_add(1, SeqCst);
        let (from, makes) = (record.dial.now(), MAKES.get());
        drop(self.queue.send(Submitted { job, began, asked, has_begun, from, makes }));
    }
}

fn work(record: &Record, submitted: &Mutex<Receiver<Submitted>>) {
    let next = || submitted.lock().unwrap().recv().ok();
    for Submitted { job, began, asked, has_begun, from, makes } in std::iter::from_fn(next) {
        MAKES.set(makes);
        RELOADS.set(0);
        job();
        let to = record.dial.now();
        let ended = ORDER.fetch_add(1, SeqCst);
        let asked = asked.filter(|_| answer_of(&has_begun));
        // A call that asks judges the entry before it submits the job.
        let Asked { op, began, from } = asked.unwrap_or(Asked { op: Op::Renewal, began, from });
        let has_lapsed = op == Op::Renewal && RELOADS.get() == 0;
        let op = if has_lapsed { Op::Lapsed } else { op };
        record.reloads.fetch_add(u64::from(!has_lapsed), Relaxed);
        let readings = vec![from, to];
        let event = Event { op, answer: BEGUN, began, ended, loader: None, readings };
        record.history.lock().unwrap().push(event);
        record.jobs.fetch_sub(1, SeqCst);
    }
}

/// Waits for a call's answer.
fn answer_of(has_begun: &HasBegun) -> bool {
    loop {
        match has_begun.get() {
            Some(&has_begun) => return has_begun,
            None => std::thread::yield_now(),
        }
    }
}
