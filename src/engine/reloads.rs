//! The state of a cache's reloads: settings, places, counters; and the reloads that wait to be
//! handed to the executor.
//!
//! A cache has a limited number of *places*: one for each reload that may be under way. The
//! *trigger* of a node is the instant in its `Refresh` word; the read or call that takes it reloads
//! the node. A [`Reloading`] is the right to reload one node: it holds a place, and has taken the
//! node's trigger.
//!
//! Who takes a trigger *notes* the reload: under the guard of a read, or inside the user's code,
//! none may begin. The same operation hands it to the executor, or if that may not, a later one.
//!
//! The drop of a [`Reloading`] does this, in this order:
//!
//! 1. It sets the trigger again, if no reload has done so and the node is still in the index. A
//!    later read then takes it: after the retry delay, unless a method has set another time.
//! 2. It gives the place back, unless the loader has run: then it did so when the loader returned.
//! 3. It wakes the callers that wait for this key. They look at the trigger.
//! 4. It gives up its count on the node. If that was the last one, the old value is dropped, and a
//!    panic of its destructor is counted.

use super::failures::Failures;
use super::key_waits::KeyWaits;
use super::maintenance::Core;
use super::reentrancy::{self, Frame, ReentrancyMark};
use crate::clock::{Nanos, Timestamp, nanos};
use crate::config::RefreshSettings;
use crate::entry::Entry;
use crate::expiration::lifetime;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::loaded::NoValue;
use crate::loader::Reload;
use crate::node::{GONE, Meta};
use crate::pool::{Local, RawHandle};
use crate::primitives::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::primitives::time::{Duration, Instant};
use crate::primitives::{Mutex, catch_user_panic, plain, seeded};
use crate::span::Span;
use crate::stats::Stats;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Weak;

/// Says how long after a write an entry is stale.
pub type RefreshPolicy<K, V> = Box<dyn Fn(&K, &V, Instant) -> Option<Duration> + Send + Sync>;

/// What a reload has made, if it has ended: the entry of the value that it brought or found not
/// modified, if it did.
pub type Made<K, V> = plain::Arc<Mutex<Option<Option<Entry<K, V>>>>>;

/// Hands a reload to the executor. It must not keep the cache.
pub type Start<K, V> = Box<dyn Fn(&Core, Reloading, Made<K, V>) + Send + Sync>;

/// See the [module](self).
#[derive(Default)]
pub struct Reloads {
    pub settings: RefreshSettings,
    places: plain::Arc<Places>,
    /// Reloads that wait to be handed on, as many as there are places. The notices say whether
    /// there are any.
    noted: Mutex<VecDeque<Reloading>>,
    pub failures: Failures,
    pub waits: plain::Arc<KeyWaits>,
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

/// What the operations of any cache do if it has refresh. (A trait object, which only the builder
/// of a cache with a loader makes: other programs are without the code.)
pub trait AnyReloads<K, V>: Send + Sync {
    fn typed(&self) -> &TypedReloads<K, V>;

    /// The refresh policy's answer: the time until the value is stale.
    fn ask(&self, core: &Core, node: &Local<'_, K, V>) -> Option<Nanos>;

    /// A node is about to be published. Its value is stale after `refresh`, or by the cache's
    /// setting.
    fn begin_life(&self, core: &Core, meta: &Meta, id: NodeId, refresh: Option<Nanos>);

    /// Takes the trigger of a living node if its soft deadline has passed, and notes the reload.
    /// True if the reader must call `after_read` when it has dropped its guard: to hand the
    /// reload on, or to help to deliver.
    fn trigger_if_stale(&self, core: &plain::Arc<Core>, id: NodeId, coarse: Timestamp) -> bool;

    /// Hands the reloads that were noted to the executor, where they may begin. See
    /// [`Engine::hand_reloads_on`](super::Engine).
    fn hand_on(&self, core: &Core) -> Option<Vec<Entry<K, V>>>;

    /// Wakes those who wait for a value of a key with this hash.
    fn wake(&self, hash: Hash32);

    /// The cache is gone.
    fn end(&self);

    fn add_to(&self, stats: &mut Stats);
}

impl<K, V> AnyReloads<K, V> for TypedReloads<K, V> {
    fn typed(&self) -> &TypedReloads<K, V> {
        self
    }

    fn ask(&self, core: &Core, node: &Local<'_, K, V>) -> Option<Nanos> {
        let policy = self.policy.as_ref()?;
        let now = core.ticker.instant_of(core.ticker.coarse());
        let _mark = core.mark_callback(node.meta(), node.id());
        Some(lifetime(policy(node.key(), node.value(), now)))
    }

    fn begin_life(&self, core: &Core, meta: &Meta, id: NodeId, refresh: Option<Nanos>) {
        self.failures.begin_life(id);
        let stale = meta.created().saturating_add(refresh.unwrap_or(self.after_write()));
        if let Some(mark) = core.pool.refresh(id) {
            mark.set(stale);
        }
    }

