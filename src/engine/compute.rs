//! Computations: look, decide and do, with the key to themselves.

use super::Engine;
use super::commit::{Obstacle, Put};
use super::core::mark_of;
use super::event::Event;
use super::flights::{Airborne, Clearance, Kind};
use super::load::fresh;
use crate::compute::{CompResult, Op};
use crate::entry::Entry;
use crate::expiration::Term;
use crate::pool::Draft;
use crate::removal::RemovalCause;
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
        let draft = self.pool.draft(hash, key);
        let airborne = loop {
            match self.flight_of(hash, draft.key()) {
                Ok((_, other)) => {
                    let _ = other.wait();
                }
                Err(seen) => {
                    let kind = Kind::Computation;
                    if let Some(airborne) =
                        Airborne::take_off(&self.core, hash, kind, draft.share(), seen)
                    {
                        break airborne;
                    }
                }
            }
        };
        let (entry, generation) = self.settled(hash, draft.key());
        let basis = entry.is_some().then_some(generation);
        let result = match (decide(entry.clone()), entry) {
            (Op::Nop, None) | (Op::Remove, None) => CompResult::StillNone,
            (Op::Nop, Some(entry)) => {
                drop(draft);
                CompResult::Unchanged(entry)
            }
            (Op::Remove, Some(entry)) => {
                self.compute_remove(hash, draft.key());
                drop(draft);
                CompResult::Removed(entry)
            }
            (Op::Put(value), entry) => {
                let fresh = self.compute_put(hash, draft, value, basis);
                match entry {
                    None => CompResult::Inserted(fresh),
                    Some(_) => CompResult::ReplacedWith(fresh),
                }
            }
        };
        airborne.land(None);
        self.tend();
        result
    }

    /// The key's living entry, once every write that began before the flight was on the board is
    /// through: those that come later wait. With the generation in which it lives.
    pub fn settled(&self, hash: u32, key: &K) -> (Option<Entry<K, V>>, u64) {
        let guard = crate::epoch::pin();
        loop {
            let (found, node) = self.search(&guard, hash, key);
            // Nothing changed between the search and the lock, and whoever locks the bucket from here
            // on sees the flight.
            if found.lock().map(drop).is_ok() {
                let now = self.core.ticker.now();
                let generation = self.core.full_generation();
                let living = node.filter(|node| node.meta().is_live(now, mark_of(generation)));
                return (living.map(|node| self.entry_of(node)), generation);
            }
        }
    }

    fn compute_put(
        &self,
        hash: u32,
        draft: Draft<'_, K, V>,
        value: V,
        basis: Option<u64>,
    ) -> Entry<K, V> {
        let weight = self.weigh(draft.key(), &value);
        let node = draft.fill(value);
        let guard = crate::epoch::pin();
        let mut advice = None;
        loop {
            let (found, old) = self.search(&guard, hash, node.key());
            let put = self.prepare(&node, old, weight, Term::Policy, &mut advice);
            let put = Put { basis, ..put };
            match self.core.commit_put(found, &put, Clearance::Own) {
                Ok(done) => {
                    let handle = node.handle();
                    self.conclude_put(node, done, weight, put.now);
                    return fresh(handle, put);
                }
                Err(Obstacle::Changed | Obstacle::Flight | Obstacle::Overtaken) => {}
            }
        }
    }

    fn compute_remove(&self, hash: u32, key: &K) {
        let guard = crate::epoch::pin();
        loop {
            let (found, _) = self.search(&guard, hash, key);
            let now = self.core.ticker.now();
            let cause = RemovalCause::Explicit;
            match self.core.commit_remove(found, hash, now, cause, Clearance::Own) {
                Ok(Some((id, _))) => return self.write_event(Event::Removed(id).pack(), 0, now),
                Ok(None) => return,
                Err(Obstacle::Changed | Obstacle::Flight | Obstacle::Overtaken) => {}
            }
        }
    }
}
