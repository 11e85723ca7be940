//! Reads, and when a look at the node is all there is to them.
//!
//! A hit leaves no trace if the entry lives beyond doubt, has been recorded in this era of the
//! policy's, and is not to be prolonged or counted. One comparison says so for most: the node's
//! deadline with the time and the cache's *reach*. What a glance does not settle is
//! [considered](Engine::consider).

use super::Engine;
use super::lookup::NodeRef;
use super::read::{Considered, Lookup};
use crate::epoch::Guard;
use crate::node::NO_ERA;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;
use equivalent::Equivalent;
use std::cell::Cell;
use std::hash::{BuildHasher, Hash};

/// How many reads rely on a reading of the clock, beside the one that took it: 64 in all.
const READS: u32 = 63;

/// A reading of the clock that some reads in a row share: those of entries that had 68.7 s to live
/// by it.
pub struct Moment {
    /// The reading, and the reach after it.
    end_of_reach: Cell<u64>,
    left: Cell<u32>,
}

impl Moment {
    /// One that has passed.
    pub fn new() -> Self {
        Self { end_of_reach: Cell::new(0), left: Cell::new(0) }
    }

    /// The end of the reading's reach, if another read may rely on it.
    #[inline(always)]
    fn take(&self) -> Option<u64> {
        let left = self.left.get().checked_sub(1)?;
        self.left.set(left);
        Some(self.end_of_reach.get())
    }

    fn begin(&self, end_of_reach: u64) {
        self.end_of_reach.set(end_of_reach);
        self.left.set(READS);
    }

    /// Forgets the reading.
    pub fn end(&self) {
        self.left.set(0);
    }
}

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    /// A read that counts: statistics, frequency, idle time and read hook. The caller tends to the
    /// cache afterwards if that is due, best after it has let go of the guard.
    #[inline(never)]
    pub fn read<'g, Q>(&'g self, guard: &'g Guard, key: &Q) -> Lookup<'g, K, V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hash(key);
        let coarse = self.core.ticker.coarse();
        self.settle(guard, hash, key, self.find(guard, hash, key), coarse)
    }

    /// [`read`](Self::read) of the value, and whether the cache is to be tended to afterwards.
    #[inline(always)]
    pub fn read_value<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> (Option<&'g V>, bool)
    where
        Q: Equivalent<K> + ?Sized,
    {
        let coarse = self.core.ticker.coarse();
        let lookup = match self.find(guard, hash, key) {
            Some(node)
                if self.is_plain(node, self.mode.reach_at(coarse)) && self.is_recorded(node) =>
            {
                return (Some(node.value()), self.wants_attention(coarse));
            }
            Some(node) => self.settle(guard, hash, key, Some(node), coarse),
            None => self.settle(guard, hash, key, None, coarse),
        };
        (lookup.node.map(NodeRef::value), lookup.due)
    }

    /// [`read_value`](Self::read_value), by a clock that is read once for many of them where that
    /// makes no difference. Tends to the cache itself.
    #[inline(always)]
    pub fn read_at<'g, Q>(&'g self, guard: &'g Guard, moment: &Moment, key: &Q) -> Option<&'g V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hash(key);
        let Some(reach) = moment.take() else { return self.read_anew(guard, moment, hash, key) };
        // Where moments are shared, misses are not counted.
        let node = self.find(guard, hash, key)?;
        if !self.is_plain(node, reach) {
            return self.read_anew(guard, moment, hash, key);
        }
        if !self.is_recorded(node) {
            self.record_and_attend(node.id());
        }
        Some(node.value())
    }

    /// [`read_at`](Self::read_at) of a moment that begins with it.
    #[inline(never)]
    fn read_anew<'g, Q>(
        &'g self,
        guard: &'g Guard,
        moment: &Moment,
        hash: u32,
        key: &Q,
    ) -> Option<&'g V>
    where
        Q: Equivalent<K> + ?Sized,
    {
        // On its way here while the clock is read.
        self.core.index.prefetch(hash);
        let coarse = self.core.ticker.coarse();
        let found = self.find(guard, hash, key);
        moment.end();
        // Where lives are short, a moment would be looked at in vain.
        let reach = self.mode.shared_reach_at(coarse);
        if found.is_some_and(|node| self.is_plain(node, reach)) {
            moment.begin(reach);
        }
        let (node, due) = match found {
            Some(node)
                if self.is_plain(node, self.mode.reach_at(coarse)) && self.is_recorded(node) =>
            {
                (found, self.wants_attention(coarse))
            }
            _ => {
                let lookup = self.settle(guard, hash, key, found, coarse);
                (lookup.node, lookup.due)
            }
        };
        if due {
            self.attend();
        }
        node.map(NodeRef::value)
    }

    /// A read of what was found, if anything was, where a glance is not enough. What has changed
    /// since it was found is looked up again.
    #[inline(never)]
    fn settle<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
        mut found: Option<NodeRef<'g, K, V>>,
        mut coarse: u64,
    ) -> Lookup<'g, K, V>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            if let Considered::Done(lookup) = self.consider(found, coarse) {
                return lookup;
            }
            coarse = self.core.ticker.coarse();
            found = self.find(guard, hash, key);
        }
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Whether a node that was found lives beyond doubt, and is not to be prolonged or counted: it
    /// lives beyond a reading's `reach`.
    #[inline(always)]
    fn is_plain(&self, node: NodeRef<'_, K, V>, reach: u64) -> bool {
        let seen = if seeded("judged-again") { node.meta().deadline() } else { node.seen() };
        seen > reach && !self.core.is_cleared(node.meta())
    }

    /// Whether the policy knows, or does not want to know, that the node is read in this era.
    #[inline(always)]
    fn is_recorded(&self, node: NodeRef<'_, K, V>) -> bool {
        let era = self.core.hot.era.load(Ordering::Relaxed);
        era == NO_ERA || era == node.meta().era()
    }

    #[inline(never)]
    fn record_and_attend(&self, id: u32) {
        if self.core.touch(id) {
            self.attend();
        }
    }
}

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    use super::*;

    /// The bound that the guarantees state.
    #[test]
    fn a_moment_serves_so_many_reads_and_ends_when_told() {
        let moment = Moment::new();
        assert_eq!(moment.take(), None);
        moment.begin(7);
        for _ in 0..63 {
            assert_eq!(moment.take(), Some(7));
        }
        assert_eq!(moment.take(), None);
        moment.begin(8);
        moment.end();
        assert_eq!(moment.take(), None);
    }
}
