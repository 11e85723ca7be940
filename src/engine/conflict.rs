//! How an operation deals with a load or computation of its key: waits for it, overtakes it, or
//! takes the key itself.

use super::Engine;
use super::event::Packed;
use super::flights::{Clearance, Flight, FlightGuard, FlightKind, Obstacle};
use super::read::{NodeRef, Slot};
use super::reentrancy::{self, FlightToken};
use super::step::Step;
use crate::clock::Timestamp;
use crate::entry::{Entry, Origin};
use crate::flight::board::Version;
use crate::hash::{Hashed, LookupKey};
use crate::node::Generation;
use crate::pool::RawHandle;
use crate::primitives::{Arc, seeded};

/// The outcome of an attempt to write: its result, and the event to record with the time of the
/// write.
pub type Attempt<T> = Result<(T, Option<(Packed, Timestamp)>), Obstacle>;

impl<K, V> Engine<K, V> {
    /// The load or computation of the key, if one is registered, and the version of the board at
    /// which that was true. If this thread is dropping the future of that flight's owner, takes the
    /// flight off the board: a wait for it would never end.
    pub fn flight_of(&self, key: impl LookupKey<K>) -> (Version, Option<Arc<Flight>>) {
        let shard = self.core.flights.shard(key.hash());
        let (version, flights) = shard.snapshot(key.hash());
        let same = |flight: &Arc<Flight>| key.is(self.pool.handle(flight.key_node.clone()).key());
        let mut flight = flights.into_iter().find(same);
        let is_own = |flight: &mut Arc<Flight>| {
            reentrancy::cancels(flight.token()) && !seeded("destructors-wait-for-their-keys")
        };
        if let Some(own) = flight.take_if(is_own) {
            shard.remove(key.hash(), &own);
        }
        (version, flight)
    }

    /// Waits for a computation of the key. Overtakes another flight of it if `overtakes` says so,
    /// else leaves it alone. The caller must hold no epoch guard.
    pub fn clearance(
        &self,
        key: impl LookupKey<K>,
        overtakes: impl FnOnce(FlightKind) -> bool,
    ) -> Step<Clearance<'static>> {
        let (version, flight) = self.flight_of(key);
        match flight {
            Some(flight) if flight.kind == FlightKind::Exclusive => return Err(flight),
            Some(flight) if overtakes(flight.kind) => flight.overtake(),
            _ => {}
        }
        Ok(Clearance::Seen(version))
    }

    /// Searches for a write of the key and attempts it, until it is done or has to wait.
    /// `get_clearance` is called if a flight may be in the way. After any other failure the
    /// search is exact. The event is recorded without the guard, which a pass or a yield would hold
    /// for long.
    #[inline(always)]
    pub fn step_write<T>(
        &self,
        key: impl LookupKey<K>,
        clearance: &mut Clearance<'static>,
        get_clearance: impl Fn() -> Step<Clearance<'static>>,
        attempt: impl for<'g> Fn(Slot<'g, K, V>, Clearance<'static>) -> Attempt<T>,
    ) -> Step<T> {
        let mut exact = false;
        loop {
            let guard = crate::epoch::pin();
            let found = self.search_either(&guard, key, exact);
            match attempt(found, *clearance) {
                Ok((done, event)) => {
                    drop(guard);
                    if let Some((event, now)) = event {
                        self.core.record_write(event, 0, now);
                    }
                    return Ok(done);
                }
                Err(Obstacle::Flight) => {
                    drop(guard);
                    *clearance = get_clearance()?;
                }
                Err(_) => exact = true,
            }
        }
    }

    /// Overtakes a load of the key, if there is one, after the call has changed or ended the life
    /// of the key's entry. A load that has no entry to share goes on, unless the key has no
    /// entry any more: that was a removal.
    #[cold]
    pub fn overtake_load(&self, key: impl LookupKey<K>) {
        let Some(flight) = self.flight_of(key).1 else { return };
        let is_load = flight.kind == FlightKind::Load;
        let is_removed = || is_load && self.find_slow(&crate::epoch::pin(), key).is_none();
        if flight.may_share_entry() || is_removed() {
            flight.overtake();
        }
    }
}

impl<K: Eq, V> Engine<K, V> {
    /// Registers a flight of the key, unless one is in the way: a computation, or a load that is
    /// not overtaken. Overtakes a load first if `overtakes` says so. `call` is the token of the
    /// first load of the same call, if that is another one. `share` gives a count on a node with
    /// the key.
    pub fn begin_flight(
        &self,
        key: Hashed<&K>,
        kind: FlightKind,
        call: Option<FlightToken>,
        share: &dyn Fn() -> RawHandle,
        overtakes: &dyn Fn(&Flight) -> bool,
    ) -> Step<FlightGuard> {
        let core = &self.core;
        loop {
            let (seen, other) = self.flight_of(key);
            let generation = core.hot.generation();
            let Some(other) = other else {
                let flight = Flight::new(kind, call, share(), generation);
                match FlightGuard::register(&core.flights, flight, seen) {
                    Some(guard) => return Ok(guard),
                    None => continue,
                }
            };
            let is_load = other.kind != FlightKind::Exclusive;
            if is_load && overtakes(&other) {
                other.overtake();
            }
            let is_overtaken = is_load && other.is_overtaken(generation);
            if !is_overtaken || seeded("loads-join-the-overtaken") {
                return Err(other);
            }
            core.flights.shard(key.hash).remove(key.hash, &other);
        }
    }

    /// The key's living entry, and the generation that was current at that moment. The caller's
    /// flight must be registered: every write that locked the bucket before this call has ended,
    /// and every later one sees the flight.
    pub fn stable_entry(&self, key: Hashed<&K>) -> (Option<Entry<K, V>>, Generation) {
        let guard = crate::epoch::pin();
        let mut exact = false;
        loop {
            let Slot { found, node } = self.search_either(&guard, key, exact);
            exact = true;
            let Ok(locked) = found.lock() else { continue };
            // The deadline may have been changed between the search and the lock.
            let node = node.map(NodeRef::with_present_deadline);
            drop(locked);
            let generation = self.core.hot.generation();
            let Some(node) = node else { return (None, generation) };
            let now = self.core.ticker.now();
            if node.seen() > now && node.meta().generation() == generation.mark() {
                let (node, end) = (self.handle_on(node), node.seen());
                return (Some(Entry::new(node, now, end, Origin::Found)), generation);
            }
            if self.confirm_miss(node) {
                return (None, generation);
            }
        }
    }
}
