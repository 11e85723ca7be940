//! Reloads: the loader is asked with the old value at hand, and what it brings takes the entry's
//! place.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::flights::{
    EnteredFlight, FlightGuard, FlightKind, LoadOutcome, LoadedNode, OnLoad,
};
use crate::engine::loads::{LoadTimer, Replaces, loaded_node};
use crate::engine::reloads::{Reloading, Start};
use crate::expiration::Lease;
use crate::loaded::NoValue;
use crate::loader::{ReloadOutcome, Reloaded};
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::catch_user_panic;
use std::hash::{BuildHasher, Hash};

/// How the loader was asked, and what it said.
type Answer<V> = Result<Reloaded<V>, Option<NoValue>>;

/// What a reload came to.
enum Ended {
    /// The entry has a new value, or a new life, or is removed; or it is another one by now.
    Done,
    /// Something overtook the reload, and the entry is still there.
    Overtaken,
    /// The loader failed, or panicked.
    Failed(Option<NoValue>),
}

impl<K, V, S> Start<K, V> for Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    fn start(&self, reloading: Reloading<K, V>) {
        let is_inline = self.reloads.as_ref().is_none_or(|reloads| reloads.settings.inline);
        let myself = self.myself.get().cloned().filter(|_| !is_inline);
        let Some(engine) = myself else { return self.reload(reloading) };
        self.core.execute(Box::new(move || {
            // Without a cache nobody wants the value.
            if let Some(engine) = engine.upgrade() {
                engine.reload(reloading);
            }
        }));
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone,
    S: BuildHasher,
{
    /// Reloads a node's value, on this thread. If the key has a load or a computation, it waits for
    /// none, and leaves the entry to it.
    pub fn reload(&self, reloading: Reloading<K, V>) {
        let Some(flight) = self.begin_reload(&reloading.node) else {
            return self.leave_to_another(reloading);
        };
        // Neither the reader that triggered it nor the executor has asked for a panic of the loader
        // or of a hook.
        let (node, read_at) = (&reloading.node, reloading.read_at);
        let ended = catch_user_panic(|| self.fly_reload(node, read_at, flight));
        let ended = ended.unwrap_or(Ended::Failed(None));
        self.end_reload(reloading, ended);
        self.after_write();
    }

    /// Registers the reload; `None` if the key has another load or computation.
    fn begin_reload(&self, node: &Handle<K, V>) -> Option<FlightGuard> {
        let (hash, key) = (node.meta().hash(), node.key());
        loop {
            match self.flight_of(hash, key) {
                (_, Some(other)) if self.dismiss_overtaken(hash, &other, OnLoad::Wait) => {}
                (_, Some(_)) => return None,
                (seen, None) => {
                    let share = node.raw().clone();
                    if let Some(flight) = self.register(FlightKind::Reload, share, seen) {
                        return Some(flight);
                    }
                }
            }
        }
    }

    /// Another reload of the key sets the next trigger when it ends. Any other operation knows
    /// nothing of the trigger, so a later read is to take it.
    fn leave_to_another(&self, reloading: Reloading<K, V>) {
        let node = &reloading.node;
        let other = self.flight_of(node.meta().hash(), node.key()).1;
        if other.is_some_and(|other| other.kind() == FlightKind::Reload) {
            return reloading.leave();
        }
        let next = self.next_try();
        reloading.give_up(next);
    }

    /// When a read may next trigger the reload of an entry whose reload came to nothing.
    fn next_try(&self) -> Timestamp {
        let now = self.core.ticker.now();
        self.reloads.as_ref().map_or(now, |reloads| now.saturating_add(reloads.settings.retry))
    }

    fn fly_reload(
        &self,
        node: &Handle<K, V>,
        read_at: Option<Timestamp>,
        flight: FlightGuard,
    ) -> Ended {
        let flight = flight.enter();
        let present = self.stable_entry(node.meta().hash(), node.key()).0;
        if present.as_ref().is_none_or(|entry| entry.node().id() != node.id()) {
            // It was written or removed since it was found stale, or has ended.
            let loaded = present.as_ref().map(|entry| loaded_node(entry, entry.deadline()));
            flight.land_with(|| loaded.map(LoadOutcome::Value));
            return Ended::Done;
        }
        match self.ask_loader(node) {
            Ok(reloaded) => self.land_reload(node, reloaded, read_at, flight),
            Err(reason) => {
                let shared = reason.clone();
                flight.land_with(|| shared.map(LoadOutcome::NoValue));
                Ended::Failed(reason)
            }
        }
    }

    fn ask_loader(&self, node: &Handle<K, V>) -> Answer<V> {
        let Some(loader) = self.reloads.as_ref().and_then(|reloads| reloads.loader.as_ref()) else {
            return Err(None);
        };
        let timer = LoadTimer::start(self);
        let reloaded = loader.reload(node.key(), node.value()).map_err(Some)?;
        timer.succeed();
        Ok(reloaded)
    }

    /// Commits what the loader brought, and ends the flight.
    fn land_reload(
        &self,
        node: &Handle<K, V>,
        reloaded: Reloaded<V>,
        read_at: Option<Timestamp>,
        flight: EnteredFlight,
    ) -> Ended {
        let Reloaded { outcome, lease } = reloaded;
        flight.begin_commit();
        match outcome {
            ReloadOutcome::New(value) => self.land_new(node, (value, lease), read_at, flight),
            ReloadOutcome::NotModified => {
                let prolonged = self.prolong(node, lease, &flight, read_at);
                let raw = || node.raw().clone();
                let outcome = prolonged.map(|ends| LoadedNode { node: raw(), ends, is_made: true });
                flight.land_with(|| outcome.map(LoadOutcome::Value));
                if prolonged.is_some() { Ended::Done } else { Ended::Overtaken }
            }
            ReloadOutcome::Gone => {
                let is_removed = self.remove_gone(node, &flight);
                flight.land_with(|| is_removed.then_some(LoadOutcome::NoValue(NoValue::Absent)));
                if is_removed { Ended::Done } else { Ended::Overtaken }
            }
        }
    }

    fn land_new(
        &self,
        node: &Handle<K, V>,
        (value, lease): (V, Lease),
        read_at: Option<Timestamp>,
        flight: EnteredFlight,
    ) -> Ended {
        let draft = self.pool.draft(node.meta().hash(), node.key().clone());
        let made = draft.fill(value);
        let mut replaces = Replaces::only(node.clone(), read_at);
        let (entry, ends) = self.commit_load(made, lease, &flight, &mut replaces);
        flight.land_with(|| Some(LoadOutcome::Value(loaded_node(&entry, ends))));
        if node.meta().deadline() == GONE { Ended::Done } else { Ended::Overtaken }
    }

    /// Counts, and says when the next reload of the entry may come.
    fn end_reload(&self, reloading: Reloading<K, V>, ended: Ended) {
        let Some(reloads) = &self.reloads else { return };
        let (id, created) = (reloading.node.id(), reloading.node.meta().created());
        match ended {
            Ended::Done => {
                reloads.failures.forget(id);
                reloading.succeed();
            }
            Ended::Overtaken => {
                let now = self.core.ticker.now();
                reloading.give_up(now);
            }
            Ended::Failed(reason) => {
                let now = self.core.ticker.now();
                let is_there = |id, created| self.is_there(id, created);
                reloads.failures.note((id, created), (reason, now), is_there);
                let next = self.next_try();
                reloading.fail(next);
            }
        }
    }
}