    fn trigger_if_stale(&self, core: &plain::Arc<Core>, id: NodeId, coarse: Timestamp) -> bool {
        let Some(refresh) = core.pool.refresh(id) else { return false };
        let seen = refresh.instant();
        if !core.ticker.has_passed(seen, coarse) {
            return false;
        }
        // A reader that is held back helps to deliver. One that a panic has cut short after it had
        // noted a reload may have left that.
        self.take(core, id, Some(core.ticker.now()))
            || core.notices.exceeded_limit().is_some()
            || core.notices.has_noted_reloads()
    }

    /// A loader may have others noted. So a chain of loaders that read each other's keys does not
    /// grow the stack, and ends after as many reloads as may be under way.
    fn hand_on(&self, core: &Core) -> Option<Vec<Entry<K, V>>> {
        let may_reload = reentrancy::may_reload() || seeded("reloads-run-where-they-are-found");
        let frame = Frame::HandingOn(core.id());
        let mark = may_reload.then(|| ReentrancyMark::push_once(frame)).flatten();
        let most = if mark.is_some() { self.settings.limit } else { 0 };
        let mut made = None;
        for _ in 0..most {
            let Some(reloading) = self.next_noted(core) else { break };
            if let Some(ended) = self.start(core, reloading) {
                made.get_or_insert_with(Vec::new).extend(ended);
            }
        }
        core.leave_noted_reloads();
        made
    }

    fn wake(&self, hash: Hash32) {
        self.waits.wake(hash);
    }

    fn end(&self) {
        self.failures.end();
    }

    fn add_to(&self, stats: &mut Stats) {
        let Places { completed, failed, skipped, under_way, .. } = &*self.places;
        stats.reloads = completed.load(Relaxed);
        stats.reload_failures = failed.load(Relaxed);
        stats.reloads_skipped = skipped.load(Relaxed);
        stats.reloads_under_way = under_way.load(Relaxed) as u64;
    }
}

impl<K, V> TypedReloads<K, V> {
    pub fn new(
        settings: RefreshSettings,
        policy: Option<RefreshPolicy<K, V>>,
        loader: Option<Reload<K, V>>,
    ) -> Self {
        let reloads = Reloads { settings, ..Reloads::default() };
        Self { reloads, policy, loader, starter: plain::OnceLock::new() }
    }

    /// Sets what starts reloads.
    pub fn set_starter(&self, starter: Start<K, V>) {
        let _ = self.starter.set(starter);
    }

    /// Starts a reload. The caller holds no guard and no lock. From now on, the drop of a reload
    /// that has not ended means that the next one comes after the retry delay. Returns what the
    /// reload has made, if the executor has run it by then.
    fn start(&self, core: &Core, mut reloading: Reloading) -> Option<Option<Entry<K, V>>> {
        reloading.next = Next::Later;
        let (start, made) = (self.starter.get()?, Made::default());
        // The executor may be the user's, and panic: then it has dropped the job.
        catch_user_panic(|| start(core, reloading, Made::clone(&made)))?;
        made.lock().take()
    }
}

/// How many reloads are under way, were completed, have failed, and were skipped since there was no
/// place or too many notices waited.
#[derive(Default)]
struct Places {
    taken: AtomicUsize,
    under_way: AtomicUsize,
    completed: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
}

/// A place for one reload, which counts as under way until this is dropped.
pub struct Place {
    places: plain::Arc<Places>,
    is_given_back: AtomicBool,
}

impl Place {
    /// Gives the place back when the loader has returned, before the commit wakes the callers that
    /// wait: they may begin the next reload.
    pub fn give_back(&self) {
        if !self.is_given_back.swap(true, Relaxed) {
            self.places.taken.fetch_sub(1, Relaxed);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.give_back();
        self.places.under_way.fetch_sub(1, Relaxed);
    }
}

/// The right to reload a node: a place, and the trigger that was taken.
pub struct Reloading {
    /// Weak: a job that waits in an executor must not keep the cache alive.
    core: Weak<Core>,
    place: Option<Place>,
    waits: plain::Arc<KeyWaits>,
    /// `None` at the end of the drop. Without this count, the node's id may be reused.
    node: Option<RawHandle>,
    retry: Nanos,
    next: Next,
    /// When a read found the entry stale. `None` if a call asked for the reload.
    pub read_at: Option<Timestamp>,
    /// The span of the call that has triggered the reload.
    pub caller: Span,
}

/// How a reload has ended.
pub enum Ended {
    /// It did not begin: the key has a load or a computation in flight. A later read comes back to
    /// it, after the retry delay.
    Hindered,
    /// The entry has a new value or a new life, or was removed. This is also the end if the loader
    /// made a value but another write took the old node out first.
    Done,
    /// The loader did not run: before it began, the entry was replaced, was removed or expired. (If
    /// the node has expired and is still in the index, its trigger is set although no read will
    /// take it: callers may wait for that.)
    Nothing,
    /// Another operation overtook the reload and left the old node in the index; or the loader
    /// said "not modified" or "gone" of an entry that had ended by then.
    Overtaken,
    /// The loader failed, or panicked. The reason is `None` if it panicked.
    Failed(Option<NoValue>),
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
        is_taken.ok().map(|_| {
            self.places.under_way.fetch_add(1, Relaxed);
            let places = plain::Arc::clone(&self.places);
            Place { places, is_given_back: AtomicBool::new(false) }
        })
    }

