//! The state of a cache's reloads: settings, places, counters; and the reloads that a thread's
//! reads have triggered and not yet started.
//!
//! A cache has a limited number of *places*: one for each reload that may be under way. The
//! *trigger* of a node is the instant in its `Refresh` word; the read or call that takes it reloads
//! the node. A [`Reloading`] is the right to reload one node: it holds a place, and has taken the
//! node's trigger.
//!
//! The drop of a [`Reloading`] does this, in this order:
//!
//! 1. It sets the trigger again, if no reload has done so and the node is still in the index. A
//!    later read then takes it: after the retry delay, unless a method has set another time.
//! 2. It gives the place back.
//! 3. It wakes the callers that wait for the end of the reload. They look at the trigger.
//! 4. It gives up its count on the node. If that was the last one, the old value is dropped, and a
//!    panic of its destructor is counted.

use super::core::Core;
use super::failures::Failures;
use super::reentrancy::{self, DeferredReload};
use crate::clock::{Nanos, Timestamp, nanos};
use crate::config::RefreshSettings;
use crate::entry::Entry;
use crate::links::NodeId;
use crate::loader::Reload;
use crate::pool::RawHandle;
use crate::primitives::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::primitives::{Arc, catch_user_panic, plain, seeded};
use crate::stats::Stats;
use crate::waiters::{Wait, Waiters};
use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Weak;
use std::time::{Duration, Instant};

/// Says how long after a write an entry is stale.
pub type RefreshPolicy<K, V> = Box<dyn Fn(&K, &V, Instant) -> Option<Duration> + Send + Sync>;

/// Starts reloads by a stored loader. It must not keep the cache. Runs the reload inline, and
/// returns the entry of the value that it brought or found not modified, if it did. Or hands it to
/// the executor.
pub type Start<K, V> = Box<dyn Fn(Reloading) -> Option<Entry<K, V>> + Send + Sync>;

/// See the [module](self).
pub struct Reloads {
    pub settings: RefreshSettings,
    places: Arc<Places>,
    pub failures: Failures,
}

/// The part of a cache with refresh that knows its types.
pub struct TypedReloads<K, V> {
    reloads: Reloads,
    pub policy: Option<RefreshPolicy<K, V>>,
    pub loader: Option<Reload<K, V>>,
    starter: plain::OnceLock<Start<K, V>>,
}

impl<K, V> Deref for TypedReloads<K, V> {
    type Target = Reloads;

    fn deref(&self) -> &Reloads {
        &self.reloads
    }
}

impl<K, V> TypedReloads<K, V> {
    pub fn new(
        settings: RefreshSettings,
        policy: Option<RefreshPolicy<K, V>>,
        loader: Option<Reload<K, V>>,
    ) -> Self {
        let (reloads, starter) = (Reloads::new(settings), plain::OnceLock::new());
        Self { reloads, policy, loader, starter }
    }

    /// Sets what starts reloads. From then on reads trigger them.
    pub fn set_starter(&self, starter: Start<K, V>) {
        let _ = self.starter.set(starter);
    }

    /// Whether reads trigger reloads: those of a cache with a stored loader do.
    #[inline]
    pub fn are_triggered(&self) -> bool {
        self.starter.get().is_some()
    }

    /// Starts a reload. The caller holds no guard and no lock. From now on, the drop of a reload
    /// that has not ended means that the next one comes after the retry delay.
    pub fn start(&self, mut reloading: Reloading) -> Option<Entry<K, V>> {
        reloading.taken.next = Next::Later;
        self.starter.get()?(reloading)
    }
}

crate::primitives::thread_local! {
    /// Reloads of all caches whose triggers this thread's reads have just taken. A read starts no
    /// reload under its guard.
    static TRIGGERED: RefCell<Vec<Reloading>> = RefCell::default();
}

/// How many reloads are under way, were completed, have failed, and were skipped since there was no
/// place or too many notices waited.
struct Places {
    taken: AtomicUsize,
    completed: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    /// Callers that wait for the end of a reload.
    waiters: Waiters,
}

/// A place for one reload.
pub struct Place(Arc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Relaxed);
    }
}

/// What takes a trigger: a call or a read.
#[derive(Clone, Copy, Debug)]
pub enum TakenBy {
    Call,
    /// A read, or a call with a loader of its own, at this instant. It has found that the entry is
    /// stale since `seen`.
    Read {
        at: Timestamp,
        seen: Timestamp,
    },
}

/// The right to reload a node.
pub struct Reloading {
    taken: TakenTrigger,
    /// When a read, or a call with a loader of its own, found the entry stale. `None` of a
    /// `refresh`.
    pub read_at: Option<Timestamp>,
}

