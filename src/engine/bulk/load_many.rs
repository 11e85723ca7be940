//! Loads of many keys by one call of the loader.

use crate::engine::WithHasher;
use crate::engine::flights::{EnteredFlight, Flight, FlightGuard, LoadOutcome};
use crate::engine::loads::{Begun, LoadTimer, Replaces, land_entry};
use crate::engine::reentrancy::{FlightToken, Frame, ReentrancyMark};
use crate::entry::Entry;
use crate::flight::board::spread;
use crate::flight::cell::HasCell;
use crate::hash::Hashed;
use crate::key_source::KeySource;
use crate::loaded::{Absent, Loaded, LoadedMany, NoValue, Reason};
use crate::pool::OwnedDraft;
use crate::primitives::{Arc, plain};
use crate::span::{Span, Work};
use hashbrown::HashTable;
use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};

/// Clones of the keys' values, in the order of the keys.
pub type BulkValues<V> = Vec<Option<V>>;

/// One of the keys, in the order in which the caller gave them.
pub enum Wanted<K, V> {
    Known(Option<Entry<K, V>>),
    /// A read has found this value.
    Hit(V),
    /// No value yet. The flight is another call's load of the key, for which this call has waited.
    Missing(OwnedDraft<K, V>, Option<Arc<Flight>>),
    /// The same key as the one at this position.
    SameAs(usize),
}

/// How many keys a round looks at, on average, while their loads go on. A look takes
/// some 15 ns.
const LOOKS_PER_ROUND: usize = 64;

/// The keys that wait for loads of other calls, as positions in order. The call waits for the load
/// of the first key.
pub struct Missing {
    positions: VecDeque<usize>,
    /// Rounds since the last one that looked at all keys.
    rounds: usize,
}

impl Missing {
    /// The missing keys, of which nothing else is known yet. The next round looks at all of them.
    pub fn of<K, V>(wanted: &[Wanted<K, V>]) -> Self {
        let is_missing = |&position: &usize| matches!(wanted[position], Wanted::Missing(..));
        let positions: VecDeque<_> = (0..wanted.len()).filter(is_missing).collect();
        Self { rounds: positions.len(), positions }
    }

    /// Begins a round. Returns whether it looks at all keys, and so finds loads that came to
    /// nothing before their turn.
    fn begin_round(&mut self) -> bool {
        self.rounds += 1;
        let is_due = self.positions.len() <= self.rounds.saturating_mul(LOOKS_PER_ROUND);
        if is_due {
            self.rounds = 0;
        }
        is_due
    }

    /// The positions of the keys.
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        self.positions.iter().copied()
    }

    /// The load of the first key.
    fn first<K, V>(&self, wanted: &[Wanted<K, V>]) -> Option<Arc<Flight>> {
        let Wanted::Missing(_, flight) = &wanted[*self.positions.front()?] else { return None };
        flight.clone()
    }
}

/// A load of this call: the key's position, and its flight.
pub struct Own {
    position: usize,
    flight: FlightGuard,
}

/// The loads of this call, until they land. They are dropped if the loader panics or the task is
/// cancelled. All have the token of the first one, so one mark on a thread's stack is enough for
/// them. The first one lands last: until then no other flight can get that token.
pub struct OwnLoads(Vec<Own>);

impl OwnLoads {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Leaves none.
    pub fn take(&mut self) -> Self {
        Self(std::mem::take(&mut self.0))
    }

    pub fn token(&self) -> Option<FlightToken> {
        self.0.first().map(|own| own.flight.token())
    }
}