    /// Takes a place, and then the node's trigger, and notes the reload for whoever [takes it
    /// out](Self::next_noted) next. Until then its drop leaves the node as it was before. Returns
    /// whether it has. A call takes the trigger at any time; a read that comes at `read_at` only if
    /// the entry is stale by then. Not while too many notices wait. The caller has a count on the
    /// node, or a guard protects it.
    pub fn take(&self, core: &plain::Arc<Core>, id: NodeId, read_at: Option<Timestamp>) -> bool {
        let Some(refresh) = core.pool.refresh(id) else { return false };
        // Back-pressure comes before a reload. It cannot come at the end of one, which may be on
        // the very thread that receives the notices. What waits for a listener that awaits does not
        // count: if only threads use the cache, nobody tells that one, and no reload would ever
        // come.
        if core.notices.exceeded_limit().is_some() {
            self.places.skipped.fetch_add(1, Relaxed);
            return false;
        }
        let Some(place) = self.place() else { return false };
        // What is not used is dropped after the lock: a subscriber is code of the user's.
        let mut caller = Some(Span::current());
        // Under the lock: who finds the trigger taken, and is about to wait, finds the reload in
        // the list, unless another thread is handing it on.
        let mut noted = self.noted.lock();
        core.notices.note_reloads(true);
        let is_taken = match read_at {
            None => refresh.take_any(),
            Some(at) => Some(refresh.instant()).is_some_and(|it| it <= at && refresh.take(it)),
        };
        noted.extend(is_taken.then(|| Reloading {
            core: plain::Arc::downgrade(core),
            place: Some(place),
            waits: plain::Arc::clone(&self.waits),
            node: Some(RawHandle::retain(&core.pool, id)),
            retry: nanos(self.settings.retry),
            next: Next::AsBefore,
            read_at,
            caller: caller.take().unwrap_or(Span::NONE),
        }));
        core.notices.note_reloads(!noted.is_empty());
        is_taken
    }

    /// Takes out a reload that was noted.
    fn next_noted(&self, core: &Core) -> Option<Reloading> {
        let mut noted = self.noted.lock();
        let next = noted.pop_front();
        if noted.is_empty() {
            core.notices.note_reloads(false);
        }
        next
    }

    /// Ends a reload: counts the outcome, and decides when a read may trigger the next one.
    pub fn settle(&self, core: &Core, mut reloading: Reloading, ended: Ended) {
        let id = reloading.node().id();
        let Places { completed, failed, .. } = &*self.places;
        let (next, count) = match ended {
            _ if seeded("reloads-end-in-taken-triggers") => (Next::Settled, Some(completed)),
            Ended::Done => (Next::Settled, Some(completed)),
            Ended::Nothing => (Next::AsBefore, Some(completed)),
            Ended::Overtaken => (Next::Now, None),
            Ended::Hindered => (Next::Later, None),
            Ended::Failed(reason) => {
                let is_there = |id| core.pool.meta(id).deadline() != GONE;
                self.failures.note(id, reason, core.ticker.now(), &is_there);
                (Next::Later, Some(failed))
            }
        };
        reloading.next = next;
        let Some(count) = count else { return };
        if next != Next::Later {
            self.failures.forget(id);
        }
        count.fetch_add(1, Relaxed);
    }
}

impl Reloading {
    /// [Gives the place back](Place::give_back).
    pub fn give_place_back(&self) {
        self.place.iter().for_each(Place::give_back);
    }

    pub fn node(&self) -> &RawHandle {
        self.node.as_ref().expect("only the drop takes it")
    }

    /// Sets the node's trigger, unless that is done, or the cache is gone.
    fn restore(&self) {
        if self.next == Next::Settled || seeded("dropped-reloads-keep-the-trigger") {
            return;
        }
        let (Some(core), Some(node)) = (self.core.upgrade(), &self.node) else { return };
        let as_before = Timestamp::from_raw(0);
        // The clock may be the user's, and panic. This runs in a destructor.
        let now = || catch_user_panic(|| core.ticker.now()).unwrap_or(as_before);
        let instant = match self.next {
            Next::AsBefore => as_before,
            Next::Later if !seeded("failures-are-retried-at-once") => {
                now().saturating_add(self.retry)
            }
            _now => now(),
        };
        core.give_trigger_back(node.id(), instant);
    }
}

impl Drop for Reloading {
    fn drop(&mut self) {
        self.restore();
        drop(self.place.take());
        let node = self.node.take();
        if let Some(node) = &node {
            self.waits.wake(node.meta().hash());
        }
        match self.core.upgrade() {
            Some(core) => core.drop_caught(node),
            None => _ = catch_user_panic(|| drop(node)),
        }
    }
}
