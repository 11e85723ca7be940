//! Loads whose value does not come from a closure: the caller leads the key's load, and provides
//! the value later, perhaps on another thread.

use super::commit::Replaces;
use super::load::Begun;
use crate::engine::Engine;
use crate::engine::flights::FlightGuard;
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::step::block_on;
use crate::entry::Entry;
use crate::hash::Hashed;
use crate::loaded::Loaded;
use crate::pool::OwnedDraft;
use crate::primitives::seeded;
use crate::to_key::ToKey;
use std::convert::Infallible;
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

impl<K: Eq, V> Engine<K, V> {
    /// The key's entry, read or loaded by another call.
    ///
    /// # Errors
    /// The load of the key, which is the caller's duty, if there is no entry.
    pub fn value_or_load<Q: ToKey<K> + ?Sized>(
        &self,
        key: Hashed<&Q>,
    ) -> Result<Entry<K, V>, PendingLoad<K, V>> {
        let mut replaces = Replaces::none();
        if let Some(entry) = self.read_for_load(key, &mut replaces) {
            return Ok(entry);
        }
        // Back-pressure comes before the load: its end may be in a task.
        self.after_write();
        let (draft, mut joined) = (self.draft_for_load(key.to_key()), None);
        let begun = block_on(|| self.begin_load(None, &draft, &mut joined, &mut replaces));
        Self::lead(begun, draft)
    }

    /// The load that the caller leads now, or else its outcome.
    ///
    /// # Errors
    /// The load.
    pub fn lead(
        begun: Begun<K, V, Infallible>,
        draft: OwnedDraft<K, V>,
    ) -> Result<Entry<K, V>, PendingLoad<K, V>> {
        match begun {
            Begun::Ended(Ok(entry)) => Ok(entry),
            Begun::Leading(flight, _) => {
                Err(PendingLoad { flight, draft, started: Instant::now() })
            }
        }
    }

    /// Ends the load with its value. It blocks no thread, since the caller may be a task.
    pub fn finish_pending(&self, load: PendingLoad<K, V>, loaded: Loaded<V>) -> Entry<K, V> {
        let PendingLoad { flight, draft, started } = load;
        if let Some(recorder) = &self.core.recorder {
            recorder.loaded(started.elapsed());
        }
        let _mark = ReentrancyMark::push(Frame::Task);
        self.land_value(draft, loaded, flight.enter(), &mut Replaces::none())
    }
}

impl<K, V> Engine<K, V> {
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
