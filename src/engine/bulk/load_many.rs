//! Loads of many keys by one call of the loader.

use crate::engine::Engine;
use crate::engine::flights::{EnteredFlight, Flight, LoadOutcome, Step};
use crate::engine::loads::{Begun, LoadTimer, Replaces, loaded_node};
use crate::entry::Entry;
use crate::flight::board::spread;
use crate::loaded::{Absent, Loaded, NoValue, Reason};
use crate::pool::OwnedDraft;
use crate::primitives::{Arc, plain};
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};
use std::time::Instant;

/// The keys' entries, in the order of the keys.
pub type Answers<K, V> = Vec<Option<Entry<K, V>>>;

/// One of the keys, in the order in which the caller gave them.
enum Wanted<K, V> {
    Known(Option<Entry<K, V>>),
    /// No value yet. The flight is another call's load of the key, for which this call has waited.
    Missing(OwnedDraft<K, V>, Option<Arc<Flight>>),
    /// The same key as the one at this position.
    SameAs(usize),
}

/// A load of this call: the key's position, and its flight.
struct Own {
    position: usize,
    flight: EnteredFlight,
}

/// A value that a loader has made.
enum Made<V> {
    Unused(Loaded<V>),
    /// The value of the key at this position.
    UsedAt(usize),
}

/// The loads of this call. Their marks are on this thread's stack, so they end last one first, also
/// when the loader panics.
struct OwnLoads(Vec<Own>);