impl Drop for OwnLoads {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// The position of the key whose load this flight is, if it is one of this call's: a key may be
/// given twice. `indices` are those of own loads, by the hashes of their keys. All are in it, once
/// one was looked for.
fn position_of(
    indices: &mut HashTable<usize>,
    flight: &Arc<Flight>,
    own: &OwnLoads,
) -> Option<usize> {
    if own.token() != Some(flight.token()) {
        return None;
    }
    let hash_of = |&index: &usize| spread(own.0[index].flight.hash());
    for index in indices.len()..own.0.len() {
        indices.insert_unique(hash_of(&index), index, hash_of);
    }
    let hash = spread(flight.hash());
    let index = indices.find(hash, |&index| own.0[index].flight.is_of(flight))?;
    Some(own.0[*index].position)
}

/// Runs code on behalf of the owner of these loads, as one poll of it, in a span.
pub fn polled<T>(own: &OwnLoads, span: &Span, run: impl FnOnce() -> T) -> T {
    let _mark = own.token().map(Frame::Flight).and_then(ReentrancyMark::push);
    let _entered = span.enter();
    run()
}

impl<K: Hash + Eq, V, S: BuildHasher> WithHasher<K, V, S> {
    /// The keys' values, read or loaded, in the order of the keys. `loader` is asked for all keys
    /// at once that are missing and that no other call is loading. It is asked again for those
    /// whose other load came to nothing.
    ///
    /// # Errors
    /// If the loader fails for all that it is asked for, or else that of the first key that has
    /// one. Values that the loader has made stay.
    pub fn load_many<E, I>(
        &self,
        keys: impl IntoIterator<Item: KeySource<K>>,
        mut loader: impl FnMut(&[&K]) -> Result<LoadedMany<I>, E>,
    ) -> Result<BulkValues<V>, plain::Arc<E>>
    where
        V: Clone,
        E: Send + Sync + 'static,
        I: IntoIterator<Item = (K, Result<Loaded<V>, E>)>,
    {
        let mut wanted = self.want_all(keys);
        let (mut missing, mut failed) = (Missing::of(&wanted), FirstError::NONE);
        // Each round ends all loads of this call before it waits for another call's load. So calls
        // whose keys cross cannot wait for each other.
        loop {
            let (own, other) = self.begin_round(&mut wanted, &mut missing);
            if !own.is_empty() {
                let timer = polled(&own, &Span::NONE, || self.time_load(Work::BulkLoad));
                let made = polled(&own, timer.span(), || loader(&keys_of(&wanted, &own)));
                let landed = self.land_round(&mut wanted, own, timer, made, &mut failed);
                // None was delivered as long as loads of this call were under way.
                self.after_write();
                // What the loader was not asked for.
                for (key, loaded) in landed.into_iter().flatten() {
                    self.insert_loaded(key, loaded);
                }
            }
            if let Some(error) = failed.settled(missing.positions()) {
                return Err(error);
            }
            match other {
                None => break,
                Some(other) => {
                    other.wait_until(None);
                }
            }
        }
        Ok(self.values_of(wanted))
    }

    /// Reads the keys. A stale value counts as any other.
    pub fn want_all(&self, keys: impl IntoIterator<Item: KeySource<K>>) -> Vec<Wanted<K, V>>
    where
        V: Clone,
    {
        let want = |key: Hashed<_>| match self.read_clone(key.borrowed()) {
            Some(value) => Wanted::Hit(value),
            None => Wanted::Missing(self.draft_for_load(key.into_key()), None),
        };
        keys.into_iter().map(|key| want(self.source(key))).collect()
    }

