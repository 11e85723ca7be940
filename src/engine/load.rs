//! Loads: one caller makes the value, all who want it get it.

use super::Engine;
use super::ask::{Basis, Readings};
use super::commit::Obstacle;
use super::flights::{Airborne, Clearance, InFlight, Joining, Kind, Landed};
use crate::clock::NEVER;
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
        self.check_key(hash, &key);
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
                Ok((_, other)) if self.is_passed_over(hash, &other, Joining::Waiting) => {}
                Ok((_, other)) => {
                    let joined = other.wait().and_then(|landed| self.join(landed));
                    if let Some(entry) = joined.or_else(|| self.glance(hash, draft.key())) {
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
            airborne.land(Some(landed(&entry, entry.deadline())));
            drop((draft, init));
            return entry;
        }
        let (entry, ends) = self.lead(draft, hash, init, &airborne);
        airborne.land(Some(landed(&entry, ends)));
        self.tend();
        entry
    }

    /// The outcome of another's load, unless its life is over by now.
    fn join(&self, landed: Landed) -> Option<Entry<K, V>> {
        let now = self.core.ticker.now();
        let is_over = landed.ends <= now && !seeded("joined-loads-are-not-judged");
        (!is_over).then(|| {
            let deadline = landed.ends.max(now);
            Entry::new(self.pool.handle(landed.node), now, deadline, false)
        })
    }

    /// Runs the loader and commits what it made. Returns when its life ends, for those who wait.
    fn lead(
        &self,
        draft: Draft<'_, K, V>,
        hash: u32,
        init: impl FnOnce() -> V,
        airborne: &Airborne<'_>,
    ) -> (Entry<K, V>, u64) {
        let started = self.core.recorder.is_some().then(Instant::now);
        let attempt = Attempt { engine: self, started };
        let value = init();
        attempt.succeed();
        let node = draft.fill(value);
        let weight = self.weigh(&node);
        if let Some(entry) = self.settled(hash, node.key()).0 {
            let ends = entry.deadline();
            return (entry, ends);
        }
        let asks = self.hooks.expiry.is_some();
        let answer = asks.then(|| self.ask(&node, Some(&Basis::Absent), Readings::CoarseFirst));
        let guard = crate::epoch::pin();
        loop {
            let (found, old) = self.search_exact(&guard, hash, node.key());
            let now = self.core.ticker.now();
            if let Some(old) = old.filter(|old| old.meta().is_live(now, self.core.generation())) {
                return (self.entry_of(old), old.seen());
            }
            if let Some(answer) = answer
                && let Err(_) | Ok(Some(_)) = self.living_for((answer, &Basis::Absent), old)
            {
                continue;
            }
            let put = self.prepare((&node, hash), old, (weight, Term::Policy), answer);
            let ends = if put.refused.is_some() { NEVER } else { put.deadline };
            match self.core.commit_put(found, &put, Clearance::Landing(airborne)) {
                Ok(done) => {
                    let handle = node.handle();
                    self.finish_put(node, done, weight, put.now);
                    return (fresh(handle, put.now, put.deadline), ends);
                }
                Err(Obstacle::Overtaken) => {
                    return (fresh(node.handle(), put.now, put.deadline), ends);
                }
                Err(_) => {}
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

/// What those get who wait for this.
fn landed<K, V>(entry: &Entry<K, V>, ends: u64) -> Landed {
    Landed { node: entry.node().raw().clone(), ends }
}

impl<K, V, S> Engine<K, V, S> {
    /// The load or computation of the key that is in progress; if there is none, up to when that
    /// was so.
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

    /// Before a write of the key: waits for a computation of it, overtakes a load of it. To be
    /// called without a guard, which the wait would keep for as long as the computation takes.
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

    /// Overtakes a load of the key, if there is one.
    #[cold]
    pub fn overtake_load<Q>(&self, hash: u32, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        if let Ok((_, flight)) = self.flight_of(hash, key)
            && flight.kind() == Kind::Load
        {
            flight.overtake();
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

/// The entry of a node that the caller has just made, at the moment of its commit: it may have left
/// the cache since.
pub fn fresh<K, V>(node: Handle<K, V>, now: u64, deadline: u64) -> Entry<K, V> {
    Entry::new(node, now, deadline.max(now), true)
}

#[cfg(cortado_loom)]
impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Takes off for a load and gives it up, as unwinding from a loader does, without unwinding:
    /// loom's threads share one thread's count of panics. False if another is in the air.
    pub fn abandon_load(&self, key: K) -> bool {
        let hash = self.hash(&key);
        let draft = self.pool.draft(hash, key);
        let Err(seen) = self.flight_of(hash, draft.key()) else { return false };
        Airborne::take_off(&self.core, hash, Kind::Load, draft.share(), seen).is_some()
    }
}
