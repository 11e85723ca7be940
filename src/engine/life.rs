//! Lifetimes by key: ask for them, change them.

use super::Engine;
use super::commit::Obstacle;
use super::flights::Clearance;
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
            // After the deadline: a write since cannot have given it more life than is left by this reading.
            let now = self.core.ticker.now();
            if node.seen() > now && !self.core.is_cleared(node.meta()) {
                return Some((node.seen(), now));
            }
            if self.is_final_miss(node) {
                return None;
            }
        }
    }

    /// Gives the key's living entry the cap that `cap` makes of the present. False if there is none.
    pub fn set_cap<Q>(&self, key: &Q, cap: impl Fn(u64) -> u64) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hash(key);
        let mut clearance = Clearance::Idle;
        let changed = loop {
            match self.try_set_cap(hash, key, &cap, clearance) {
                Ok(changed) => break changed,
                // A computation of the key comes first.
                Err(Obstacle::Flight) => clearance = self.await_computation(hash, key),
                Err(Obstacle::Changed | Obstacle::Overtaken) => {}
            }
        };
        self.tend();
        changed
    }

    fn try_set_cap<Q>(
        &self,
        hash: u32,
        key: &Q,
        cap: impl Fn(u64) -> u64,
        clearance: Clearance<'_>,
    ) -> Result<bool, Obstacle>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let guard = crate::epoch::pin();
        let (found, node) = self.search(&guard, hash, key);
        let Some(node) = node else { return Ok(false) };
        let now = self.core.ticker.now();
        let done = self.core.commit_cap(found, node.seen(), (hash, now), cap(now), clearance)?;
        if let Some(event) = done.event {
            self.write_event(event, 0, now);
        }
        Ok(done.changed)
    }
}
