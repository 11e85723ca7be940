//! Notices for a listener that awaits: a queue, and the one task at a time that delivers from it.
//!
//! The ordinary delivery puts notices into the queue, in their order. Operations of tasks drive the
//! queue when they end: the first of them becomes the *driver*, which awaits one notice after the
//! other. So the notices of a key are delivered in their order. Other operations find a driver and
//! go on, or wait for it if too many notices are in the queue. A driver that is cancelled leaves
//! the future of its notice behind, and the next one resumes it.
//!
//! A driver that has told its [`Share`] leaves the rest to the next operation. While more notices
//! wait than the limit allows, a writer goes on until an operation relieves it that waits. (It
//! cannot ask one to wait: a listener may await that operation.) After each [`TURN`] it also lets
//! other tasks run, since a listener may be ready at once.

use crate::entry::Removed;
use crate::primitives::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::primitives::queue::SegQueue;
use crate::primitives::{Mutex, OnDrop, catch_user_panic, seeded};
use crate::removal::RemovalCause;
use crate::waiters::{Waiters, yield_now};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// After so many notices, a driver lets other tasks run. A writer leaves the rest to others then,
/// as one that calls an ordinary listener does.
const TURN: u32 = 64;

/// How much of what waits an operation tells.
#[derive(Clone, Copy)]
pub enum Share {
    /// One notice: a read causes no removal but that of an entry which it finds expired.
    Reader,
    /// [`TURN`] notices, and more while the limit is exceeded.
    Writer { limit: Option<usize> },
    /// What waits when it begins. (A listener may cause a notice for each of these.)
    All,
}

/// What an asynchronous listener returns for each removal.
pub type ListenerFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

type Listener<K, V> = Box<dyn Fn(Arc<K>, V, RemovalCause) -> ListenerFuture + Send + Sync>;

/// See the [module](self).
pub struct AsyncListener<K, V> {
    listener: Listener<K, V>,
    queue: SegQueue<Removed<K, V>>,
    /// How many notices are in the queue. Relaxed: the cache compares it with a limit, which is
    /// approximate while other threads deliver.
    pub backlog: Arc<AtomicUsize>,
    desk: Mutex<Desk>,
    /// Tasks that wait until no more notices are in the queue than the limit allows, or until
    /// there is no driver.
    waiters: Waiters,
    /// The limit for which they wait.
    limit: AtomicUsize,
    /// Calls of the listener that have panicked and were not counted yet.
    panics: AtomicU64,
    /// Whether the desk has a notice that a cancelled driver was telling. Relaxed: a hint.
    has_begun: AtomicBool,
}

/// What goes from one driver to the next.
#[derive(Default)]
struct Desk {
    is_taken: bool,
    /// Operations that wait, and of which one drives if the desk is free.
    waiting: usize,
    /// How many notices a call that is to tell all has left to the driver, which then goes on
    /// beyond its share, and so does the next one if it is cancelled. (That call does not wait: a
    /// listener may await it.)
    owes: usize,
    /// The notice that a cancelled driver was telling.
    begun: Option<ListenerFuture>,
}

impl<K, V> AsyncListener<K, V> {
    pub fn new(
        listener: impl Fn(Arc<K>, V, RemovalCause) -> ListenerFuture + Send + Sync + 'static,
    ) -> Self {
        Self {
            listener: Box::new(listener),
            queue: SegQueue::new(),
            backlog: Arc::default(),
            desk: Mutex::new(Desk::default()),
            waiters: Waiters::default(),
            limit: AtomicUsize::new(0),
            panics: AtomicU64::new(0),
            has_begun: AtomicBool::new(false),
        }
    }

    /// How many calls of the listener have panicked since the last time. A driver that is cancelled
    /// leaves its count to the next one.
    pub fn take_panics(&self) -> u64 {
        self.panics.swap(0, Ordering::Relaxed)
    }

    /// Whether an operation has nothing to tell. It takes no lock.
    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && !self.has_begun.load(Ordering::Relaxed)
            && self.panics.load(Ordering::Relaxed) == 0
    }

    pub fn push(&self, removed: Removed<K, V>) {
        self.backlog.fetch_add(1, Ordering::Relaxed);
        self.queue.push(removed);
    }
}

impl<K, V> Drop for AsyncListener<K, V> {
    /// Drops what was not told. A panic of a destructor must not keep the others from running.
    fn drop(&mut self) {
        let begun = self.desk.lock().begun.take();
        catch_user_panic(|| drop(begun));
        while let Some(removed) = self.queue.pop() {
            catch_user_panic(|| drop(removed));
        }
    }
}

