//! The state of a cache's reloads: settings, places, what waits to be started, counters.
//!
//! A [`Reloading`] is the right to reload one node. It has one of the places for reloads at once,
//! and took the trigger from the node. Its drop gives the place back. If the reload came to
//! nothing, the drop sets the trigger, too, so that a later read takes it again: after the retry
//! delay, unless somebody has said otherwise. The place goes last, and then the wait of those who
//! wait for the end: they look at the node.

use super::core::Core;
use super::failures::Failures;
use crate::clock::{Nanos, Timestamp};
use crate::config::RefreshSettings;
use crate::links::NodeId;
use crate::loader::Reload;
use crate::pool::Handle;
use crate::primitives::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::primitives::queue::SegQueue;
use crate::primitives::{Arc, catch_user_panic, plain, seeded};
use crate::stats::Stats;
use crate::waiters::{Wait, Waiters};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Says how long after a write an entry is stale.
pub type RefreshPolicy<K, V> = Box<dyn Fn(&K, &V, Instant) -> Option<Duration> + Send + Sync>;

/// Starts reloads by a stored loader. It must not keep the cache.
pub trait Start<K, V>: Send + Sync {
    /// Runs the reload inline, or hands it to the executor.
    fn start(&self, reloading: Reloading<K, V>);
}

/// See the [module](self).
pub struct Reloads<K, V> {
    pub settings: RefreshSettings,
    pub policy: Option<RefreshPolicy<K, V>>,
    pub loader: Option<plain::Arc<dyn Reload<K, V>>>,
    places: Arc<Places>,
    /// Taken by reads, which start nothing under their guards.
    waiting: SegQueue<Reloading<K, V>>,
    starter: plain::OnceLock<plain::Arc<dyn Start<K, V>>>,
    pub failures: Failures,
}

/// How many reloads are under way, and how many were.
struct Places {
    taken: AtomicUsize,
    ended: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    /// Callers that wait for the end of a reload.
    waiters: Waiters,
}

/// One of the places for reloads at once.
pub struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

/// The right to reload a node.
pub struct Reloading<K, V> {
    // Declared, and so dropped, before the count on the node, whose id may be reused then.
    trigger: Trigger,
    pub node: Handle<K, V>,
    /// The read that triggered the reload; `None` if a call asked for it.
    pub read_at: Option<Timestamp>,
}

/// The place and the trigger of one reload.
struct Trigger {
    /// Weak: a job that waits in an executor keeps no cache, and the executor may be the cache's.
    core: Weak<Core>,
    place: Option<Place>,
    places: Arc<Places>,
    id: NodeId,
    /// What the node's word was.
    taken: Timestamp,
    retry: Nanos,
    next: Next,
}

/// When a read may next trigger a reload of the node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// After the retry delay: the reload failed, or nobody has ended it.
    Later,
    /// When it would have without the reload.
    AsBefore,
    Now,
    /// The word is set, or somebody else's.
    Settled,
}

impl Places {
    fn new() -> Self {
        Self {
            taken: AtomicUsize::new(0),
            ended: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            waiters: Waiters::new(),
        }
    }
}

impl<K, V> Reloads<K, V> {
    pub fn new(
        settings: RefreshSettings,
        policy: Option<RefreshPolicy<K, V>>,
        loader: Option<plain::Arc<dyn Reload<K, V>>>,
    ) -> Self {
        Self {
            settings,
            policy,
            loader,
            places: Arc::new(Places::new()),
            waiting: SegQueue::new(),
            starter: plain::OnceLock::new(),
            failures: Failures::new(),
        }
    }

    /// Sets what starts reloads. From then on reads trigger them.
    pub fn set_starter(&self, starter: plain::Arc<dyn Start<K, V>>) {
        let _ = self.starter.set(starter);
    }

    /// Whether reads trigger reloads.
    #[inline]
    pub fn are_triggered(&self) -> bool {
        self.starter.get().is_some()
    }

    pub fn after_write(&self) -> Nanos {
        self.settings.after_write
    }

    /// A place for a load, given back when it is dropped.
    pub fn place(&self) -> Option<Place> {
        self.take_place().then(|| Place(Arc::clone(&self.places)))
    }

    /// Takes a place. Counts a skipped reload if there is none.
    fn take_place(&self) -> bool {
        let limit = self.settings.limit;
        let is_taken = self.places.taken.fetch_update(Relaxed, Relaxed, |taken| {
            (taken < limit || seeded("reloads-have-no-limit")).then_some(taken + 1)
        });
        if is_taken.is_err() {
            self.places.skipped.fetch_add(1, Relaxed);
        }
        is_taken.is_ok()
    }

