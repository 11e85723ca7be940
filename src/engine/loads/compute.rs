//! Computations: look, decide and act, with the key to themselves.

use super::load::once;
use crate::compute::{CompResult, Op};
use crate::engine::Engine;
use crate::engine::asked::Basis;
use crate::engine::flights::{Flight, FlightGuard, FlightKind};
use crate::engine::step::{Step, block_on};
use crate::engine::write::Readings;
use crate::entry::{Entry, Key};
use crate::hash::Hashed;
use crate::loaded::Loaded;
use crate::node::Generation;
use crate::pool::{Draft, RawHandle};

/// What a computation has found.
pub struct Looked<K, V> {
    pub entry: Option<Entry<K, V>>,
    /// The generation of the entry.
    generation: Option<Generation>,
}

impl<K: Eq, V> Engine<K, V> {
    /// # Errors
    /// If `decide` returns one; the entry is as before.
    pub fn compute<E>(
        &self,
        key: Hashed<K>,
        decide: impl FnOnce(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        self.compute_by(key, &mut once(decide))
    }

    /// What is compiled once for all computations whose errors have one type.
    fn compute_by<E>(
        &self,
        key: Hashed<K>,
        decide: &mut dyn FnMut(Option<Entry<K, V>>) -> Result<Op<V>, E>,
    ) -> Result<CompResult<K, V>, E> {
        self.check_key(key.as_ref());
        let draft = self.pool.draft(key);
        let flight = block_on(|| self.take_key(draft.hashed(), &|| draft.share()));
        // Dropped after the flight, also when user code panics: these may be the last counts on the
        // old entry, whose destructors may use the key.
        let (mut looked, mut asked);
        asked = None;
        let flight = flight.enter();
        looked = self.look(draft.hashed());
        let result = match decide(looked.entry.clone()) {
            Ok(op) => {
                let result = self.act(draft, &mut looked, op, &mut asked);
                flight.land();
                Ok(result)
            }
            Err(error) => {
                drop(flight);
                Err(error)
            }
        };
        drop((looked, asked));
        self.core.after_computation();
        self.after_write();
        result
    }

    /// Takes the key for a computation. Waits for a load, but overtakes a reload, since the key has
    /// an entry to go on with.
    pub fn take_key(&self, key: Hashed<&K>, share: &dyn Fn() -> RawHandle) -> Step<FlightGuard> {
        let overtakes = |other: &Flight| other.kind == FlightKind::Reload;
        self.begin_flight(key, FlightKind::Exclusive, None, share, &overtakes)
    }

    /// The key's living entry, which no other write changes as long as the caller's flight is on
    /// the board.
    pub fn look(&self, key: Hashed<&K>) -> Looked<K, V> {
        let (entry, generation) = self.stable_entry(key);
        let generation = entry.is_some().then_some(generation);
        Looked { entry, generation }
    }

    /// Does what was decided. `looked` keeps an entry that is not part of the result, and `asked`
    /// the one that the hooks were asked about: the caller drops them when the flight has
    /// ended.
    pub fn act(
        &self,
        draft: Draft<'_, K, V>,
        looked: &mut Looked<K, V>,
        op: Op<V>,
        asked: &mut Option<Basis<K, V>>,
    ) -> CompResult<K, V> {
        let removes = matches!(op, Op::Remove);
        let put = match op {
            Op::Put(value) => Some(Loaded::new(value)),
            Op::PutLoaded(loaded) => Some(loaded),
            Op::Nop | Op::Remove => None,
        };
        let Some(loaded) = put else {
            if looked.entry.is_none() {
                return CompResult::StillNone(Key::of_draft(draft.detach()));
            }
            if removes {
                // If the entry has expired since, it was there when the closure was called.
                self.remove_owned(draft.hashed());
            }
            let entry = looked.entry.take().expect("nobody takes it meanwhile");
            return if removes { CompResult::Removed(entry) } else { CompResult::Unchanged(entry) };
        };
        let (value, lease) = loaded.into_parts();
        let node = draft.fill(value);
        let terms = self.terms(&node, lease);
        let fresh;
        (fresh, *asked) = self.put_owning(node, terms, looked.generation, Readings::CoarseFirst);
        match looked.entry {
            None => CompResult::Inserted(fresh),
            Some(_) => CompResult::ReplacedWith(fresh.in_place_of_another()),
        }
    }
}