impl Drop for OwnLoads {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The keys' entries, read or loaded, in the order of the keys. `None` if another call's load
    /// has not ended at `deadline`; the loads of this call have then. `loader` is asked for all
    /// keys at once that are missing and that no other call is loading. It is asked again for
    /// those whose other load came to nothing.
    ///
    /// # Errors
    /// If the loader returns one. Values that an earlier call of it has made stay.
    pub fn load_many<E: Send + Sync + 'static, I: IntoIterator<Item = (K, Loaded<V>)>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut loader: impl FnMut(&[&K]) -> Result<I, E>,
        deadline: Option<Instant>,
    ) -> Result<Option<Answers<K, V>>, plain::Arc<E>> {
        let mut wanted: Vec<_> = keys.into_iter().map(|key| self.want(key)).collect();
        // Each round ends all loads of this call before it waits for another call's load. So calls
        // whose keys cross cannot wait for each other.
        loop {
            let (own, others) = self.begin_round(&mut wanted);
            if !own.0.is_empty()
                && let Err(error) = self.finish_round(&mut wanted, own, &mut loader)
            {
                // Before the error is the return value: a panic of the destructors would leak it.
                drop((wanted, others));
                return Err(error);
            }
            match (others, deadline) {
                (None, _) => break,
                (Some(other), None) => other.wait(),
                (Some(other), Some(deadline)) if other.wait_until(deadline) => {}
                (Some(_), Some(_)) => return Ok(None),
            }
        }
        Ok(Some(self.answers(wanted)))
    }

    fn want(&self, key: K) -> Wanted<K, V> {
        if let Some(entry) = self.read_for_load(&key, &mut Replaces::none()) {
            // Before the entry is the return value: if the key's destructor panicked after that,
            // the entry would leak.
            drop(key);
            return Wanted::Known(Some(entry));
        }
        let hash = self.hash(&key);
        self.check_key(hash, &key);
        Wanted::Missing(self.pool.draft(hash, key).detach(), None)
    }

    /// Takes off for all missing keys that no other call is loading. Returns also one of the other
    /// calls' loads, if there is one.
    fn begin_round(&self, wanted: &mut [Wanted<K, V>]) -> (OwnLoads, Option<Arc<Flight>>) {
        let mut own = OwnLoads(Vec::new());
        let mut other = None;
        for (position, slot) in wanted.iter_mut().enumerate() {
            let Wanted::Missing(draft, joined) = slot else { continue };
            let mut replaces = Replaces::none();
            match self.begin_load::<Absent>(draft, joined, &mut replaces) {
                Step::Done(Begun::Present(entry)) => *slot = Wanted::Known(Some(entry)),
                Step::Done(Begun::NoValue(Absent)) => *slot = Wanted::Known(None),
                Step::Done(Begun::Leading(flight)) => {
                    let flight = flight.enter();
                    match self.present_for_load(draft, &mut replaces) {
                        None => own.0.push(Own { position, flight }),
                        Some(entry) => {
                            let loaded = loaded_node(&entry, entry.deadline());
                            flight.land_with(|| Some(LoadOutcome::Value(loaded)));
                            *slot = Wanted::Known(Some(entry));
                        }
                    }
                }
                Step::Wait(flight) => match own.0.iter().find(|own| own.flight.is_of(&flight)) {
                    Some(own) => *slot = Wanted::SameAs(own.position),
                    None => other = Some(flight),
                },
            }
        }
        (own, other)
    }

    /// Runs the loader for the keys of this call, and commits what it makes.
    fn finish_round<E: Send + Sync + 'static, I: IntoIterator<Item = (K, Loaded<V>)>>(
        &self,
        wanted: &mut [Wanted<K, V>],
        mut own: OwnLoads,
        loader: &mut impl FnMut(&[&K]) -> Result<I, E>,
    ) -> Result<(), plain::Arc<E>> {
        let timer = LoadTimer::start(self);
        let keys: Vec<&K> = own.0.iter().filter_map(|own| key_of(&wanted[own.position])).collect();
        let mut made = match loader(&keys).map_err(plain::Arc::new) {
            Ok(made) => self.by_hash(made),
            Err(error) => {
                drop(timer);
                while let Some(Own { flight, .. }) = own.0.pop() {
                    flight.land_with(|| Some(LoadOutcome::NoValue(error.share())));
                }
                return Err(error);
            }
        };
        timer.succeed();
        while let Some(Own { position, flight }) = own.0.pop() {
            let known = Wanted::Known(None);
            let Wanted::Missing(draft, _) = std::mem::replace(&mut wanted[position], known) else {
                continue;
            };
            let hash = spread(draft.hash());
            let Some((_, made)) = made.find_mut(hash, |(key, _)| key == draft.key()) else {
                flight.land_with(|| Some(LoadOutcome::NoValue(NoValue::Absent)));
                continue;
            };
            let entry = match std::mem::replace(made, Made::UsedAt(position)) {
                Made::Unused(loaded) => {
                    Some(self.land_value(draft, loaded, flight, &mut Replaces::none()))
                }
                // A key that is given twice, and whose first load was overtaken before the second.
                Made::UsedAt(other) => {
                    let entry = known_entry(&wanted[other]);
                    let loaded = entry.as_ref().map(|entry| loaded_node(entry, entry.deadline()));
                    flight.land_with(|| loaded.map(LoadOutcome::Value));
                    entry
                }
            };
            wanted[position] = Wanted::Known(entry);
        }
        for (key, made) in made {
            if let Made::Unused(loaded) = made {
                let (value, lease) = loaded.into_parts();
                self.insert(key, value, lease.lifetime);
            }
        }
        Ok(())
    }

    /// What a loader has made, to be looked up by key. Of several values of a key it is the last.
    fn by_hash(&self, made: impl IntoIterator<Item = (K, Loaded<V>)>) -> HashTable<(K, Made<V>)> {
        let mut table: HashTable<(K, Made<V>)> = HashTable::new();
        for (key, value) in made {
            let hash = spread(self.hash(&key));
            let value = Made::Unused(value);
            match table.find_mut(hash, |(other, _)| *other == key) {
                Some((_, other)) => *other = value,
                None => {
                    table.insert_unique(hash, (key, value), |(key, _)| spread(self.hash(key)));
                }
            }
        }
        table
    }

    fn answers(&self, wanted: Vec<Wanted<K, V>>) -> Answers<K, V> {
        let mut answers: Answers<K, V> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let answer = match wanted {
                Wanted::Known(entry) => entry,
                // An earlier position, which has its answer by now.
                Wanted::SameAs(position) => answers[position].clone(),
                Wanted::Missing(..) => None,
            };
            answers.push(answer);
        }
        answers
    }
}

fn key_of<K, V>(wanted: &Wanted<K, V>) -> Option<&K> {
    match wanted {
        Wanted::Missing(draft, _) => Some(draft.key()),
        Wanted::Known(_) | Wanted::SameAs(_) => None,
    }
}

fn known_entry<K, V>(wanted: &Wanted<K, V>) -> Option<Entry<K, V>> {
    match wanted {
        Wanted::Known(entry) => entry.clone(),
        Wanted::Missing(..) | Wanted::SameAs(_) => None,
    }
}