/// The place of one reload, and the trigger that it has taken.
struct TakenTrigger {
    /// Weak: a job that waits in an executor must not keep the cache alive.
    core: Weak<Core>,
    place: Option<Place>,
    places: Arc<Places>,
    /// `None` at the end of the drop. Without this count, the node's id may be reused.
    node: Option<RawHandle>,
    /// The instant that the trigger had.
    instant: Timestamp,
    retry: Nanos,
    next: Next,
}

/// When a read may next trigger a reload of the node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// After the retry delay: the reload failed, or was dropped before its end.
    Later,
    /// At the instant that the trigger had before.
    AsBefore,
    Now,
    /// The reload has set the trigger already, or the node has left the index.
    Settled,
}

impl Reloads {
    fn new(settings: RefreshSettings) -> Self {
        Self {
            settings,
            places: Arc::new(Places {
                taken: AtomicUsize::new(0),
                completed: AtomicU64::new(0),
                failed: AtomicU64::new(0),
                skipped: AtomicU64::new(0),
                waiters: Waiters::new(),
            }),
            failures: Failures::default(),
        }
    }

    pub fn after_write(&self) -> Nanos {
        self.settings.after_write.map_or(Nanos::FOREVER, nanos)
    }

    /// A place, given back when it is dropped. Counts a skipped reload if none is left.
    pub fn place(&self) -> Option<Place> {
        let limit = self.settings.limit;
        let is_taken = self.places.taken.fetch_update(Relaxed, Relaxed, |taken| {
            (taken < limit || seeded("reloads-have-no-limit")).then_some(taken + 1)
        });
        if is_taken.is_err() {
            self.places.skipped.fetch_add(1, Relaxed);
        }
        is_taken.ok().map(|_| Place(Arc::clone(&self.places)))
    }

    /// Whether too many notices wait for a reload to begin on the executor or beside a read. If so,
    /// counts a skipped reload.
    pub fn is_held_back(&self, core: &Core) -> bool {
        let is_over = core.is_over_notification_limit();
        if is_over {
            self.places.skipped.fetch_add(1, Relaxed);
        }
        is_over
    }

    /// Takes a place, and then the node's trigger. A call takes the trigger at any time; a read
    /// only if it still has the instant `seen`, and not while too many notices wait. The caller
    /// has a count on the node, or a guard protects it.
    pub fn take(&self, core: &plain::Arc<Core>, id: NodeId, by: TakenBy) -> Option<Reloading> {
        let refresh = core.pool.refresh(id)?;
        let read_at = match by {
            TakenBy::Call => None,
            TakenBy::Read { at, .. } => Some(at),
        };
        // Back-pressure comes before a reload. It cannot come at the end of one: that may be in a
        // read, or on the very thread that receives the notices.
        if read_at.is_some() && self.is_held_back(core) {
            return None;
        }
        let place = self.place()?;
        let instant = match by {
            TakenBy::Call => refresh.take_any()?,
            TakenBy::Read { seen, .. } => refresh.take(seen).then_some(seen)?,
        };
        let taken = TakenTrigger {
            core: plain::Arc::downgrade(core),
            place: Some(place),
            places: Arc::clone(&self.places),
            node: Some(RawHandle::retain(&core.pool, id)),
            instant,
            retry: nanos(self.settings.retry),
            next: Next::Later,
        };
        Some(Reloading { read_at, taken })
    }

    /// Takes the trigger of a living node if its soft deadline has passed. True if the reader must
    /// call `after_read` when it has dropped its guard: to start the reload, or to help to deliver.
    #[cold]
    pub fn trigger_if_stale(&self, core: &plain::Arc<Core>, id: NodeId, coarse: Timestamp) -> bool {
        let Some(refresh) = core.pool.refresh(id) else { return false };
        let seen = refresh.instant();
        if !core.ticker.has_passed(seen, coarse) {
            return false;
        }
        match self.take(core, id, TakenBy::Read { at: core.ticker.now(), seen }) {
            Some(mut reloading) => {
                reloading.leave_no_trace();
                // A thread that is destroying its locals cannot keep the reload. It is dropped,
                // which sets the trigger again.
                TRIGGERED.try_with(|triggered| triggered.borrow_mut().push(reloading)).is_ok()
            }
            // A reader that is held back helps to deliver.
            None => core.is_over_notification_limit(),
        }
    }

