//! The receiver of removals, in a cache that has one instead of listeners.
//!
//! The notices stay in the outbox until the receiver takes them out, one at a time and in order.
//! So the limit of waiting notices, its overflow and its counts hold as for listeners.
//!
//! # Rules
//!
//! 1. A thread that pushes a notice passes a fence, and then looks whether the receiver is
//!    *parked*. The look comes later, when the thread holds no lock: a waker is user code.
//! 2. The receiver leaves its waker, says that it is parked, passes a fence, and then looks at the
//!    outbox once more. So at least one of the two sees the other.
//! 3. Whoever finds the receiver parked takes the mark back and calls the waker once.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `stage` | the thread that takes the receiver, its drop | all | AcqRel | nothing |
//! | `is_ended` | the closing thread, the last handle's drop | the receiver, and the writers that wait for it | Release / Acquire | the notices before the end |
//! | `is_parked` | the receiver, the waking thread | the threads that push | Relaxed, between fences | that the receiver must be woken |

use crate::primitives::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    fence,
};
use crate::primitives::{Mutex, catch_user_panic, seeded};
use std::task::Waker;

/// Nobody has asked for the receiver.
const WAITING: u8 = 0;
const TAKEN: u8 = 1;
/// The receiver was dropped, and no other was taken since.
const GONE: u8 = 2;

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Receiving {
    stage: AtomicU8,
    is_ended: AtomicBool,
    is_parked: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Receiving {
    /// True if there is no receiver: the caller is it from now on.
    pub fn take(&self) -> bool {
        let take = |from| self.stage.compare_exchange(from, TAKEN, AcqRel, Acquire).is_ok();
        take(WAITING) || take(GONE)
    }

    /// Whether there is a receiver.
    pub fn is_taken(&self) -> bool {
        self.stage.load(Acquire) == TAKEN
    }

    /// The receiver was dropped: nobody will receive what is pushed from now on.
    pub fn give_up(&self) {
        self.stage.store(GONE, Release);
    }

    pub fn is_gone(&self) -> bool {
        self.stage.load(Acquire) == GONE
    }

    /// Whether writers wait for the receiver: it is taken, and the end has not come. (A removal
    /// beside the end may be queued when the receiver has seen the end already.)
    pub fn is_awaited(&self) -> bool {
        self.is_taken() && !self.is_ended()
    }

    /// Nothing more will be pushed. Wakes the receiver.
    pub fn end(&self) {
        self.is_ended.store(true, Release);
        self.note_push();
        self.wake();
    }

    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Acquire)
    }

    /// To be called right after a push. Partner: the fence in `park`.
    pub fn note_push(&self) {
        fence(SeqCst);
    }

    /// Whether the receiver waits for its waker to be called.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.is_parked.load(Relaxed)
    }

    /// Calls the waker if the receiver is parked. No lock may be held.
    pub fn wake(&self) {
        if self.is_parked() && self.is_parked.swap(false, AcqRel) && !seeded("receivers-sleep-on") {
            let waker = self.waker.lock().take();
            if let Some(waker) = waker {
                let _ = catch_user_panic(|| waker.wake());
            }
        }
    }

    /// Leaves the waker to be called after the next push. The receiver must look at the outbox once
    /// more.
    pub fn park(&self, waker: &Waker) {
        let waker = waker.clone();
        let replaced = self.waker.lock().replace(waker);
        drop(replaced);
        self.is_parked.store(true, Release);
        // Partner: the fence in `note_push`.
        fence(SeqCst);
    }
}
