//! What saving and restoring a cache need of the engine.

use super::Engine;
use super::flights::FlightKind;
use super::maintenance::SLACK_SHARE;
use crate::clock::{NEVER, Nanos, Timestamp};
use crate::compute::Op;
use crate::expiration::Lease;
use crate::hash::Hashed;
use crate::list::End;
use crate::loaded::Loaded;
use crate::pool::Handle;

/// What is left of an entry's life; [`Nanos::FOREVER`] where there is no end.
#[derive(Clone, Copy)]
pub struct Rest {
    /// Until its hard deadline.
    pub life: Nanos,
    /// Until its deadline, in a cache with an idle time.
    pub idle: Nanos,
    /// Until it is stale.
    pub fresh: Nanos,
}

impl<K: Eq, V> Engine<K, V> {
    /// All entries; those with the best prospects first, if the cache has a bound.
    pub fn best_first(&self) -> Box<dyn Iterator<Item = Handle<K, V>> + '_> {
        if self.core.capacity().is_none() {
            return Box::new(self.all_keys());
        }
        let ranked = self.core.ranked(usize::MAX, End::Front);
        Box::new(ranked.into_iter().map(|node| self.pool.handle(node)))
    }

    /// What the key of `node` has at this moment, and what is left of its life after `now`.
    pub fn rest_of(&self, node: Handle<K, V>, now: Timestamp) -> Option<(Handle<K, V>, Rest)> {
        let (node, deadline) = self.present(node)?;
        let rest = |end: Timestamp| match end {
            NEVER => Nanos::FOREVER,
            end => end.saturating_since(now),
        };
        let hard = self.pool.raw().hard_deadline(node.id()).map(|hard| hard.load());
        let fresh = self.pool.raw().refresh(node.id()).map(|mark| mark.stale_from());
        let rest = Rest {
            life: rest(hard.unwrap_or(deadline)),
            idle: hard.map_or(Nanos::FOREVER, |_| rest(deadline)),
            fresh: fresh.map_or(Nanos::FOREVER, rest),
        };
        Some((node, rest))
    }

    /// Whether another entry would have to leave for this one. Near the bound it asks the weigher,
    /// and runs the maintenance, since the writes that were recorded may have filled the cache. A
    /// value that is heavier than the bound is left to the insert, which refuses it.
    pub fn has_no_room(&self, key: &K, value: &V) -> bool {
        let Some(capacity) = self.core.capacity() else { return false };
        let (weight, entries) = (self.core.weight(), self.core.entries());
        let average = weight.div_ceil(entries.max(1)).max(1);
        if weight + average <= capacity - capacity / SLACK_SHARE {
            return false;
        }
        let needed = self.weigher.as_ref().map_or(1, |weigher| u64::from(weigher(key, value)));
        self.run_pending();
        needed <= capacity && self.core.weight() + needed > capacity
    }

    /// Inserts a value, unless its key has an entry, a load or a computation. Returns whether it
    /// did.
    pub fn put_if_absent(&self, key: Hashed<K>, value: V, lease: Lease) -> bool {
        self.check_key(key.as_ref());
        // A flight would hold up a reload.
        if self.peek_entry(key.as_ref()).is_some() {
            return false;
        }
        let draft = self.pool.draft(key);
        let share = || draft.share();
        let begun =
            self.begin_flight(draft.hashed(), FlightKind::Exclusive, None, &share, &|_| false);
        let Ok(flight) = begun else { return false };
        // Dropped after the flight, as those of a computation.
        let (mut looked, mut asked, result);
        asked = None;
        let flight = flight.enter();
        looked = self.look(draft.hashed());
        let is_absent = looked.entry.is_none();
        let op = if is_absent { Op::PutLoaded(Loaded::leased(value, lease)) } else { Op::Nop };
        result = self.act(draft, &mut looked, op, &mut asked);
        flight.land();
        drop((looked, asked, result));
        self.core.after_computation();
        self.after_write();
        is_absent
    }
}