    /// Begins the loads of missing keys that no other call is loading. Returns also the load of
    /// another call that is to be awaited next, if there is one.
    ///
    /// The first round looks at all keys. A later one looks at the key whose load has been awaited.
    /// If that load came to nothing, the round looks at all others whose loads have ended, too: the
    /// loader is to be asked for many at once.
    pub fn begin_round(
        &self,
        wanted: &mut [Wanted<K, V>],
        missing: &mut Missing,
    ) -> (OwnLoads, Option<Arc<Flight>>) {
        let mut own = OwnLoads(Vec::new());
        // A comparison of keys that asks for a key of this call would wait for itself. Without own
        // loads there is no mark: nothing would end to which it could leave its deliveries. If one
        // panics, the mark ends first, and then the loads.
        let mut mark = None;
        let mut by_flight = HashTable::new();
        let mut looks_at_all = missing.begin_round();
        // Those that stay missing are moved to the end, in order.
        for nth in 0..missing.positions.len() {
            if nth > 0 && !looks_at_all {
                break;
            }
            let Some(position) = missing.positions.pop_front() else { break };
            let slot = &mut wanted[position];
            let Wanted::Missing(draft, joined) = slot else { continue };
            if joined.as_ref().is_some_and(|flight| flight.cell().is_running()) {
                looks_at_all = true;
                missing.positions.push_back(position);
                continue;
            }
            match self.begin_load::<Absent>(own.token(), draft, joined, &mut Replaces::none()) {
                Ok(Begun::Ended(loaded)) => *slot = Wanted::Known(loaded.ok()),
                Ok(Begun::Leading(flight, _)) => {
                    looks_at_all = true;
                    own.0.push(Own { position, flight });
                    mark = mark
                        .or_else(|| own.token().map(Frame::Flight).and_then(ReentrancyMark::push));
                }
                Err(flight) => match position_of(&mut by_flight, &flight, &own) {
                    Some(position) => *slot = Wanted::SameAs(position),
                    None => {
                        looks_at_all = true;
                        missing.positions.push_back(position);
                    }
                },
            }
        }
        drop(mark);
        (own, missing.first(wanted))
    }

    /// Commits what the loader has made of the keys of this call. The caller inserts the rest: it
    /// may have to wait, and the loads of this call have ended then. `None` if the loader has
    /// failed for all keys; then those who wait load them themselves.
    pub fn land_round<E, I>(
        &self,
        wanted: &mut [Wanted<K, V>],
        own: OwnLoads,
        timer: LoadTimer<'_>,
        made: Result<LoadedMany<I>, E>,
        failed: &mut FirstError<E>,
    ) -> Option<Unasked<K, V>>
    where
        E: Send + Sync + 'static,
        I: IntoIterator<Item = (K, Result<Loaded<V>, E>)>,
    {
        let mut own = own;
        let mark = own.token().map(Frame::Flight).and_then(ReentrancyMark::push);
        let LoadedMany { pairs, absent } = match made {
            Ok(made) => made,
            Err(error) => {
                // Listeners run when the loads land.
                timer.stop(false);
                failed.note(0, plain::Arc::new(error));
                return None;
            }
        };
        // The iterator may be lazy: its code is the loader's.
        let mut made = self.made_by_key(pairs);
        let has_failed = made.iter().any(|(_, made)| matches!(made, Made::Failed(_)));
        timer.stop(!has_failed);
        while let Some(Own { position, flight }) = own.0.pop() {
            let flight = flight.enter_by(None);
            if let Some(error) = self.land_one(wanted, position, flight, &mut made, absent.as_ref())
            {
                failed.note(position, error);
            }
        }
        drop(mark);
        let unasked = made.into_iter().filter_map(|(key, made)| match made {
            Made::Unused(loaded) => Some((key, loaded)),
            Made::UsedAt(_) | Made::Failed(_) => None,
        });
        Some(unasked.collect())
    }

    /// Commits the value of one key, if the loader has made one. Returns the key's error, if it has
    /// failed.
    fn land_one<E: Send + Sync + 'static>(
        &self,
        wanted: &mut [Wanted<K, V>],
        position: usize,
        flight: EnteredFlight,
        made: &mut MadeByKey<K, V, E>,
        absent: Option<&NoValue>,
    ) -> Option<plain::Arc<E>> {
        let known = Wanted::Known(None);
        let Wanted::Missing(draft, _) = std::mem::replace(&mut wanted[position], known) else {
            return None;
        };
        let found = made.find_mut(spread(draft.hashed().hash), |(key, _)| key.key == *draft.key());
        let Some((_, made)) = found else {
            flight.land_with(|| absent.cloned().map(LoadOutcome::NoValue));
            return None;
        };
        let entry = match made.take(position) {
            Made::Unused(loaded) => {
                Some(self.land_value(draft, loaded, flight, &mut Replaces::none()))
            }
            Made::Failed(error) => {
                flight.land_with(|| Some(LoadOutcome::NoValue(error.share())));
                return Some(error);
            }
            // A key that is given twice, and whose first load was overtaken before the second.
            Made::UsedAt(other) => match &wanted[other] {
                Wanted::Known(Some(entry)) => {
                    land_entry(flight, entry, entry.deadline());
                    Some(entry.clone())
                }
                _ => {
                    flight.land();
                    None
                }
            },
        };
        wanted[position] = Wanted::Known(entry);
        None
    }

