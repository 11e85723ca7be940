//! Lifetimes by key: asking for them, changing them.

use super::commit::NewHardDeadline;
use crate::clock::{NEVER, Timestamp};
use crate::engine::Engine;
use crate::engine::conflict::Attempt;
use crate::engine::flights::{Clearance, FlightKind};
use crate::engine::read::Slot;
use crate::engine::step::{Step, block_on};
use crate::expiration::Expiration;
use crate::hash::{Hash32, LookupKey};

impl<K, V> Engine<K, V> {
    /// The end of the key's living entry, as `due` makes it of the deadline and of the time when
    /// the entry was found.
    pub fn expiration<T>(
        &self,
        key: impl LookupKey<K>,
        due: impl FnOnce(Timestamp, Timestamp) -> T,
    ) -> Expiration<T> {
        let guard = crate::epoch::pin();
        loop {
            let Some(node) = self.find(&guard, key) else { return Expiration::NoEntry };
            // The clock is read after the deadline. So a concurrent write cannot have given the
            // entry more life than is left by this reading.
            let now = self.core.ticker.now();
            if node.seen() > now && !self.core.hot.is_cleared(node.meta()) {
                return match node.seen() {
                    NEVER => Expiration::Never,
                    deadline => Expiration::Due(due(deadline, now)),
                };
            }
            if self.confirm_miss(node) {
                return Expiration::NoEntry;
            }
        }
    }

    /// Gives the key's living entry the hard deadline that `hard_deadline` computes from the
    /// present time. False if there is no living entry.
    pub fn set_hard_deadline(
        &self,
        key: impl LookupKey<K>,
        hard_deadline: impl Fn(Timestamp) -> Timestamp,
    ) -> bool {
        self.check_key(key);
        let mut clearance = Clearance::Idle;
        let changed = block_on(|| self.step_set_hard_deadline(key, &hard_deadline, &mut clearance));
        self.finish_set_hard_deadline(key, changed)
    }

    /// Ends a change of a lifetime.
    pub fn finish_set_hard_deadline(&self, key: impl LookupKey<K>, changed: bool) -> bool {
        // A load that has just put the entry there may not have landed yet. A call from now on must
        // not get its value, whose life may have ended by this change.
        if changed && !self.core.flights.is_idle(key.hash()) {
            self.overtake_load(key);
        }
        self.after_write();
        changed
    }

    pub fn step_set_hard_deadline(
        &self,
        key: impl LookupKey<K>,
        hard_deadline: &impl Fn(Timestamp) -> Timestamp,
        clearance: &mut Clearance<'static>,
    ) -> Step<bool> {
        let is_there = || self.peek_at(&crate::epoch::pin(), key).is_some();
        // A change that ends the entry is a removal, which overtakes a reload.
        let ends = || {
            let now = self.core.ticker.now();
            self.core.lifetimes.deadline(now, hard_deadline(now)) <= now && is_there()
        };
        self.step_write(
            key,
            clearance,
            || self.clearance(key, |kind| kind == FlightKind::Reload && ends()),
            |found, clearance| {
                self.try_set_hard_deadline(found, key.hash(), hard_deadline, clearance)
            },
        )
    }
}

impl<K, V> Engine<K, V> {
    fn try_set_hard_deadline<'g>(
        &self,
        Slot { found, node }: Slot<'g, K, V>,
        hash: Hash32,
        hard_deadline: impl Fn(Timestamp) -> Timestamp,
        clearance: Clearance<'_>,
    ) -> Attempt<bool> {
        let Some(node) = node else { return Ok((false, None)) };
        let now = self.core.ticker.now();
        let limit =
            NewHardDeadline { hash, now, seen: node.seen(), hard_deadline: hard_deadline(now) };
        let done = self.core.commit_hard_deadline(found, &limit, clearance)?;
        Ok((done.done, done.event.map(|event| (event, now))))
    }
}
