//! Threads and tasks that wait for somebody else's progress.
//!
//! Who makes progress calls [`wake`](Waiters::wake) after each step that may be enough for one of
//! them, with no lock held: wakers are user code. Where nobody waits, this is a fence and a load.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `waiting` | waiting threads and tasks | who makes progress | Relaxed, between fences | that one of them must be woken |

use crate::primitives::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
    fence,
};
use crate::primitives::time::{Duration, Instant};
use crate::primitives::{Condvar, Mutex, catch_user_panic, seeded};
use crate::wakers::{WakerSlot, Wakers};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// See the [module](self).
#[derive(Debug, Default)]
pub struct Waiters {
    waiting: AtomicUsize,
    /// The wakers of waiting tasks.
    gate: Mutex<Wakers>,
    progress: Condvar,
}

impl Waiters {
    /// Sleeps until `done` returns true, or for about `limit`; `Duration::MAX` stands for no limit.
    /// `done` is called again after each [`wake`](Self::wake). Its answer must not depend on
    /// anything that changes without one.
    pub fn wait_until(&self, limit: Duration, done: impl Fn() -> bool) {
        self.waiting.fetch_add(1, Relaxed);
        let mut gate = self.gate.lock();
        // Partner: the fence in `wake`.
        fence(SeqCst);
        while !done() {
            if limit == Duration::MAX {
                gate = self.progress.wait(gate);
            } else {
                gate = self.progress.wait_timeout(gate, limit);
                break;
            }
        }
        drop(gate);
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// Wakes all who wait. A waiting thread raises `waiting`, passes a fence and then looks for
    /// progress. The caller has made progress, passes the fence in here and then looks at
    /// `waiting`. So at least one of the two sees the other.
    pub fn wake(&self) {
        self.wake_if(|| true);
    }

    /// [`wake`](Self::wake), if `is_enough`, which is asked where somebody waits. It must be true
    /// if the answer of one who waits may be.
    pub fn wake_if(&self, is_enough: impl FnOnce() -> bool) {
        fence(SeqCst);
        let waits = self.waiting.load(Relaxed) > 0 && is_enough();
        if waits && !seeded("outbox-progress-in-silence") {
            let wakers = self.gate.lock().take_all();
            self.progress.notify_all();
            for waker in wakers {
                let _ = catch_user_panic(|| waker.wake());
            }
        }
    }

    /// A task's wait.
    pub fn wait(&self) -> Wait<'_> {
        self.waiting.fetch_add(1, Relaxed);
        Wait { waiters: self, slot: None }
    }
}

/// A task that waits, as [`Waiters::wait_until`] does for threads. It counts as waiting from its
/// making until it is dropped.
pub struct Wait<'a> {
    waiters: &'a Waiters,
    slot: Option<WakerSlot>,
}

impl Wait<'_> {
    /// Ready if `done` returns true. Otherwise the task is woken at the next
    /// [`wake`](Waiters::wake). The answer of `done` must not depend on anything that changes
    /// without one.
    pub fn poll(&mut self, context: &Context<'_>, done: impl Fn() -> bool) -> Poll<()> {
        let waker = context.waker().clone();
        let mut gate = self.waiters.gate.lock();
        let replaced = gate.keep(&mut self.slot, waker);
        // Partner: the fence in `wake`.
        fence(SeqCst);
        let is_done = done();
        drop(gate);
        drop(replaced);
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.waiters.waiting.fetch_sub(1, Relaxed);
        let Some(slot) = self.slot else { return };
        let waker = self.waiters.gate.lock().release(slot);
        drop(waker);
    }
}

/// So many items a stream gives in turn. tokio's own resources give as many in a poll of a task.
const IN_TURN: u32 = 128;

/// Counts the items that a stream has given since it was pending. A task that loops over a stream
/// which always has another item would keep its thread from all other tasks.
#[derive(Debug, Default)]
pub struct Streak(u32);

impl Streak {
    /// Whether the stream must be pending now. The task is woken then, so that it goes on after the
    /// others.
    pub fn must_yield(&mut self, context: &Context<'_>) -> bool {
        let is_over = self.0 >= IN_TURN;
        if is_over {
            self.0 = 0;
            context.waker().wake_by_ref();
        }
        is_over
    }

    /// Notes what a poll has returned. An end is no item.
    pub fn note<T>(&mut self, poll: Poll<Option<T>>) -> Poll<Option<T>> {
        match poll {
            Poll::Ready(Some(_)) => self.0 += 1,
            Poll::Ready(None) => {}
            Poll::Pending => self.0 = 0,
        }
        poll
    }
}

/// Polls on this thread until the result is there, and sleeps between two polls. Gives up at
/// `deadline`, if there is one, and returns `None`. The last poll comes after it, so even what
/// wakes itself in each poll ends.
pub fn poll_until<T>(
    deadline: Option<Instant>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let signal = Arc::new(Signal::default());
    let waker = Waker::from(Arc::clone(&signal));
    let mut context = Context::from_waker(&waker);
    loop {
        let is_last = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if let Poll::Ready(result) = poll(&mut context) {
            return Some(result);
        }
        if is_last || !signal.wait_until(deadline) {
            return None;
        }
    }
}

/// Wakes the thread that polls.
#[derive(Default)]
struct Signal {
    is_given: Mutex<bool>,
    given: Condvar,
}

impl Signal {
    /// Sleeps until the signal is given, and resets it. Returns false if `deadline` comes first.
    fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let mut is_given = self.is_given.lock();
        while !std::mem::take(&mut *is_given) {
            is_given = match deadline.map(|it| it.saturating_duration_since(Instant::now())) {
                None => self.given.wait(is_given),
                Some(left) if left.is_zero() => return false,
                Some(left) => self.given.wait_timeout(is_given, left),
            };
        }
        true
    }
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        *self.is_given.lock() = true;
        self.given.notify_one();
    }
}

/// Lets the runtime poll other tasks once.
pub async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
