//! Reloads that begin: those that reads have triggered, and those that a call asks for.

use crate::clock::Timestamp;
use crate::engine::failures::Failed;
use crate::engine::flights::{Clearance, FlightKind};
use crate::engine::read::{NodeRef, Slot};
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::step::block_on;
use crate::engine::{Engine, WithHasher, reentrancy};
use crate::entry::Entry;
use crate::executor::Job;
use crate::hash::{Hashed, LookupKey};
use crate::loaded::{LoaderResult, Reason};
use crate::loader::ReloadFailure;
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::time::Instant;
use crate::primitives::{catch_user_panic, seeded};
use crate::span::Span;
use crate::to_key::ToKey;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};

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

    /// Makes the key's living entry stale, and overtakes a load of the key that is under way.
    /// Returns whether there is a living entry. It waits for nothing: what a computation writes
    /// comes later, and is fresh.
    pub fn make_stale(&self, key: impl LookupKey<K>) -> bool {
        if self.reloads.is_none() {
            return self.peek_at(&crate::epoch::pin(), key).is_some();
        }
        let overtake_loads = || {
            let (version, flight) = self.flight_of(key);
            let loads = flight.iter().filter(|it| it.kind != FlightKind::Exclusive);
            loads.filter(|_| !seeded("stale-spares-reloads")).for_each(|it| it.overtake());
            Ok(Clearance::Seen(version))
        };
        block_on(|| {
            self.step_write(
                key,
                &mut Clearance::Idle,
                overtake_loads,
                |Slot { found, node }, clearance| {
                    let coarse = self.core.ticker.coarse();
                    let is_there = node.is_some_and(|node| self.is_live_at(node, coarse));
                    self.core.commit_stale(found, key.hash(), clearance)?;
                    Ok((is_there, None))
                },
            )
        })
    }

    /// The failure of the last reload of the key's living entry, if that one failed.
    pub fn last_failure<E>(&self, key: impl LookupKey<K>) -> Option<ReloadFailure<E>>
    where
        E: Send + Sync + 'static,
    {
        let reloads = self.refresh()?;
        let Failed { reason, at, times } = {
            let guard = crate::epoch::pin();
            reloads.failures.of(self.peek_at(&guard, key)?.id())?
        };
        let error = reason.as_ref().and_then(<Arc<E> as Reason>::adopt);
        Some(ReloadFailure { error, at: self.core.ticker.instant_of(at), in_a_row: times })
    }

    /// Whether a node is stale, and its reload is under way. The clock is read only if one is.
    pub fn is_being_renewed(&self, node: &Handle<K, V>) -> bool {
        let mark = self.pool.raw().refresh(node.id());
        mark.is_some_and(|mark| mark.is_under_way() && mark.stale_from() <= self.core.ticker.now())
    }

    /// Whether the entry has left the cache, perhaps by a clearing whose sweep has not reached it.
    pub fn is_over(&self, node: &Handle<K, V>) -> bool {
        node.meta().deadline() == GONE || self.core.hot.is_cleared(node.meta())
    }

    /// Whether a caller goes on waiting for the reload of a node. It waits for no node that has
    /// left the cache, since such a node stays marked.
    fn reload_goes_on(&self, node: &Handle<K, V>) -> bool {
        let mark = self.pool.raw().refresh(node.id());
        mark.is_some_and(|mark| mark.is_under_way()) && !self.is_over(node)
    }

    /// Waits while the reload of a node is under way, until `deadline`. Not where no reload may
    /// begin, since it may be the caller's own, nor in an executor that is given reloads of this
    /// cache, since it may be one of those that follow.
    pub fn await_reload(&self, node: &Handle<K, V>, deadline: Option<Instant>) {
        if let Some(reloads) = self.refresh()
            && self.reload_goes_on(node)
            && reentrancy::may_reload()
            && !reentrancy::hands_on(self.core.id())
        {
            let wait = reloads.waits.on(node.meta().hash());
            wait.block(deadline, || !self.reload_goes_on(node));
        }
    }

    /// [`await_reload`](Self::await_reload) for tasks.
    pub async fn await_reload_async(&self, node: &Handle<K, V>) {
        if let Some(reloads) = self.refresh()
            && self.reload_goes_on(node)
            && reentrancy::may_reload()
        {
            let wait = reloads.waits.on(node.meta().hash());
            wait.wait_for(|| (!self.reload_goes_on(node)).then_some(())).await;
        }
    }

    /// The key's entry after this call has run reloads, which have made `made`. They may have
    /// lasted, so the entry that triggered one may have ended or been removed. If the key has no
    /// entry now, the one that a reload made: the cache need not have kept it.
    #[cold]
    pub fn entry_after_reload(
        &self,
        key: impl LookupKey<K>,
        made: Vec<Entry<K, V>>,
    ) -> Option<Entry<K, V>> {
        let mut own = None;
        for made in made {
            let is_own = key.is(made.key());
            self.core.drop_caught(if is_own { own.replace(made) } else { Some(made) });
        }
        let id = own.as_ref().map(|own| own.node().id());
        match self.peek_entry(key) {
            Some(present) if id != Some(present.node().id()) => {
                self.core.drop_caught(own);
                Some(present)
            }
            // Only `own` says that this call has made it.
            _ => own,
        }
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
        reloads.set_starter(Box::new(move |core, reloading, made| {
            let engine = Weak::clone(&engine);
            core.notices.executor.execute_reload(caught(move || {
                // If the cache is gone, nobody needs the value.
                if let Some(engine) = engine.upgrade() {
                    *made.lock() = Some(engine.reload(reloading));
                }
            }));
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
        if let Some(entry) = self.peek_entry(key) {
            return self.refresh_node(entry.node());
        }
        let generation = self.core.hot.generation();
        if self.flight_of(key).1.is_some_and(|it| !it.is_overtaken(generation)) {
            return false;
        }
        let place = self.refresh().and_then(|reloads| reloads.place());
        let Some(place) = place else { return false };
        // A job must not keep the cache: the executor may be the cache's own.
        let (engine, key, caller) = (Arc::downgrade(self), key.to_key(), Span::current());
        self.core.notices.executor.execute_reload(caught(move || {
            let _caller = caller.enter();
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
    /// Makes all entries stale, and overtakes all loads that are under way.
    pub fn make_all_stale(&self) {
        if self.reloads.is_none() {
            return;
        }
        // One that loads a key without an entry may be about to bring it, which no walk would meet.
        let loads = if seeded("stale-misses-loads") { vec![] } else { self.core.flights.loads() };
        for flight in loads {
            let node = self.pool.handle_ref(&flight.key_node);
            self.make_stale(node.hashed());
        }
        for node in self.all_keys() {
            self.make_stale(node.hashed());
        }
    }
}
