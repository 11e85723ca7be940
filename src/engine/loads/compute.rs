//! Computations: look, decide and act, with the key to themselves.

use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::engine::flights::{FlightGuard, Joining, Step, block_on};
use crate::engine::write::{Readings, Terms};
use crate::entry::{Entry, Key};
use crate::expiration::Lifetime;
use crate::pool::OwnedDraft;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// # Errors
    /// If `decide` returns one; the entry is as before.
    pub fn compute<E>(
        &self,
        key: K,
        decide: impl FnOnce(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        let draft = self.pool.draft(hash, key).detach();
        let flight = block_on(|| self.begin_compute(&draft));
        self.finish_compute(flight, draft, decide)
    }

    /// The first step: takes the key.
    fn begin_compute(&self, draft: &OwnedDraft<K, V>) -> Step<FlightGuard> {
        let key = (draft.hash(), draft.key());
        self.acquire_key(key, &|| draft.share(), Joining::Waiting)
    }

    /// The last step: looks, asks `decide`, and commits.
    fn finish_compute<E>(
        &self,
        flight: FlightGuard,
        draft: OwnedDraft<K, V>,
        decide: impl FnOnce(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        // Dropped after the flight, also when user code panics: these may be the last counts on the
        // old entry, whose destructors may use the key.
        let mut kept = (None, None);
        let flight = flight.enter();
        let hash = draft.hash();
        let (entry, generation) = self.stable_entry(hash, draft.key());
        let basis = entry.is_some().then_some(generation);
        kept.0 = entry.clone();
        let result = match (decide(entry.clone())?, entry) {
            (Op::Nop | Op::Remove, None) => CompResult::StillNone(Key::of_draft(draft)),
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
                let node = draft.attach(&self.pool).fill(value);
                let terms = Terms { weight: self.weigh(&node), lifetime: Lifetime::Policy };
                let fresh;
                (fresh, kept.1) = self.put_owning(node, terms, basis, Readings::CoarseFirst);
                match entry {
                    None => CompResult::Inserted(fresh),
                    Some(_) => CompResult::ReplacedWith(fresh.in_place_of_another()),
                }
            }
        };
        flight.land(None);
        drop(kept);
        self.after_write();
        Ok(result)
    }
}
