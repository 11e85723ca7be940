//! Loads: one caller makes the value, all who want it get it.

use super::Engine;
use super::commit::{Obstacle, Put};
use super::flights::{Airborne, Clearance, InFlight, Kind};
use crate::entry::Entry;
use crate::expiration::Term;
use crate::flight::board::Version;
use crate::pool::{Draft, Handle};
use crate::sync::{Arc, seeded};
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// Counts a load that panics.
struct Attempt<'a, K, V, S> {
    engine: &'a Engine<K, V, S>,
    started: Option<Instant>,
}

impl<K, V, S> Attempt<'_, K, V, S> {
    fn succeed(mut self) {
        if let (Some(started), Some(recorder)) = (self.started.take(), &self.engine.core.recorder) {
            recorder.loaded(started.elapsed());
        }
    }
}

impl<K, V, S> Drop for Attempt<'_, K, V, S> {
    fn drop(&mut self) {
        if let (Some(started), Some(recorder)) = (self.started, &self.engine.core.recorder) {
            recorder.load_failed(started.elapsed());
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The key's entry, read or loaded.
    pub fn load(&self, key: K, init: impl FnOnce() -> V) -> Entry<K, V> {
        let (found, due) = {
            let guard = crate::epoch::pin();
            let lookup = self.read(&guard, &key);
            (lookup.node.map(|node| self.entry_of(node)), lookup.due)
        };
        if due {
            self.attend();
        }
        match found {
            Some(entry) => {
                // Before the entry is the return value, which a panic of theirs would leak.
                drop((key, init));
                entry
            }
            None => self.load_missing(key, init),
        }
    }

    fn load_missing(&self, key: K, init: impl FnOnce() -> V) -> Entry<K, V> {
        let hash = self.hash(&key);
        let draft = self.pool.draft(hash, key);
        let airborne = loop {
            match self.flight_of(hash, draft.key()) {
                Err(seen) => {
                    if let Some(airborne) =
                        Airborne::take_off(&self.core, hash, Kind::Load, draft.share(), seen)
                    {
                        break airborne;
                    }
                }
                Ok((_, other)) => {
                    let landed = other.wait().map(|node| self.pool.handle(node));
                    let landed = landed.map(|node| self.landed(node, false));
                    if let Some(entry) = landed.or_else(|| self.glance(hash, draft.key())) {
                        drop((draft, init));
                        return entry;
                    }
                }
            }
        };
        // Another load may have ended between the first look and the take-off.
        let settled = if seeded("loads-take-off-unsettled") {
            self.glance(hash, draft.key())
        } else {
            self.settled(hash, draft.key()).0
        };
        if let Some(entry) = settled {
            airborne.land(Some(entry.node().raw().clone()));
            drop((draft, init));
            return entry;
        }
        let entry = self.lead(draft, hash, init, &airborne);
        airborne.land(Some(entry.node().raw().clone()));
        self.tend();
        entry
    }

    /// Runs the loader and commits what it made.
    fn lead(
        &self,
        draft: Draft<'_, K, V>,
        hash: u32,
        init: impl FnOnce() -> V,
        airborne: &Airborne<'_>,
    ) -> Entry<K, V> {
        let started = self.core.recorder.is_some().then(Instant::now);
        let attempt = Attempt { engine: self, started };
        let value = init();
        attempt.succeed();
        let weight = self.weigh(draft.key(), &value);
        let node = draft.fill(value);
        let guard = crate::epoch::pin();
        let mut advice = None;
        loop {
            let (found, old) = self.search(&guard, hash, node.key());
            let now = self.core.ticker.now();
            if let Some(old) = old.filter(|old| old.meta().is_live(now, self.core.generation())) {
                return self.entry_of(old);
            }
            let put = self.prepare(&node, old, weight, Term::Policy, &mut advice);
            match self.core.commit_put(found, &put, Clearance::Landing(airborne)) {
                Ok(done) => {
                    let handle = node.handle();
                    self.conclude_put(node, done, weight, put.now);
                    return fresh(handle, put);
                }
                Err(Obstacle::Overtaken) => return self.landed(node.handle(), true),
                Err(Obstacle::Changed | Obstacle::Flight) => {}
            }
        }
    }

    /// The key's living entry, without a trace.
    fn glance(&self, hash: u32, key: &K) -> Option<Entry<K, V>> {
        let guard = crate::epoch::pin();
        let coarse = self.core.ticker.coarse();
        let node = self.find(&guard, hash, key)?;
        self.was_living(node, coarse).then(|| self.entry_of(node))
    }
}

impl<K, V, S> Engine<K, V, S> {
    fn landed(&self, node: Handle<K, V>, fresh: bool) -> Entry<K, V> {
        let now = self.core.ticker.now();
        let deadline = node.meta().deadline().max(now);
        Entry::new(node, now, deadline, fresh)
    }

    /// The load or computation of the key that is in progress; if there is none, up to when that was
    /// so.
    pub fn flight_of<Q>(&self, hash: u32, key: &Q) -> Result<(Version, Arc<InFlight>), Version>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let (version, flights) = self.core.flights.shard(hash).snapshot(hash);
        let same =
            |flight: &Arc<InFlight>| key.equivalent(self.pool.handle(flight.draft().clone()).key());
        match flights.into_iter().find(same) {
            Some(flight) => Ok((version, flight)),
            None => Err(version),
        }
    }

    /// Before a write of the key: waits for a computation of it, overtakes a load of it. To be called
    /// without a guard, which the wait would keep for as long as the computation takes.
    pub fn await_turn<Q>(&self, hash: u32, key: &Q) -> Clearance<'static>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            match self.flight_of(hash, key) {
                Err(version) => return Clearance::Seen(version),
                Ok((version, flight)) => match flight.kind() {
                    Kind::Computation => {
                        let _ = flight.wait();
                    }
                    Kind::Load => {
                        flight.overtake();
                        return Clearance::Seen(version);
                    }
                },
            }
        }
    }

    /// Waits for a computation of the key, if there is one. Leaves a load of it alone. To be called
    /// without a guard.
    pub fn await_computation<Q>(&self, hash: u32, key: &Q) -> Clearance<'static>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            match self.flight_of(hash, key) {
                Ok((_, flight)) if flight.kind() == Kind::Computation => {
                    let _ = flight.wait();
                }
                Ok((version, _)) | Err(version) => return Clearance::Seen(version),
            }
        }
    }
}

/// The entry of a node that the caller has just made, at the moment of its commit: it may have left the
/// cache since.
pub fn fresh<K, V>(node: Handle<K, V>, put: Put) -> Entry<K, V> {
    Entry::new(node, put.now, put.deadline.max(put.now), true)
}

#[cfg(cortado_loom)]
impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Takes off for a load and gives it up, as unwinding from a loader does, without unwinding: loom's
    /// threads share one thread's count of panics. False if another is in the air.
    pub fn abandon_load(&self, key: K) -> bool {
        let hash = self.hash(&key);
        let draft = self.pool.draft(hash, key);
        let Err(seen) = self.flight_of(hash, draft.key()) else { return false };
        Airborne::take_off(&self.core, hash, Kind::Load, draft.share(), seen).is_some()
    }
}
