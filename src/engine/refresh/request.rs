//! Reloads that begin: those that reads have triggered, and those that a call asks for.

use crate::clock::Timestamp;
use crate::engine::failures::Failed;
use crate::engine::read::NodeRef;
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::reloads::Reloading;
use crate::engine::{Engine, WithHasher};
use crate::entry::Entry;
use crate::executor::Job;
use crate::hash::Hashed;
use crate::loaded::{LoaderResult, Reason};
use crate::loader::ReloadFailure;
use crate::pool::Handle;
use crate::primitives::{Mutex, catch_user_panic, plain};
use crate::to_key::ToKey;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};
use std::time::Instant;

impl<K, V> Engine<K, V> {
    /// Takes the trigger of a living node if its soft deadline has passed. If so, the caller must
    /// call [`after_read`](Self::after_read) when it has dropped its guard.
    #[inline]
    pub fn triggers_reload(&self, node: NodeRef<'_, K, V>, coarse: Timestamp) -> bool {
        self.reloads.as_ref().is_some_and(|it| it.trigger_if_stale(&self.core, node.id(), coarse))
    }

    /// Hands the reloads that were noted to the executor, unless this thread is where none may
    /// begin; then the next operation does, or the scheduler. `None` if no reload has ended when it
    /// was handed over. Otherwise what those have made that have: of an executor that runs jobs at
    /// once.
    #[cold]
    pub fn hand_reloads_on(&self) -> Option<Vec<Entry<K, V>>> {
        let reloads = self.reloads.as_ref().filter(|_| self.core.notices.has_noted_reloads())?;
        reloads.hand_on(&self.core)
    }

    /// Has a node reloaded, stale or not. Returns whether this call has begun a reload: not if one
    /// is under way, or too many are.
    pub fn refresh_node(&self, node: &Handle<K, V>) -> bool {
        let Some(reloads) = self.refresh() else { return false };
        let is_noted = reloads.take(&self.core, node.id(), None);
        // Also if the node's reload was noted before, where none may begin.
        self.core.drop_caught(self.hand_reloads_on());
        is_noted
    }
}

impl<K, V, S> WithHasher<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// From now on, reads start reloads by the stored loader, as jobs that block.
    pub fn start_reloads(self: &Arc<Self>) {
        let Some(reloads) = self.refresh() else { return };
        let engine = Arc::downgrade(self);
        reloads.set_starter(Box::new(move |reloading: Reloading| {
            let core = engine.upgrade().map(|engine| plain::Arc::clone(&engine.core))?;
            let (executed, outcome) = (Weak::clone(&engine), Arc::new(Mutex::new(None)));
            let told = Arc::clone(&outcome);
            let reload = move || {
                // If the cache is gone, nobody needs the value.
                if let Some(engine) = executed.upgrade() {
                    *told.lock() = Some(engine.reload(reloading));
                }
            };
            core.notices.execute_reload(caught(reload));
            outcome.lock().take()
        }));
    }

    /// Starts a reload of the key's entry, or a load if there is no entry. Returns whether this
    /// call has.
    pub fn refresh_key<Q: ToKey<K> + ?Sized, R: LoaderResult<V> + 'static>(
        self: &Arc<Self>,
        key: Hashed<&Q>,
        load: impl FnOnce(&K) -> R + Send + 'static,
    ) -> bool {
        self.check_key(key);
        let node = {
            let guard = crate::epoch::pin();
            self.peek_at(&guard, key).map(|node| self.handle_on(node))
        };
        if let Some(node) = node {
            return self.refresh_node(&node);
        }
        let generation = self.core.hot.generation();
        if self.flight_of(key).1.is_some_and(|it| !it.is_overtaken(generation)) {
            return false;
        }
        let Some(reloads) = self.refresh() else { return false };
        let Some(place) = reloads.place() else { return false };
        // A job must not keep the cache: the executor may be the cache's own.
        let (engine, key) = (Arc::downgrade(self), key.to_key());
        self.core.notices.execute_reload(caught(move || {
            // Nothing holds the job back: its thread may be the one that receives.
            let _mark = ReentrancyMark::push(Frame::Task);
            if let Some(engine) = engine.upgrade() {
                // The job does not wait for another load: that would block a thread of the
                // executor, and the other load brings a value as well.
                let now = Some(Instant::now());
                let load = || {
                    let loaded = load(&key.key);
                    place.give_back();
                    loaded
                };
                drop(engine.load_after_miss(key.clone(), load, now));
            }
            drop(place);
        }));
        true
    }
}

/// A job whose panics, those of destructors included, do not reach the executor.
fn caught(run: impl FnOnce() + Send + 'static) -> Job {
    Box::new(move || _ = catch_user_panic(run))
}

impl<K: Eq, V> Engine<K, V> {
    /// The failure of the last reload of the key's living entry, if that one failed.
    pub fn last_failure<E, Q>(&self, key: Hashed<&Q>) -> Option<ReloadFailure<E>>
    where
        E: Send + Sync + 'static,
        Q: Equivalent<K> + ?Sized,
    {
        let reloads = self.refresh()?;
        let Failed { reason, at, times } = {
            let guard = crate::epoch::pin();
            reloads.failures.of(self.peek_at(&guard, key)?.id())?
        };
        let error = reason.as_ref().and_then(<Arc<E> as Reason>::adopt);
        Some(ReloadFailure { error, at: self.core.ticker.instant_of(at), in_a_row: times })
    }
}
