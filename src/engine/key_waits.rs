//! Callers that wait for a key: for the end of its reload, or for a value that anyone may bring.
//!
//! They wait by the hash of the key. The end of a reload, and each insert, wakes those of its hash,
//! with no lock held. Where nobody waits, that is a fence and an atomic read.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `waiting` | who waits, under the table's lock | who wakes | Relaxed, between fences | that somebody must be woken |
//! | `wakes` of a gate | who wakes | who waits | Release / Acquire | what was done before the wake, to the next look |

use super::reentrancy::{Frame, ReentrancyMark};
use crate::hash::Hash32;
use crate::primitives::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};
use crate::primitives::guarded::GuardedU32;
use crate::primitives::time::{Duration, Instant};
use crate::primitives::{Mutex, plain::Arc, seeded};
use crate::waiters::Waiters;
use std::collections::HashMap;
use std::future::poll_fn;

/// Those who wait for keys of one hash.
struct Gate {
    /// How often they were woken.
    wakes: AtomicU64,
    /// How many they are. The table's lock orders it.
    count: GuardedU32,
    waiters: Waiters,
}

/// See the [module](self).
#[derive(Default)]
pub struct KeyWaits {
    waiting: AtomicUsize,
    gates: Mutex<HashMap<u32, Arc<Gate>>>,
}

impl KeyWaits {
    /// Begins to wait: from now on no wake is missed.
    pub fn on(&self, hash: Hash32) -> KeyWait<'_> {
        let mut gates = self.gates.lock();
        self.waiting.fetch_add(1, Relaxed);
        let gate = Arc::clone(gates.entry(hash.raw()).or_insert_with(|| {
            let (wakes, count) = (AtomicU64::new(0), GuardedU32::new(0));
            Arc::new(Gate { wakes, count, waiters: Waiters::default() })
        }));
        gate.count.fetch_add(1, Relaxed);
        drop(gates);
        // Partner: the fence in `wake`.
        fence(SeqCst);
        KeyWait { waits: self, hash, gate }
    }

    /// Wakes those who wait for a key with this hash.
    pub fn wake(&self, hash: Hash32) {
        // Who waits raises `waiting`, passes a fence, and then looks. The caller has done what they
        // look for. So at least one of the two sees the other.
        fence(SeqCst);
        if self.waiting.load(Relaxed) == 0 || seeded("key-waits-are-not-woken") {
            return;
        }
        let gate = self.gates.lock().get(&hash.raw()).cloned();
        if let Some(gate) = gate {
            gate.wakes.fetch_add(1, Release);
            // A waker may run its task at once.
            let _turn = ReentrancyMark::push(Frame::Turn);
            gate.waiters.wake();
        }
    }
}

/// One caller's wait.
pub struct KeyWait<'a> {
    waits: &'a KeyWaits,
    hash: Hash32,
    gate: Arc<Gate>,
}

impl KeyWait<'_> {
    /// Blocks until `is_done` returns true, or until `deadline`. `is_done` is asked after each
    /// wake, with no lock held.
    pub fn block(&self, deadline: Option<Instant>, is_done: impl Fn() -> bool) {
        loop {
            let seen = self.gate.wakes.load(Acquire);
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if is_done() || left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let is_woken = || self.gate.wakes.load(Relaxed) != seen;
            self.gate.waiters.wait_until(left.unwrap_or(Duration::MAX), is_woken);
        }
    }

    /// [`block`](Self::block) for a task, without a deadline: until `done` returns something.
    pub async fn wait_for<T>(&self, done: impl Fn() -> Option<T>) -> T {
        let mut wait = self.gate.waiters.wait();
        poll_fn(|context| {
            loop {
                let seen = self.gate.wakes.load(Acquire);
                if let Some(done) = done() {
                    return std::task::Poll::Ready(done);
                }
                let is_woken = || self.gate.wakes.load(Relaxed) != seen;
                std::task::ready!(wait.poll(context, is_woken));
            }
        })
        .await
    }
}

impl Drop for KeyWait<'_> {
    fn drop(&mut self) {
        let mut gates = self.waits.gates.lock();
        self.waits.waiting.fetch_sub(1, Relaxed);
        if self.gate.count.fetch_sub(1, Relaxed) == 1 {
            gates.remove(&self.hash.raw());
        }
    }
}
