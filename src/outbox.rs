//! The outbox: an unbounded queue of notifications, with one deliverer at a time.
//!
//! Any thread may push, at any time and under any lock: a push takes no lock and runs no user code.
//! Items are delivered later, by a thread that calls [`deliver`](Outbox::deliver) with no lock
//! held. They are delivered in the order of the queue, one after the other.
//!
//! # Rules
//!
//! 1. A thread that pushes must ensure that [`deliver`](Outbox::deliver) is called afterwards.
//! 2. Only the thread that raised `delivering` pops. A caller may find it raised, by another thread
//!    or because the callback re-enters. Such a caller returns at once: the thread that raised it,
//!    or the call that it arranges for (rule 3), delivers the caller's items.
//! 3. Therefore the thread that lowers `delivering` looks at the queue again, and goes on if it is
//!    not empty. After its limit it returns `more` instead, and the caller must arrange for another
//!    call.
//! 4. When the callback panics, `delivering` is lowered and the panic goes on to the caller of
//!    `deliver`. The item is gone, and the others stay. The code that catches the panic must
//!    arrange for another call.
//! 5. A thread or a task that waits for [progress](Outbox::waiters) sleeps. It is woken after each
//!    item, unless more items are pending than the [limit](Outbox::with_limit) for which it waits;
//!    and whenever `delivering` is lowered, in an outbox with a receiver under the same condition.
//!
//! Then **no item is stranded**. A caller that returned at once has read `true` in its swap. So the
//! deliverer's swap to `false` comes later, and the deliverer sees the item (release and acquire).
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | the queue's own | pushers, the deliverer | both | crossbeam's | the items |
//! | `delivering` | each caller: swap `true`; the deliverer: swap `false` | the next of these, `is_delivering` and `is_idle` | AcqRel with AcqRel and Acquire | pushed items, to the deliverer that lowers it; the effects of one callback, to the next deliverer and to a thread that finds the outbox idle |
//!
//! # Alternatives that lost
//!
//! * A mutex that is held while the callback runs: a callback that re-enters deadlocks.
//! * Lowering `delivering` by a store: this needs a `SeqCst` fence on both sides, or the second
//!   look proves nothing.

use crate::primitives::atomic::{
    AtomicBool,
    Ordering::{AcqRel, Acquire},
};
use crate::primitives::queue::SegQueue;
use crate::primitives::{OnDrop, seeded};
use crate::waiters::Waiters;

/// The result of [`Outbox::deliver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Delivered {
    /// How many items went through the callback.
    pub count: usize,
    /// Whether the limit was reached and items are left. Then the caller must arrange for another
    /// call.
    pub more: bool,
}

/// See the [module](self).
pub struct Outbox<T> {
    queue: SegQueue<T>,
    delivering: AtomicBool,
    waiters: Waiters,
    /// While more items than this are pending, an item that is taken out wakes nobody. `u32::MAX`
    /// is no limit.
    limit: u32,
    /// Whether a receiver takes the items. Then waiters wait for the limit only, and not for the
    /// end of a delivery.
    is_received: bool,
}

impl<T> Outbox<T> {
    /// An outbox whose waiters wait until at most `limit` items are pending. If it has a receiver,
    /// nothing else wakes them: if the end of a delivery did, each item that the receiver takes out
    /// would wake all writers, most of them in vain.
    pub fn with_limit(limit: usize, is_received: bool) -> Self {
        Self {
            queue: SegQueue::new(),
            delivering: AtomicBool::new(false),
            waiters: Waiters::default(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            is_received,
        }
    }

    /// Adds an item at the end. Takes no lock.
    #[inline]
    pub fn push(&self, item: T) {
        self.queue.push(item);
    }

    /// Hands at most `limit` items to `callback`, in order, unless another call is delivering.
    pub fn deliver(&self, limit: usize, mut callback: impl FnMut(T)) -> Delivered {
        let mut count = 0;
        while !self.queue.is_empty() {
            if count == limit {
                return Delivered { count, more: true };
            }
            let Some(delivering) = self.raise() else {
                return Delivered { count, more: false };
            };
            while count < limit
                && let Some(item) = self.queue.pop()
            {
                count += 1;
                callback(item);
                self.waiters.wake_if(|| self.is_within_limit());
            }
            drop(delivering);
            if seeded("outbox-no-second-look") {
                break;
            }
        }
        Delivered { count, more: false }
    }

    /// Makes the caller the deliverer, unless there is one already. The flag is lowered when the
    /// result is dropped, even by a panic of the callback.
    fn raise(&self) -> Option<OnDrop<impl Fn()>> {
        let raised = self.delivering.swap(true, AcqRel);
        let lower = || {
            self.delivering.swap(false, AcqRel);
            self.waiters.wake_if(|| !self.is_received || self.is_within_limit());
        };
        (!raised || seeded("outbox-two-deliverers")).then(|| OnDrop(lower))
    }

    /// Whether at most as many items are pending as the limit says.
    fn is_within_limit(&self) -> bool {
        self.limit == u32::MAX || self.queue.len() <= self.limit as usize
    }

    /// The threads and tasks that wait for progress.
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Whether a thread is delivering. The answer may be outdated when this returns.
    pub fn is_delivering(&self) -> bool {
        self.delivering.load(Acquire)
    }

    /// Whether no item is pending and none is being delivered.
    pub fn is_idle(&self) -> bool {
        // The queue comes first: an item leaves it only while the flag is raised.
        self.queue.is_empty() && !self.delivering.load(Acquire)
    }

    /// How many items are pending.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no item is pending.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}
