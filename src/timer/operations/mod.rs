//! Delayed operations: each completes by an event on one of its keys or by its timeout, exactly
//! once, whichever is first.
//!
//! # Rules
//!
//! 1. The first outcome that is stored, under the operation's lock, is how an operation ends. The
//!    thread that stores it unlinks the operation from all keys, cancels its timeout, and calls its
//!    callbacks, in this order. Nothing of an operation that has ended stays behind.
//! 2. A new operation is tried, linked to its keys, and tried again. An event before the linking is
//!    seen by the second look; an event after it finds the operation. So no event is lost.
//! 3. An event that finds another look under way leaves a mark ([`Handoff`]), and does not wait.
//!    Whoever looks finds the mark when the look is over, and looks again. So no event is lost
//!    here, either, and two events cannot wait for each other.
//! 4. An operation may end while it is being linked: then its unlinking may have come too early. So
//!    whoever links looks at the state afterwards, and unlinks again.
//! 5. Conditions and callbacks run with no lock held.
//! 6. Callbacks of one thread never run inside of each other. Those of an operation that a callback
//!    ends follow when it has returned ([`callbacks`]).
//!
//! [`Handoff`]: crate::executor::Handoff

mod callbacks;
mod keys;
mod op;
mod watch;

use super::error::TimerError;
use super::service::Timer;
use crate::macros::debug_fields;
use crate::primitives::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::primitives::plain::{Arc, Weak};
use crate::primitives::{on_unwind, seeded};
use equivalent::Equivalent;
use keys::Keys;
use op::Op;
use std::hash::Hash;
use std::time::Duration;

pub use op::{DelayedOp, Outcome};
pub use watch::WatchFuture;

/// The result of [`DelayedOps::try_complete_else_watch`].
#[derive(Debug)]
pub enum Attempt<K: Hash + Eq + Clone + Send + Sync + 'static> {
    /// The condition held. The operation is completed.
    Completed,
    /// The operation waits for an event or for its timeout.
    Watching(OpRef<K>),
}

/// Operations that wait for events on keys, or for their timeouts: what Kafka calls a purgatory. A
/// clone is another handle of the same operations.
///
/// An operation is any [`DelayedOp`]: a condition and callbacks. It watches one key or several.
/// [`check`](Self::check) says that something has happened to a key: the operations of the key are
/// tried, and those whose condition holds are completed. What is not completed in time expires.
///
/// Dropping the last handle cancels all operations.
///
/// `Hash` and `Eq` of keys are called under a lock: they must not call the operations.
///
/// ```
/// use cortado::Clock;
/// use cortado::timer::{Attempt, DelayedOp, DelayedOps, Timer};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
/// use std::time::Duration;
///
/// /// A write that is complete when three replicas have it.
/// struct Write { acknowledged: AtomicU32 }
///
/// impl DelayedOp for Write {
///     fn try_complete(&self) -> bool { self.acknowledged.load(SeqCst) >= 3 }
///     fn on_complete(&self) { println!("answer the client") }
///     fn on_expire(&self) { println!("with an error: not enough replicas") }
/// }
///
/// let (clock, _hand) = Clock::manual();
/// let timer = Timer::builder().clock(clock).manual();
/// let writes = DelayedOps::new(&timer);
/// let write = Arc::new(Write { acknowledged: AtomicU32::new(1) });
/// let timeout = Duration::from_secs(30);
/// let watch = writes.try_complete_else_watch(Arc::clone(&write), timeout, ["partition 7"])?;
/// assert!(matches!(watch, Attempt::Watching(_)));
///
/// write.acknowledged.fetch_add(1, SeqCst);
/// assert_eq!(writes.check("partition 7"), 0);
/// write.acknowledged.fetch_add(1, SeqCst);
/// assert_eq!(writes.check("partition 7"), 1);
/// assert_eq!((writes.pending(), writes.watched(), timer.pending()), (0, 0, 0));
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
pub struct DelayedOps<K: Hash + Eq + Clone + Send + Sync + 'static> {
    owner: Arc<Owner<K>>,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Clone for DelayedOps<K> {
    fn clone(&self) -> Self {
        Self { owner: Arc::clone(&self.owner) }
    }
}

/// Cancels all operations when it is dropped.
struct Owner<K: Hash + Eq + Clone + Send + Sync + 'static> {
    shared: Arc<Shared<K>>,
}

