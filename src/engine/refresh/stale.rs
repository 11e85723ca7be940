//! Entries that a call makes stale.

use crate::engine::Engine;
use crate::engine::flights::{Clearance, FlightKind};
use crate::engine::read::Slot;
use crate::engine::step::{Step, block_on};
use crate::hash::LookupKey;
use crate::primitives::seeded;

impl<K, V> Engine<K, V> {
    /// Makes the key's living entry stale, and overtakes a load of the key that is under way.
    /// Returns whether there is a living entry. It waits for nothing.
    pub fn make_stale(&self, key: impl LookupKey<K>) -> bool {
        if self.reloads.is_none() {
            return self.peek_at(&crate::epoch::pin(), key).is_some();
        }
        self.make_key_stale(key)
    }
}

impl<K, V> Engine<K, V> {
    fn make_key_stale(&self, key: impl LookupKey<K>) -> bool {
        let mut clearance = Clearance::Idle;
        block_on(|| {
            self.step_write(
                key,
                &mut clearance,
                || self.clearance_beside_computations(key),
                |Slot { found, node }, clearance| {
                    let coarse = self.core.ticker.coarse();
                    let is_there = node.is_some_and(|node| self.is_live_at(node, coarse));
                    self.core.commit_stale(found, key.hash(), clearance)?;
                    Ok((is_there, None))
                },
            )
        })
    }

    /// Overtakes a load of the key. What a computation writes comes later, and is fresh.
    fn clearance_beside_computations(&self, key: impl LookupKey<K>) -> Step<Clearance<'static>> {
        let (version, flight) = self.flight_of(key);
        let loads = flight.iter().filter(|it| it.kind() != FlightKind::Exclusive);
        loads.filter(|_| !seeded("stale-spares-reloads")).for_each(|it| it.overtake());
        Ok(Clearance::Seen(version))
    }
}

impl<K: Eq, V> Engine<K, V> {
    /// Makes all entries stale, and overtakes all loads that are under way.
    pub fn make_all_stale(&self) {
        if self.reloads.is_none() {
            return;
        }
        // One that loads a key without an entry may be about to bring it, which no walk would meet.
        let loads = if seeded("stale-misses-loads") { vec![] } else { self.core.flights.loads() };
        for flight in loads {
            let node = self.pool.handle_ref(flight.key_node());
            self.make_key_stale(node.hashed());
        }
        for node in self.all_keys() {
            self.make_key_stale(node.hashed());
        }
    }
}
