//! Loads whose value does not come from a closure: the caller leads the key's load, and provides
//! the value later, perhaps on another thread.

use super::commit::{Replaces, loaded_node};
use super::load::Begun;
use crate::engine::Engine;
use crate::engine::flights::{FlightGuard, LoadOutcome};
use crate::engine::step::block_until;
use crate::entry::Entry;
use crate::loaded::Loaded;
use crate::pool::OwnedDraft;
use crate::primitives::seeded;
use crate::to_key::ToKey;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// A load whose value is still to come. Its drop gives the load up.
pub struct PendingLoad<K, V> {
    // Declared, and so dropped, before the draft, which has the key.
    flight: FlightGuard,
    draft: OwnedDraft<K, V>,
    started: Instant,
}

impl<K, V> PendingLoad<K, V> {
    pub fn key(&self) -> &K {
        self.draft.key()
    }
}

/// A value, or the duty to load it.
pub enum ValueOrLoad<K, V> {
    Present(Entry<K, V>),
    Leading(PendingLoad<K, V>),
    TimedOut,
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The key's entry, read or loaded by another call, or else the load of the key. Waits for
    /// another call's load no longer than until `deadline`.
    pub fn value_or_load<Q>(&self, key: &Q, deadline: Option<Instant>) -> ValueOrLoad<K, V>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        let mut replaces = Replaces::none();
        if let Some(entry) = self.read_for_load(key, &mut replaces) {
            return ValueOrLoad::Present(entry);
        }
        let (draft, mut joined) = (self.draft_for_load(key.to_key()), None);
        let step = || self.begin_load::<Infallible>(&draft, &mut joined, &mut replaces);
        match block_until(deadline, step) {
            None => ValueOrLoad::TimedOut,
            Some(Begun::Present(entry)) => {
                // The drop must come before the entry is the return value: otherwise a panic of the
                // key's destructor would leak the entry.
                drop(draft);
                ValueOrLoad::Present(entry)
            }
            Some(Begun::NoValue(never)) => match never {},
            Some(Begun::Leading(flight)) => self.lead_pending(flight, draft),
        }
    }

    /// Leads, unless the key has got an entry between the read and the registration.
    fn lead_pending(&self, flight: FlightGuard, draft: OwnedDraft<K, V>) -> ValueOrLoad<K, V> {
        match self.unless_present(flight, &draft) {
            Ok(flight) => {
                ValueOrLoad::Leading(PendingLoad { flight, draft, started: Instant::now() })
            }
            Err(entry) => {
                drop(draft);
                ValueOrLoad::Present(entry)
            }
        }
    }

    /// For a load that is not finished at once: the entry in place of the flight, if the key has
    /// got one between the read and the registration.
    pub fn look_again<N>(&self, begun: Begun<K, V, N>, draft: &OwnedDraft<K, V>) -> Begun<K, V, N> {
        match begun {
            Begun::Leading(flight) => {
                self.unless_present(flight, draft).map_or_else(Begun::Present, Begun::Leading)
            }
            begun => begun,
        }
    }

    /// The flight, unless the key has got an entry between the read and the registration. Then the
    /// flight lands with that entry.
    fn unless_present(
        &self,
        flight: FlightGuard,
        draft: &OwnedDraft<K, V>,
    ) -> Result<FlightGuard, Entry<K, V>> {
        let present = {
            // The comparisons are user code, which may load the key.
            let _mark = flight.mark_poll();
            self.present_for_load(&flight, draft, &mut Replaces::none())
        };
        let Some(entry) = present else { return Ok(flight) };
        let outcome = || Some(LoadOutcome::Value(loaded_node(&entry, entry.deadline())));
        flight.enter().land_with(outcome);
        Err(entry)
    }

    /// Ends the load with its value.
    pub fn finish_pending(&self, load: PendingLoad<K, V>, loaded: Loaded<V>) -> Entry<K, V> {
        let PendingLoad { flight, draft, started } = load;
        if let Some(recorder) = &self.core.recorder {
            recorder.loaded(started.elapsed());
        }
        self.land_value(draft, loaded, flight.enter(), &mut Replaces::none())
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Gives the load up. One of its waiters leads next.
    pub fn give_up_pending(&self, load: PendingLoad<K, V>) {
        if let Some(recorder) = &self.core.recorder {
            recorder.load_failed(load.started.elapsed());
        }
        if seeded("guards-keep-the-flight") {
            return std::mem::forget(load);
        }
        drop(load);
    }
}
