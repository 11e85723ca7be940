//! Loom models of the read and the write buffer.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `reads` | a drained id was stored, and once; what was stored is drained | `read-push-hides-a-drop` |
//! | `writes_in_one_stripe` | at quiescence an event that waits has been asked for; none lost, none twice | `write-drain-forgets-the-rest`, `write-first-goes-unasked`, `write-publish-relaxed` |
//! | `writes_in_two_stripes` | the same, in stripes of their own | `write-drain-forgets-the-rest`, `write-first-goes-unasked` |
//! | `a_pass_applies_what_was_written_before_it` | an event behind one that is just being stored is not passed over | `write-drain-ends-at-a-gap` |
//! | `refused_writes` | a refusal leaves no account behind | `write-refusal-keeps-reservation` |
//! | `spilled_writes` | what a writer spills while another one has the lock has been asked for; none lost, none twice; within the limit | `write-spill-takes-all` |

use crate::support::explore::model;
use cortado::internals::buffer::read::{Push, ReadBuffer};
use cortado::internals::buffer::stripe_count;
use cortado::internals::buffer::write::{DrainLimits, Pressure, WriteBuffer, WriteLimits};
use cortado::internals::links::NodeId;
use cortado::internals::sync::Patience;
use cortado::internals::sync::atomic::{
    AtomicBool, AtomicUsize, Ordering::AcqRel, Ordering::Acquire,
};
use cortado::internals::sync::{Arc, Mutex, MutexGuard, set_thread_stripe, thread};

#[test]
fn reads() {
    model(|| {
        let buffer = Arc::new(ReadBuffer::new());
        let stored = Arc::new(AtomicUsize::new(0));
        let pushers: Vec<_> = (0..2_u32)
            .map(|t| {
                let (buffer, stored) = (Arc::clone(&buffer), Arc::clone(&stored));
                thread::spawn(move || {
                    for i in 1..=2 {
                        if buffer.push(NodeId::from_raw(10 * t + i)) != Push::Full {
                            stored.fetch_add(1, AcqRel);
                        }
                    }
                })
            })
            .collect();
        let mut drained = Vec::new();
        buffer.drain(3, &mut drained);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        buffer.drain(usize::MAX, &mut drained);
        assert!(buffer.is_empty());
        assert_eq!(drained.len(), stored.load(Acquire));
        for t in 0..2 {
            let of_thread: Vec<u64> = drained.iter().copied().filter(|id| id / 10 == t).collect();
            assert!(of_thread.is_sorted_by(|a, b| a < b), "twice or out of order: {drained:?}");
        }
    });
}

/// A write buffer with the least that its client needs: a lock and a word that says that a pass is
/// required.
struct Client {
    buffer: WriteBuffer,
    required: AtomicBool,
    applied: Mutex<Vec<u64>>,
}

impl Client {
    fn new(batch: usize, spilled: u64) -> Arc<Self> {
        Arc::new(Self {
            buffer: WriteBuffer::new(
                stripe_count(),
                WriteLimits {
                    batch,
                    weight: u64::MAX,
                    spilled_events: spilled,
                    spilled_weight: spilled,
                },
            ),
            required: AtomicBool::new(false),
            applied: Mutex::new(Vec::new()),
        })
    }

    fn pass(&self, limit: usize) {
        self.drain(self.applied.lock(), limit);
    }

    fn drain(&self, mut applied: MutexGuard<'_, Vec<u64>>, limit: usize) {
        self.required.swap(false, AcqRel);
        let apply = |batch: &[u64]| applied.extend_from_slice(batch);
        let limits = DrainLimits { stripes: limit, spill: limit };
        if self.buffer.drain(&mut Vec::new(), limits, Patience::Wait, apply).more {
            self.required.swap(true, AcqRel);
        }
    }

    fn write(&self, event: u64) {
        loop {
            match self.buffer.push(event, 1) {
                Ok(Pressure::Low) => return,
                Ok(_) => {
                    self.required.swap(true, AcqRel);
                    return;
                }
                Err(refused) => {
                    assert_eq!(refused, event);
                    match self.applied.try_lock() {
                        Some(applied) => self.drain(applied, usize::MAX),
                        None if self.buffer.spill.push(event, 1) => {
                            self.required.swap(true, AcqRel);
                            return;
                        }
                        None => self.pass(usize::MAX),
                    }
                }
            }
        }
    }

    /// At quiescence: what waits has been asked for, and everything arrives once.
    fn check(&self, events: &[u64]) {
        let waiting = events.len() - self.applied.lock().len();
        assert_eq!(self.buffer.is_empty(), waiting == 0);
        assert_eq!(self.buffer.pending_weight(), waiting as u64);
        if waiting > 0 {
            assert!(self.required.load(Acquire), "{waiting} events forgotten");
        }
        self.pass(usize::MAX);
        assert!(self.buffer.is_empty());
        let mut applied = self.applied.lock().clone();
        applied.sort_unstable();
        assert_eq!(applied, events);
    }
}

fn writes(second_stripe: usize, batch: usize, limit: usize) {
    model(move || {
        let client = Client::new(batch, 0);
        let writers: Vec<_> = (0..2)
            .map(|t| {
                let client = Arc::clone(&client);
                thread::spawn(move || {
                    set_thread_stripe(t * second_stripe);
                    client.write(10 * t as u64 + 1);
                    client.write(10 * t as u64 + 2);
                })
            })
            .collect();
        client.pass(limit);
        for writer in writers {
            writer.join().unwrap();
        }
        client.check(&[1, 2, 11, 12]);
    });
}

#[test]
fn writes_in_one_stripe() {
    writes(0, 4, usize::MAX);
    writes(0, 4, 1);
}

#[test]
fn writes_in_two_stripes() {
    writes(1, 4, usize::MAX);
    writes(1, 4, 1);
}

#[test]
fn refused_writes() {
    writes(0, 1, 1);
}

/// A stripe holds two events, the spill one: the third is the last thing that its writer does, or a
/// fourth has to wait for the pass.
#[test]
fn spilled_writes() {
    spill(3);
    spill(4);
}

fn spill(last: u64) {
    model(move || {
        let client = Client::new(1, 1);
        let (writer, passer) = (Arc::clone(&client), Arc::clone(&client));
        let writer = thread::spawn(move || {
            set_thread_stripe(0);
            for event in 1..=last {
                writer.write(event);
                assert!(writer.buffer.spill.count() <= 1, "more than the limit");
            }
        });
        let passer = thread::spawn(move || passer.pass(usize::MAX));
        writer.join().unwrap();
        passer.join().unwrap();
        client.check(&(1..=last).collect::<Vec<_>>());
    });
}

/// Also when the other one is between its two steps, in the place before.
#[test]
fn a_pass_applies_what_was_written_before_it() {
    model(|| {
        let client = Client::new(4, 0);
        let other = Arc::clone(&client);
        let other = thread::spawn(move || {
            set_thread_stripe(0);
            other.write(1);
        });
        set_thread_stripe(0);
        client.write(2);
        client.pass(usize::MAX);
        assert!(client.applied.lock().contains(&2));
        other.join().unwrap();
        client.check(&[1, 2]);
    });
}
