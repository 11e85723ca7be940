//! Threads that run reloads. A reload that another thread runs is an operation of its own: it lasts
//! from the call that has submitted it to the end of its job.

use super::play::{MAKES, ORDER, RELOADS, Record};
use super::reloads::BEGUN;
use super::{Event, Op, Time};
use cortado::Job;
use std::cell::Cell;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

const WORKERS: usize = 2;

std::thread_local! {
    /// The reload that this thread's call asks for, if it does: its operation and its beginning.
    static ASKED: Cell<Option<(Op, u64)>> = const { Cell::new(None) };
}

/// Notes whether the call that begins on this thread asks for a reload.
pub fn begin(op: Op, began: u64) {
    ASKED.set(matches!(op, Op::Reload(_)).then_some((op, began)));
}

/// Whether the call that ends on this thread has submitted the reload that it asked for.
pub fn has_submitted() -> bool {
    ASKED.take().is_none()
}

/// A job, and what is known of its reload.
struct Submitted {
    job: Job,
    op: Op,
    began: u64,
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
        let mine = ORDER.fetch_add(1, SeqCst);
        let (op, began) = ASKED.take().unwrap_or((Op::Renewal, mine));
        record.jobs.fetch_add(1, SeqCst);
        let (from, makes) = (record.dial.now(), MAKES.get());
        drop(self.queue.send(Submitted { job, op, began, from, makes }));
    }
}

fn work(record: &Record, submitted: &Mutex<Receiver<Submitted>>) {
    let next = || submitted.lock().unwrap().recv().ok();
    for Submitted { job, op, began, from, makes } in std::iter::from_fn(next) {
        MAKES.set(makes);
        RELOADS.set(0);
        job();
        let to = record.dial.now();
        let ended = ORDER.fetch_add(1, SeqCst);
        let has_lapsed = op == Op::Renewal && RELOADS.get() == 0;
        let op = if has_lapsed { Op::Lapsed } else { op };
        record.reloads.fetch_add(u64::from(!has_lapsed), Relaxed);
        let readings = vec![from, to];
        let event = Event { op, answer: BEGUN, began, ended, loader: None, readings };
        record.history.lock().unwrap().push(event);
        record.jobs.fetch_sub(1, SeqCst);
    }
}