impl<K: Clone, V: Clone> AsyncListener<K, V> {
    /// Tells a share of what waits. If another task is at it, this one waits until no more notices
    /// are in the queue than the limit allows, or relieves that task. Without a limit it does not
    /// wait.
    pub async fn drive(&self, share: Share) {
        let begun = usize::from(self.has_begun.load(Ordering::Relaxed));
        let (most, limit) = match share {
            Share::Reader => (1, None),
            Share::Writer { limit } => (TURN, limit),
            Share::All => (u32::try_from(self.queue.len() + begun).unwrap_or(u32::MAX), None),
        };
        let mut told = 0;
        // A cancelled driver may have left the future of its notice.
        while !self.queue.is_empty() || self.has_begun.load(Ordering::Relaxed) {
            if let Some(driver) = self.take_desk(share) {
                if driver.tell(limit, most, &mut told).await {
                    return;
                }
                continue;
            }
            let Some(limit) = limit else { return };
            // Relaxed: a waiter stores it before it waits, and the fences there order that.
            self.limit.store(limit, Ordering::Relaxed);
            let is_enough = || self.backlog.load(Ordering::Relaxed) <= limit;
            // If this operation is cancelled or not polled when the driver has left, the next
            // operation drives.
            self.desk.lock().waiting += 1;
            let place = OnDrop(|| self.desk.lock().waiting -= 1);
            let mut wait = self.waiters.wait();
            let may_go_on = || is_enough() || !self.desk.lock().is_taken;
            poll_fn(|context| wait.poll(context, may_go_on)).await;
            drop((wait, place));
            if self.desk.lock().is_taken && is_enough() {
                return;
            }
        }
    }

    fn take_desk(&self, share: Share) -> Option<Driver<'_, K, V>> {
        let mut desk = self.desk.lock();
        if desk.is_taken {
            desk.owes = if matches!(share, Share::All) { self.queue.len() } else { desk.owes };
            return None;
        }
        desk.is_taken = true;
        self.has_begun.store(false, Ordering::Relaxed);
        Some(Driver { listener: self, begun: desk.begun.take(), has_left: false })
    }
}

/// The task that tells. Dropping it leaves the desk to the next one.
struct Driver<'a, K, V> {
    listener: &'a AsyncListener<K, V>,
    begun: Option<ListenerFuture>,
    /// Whether another task has the desk by now.
    has_left: bool,
}

impl<K: Clone, V: Clone> Driver<'_, K, V> {
    /// Tells a share of what waits. Returns true if the rest is left to other operations.
    async fn tell(mut self, limit: Option<usize>, most: u32, told: &mut u32) -> bool {
        while self.begin() {
            let is_told = poll_fn(|context| self.poll(context)).await;
            let begun = self.begun.take();
            let is_dropped = catch_user_panic(|| drop(begun)).is_some();
            self.count(is_told && is_dropped);
            *told += 1;
            let backlog = self.listener.backlog.load(Ordering::Relaxed);
            let goes_on = limit.is_some_and(|limit| backlog > limit);
            if *told >= most && self.leaves(goes_on) {
                return true;
            }
            if (*told).is_multiple_of(TURN) {
                yield_now().await;
            }
        }
        false
    }

    /// Leaves the desk: to an operation that waits, or, unless this one `goes_on` or is to tell
    /// all, to the next operation.
    fn leaves(&mut self, goes_on: bool) -> bool {
        let mut desk = self.listener.desk.lock();
        let is_relieved = desk.waiting > 0 && !seeded("drivers-are-not-relieved");
        self.has_left = is_relieved || !(goes_on || desk.owes > 0);
        desk.owes = desk.owes.saturating_sub(1).min(self.listener.queue.len());
        desk.is_taken = !self.has_left;
        self.has_left
    }

    /// Begins with the next notice, unless one was begun. False if there is none.
    fn begin(&mut self) -> bool {
        while self.begun.is_none() {
            let Some(removed) = self.listener.queue.pop() else { return false };
            let left = self.listener.backlog.fetch_sub(1, Ordering::Relaxed) - 1;
            self.listener.waiters.wake_if(|| left <= self.listener.limit.load(Ordering::Relaxed));
            let told = catch_user_panic(|| {
                let ((key, value, cause), dropped) = removed.split();
                ((self.listener.listener)(Arc::new(key), value, cause), dropped.is_ok())
            });
            self.count(told.as_ref().is_some_and(|(_, is_dropped)| *is_dropped));
            self.begun = told.map(|(begun, _)| begun);
        }
        true
    }

    fn count(&self, is_told: bool) {
        if !is_told {
            self.listener.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls the notice. True if it was told, false if it has panicked.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Some(begun) = &mut self.begun else { return Poll::Ready(true) };
        let poll = catch_user_panic(|| begun.as_mut().poll(context));
        poll.map_or(Poll::Ready(false), |poll| poll.map(|()| true))
    }
}

impl<K, V> Drop for Driver<'_, K, V> {
    fn drop(&mut self) {
        if !self.has_left {
            let mut desk = self.listener.desk.lock();
            desk.is_taken = false;
            desk.begun = self.begun.take();
            self.listener.has_begun.store(desk.begun.is_some(), Ordering::Relaxed);
            desk.owes =
                desk.owes.min(self.listener.queue.len() + usize::from(desk.begun.is_some()));
        }
        self.listener.waiters.wake();
    }
}
