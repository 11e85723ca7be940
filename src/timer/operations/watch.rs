//! Operations that a task awaits.

use super::op::{DelayedOp, Outcome};
use super::{DelayedOps, OpRef};
use crate::macros::debug_fields;
use crate::primitives::plain::Arc;
use crate::primitives::{Mutex, seeded};
use crate::timer::error::TimerError;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The task that awaits. Every event completes the operation.
struct Signal {
    waker: Mutex<Option<Waker>>,
}

impl Signal {
    fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl DelayedOp for Signal {
    fn try_complete(&self) -> bool {
        true
    }

    fn on_complete(&self) {
        self.wake();
    }

    fn on_cancel(&self) {
        self.wake();
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> DelayedOps<K> {
    /// Watches keys for a task. The future tells what was first: an event on one of the keys, the
    /// timeout, or a cancellation. `Duration::MAX` means: no timeout.
    ///
    /// It watches from this call on, not only from the first poll. So look at your condition
    /// between this call and the `await`, and no event is lost.
    ///
    /// *Cancellation*: dropping the future cancels the operation.
    ///
    /// # Errors
    ///
    /// As [`try_complete_else_watch`](Self::try_complete_else_watch).
    ///
    /// ```
    /// use cortado::timer::{DelayedOps, Outcome, Timer};
    /// use std::time::Duration;
    ///
    /// # pollster::block_on(async {
    /// let timer = Timer::new();
    /// let partitions = DelayedOps::new(&timer);
    /// let written = partitions.watch(["p7", "p8"], Duration::from_secs(30))?;
    /// // No data for this fetch so far: look here, then wait.
    /// assert_eq!(partitions.check("p8"), 1); // a producer, elsewhere
    /// assert_eq!(written.await, Outcome::Completed);
    ///
    /// let nothing = partitions.watch(["p7"], Duration::from_millis(1))?;
    /// assert_eq!(nothing.await, Outcome::Expired);
    /// # Ok::<(), cortado::timer::TimerError>(())
    /// # });
    /// ```
    pub fn watch(
        &self,
        keys: impl IntoIterator<Item = K>,
        timeout: Duration,
    ) -> Result<WatchFuture<K>, TimerError> {
        let signal = Arc::new(Signal { waker: Mutex::new(None) });
        let op = self.op(keys, Arc::clone(&signal) as Arc<dyn DelayedOp>)?;
        self.shared().link(&op);
        Ok(WatchFuture { handle: self.start_timeout(op, timeout)?, signal })
    }
}

/// A future of what came first; see [`DelayedOps::watch`].
#[must_use = "it cancels the operation when it is dropped"]
pub struct WatchFuture<K: Hash + Eq + Clone + Send + Sync + 'static> {
    handle: OpRef<K>,
    signal: Arc<Signal>,
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Future for WatchFuture<K> {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let early = seeded("watched-looks-first").then(|| self.handle.outcome());
        // The waker first: whoever ends the operation after the look finds it.
        let waker = context.waker().clone();
        let before = self.signal.waker.lock().replace(waker);
        drop(before);
        let outcome = early.unwrap_or_else(|| self.handle.outcome());
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<K: Hash + Eq + Clone + Send + Sync + 'static> Drop for WatchFuture<K> {
    fn drop(&mut self) {
        let waker = self.signal.waker.lock().take();
        self.handle.cancel();
        drop(waker);
    }
}

debug_fields!(
    impl[K: Hash + Eq + Clone + Send + Sync + 'static] WatchFuture<K>, |it| outcome: it.handle.outcome()
);
