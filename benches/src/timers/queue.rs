//! tokio-util's `DelayQueue`, a hierarchical wheel of milliseconds over a slab, on a runtime whose
//! time stands still until it is moved.

use super::Timers;
use std::sync::LazyLock;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::runtime::{Builder, EnterGuard, Runtime};
use tokio::time::Instant;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

/// Time stands still in it until it is moved.
pub(super) static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true).build().expect("a runtime without threads")
});

/// The queue, and the runtime that it must be used in.
pub struct Queue {
    queue: DelayQueue<u32>,
    start: Instant,
    now: u64,
    _entered: EnterGuard<'static>,
}

impl Queue {
    fn instant(&self, deadline: u64) -> Instant {
        self.start + Duration::from_nanos(deadline)
    }
}

impl Timers for Queue {
    const NAME: &'static str = "tokio's DelayQueue";
    const LATENESS: u64 = 2_000_000;

    type Key = Key;

    fn new(_: u32) -> Self {
        let entered = RUNTIME.enter();
        Self { queue: DelayQueue::new(), start: Instant::now(), now: 0, _entered: entered }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> Key {
        let deadline = self.instant(deadline);
        self.queue.insert_at(id, deadline)
    }

    #[inline]
    fn cancel(&mut self, key: Key) {
        self.queue.remove(&key);
    }

    #[inline]
    fn reschedule(&mut self, (_, key): (u32, Key), deadline: u64) -> Key {
        let deadline = self.instant(deadline);
        self.queue.reset_at(&key, deadline);
        key
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        RUNTIME.block_on(tokio::time::advance(Duration::from_nanos(now - self.now)));
        self.now = now;
        let mut context = Context::from_waker(Waker::noop());
        while let Poll::Ready(Some(expired)) = self.queue.poll_expired(&mut context) {
            due(expired.into_inner());
        }
    }
}