    /// Takes the trigger of a stale node, for a call with a loader of its own. `None` if the node
    /// is not stale, or another reload has its trigger.
    pub fn take_stale(&self, core: &plain::Arc<Core>, id: NodeId) -> Option<Reloading> {
        let seen = core.pool.refresh(id)?.instant();
        let at = core.ticker.now();
        if seen > at {
            return None;
        }
        self.take(core, id, TakenBy::Read { at, seen })
    }

    /// Takes out the reloads that this thread's reads have triggered. If they are dropped before
    /// they are started, the next reads trigger others.
    pub fn take_own(&self) -> Vec<Reloading> {
        let is_own = |it: &mut Reloading| Arc::ptr_eq(&it.taken.places, &self.places);
        let take = |all: &RefCell<Vec<_>>| all.borrow_mut().extract_if(.., is_own).collect();
        TRIGGERED.try_with(take).unwrap_or_default()
    }

    /// [Takes out](Self::take_own) those that may begin here and now. Inline reloads are deferred
    /// while this thread is in a callback, a load, a computation or a view: their loaders may wait
    /// for what these hold, and the guard of a view would hold back memory meanwhile.
    pub fn take_own_or_defer(&self, core: &Core) -> Vec<Reloading> {
        let own = self.take_own();
        let is_deferred = self.settings.inline
            && (reentrancy::defers_deliveries() || crate::epoch::is_pinned())
            && !seeded("reloads-run-where-they-are-found");
        if !is_deferred || own.is_empty() {
            return own;
        }
        core.defer_reloads(own.into_iter().map(|it| Box::new(it) as DeferredReload).collect());
        Vec::new()
    }

    /// Sleeps while `goes_on` holds, until `deadline`. The end of a reload wakes it.
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
        stats.reloads = self.places.completed.load(Relaxed);
        stats.reload_failures = self.places.failed.load(Relaxed);
        stats.reloads_skipped = self.places.skipped.load(Relaxed);
        stats.reloads_under_way = self.places.taken.load(Relaxed) as u64;
    }
}

impl Reloading {
    pub fn node(&self) -> &RawHandle {
        self.taken.node.as_ref().expect("only the drop takes it")
    }

    /// The instant that the node's trigger had.
    pub fn taken_from(&self) -> Timestamp {
        self.taken.instant
    }

    /// Ends a successful reload: its commit has set the trigger, or the node has left the index.
    pub fn succeed(mut self) {
        self.taken.next = Next::Settled;
        self.taken.places.completed.fetch_add(1, Relaxed);
    }

    /// Ends a reload whose loader did not run, since its entry was replaced, was removed or expired
    /// before. If the node has expired and is still in the index, its trigger is set although no
    /// read will take it: callers may wait for that.
    pub fn come_to_nothing(mut self) {
        self.taken.next = Next::AsBefore;
        self.taken.places.completed.fetch_add(1, Relaxed);
    }

    /// Ends a reload that has failed.
    pub fn fail(mut self) {
        self.taken.next = Next::Later;
        self.taken.places.failed.fetch_add(1, Relaxed);
    }

    /// Leaves the reload to a later read, after the retry delay.
    pub fn postpone(mut self) {
        self.taken.next = Next::Later;
    }

    /// Gives the reload up. The next read triggers another one.
    pub fn give_up(mut self) {
        self.taken.next = Next::Now;
    }

    /// From now on, a drop before the end of the reload leaves the node as it was before.
    pub fn leave_no_trace(&mut self) {
        self.taken.next = Next::AsBefore;
    }
}

impl TakenTrigger {
    /// Sets the node's trigger, unless that is done, or the cache is gone.
    fn restore(&self) {
        if self.next == Next::Settled || seeded("dropped-reloads-keep-the-trigger") {
            return;
        }
        let (Some(core), Some(node)) = (self.core.upgrade(), &self.node) else { return };
        // The clock may be the user's, and panic. This runs in a destructor.
        let now = || catch_user_panic(|| core.ticker.now()).unwrap_or(self.instant);
        let instant = match self.next {
            Next::AsBefore => self.instant,
            Next::Later if !seeded("failures-are-retried-at-once") => {
                now().saturating_add(self.retry)
            }
            _now => now(),
        };
        // A reload that a call asked for may have come before the entry was stale.
        core.set_refresh(node.id(), instant.max(self.instant));
    }
}

impl Drop for TakenTrigger {
    fn drop(&mut self) {
        self.restore();
        drop(self.place.take());
        self.places.waiters.wake();
        let node = self.node.take();
        match self.core.upgrade() {
            Some(core) => core.drop_caught(node),
            None => _ = catch_user_panic(|| drop(node)),
        }
    }
}
