//! Loom models of the drain status, with a try-lock and a real write buffer.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `no_event_is_left_while_idle` | two writers and a pass: at quiescence an event that waits is required | `drain-finish-overwrites-required`, `write-first-goes-unasked` |
//! | `a_bounded_pass_is_required_again` | the same with passes that take one event | `drain-finish-overwrites-required`, `drain-request-is-relaxed` |
//! | `begin_sees_what_was_left_before_the_request` | the word alone carries the work | `drain-finish-overwrites-required`, `drain-request-is-relaxed` |

use crate::support::explore::model;
use cortado::internals::buffer::stripe_count;
use cortado::internals::buffer::write::{DrainLimits, Pressure, WriteBuffer, WriteLimits};
use cortado::internals::drain::DrainStatus;
use cortado::internals::sync::Patience;
use cortado::internals::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cortado::internals::sync::{Arc, Mutex, set_thread_stripe, thread};

struct Client {
    status: DrainStatus,
    buffer: WriteBuffer,
    limit: usize,
    applied: Mutex<Vec<u64>>,
}

impl Client {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            status: DrainStatus::default(),
            buffer: WriteBuffer::new(
                stripe_count(),
                WriteLimits { batch: 2, weight: u64::MAX, spilled_events: 0, spilled_weight: 0 },
            ),
            limit,
            applied: Mutex::new(Vec::new()),
        })
    }

    /// Runs one pass unless the lock is taken.
    fn try_pass(&self) -> bool {
        let Some(mut applied) = self.applied.try_lock() else { return false };
        let pass = self.status.begin();
        let apply = |batch: &[u64]| applied.extend_from_slice(batch);
        let limits = DrainLimits { stripes: self.limit, spill: 0 };
        let drained = self.buffer.drain(&mut Vec::new(), limits, Patience::Wait, apply);
        pass.finish(drained.more);
        true
    }

    fn write(&self, event: u64) {
        match self.buffer.push(event, 1).expect("two batches are enough here") {
            Pressure::Low => {}
            Pressure::First => self.status.request(),
            Pressure::Drain | Pressure::Urgent => {
                if !self.try_pass() {
                    self.status.request();
                }
            }
        }
    }

    fn check(&self, events: &[u64]) {
        if !self.buffer.is_empty() {
            assert!(self.status.is_required(), "an event is forgotten");
        }
        while self.status.is_required() {
            assert!(self.try_pass());
        }
        let mut applied = self.applied.lock().clone();
        applied.sort_unstable();
        assert_eq!(applied, events);
    }
}

fn writers_and_passes(limit: usize) {
    model(move || {
        let client = Client::new(limit);
        let writers: Vec<_> = (0..2)
            .map(|t| {
                let client = Arc::clone(&client);
                thread::spawn(move || {
                    set_thread_stripe(t);
                    client.write(10 * t as u64 + 1);
                    client.write(10 * t as u64 + 2);
                })
            })
            .collect();
        client.try_pass();
        for writer in writers {
            writer.join().unwrap();
        }
        client.check(&[1, 2, 11, 12]);
    });
}

#[test]
fn no_event_is_left_while_idle() {
    writers_and_passes(usize::MAX);
}

#[test]
fn a_bounded_pass_is_required_again() {
    writers_and_passes(1);
}

/// The queues of the model are mutexes and would hide a missing release or acquire. Here the work
/// is a relaxed counter and nothing but the status orders it.
#[test]
fn begin_sees_what_was_left_before_the_request() {
    model(|| {
        let status = Arc::new(DrainStatus::default());
        let work: Arc<[AtomicUsize; 2]> = Arc::default();
        let writers: Vec<_> = (0..2)
            .map(|t| {
                let (status, work) = (Arc::clone(&status), Arc::clone(&work));
                thread::spawn(move || {
                    work[t].store(1, Relaxed);
                    status.request();
                })
            })
            .collect();
        let pass = status.begin();
        let seen = [work[0].load(Relaxed), work[1].load(Relaxed)];
        pass.finish(false);
        for writer in writers {
            writer.join().unwrap();
        }
        if !status.is_required() {
            assert_eq!(seen, [1, 1], "a request was taken back without its work");
        }
    });
}