    /// Takes a place, and then the trigger by `take`, which returns the instant that it took. The
    /// caller has a count on the node, or a guard protects it.
    pub fn take(
        &self,
        core: &plain::Arc<Core>,
        take: impl FnOnce() -> Option<(Handle<K, V>, Timestamp)>,
        read_at: Option<Timestamp>,
    ) -> Option<Reloading<K, V>> {
        let place = self.place()?;
        let (node, instant) = take()?;
        let trigger = Trigger {
            core: plain::Arc::downgrade(core),
            place: Some(place),
            places: Arc::clone(&self.places),
            id: node.id(),
            taken: instant,
            retry: self.settings.retry,
            next: Next::Later,
        };
        Some(Reloading { node, read_at, trigger })
    }

    /// Leaves a reload to be started when the reader has dropped its guard.
    pub fn start_later(&self, reloading: Reloading<K, V>) {
        self.waiting.push(reloading);
    }

    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Starts what waits, at most so many of it if it runs inline. No guard and no lock may be
    /// held.
    #[cold]
    pub fn start_waiting(&self, most: usize) {
        let most = if self.settings.inline { most } else { usize::MAX };
        for _ in 0..most {
            let Some(reloading) = self.waiting.pop() else { return };
            self.start(reloading);
        }
    }

    /// Starts a reload. No guard and no lock may be held.
    pub fn start(&self, reloading: Reloading<K, V>) {
        if let Some(starter) = self.starter.get() {
            starter.start(reloading);
        }
    }

    /// Sleeps until a reload has ended and `goes_on` does not hold any more, or until `deadline`.
    pub fn wait_while(&self, deadline: Option<Instant>, goes_on: impl Fn() -> bool) {
        while goes_on() {
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            self.places.waiters.wait_until(left.unwrap_or(Duration::MAX), || !goes_on());
        }
    }

    /// A task's wait for the end of a reload.
    pub fn wait(&self) -> Wait<'_> {
        self.places.waiters.wait()
    }

    pub fn add_to(&self, stats: &mut Stats) {
        stats.reloads = self.places.ended.load(Relaxed);
        stats.reload_failures = self.places.failed.load(Relaxed);
        stats.reloads_skipped = self.places.skipped.load(Relaxed);
        stats.reloads_under_way = self.places.taken.load(Relaxed) as u64;
    }
}

impl<K, V> Reloading<K, V> {
    /// Ends the reload, which has brought something: the trigger is somebody else's now, or is set.
    pub fn succeed(mut self) {
        self.trigger.next = Next::Settled;
        self.trigger.places.ended.fetch_add(1, Relaxed);
    }

    /// Ends the reload, whose entry was another one or had ended when its loader was to begin. The
    /// word is set, although nobody reads the entry any more: callers may wait for that.
    pub fn come_to_nothing(mut self) {
        self.trigger.next = Next::AsBefore;
        self.trigger.places.ended.fetch_add(1, Relaxed);
    }

    /// Ends the reload, which has failed.
    pub fn fail(mut self) {
        self.trigger.next = Next::Later;
        self.trigger.places.failed.fetch_add(1, Relaxed);
    }

    /// Leaves the reload to a read after the retry delay.
    pub fn postpone(mut self) {
        self.trigger.next = Next::Later;
    }

    /// Gives the reload up. The next read triggers another one.
    pub fn give_up(mut self) {
        self.trigger.next = Next::Now;
    }

    /// If this is dropped before the reload has ended, the node is as it was before.
    pub fn leave_no_trace(&mut self) {
        self.trigger.next = Next::AsBefore;
    }
}

impl Trigger {
    /// Sets the node's word, unless that is done. Without its cache nobody reads it.
    fn restore(&self) {
        if self.next == Next::Settled || seeded("dropped-reloads-keep-the-trigger") {
            return;
        }
        let Some(core) = self.core.upgrade() else { return };
        // The clock may be the user's, and panic. This runs in a destructor.
        let now = || catch_user_panic(|| core.ticker.now()).unwrap_or(self.taken);
        let instant = match self.next {
            Next::AsBefore => self.taken,
            Next::Later if !seeded("failures-are-retried-at-once") => {
                now().saturating_add(self.retry)
            }
            _now => now(),
        };
        // A reload that a call asked for may have come before the entry was stale.
        core.set_refresh(self.id, instant.max(self.taken));
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        self.restore();
        drop(self.place.take());
        self.places.waiters.wake();
    }
}
