//! Loads and computations of a key, seen by other operations on it: whom to wait for, and how to
//! take the key.

use super::Engine;
use super::core::Search;
use super::flights::{Clearance, FlightGuard, InFlight, Joining, Kind, Obstacle, Step};
use super::read::NodeRef;
use crate::entry::Entry;
use crate::flight::board::Version;
use crate::hash::Hash32;
use crate::node::Generation;
use crate::pool::RawHandle;
use crate::primitives::{Arc, seeded};
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Engine<K, V, S> {
    /// The load or computation of the key that is in progress.
    ///
    /// # Errors
    /// If there is none, the version of the board up to which that is known.
    pub fn flight_of<Q>(&self, hash: Hash32, key: &Q) -> Result<(Version, Arc<InFlight>), Version>
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

    /// Before a write of the key: waits for a computation of it, overtakes a load of it. The caller
    /// holds no guard, which would outlive the wait.
    pub fn clear_for_write<Q>(&self, hash: Hash32, key: &Q) -> Step<Clearance<'static>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        match self.flight_of(hash, key) {
            Err(version) => Step::Done(Clearance::Seen(version)),
            Ok((_, flight)) if flight.kind() == Kind::Computation => Step::Wait(flight),
            Ok((version, load)) => {
                load.overtake();
                Step::Done(Clearance::Seen(version))
            }
        }
    }

    /// Before a change of the entry's lifetime: waits for a computation of the key, leaves a load
    /// of it alone. The caller holds no guard.
    pub fn clear_for_prolong<Q>(&self, hash: Hash32, key: &Q) -> Step<Clearance<'static>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        match self.flight_of(hash, key) {
            Ok((_, flight)) if flight.kind() == Kind::Computation => Step::Wait(flight),
            Ok((version, _)) | Err(version) => Step::Done(Clearance::Seen(version)),
        }
    }

    /// Searches for a write of the key and attempts it, until it is done or has to wait. `clear` is
    /// called if a flight may be in the way. After any other failure the search is exact.
    #[inline(always)]
    pub fn step_write<Q, T>(
        &self,
        (hash, key): (Hash32, &Q),
        clearance: &mut Clearance<'static>,
        clear: impl Fn() -> Step<Clearance<'static>>,
        attempt: impl for<'g> Fn(
            (Search<'g>, Option<NodeRef<'g, K, V>>),
            Clearance<'static>,
        ) -> Result<T, Obstacle>,
    ) -> Step<T>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut exact = false;
        loop {
            let guard = crate::epoch::pin();
            let found = self.search_either(&guard, hash, key, exact);
            match attempt(found, *clearance) {
                Ok(done) => return Step::Done(done),
                Err(Obstacle::Flight) => {
                    drop(guard);
                    match clear() {
                        Step::Wait(flight) => return Step::Wait(flight),
                        Step::Done(seen) => *clearance = seen,
                    }
                }
                Err(_) => exact = true,
            }
        }
    }

    /// Overtakes a load of the key, if there is one.
    #[cold]
    pub fn overtake_load<Q>(&self, hash: Hash32, key: &Q)
    where
        Q: Equivalent<K> + ?Sized,
    {
        if let Ok((_, flight)) = self.flight_of(hash, key)
            && flight.kind() == Kind::Load
        {
            flight.overtake();
        }
    }

    /// Takes the key for a computation, which waits for loads and computations before it. `share`
    /// gives a count on a node with the key.
    pub fn acquire_key<Q>(
        &self,
        (hash, key): (Hash32, &Q),
        share: &dyn Fn() -> RawHandle,
        joining: Joining,
    ) -> Step<FlightGuard>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            match self.flight_of(hash, key) {
                Ok((_, other)) if self.is_passed_over(hash, &other, joining) => {}
                Ok((_, other)) => return Step::Wait(other),
                Err(seen) => {
                    if let Some(guard) = self.take_off(Kind::Computation, share(), seen) {
                        return Step::Done(guard);
                    }
                }
            }
        }
    }

    /// Puts a flight on the board; `None` if another one of this hash took off since `seen`.
    pub fn take_off(&self, kind: Kind, draft: RawHandle, seen: Version) -> Option<FlightGuard> {
        let generation = self.core.hot.generation();
        FlightGuard::take_off(&self.core.flights, (kind, generation), draft, seen)
    }

    /// Whether the other flight is an overtaken load, which is then taken off the board. With
    /// [`Joining::Overtaking`] this call overtakes it. If not, the flight is to be waited for.
    pub fn is_passed_over(&self, hash: Hash32, other: &Arc<InFlight>, joining: Joining) -> bool {
        if other.kind() != Kind::Load {
            return false;
        }
        if joining == Joining::Overtaking {
            other.overtake();
        }
        let overtaken = other.is_overtaken(self.core.hot.generation());
        if overtaken && !seeded("loads-join-the-overtaken") {
            self.core.flights.shard(hash).remove(hash, other);
            return true;
        }
        false
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The key's living entry, with the generation in which it lives. To be called with the
    /// caller's flight on the board: every write that began before the flight has ended, and later
    /// ones see the flight.
    pub fn stable_entry(&self, hash: Hash32, key: &K) -> (Option<Entry<K, V>>, Generation) {
        let guard = crate::epoch::pin();
        let mut exact = false;
        loop {
            let (found, node) = self.search_either(&guard, hash, key, exact);
            exact = true;
            // Nothing changed between the search and the lock, and every writer that locks the
            // bucket from here on sees the flight.
            if found.lock().map(drop).is_err() {
                continue;
            }
            let generation = self.core.hot.generation();
            let Some(node) = node else { return (None, generation) };
            let now = self.core.ticker.now();
            if node.meta().is_live(now, generation.mark()) {
                return (Some(self.entry_of(node)), generation);
            }
            if self.confirm_miss(node) {
                return (None, generation);
            }
        }
    }
}
