//! Computations: look, decide and act, with the key to themselves.

use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::engine::flights::{FlightGuard, OnLoad};
use crate::engine::step::{Step, block_on};
use crate::engine::write::{Basis, Readings};
use crate::entry::{Entry, Key};
use crate::expiration::{Lease, Lifetime};
use crate::node::Generation;
use crate::pool::OwnedDraft;
use std::hash::{BuildHasher, Hash};

/// What a computation has found.
pub struct Looked<K, V> {
    pub entry: Option<Entry<K, V>>,
    /// The generation of the entry.
    basis: Option<Generation>,
}

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
        let mut decide = Some(decide);
        self.compute_by(key, &mut |entry| decide.take().expect("called once")(entry))
    }

    /// What is compiled once for all computations whose errors have one type.
    fn compute_by<E>(
        &self,
        key: K,
        decide: &mut dyn FnMut(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        let draft = self.pool.draft(hash, key).detach();
        let flight = block_on(|| self.begin_compute(&draft));
        self.finish_compute(flight, draft, decide)
    }

    /// The first step: takes the key.
    pub fn begin_compute(&self, draft: &OwnedDraft<K, V>) -> Step<FlightGuard> {
        let key = (draft.hash(), draft.key());
        self.acquire_key(key, &|| draft.share(), OnLoad::WaitUnlessReload)
    }

    /// The last step: looks, asks `decide`, and commits.
    fn finish_compute<E>(
        &self,
        flight: FlightGuard,
        draft: OwnedDraft<K, V>,
        decide: &mut dyn FnMut(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        // Dropped after the flight, also when user code panics: these may be the last counts on the
        // old entry, whose destructors may use the key.
        let mut kept = (None, None);
        let flight = flight.enter();
        let looked = self.look(&draft);
        kept.0 = looked.entry.clone();
        let op = match decide(looked.entry.clone()) {
            Ok(op) => op,
            Err(error) => {
                drop(flight);
                // Before the error is the return value: a panic of the destructors would leak it.
                drop((draft, looked, kept));
                self.core.after_computation();
                self.after_write();
                return Err(error);
            }
        };
        let result = self.act(draft, looked, op, &mut kept.1);
        flight.land();
        drop(kept);
        self.core.after_computation();
        self.after_write();
        Ok(result)
    }

    /// The key's living entry, which no other write changes as long as the caller's flight is on
    /// the board.
    pub fn look(&self, draft: &OwnedDraft<K, V>) -> Looked<K, V> {
        let (entry, generation) = self.stable_entry(draft.hash(), draft.key());
        let basis = entry.is_some().then_some(generation);
        Looked { entry, basis }
    }

    /// Does what was decided. `asked` keeps the entry that the hooks were asked about until the
    /// flight has ended.
    pub fn act(
        &self,
        draft: OwnedDraft<K, V>,
        looked: Looked<K, V>,
        op: Op<V>,
        asked: &mut Option<Basis<K, V>>,
    ) -> CompResult<K, V> {
        let hash = draft.hash();
        match (op, looked.entry) {
            (Op::Nop | Op::Remove, None) => CompResult::StillNone(Key::of_draft(draft)),
            (Op::Nop, Some(entry)) => {
                drop(draft);
                CompResult::Unchanged(entry)
            }
            (Op::Remove, Some(entry)) => {
                // If it has expired since, it was there when the closure was called.
                self.remove_owned(hash, draft.key());
                drop(draft);
                CompResult::Removed(entry)
            }
            (Op::Put(value), entry) => {
                let node = draft.attach(&self.pool).fill(value);
                let lease = Lease { lifetime: Lifetime::Policy, refresh: None };
                let terms = self.terms(&node, lease);
                let fresh;
                (fresh, *asked) = self.put_owning(node, terms, looked.basis, Readings::CoarseFirst);
                match entry {
                    None => CompResult::Inserted(fresh),
                    Some(_) => CompResult::ReplacedWith(fresh.in_place_of_another()),
                }
            }
        }
    }
}