    pub fn values_of(&self, wanted: Vec<Wanted<K, V>>) -> BulkValues<V>
    where
        V: Clone,
    {
        let mut values: BulkValues<V> = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let value = match wanted {
                Wanted::Hit(value) => Some(value),
                Wanted::Known(entry) => entry.map(Entry::into_value),
                // An earlier position, which has its value by now.
                Wanted::SameAs(position) => values[position].clone(),
                Wanted::Missing(..) => None,
            };
            values.push(value);
        }
        values
    }
}

/// The keys of these loads.
pub fn keys_of<'w, K, V>(wanted: &'w [Wanted<K, V>], own: &OwnLoads) -> Vec<&'w K> {
    let key_of = |own: &Own| {
        let Wanted::Missing(draft, _) = &wanted[own.position] else { return None };
        Some(draft.key())
    };
    own.0.iter().filter_map(key_of).collect()
}

/// Pairs that a loader has made and was not asked for.
pub type Unasked<K, V> = Vec<(Hashed<K>, Loaded<V>)>;

/// What a loader has made of one key.
pub enum Made<V, E> {
    Unused(Loaded<V>),
    /// The value of the key at this position.
    UsedAt(usize),
    Failed(plain::Arc<E>),
}

impl<V, E> Made<V, E> {
    /// Takes the value for the key at this position.
    pub fn take(&mut self, position: usize) -> Self {
        match self {
            Self::Unused(_) => std::mem::replace(self, Self::UsedAt(position)),
            Self::UsedAt(other) => Self::UsedAt(*other),
            Self::Failed(error) => Self::Failed(plain::Arc::clone(error)),
        }
    }
}

/// What a loader has made, to be looked up by key. Of several results of a key it is the last.
pub type MadeByKey<K, V, E> = HashTable<(Hashed<K>, Made<V, E>)>;

impl<K: Hash + Eq, V, S: BuildHasher> WithHasher<K, V, S> {
    pub fn made_by_key<E>(
        &self,
        pairs: impl IntoIterator<Item = (K, Result<Loaded<V>, E>)>,
    ) -> MadeByKey<K, V, E> {
        let mut table: MadeByKey<K, V, E> = HashTable::new();
        for (key, result) in pairs {
            let (key, hash_of) = (self.owned(key), |key: &Hashed<K>| spread(key.hash));
            let made =
                result.map_or_else(|error| Made::Failed(plain::Arc::new(error)), Made::Unused);
            match table.find_mut(hash_of(&key), |(other, _)| other.key == key.key) {
                Some((_, other)) => *other = made,
                None => {
                    table.insert_unique(hash_of(&key), (key, made), |(key, _)| hash_of(key));
                }
            }
        }
        table
    }
}

/// The error of the first key that has failed, in the order of the call's keys.
pub struct FirstError<E>(Option<(usize, plain::Arc<E>)>);

impl<E> FirstError<E> {
    pub const NONE: Self = Self(None);

    /// Notes the error of the key at this position.
    pub fn note(&mut self, position: usize, error: plain::Arc<E>) {
        if self.0.as_ref().is_none_or(|(first, _)| position < *first) {
            self.0 = Some((position, error));
        }
    }

    /// Takes out the error, unless the key at one of these positions may still have one before it.
    pub fn settled(&mut self, mut missing: impl Iterator<Item = usize>) -> Option<plain::Arc<E>> {
        let first = self.0.as_ref()?.0;
        if missing.any(|position| position < first) {
            return None;
        }
        self.0.take().map(|(_, error)| error)
    }
}