struct Shared<K> {
    keys: Keys<K>,
    timer: Timer,
    next: AtomicU64,
    pending: AtomicUsize,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Shared<K> {
    /// Ends an operation, if nobody else has.
    fn end(&self, op: &Op<K>, outcome: Outcome) -> bool {
        if !op.end(outcome) {
            return false;
        }
        self.untie(op);
        callbacks::call(op.user(), outcome, &self.timer);
        true
    }

    /// Unlinks an operation that has ended from everything. It may be called again.
    fn untie(&self, op: &Op<K>) {
        self.keys.unlink(op);
        let mut state = op.state.lock();
        let timeout = state.timeout.take();
        let was_counted = std::mem::take(&mut state.is_counted);
        drop(state);
        if was_counted {
            self.pending.fetch_sub(1, Relaxed);
        }
        if let Some(timeout) = timeout {
            self.timer.cancel(timeout);
        }
    }

    /// Looks at the condition, and completes the operation if it holds.
    fn attempt(&self, op: &Op<K>) -> bool {
        op.attempt(|| self.timer.note_panic()) && self.end(op, Outcome::Completed)
    }

    /// Links an operation to its keys (rule 4).
    fn link(&self, op: &Arc<Op<K>>) {
        op.state.lock().is_counted = true;
        self.pending.fetch_add(1, Relaxed);
        let link = || self.keys.link(op);
        // If a key's `clone` or `Eq` panics, nobody gets a handle. An event may have ended the
        // operation before.
        let unlink = || {
            self.end(op, Outcome::Cancelled);
            self.untie_if_ended(op);
        };
        on_unwind(link, unlink);
        self.untie_if_ended(op);
    }

    fn untie_if_ended(&self, op: &Op<K>) {
        if op.outcome().is_some() && !seeded("operations-unlink-once") {
            self.untie(op);
        }
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Drop for Owner<K> {
    fn drop(&mut self) {
        for op in self.shared.keys.all() {
            self.shared.end(&op, Outcome::Cancelled);
        }
    }
}

/// The job of a timeout. If the timer drops it without running it, the operation is cancelled.
struct Timeout<K: Hash + Eq + Clone + Send + Sync + 'static>(OpRef<K>);

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Timeout<K> {
    fn expire(self) {
        self.0.end(Outcome::Expired);
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Drop for Timeout<K> {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> DelayedOps<K> {
    /// Makes a place for operations whose timeouts are jobs of this timer, which it keeps.
    #[must_use]
    pub fn new(timer: &Timer) -> Self {
        let (next, pending) = (AtomicU64::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared { keys: Keys::new(), timer: timer.clone(), next, pending });
        Self { owner: Arc::new(Owner { shared }) }
    }

    fn shared(&self) -> &Arc<Shared<K>> {
        &self.owner.shared
    }

    fn op(
        &self,
        keys: impl IntoIterator<Item = K>,
        user: Arc<dyn DelayedOp>,
    ) -> Result<Arc<Op<K>>, TimerError> {
        let number = self.shared().next.fetch_add(1, Relaxed);
        // A key may panic: the operation catches what the user's destructor does then.
        let mut op = Op::new(number, Box::default(), user);
        op.keys = self.shared().keys.hashed(keys);
        if op.keys.is_empty() { Err(TimerError::Empty) } else { Ok(Arc::new(op)) }
    }

    fn handle(&self, op: Arc<Op<K>>) -> OpRef<K> {
        OpRef { shared: Arc::downgrade(self.shared()), op }
    }

    /// Tries an operation. If its condition does not hold, the operation watches its keys from then
    /// on, until it completes, or expires after `timeout`. `Duration::MAX` means: no timeout.
    ///
    /// An event on one of the keys that comes at any moment after the call has begun is not lost.
    ///
    /// # Errors
    ///
    /// [`Empty`](TimerError::Empty) without keys; [`Stopped`](TimerError::Stopped) and
    /// [`Full`](TimerError::Full) if the timer refuses the timeout. The operation is cancelled
    /// then, unless an event has completed it meanwhile.
    pub fn try_complete_else_watch(
        &self,
        op: Arc<impl DelayedOp>,
        timeout: Duration,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Attempt<K>, TimerError> {
        let (shared, op) = (self.shared(), self.op(keys, op)?);
        if shared.attempt(&op) {
            return Ok(Attempt::Completed);
        }
        shared.link(&op);
        if !seeded("operations-try-once") && shared.attempt(&op) {
            return Ok(Attempt::Completed);
        }
        self.start_timeout(op, timeout).map(Attempt::Watching)
    }

    fn start_timeout(&self, op: Arc<Op<K>>, timeout: Duration) -> Result<OpRef<K>, TimerError> {
        let shared = self.shared();
        if timeout != Duration::MAX && op.outcome().is_none() {
            let job = Timeout(self.handle(Arc::clone(&op)));
            // If the timer refuses the job, it drops it, and so cancels the operation.
            let id = shared.timer.after(timeout, move |_| job.expire())?.detach();
            op.state.lock().timeout = Some(id);
            shared.untie_if_ended(&op);
        }
        Ok(self.handle(op))
    }

    /// Tells that something has happened to `key`: tries all operations that watch it, and
    /// completes those whose condition holds. An operation that another thread is trying is tried
    /// again by that thread.
    ///
    /// Returns how many operations of the key this call has completed. That leaves out those that
    /// another thread completes, and those that a call in a callback completes, which counts them
    /// itself.
    ///
    /// In a callback of an operation, `check` completes operations at once. Their callbacks follow
    /// when that callback has returned.
    ///
    /// The caller may hold locks of its own, provided that the conditions and callbacks do not wait
    /// for them.
    pub fn check<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> usize {
        let shared = self.shared();
        shared.keys.of(key).iter().filter(|op| shared.attempt(op)).count()
    }

    /// Cancels all operations that watch `key`. Returns those that this call has cancelled. In a
    /// callback of an operation, it cancels them at once, and their callbacks follow when that
    /// callback has returned.
    ///
    /// ```
    /// use cortado::timer::{DelayedOp, DelayedOps, Outcome, Timer};
    /// use std::sync::Arc;
    /// use std::time::Duration;
    ///
    /// struct Fetch;
    ///
    /// impl DelayedOp for Fetch {
    ///     fn try_complete(&self) -> bool { false }
    ///     fn on_complete(&self) { println!("here is your data") }
    ///     fn on_cancel(&self) { println!("the partition has moved") }
    /// }
    ///
    /// let timer = Timer::builder().manual();
    /// let fetches = DelayedOps::new(&timer);
    /// let timeout = Duration::from_secs(1);
    /// let watch = fetches.try_complete_else_watch(Arc::new(Fetch), timeout, ["p7", "p8"])?;
    /// let cancelled = fetches.cancel_key("p8");
    /// assert_eq!(cancelled[0].outcome(), Some(Outcome::Cancelled));
    /// assert_eq!((fetches.pending(), fetches.watched(), timer.pending()), (0, 0, 0));
    /// # drop(watch);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// ```
    pub fn cancel_key<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Vec<OpRef<K>> {
        let shared = self.shared();
        let ops = shared.keys.of(key).into_iter();
        let cancelled = ops.filter(|op| shared.end(op, Outcome::Cancelled));
        cancelled.map(|op| self.handle(op)).collect()
    }

    /// How many pairs of an operation and a key that it watches there are.
    #[must_use]
    pub fn watched(&self) -> usize {
        self.shared().keys.watched()
    }

    /// How many operations wait.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared().pending.load(Relaxed)
    }
}

debug_fields!(
    impl[K: Hash + Eq + Clone + Send + Sync + 'static] DelayedOps<K>, |it|
    pending: it.pending(),
    watched: it.watched(),
);

/// Names an operation that waits, or has ended. It is no owner: dropping it changes nothing.
///
/// ```
/// use cortado::timer::{Attempt, DelayedOp, DelayedOps, Outcome, Timer};
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// struct Answer;
///
/// impl DelayedOp for Answer {
///     fn try_complete(&self) -> bool { false }
///     fn on_complete(&self) { println!("answer the client") }
/// }
///
/// let timer = Timer::builder().manual();
/// let answers = DelayedOps::new(&timer);
/// let timeout = Duration::from_secs(1);
/// let watch = answers.try_complete_else_watch(Arc::new(Answer), timeout, [7])?;
/// if let Attempt::Watching(operation) = watch {
///     assert!(operation.complete()); // whatever its condition says
///     assert_eq!(operation.outcome(), Some(Outcome::Completed));
///     assert!(!operation.cancel());
/// }
/// # Ok::<(), cortado::timer::TimerError>(())
/// ```
pub struct OpRef<K: Hash + Eq + Clone + Send + Sync + 'static> {
    shared: Weak<Shared<K>>,
    op: Arc<Op<K>>,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> OpRef<K> {
    /// Completes the operation whatever its condition says. False if it has ended.
    pub fn complete(&self) -> bool {
        self.end(Outcome::Completed)
    }

    /// Cancels the operation. False if it has ended.
    pub fn cancel(&self) -> bool {
        self.end(Outcome::Cancelled)
    }

    fn end(&self, outcome: Outcome) -> bool {
        self.shared.upgrade().is_some_and(|shared| shared.end(&self.op, outcome))
    }

    /// How it ended; `None` while it waits.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        self.op.outcome()
    }
}

debug_fields!(
    impl[K: Hash + Eq + Clone + Send + Sync + 'static] OpRef<K>, |it| outcome: it.outcome()
);
