//! Computations: look, decide and do, with the key to themselves.

use super::Engine;
use super::ask::Readings;
use super::core::mark_of;
use super::flights::{Airborne, InFlight, Joining, Kind};
use crate::compute::{CompResult, Op};
use crate::entry::Entry;
use crate::pool::RawHandle;
use crate::sync::{Arc, seeded};
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    pub fn compute(
        &self,
        key: K,
        decide: impl FnOnce(Option<Entry<K, V>>) -> Op<V>,
    ) -> CompResult<K, V> {
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        let draft = self.pool.draft(hash, key);
        let airborne = self.take_key(hash, draft.key(), &|| draft.share(), Joining::Waiting);
        let (entry, generation) = self.settled(hash, draft.key());
        let basis = entry.is_some().then_some(generation);
        // What may be the last counts on the old entry goes after the flight: destructors may use
        // its key.
        let mut kept = (entry.clone(), None);
        let result = match (decide(entry.clone()), entry) {
            (Op::Nop, None) | (Op::Remove, None) => CompResult::StillNone,
            (Op::Nop, Some(entry)) => {
                drop(draft);
                CompResult::Unchanged(entry)
            }
            (Op::Remove, Some(entry)) => {
                self.remove_owned(hash, draft.key());
                drop(draft);
                CompResult::Removed(entry)
            }
            (Op::Put(value), entry) => {
                let node = draft.fill(value);
                let weight = self.weigh(&node);
                let fresh;
                (fresh, kept.1) = self.put_owning(node, weight, basis, Readings::CoarseFirst);
                match entry {
                    None => CompResult::Inserted(fresh),
                    Some(_) => CompResult::ReplacedWith(fresh),
                }
            }
        };
        airborne.land(None);
        drop(kept);
        self.tend();
        result
    }

    /// The key's living entry, once every write that began before the flight was on the board is
    /// through: those that come later wait. With the generation in which it lives.
    pub fn settled(&self, hash: u32, key: &K) -> (Option<Entry<K, V>>, u64) {
        let guard = crate::epoch::pin();
        loop {
            let (found, node) = self.search_exact(&guard, hash, key);
            // Nothing changed between the search and the lock, and whoever locks the bucket from
            // here on sees the flight.
            if found.lock().map(drop).is_err() {
                continue;
            }
            let now = self.core.ticker.now();
            let generation = self.core.full_generation();
            let Some(node) = node else { return (None, generation) };
            if node.meta().is_live(now, mark_of(generation)) {
                return (Some(self.entry_of(node)), generation);
            }
            if self.is_final_miss(node) {
                return (None, generation);
            }
        }
    }

    /// Takes the key for a computation: waits for those who have it, and puts a flight on the
    /// board. `share` gives a count on a node with the key.
    pub fn take_key(
        &self,
        hash: u32,
        key: &K,
        share: &dyn Fn() -> RawHandle,
        joining: Joining,
    ) -> Airborne<'_> {
        loop {
            match self.flight_of(hash, key) {
                Ok((_, other)) if self.is_passed_over(hash, &other, joining) => {}
                Ok((_, other)) => {
                    let _ = other.wait();
                }
                Err(seen) => {
                    let kind = Kind::Computation;
                    if let Some(airborne) =
                        Airborne::take_off(&self.core, hash, kind, share(), seen)
                    {
                        return airborne;
                    }
                }
            }
        }
    }

    /// Takes a load off the board that has been overtaken, or is by this; false if it is to be
    /// waited for.
    pub fn is_passed_over(&self, hash: u32, other: &Arc<InFlight>, joining: Joining) -> bool {
        if other.kind() != Kind::Load {
            return false;
        }
        if joining == Joining::Overtaking {
            other.overtake();
        }
        let overtaken = other.is_overtaken(self.core.full_generation());
        if overtaken && !seeded("loads-join-the-overtaken") {
            self.core.flights.shard(hash).remove(hash, other);
            return true;
        }
        false
    }
}
