//! Lifetimes by key: ask for them, change them.

use super::Engine;
use super::commit::Obstacle;
use super::flights::Clearance;
use super::lookup::{NodeRef, Search};
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    /// The deadline of the key's living entry, with the present.
    pub fn deadline<Q>(&self, key: &Q) -> Option<(u64, u64)>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hash(key);
        let guard = crate::epoch::pin();
        loop {
            let node = self.find(&guard, hash, key)?;
            // After the deadline: a write since cannot have given it more life than is left by this
            // reading.
            let now = self.core.ticker.now();
            if node.seen() > now && !self.core.is_cleared(node.meta()) {
                return Some((node.seen(), now));
            }
            if self.is_final_miss(node) {
                return None;
            }
        }
    }

    /// Gives the key's living entry the cap that `cap` makes of the present. False if there is
    /// none.
    pub fn set_cap<Q>(&self, key: &Q, cap: impl Fn(u64) -> u64) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hash(key);
        self.check_key(hash, key);
        let mut clearance = Clearance::Idle;
        let mut is_first = true;
        let changed = loop {
            let guard = crate::epoch::pin();
            let found = if is_first {
                self.search(&guard, hash, key)
            } else {
                self.search_exact(&guard, hash, key)
            };
            match self.try_set_cap(found, hash, &cap, clearance) {
                Ok(changed) => break changed,
                Err(Obstacle::Flight) => {
                    // A computation of the key comes first.
                    drop(guard);
                    clearance = self.await_computation(hash, key);
                }
                Err(_) => is_first = false,
            }
        };
        // A load that has just put the entry there may not have landed yet. Who calls from now on
        // is not to get what may have ended by this.
        if changed && !self.core.flights.is_idle(hash) {
            self.overtake_load(hash, key);
        }
        self.tend();
        changed
    }

    fn try_set_cap<'g>(
        &self,
        (found, node): (Search<'g>, Option<NodeRef<'g, K, V>>),
        hash: u32,
        cap: impl Fn(u64) -> u64,
        clearance: Clearance<'_>,
    ) -> Result<bool, Obstacle> {
        let Some(node) = node else { return Ok(false) };
        let now = self.core.ticker.now();
        let done = self.core.commit_cap(found, node.seen(), (hash, now), cap(now), clearance)?;
        if let Some(event) = done.event {
            self.core.write_event(event, 0, now);
        }
        Ok(done.changed)
    }
}
