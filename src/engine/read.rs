//! Reads: find, judge, record.

use super::Engine;
use super::core::Core;
use super::event::Event;
use super::lookup::NodeRef;
use crate::buffer::read::Push;
use crate::drain::Urge;
use crate::expiration::end;
use crate::node::{GONE, NO_ERA, remaining};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::seeded;
use crossbeam_epoch::Guard;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// What a lookup found, and whether the maintenance wants attention after it.
pub struct Lookup<'g, K, V> {
    pub node: Option<NodeRef<'g, K, V>>,
    pub due: bool,
}

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    /// A read that counts: statistics, frequency, idle time and read hook. The caller tends to the
    /// cache afterwards if that is due, best after it has let go of the guard.
    #[inline]
    pub fn read<'g, Q>(&'g self, guard: &'g Guard, key: &Q) -> Lookup<'g, K, V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let coarse = self.core.ticker.coarse();
        let mut due = self.core.is_due(coarse) || self.core.status.should_drain(Urge::Delayable);
        let hash = self.hash(key);
        let node = self
            .find(guard, hash, key)
            .filter(|node| self.was_living(*node, coarse))
            .filter(|node| !self.renews || self.renew(*node, &mut due));
        if let Some(node) = node {
            due |= self.record(node);
        }
        if let Some(recorder) = &self.core.recorder {
            if node.is_some() { recorder.hit() } else { recorder.miss() }
        }
        Lookup { node, due }
    }

    /// A read that leaves no trace.
    pub fn peek<'g, Q>(&'g self, guard: &'g Guard, key: &Q) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let coarse = self.core.ticker.coarse();
        self.find(guard, self.hash(key), key).filter(|node| self.was_living(*node, coarse))
    }
}

impl Core {
    /// Puts a read into the read buffer; true if that wants to be drained.
    #[inline(never)]
    fn record(&self, id: u32) -> bool {
        match self.reads.push(id) {
            Push::Stored => return false,
            Push::HalfFull => {}
            // The record is lost; the next read of the node makes a new one.
            Push::Full => self.pool.meta(id).untouch(),
        }
        let _ = self.status.request();
        true
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Tells the policy of a hit; true if the read buffer wants to be drained.
    #[inline]
    fn record(&self, node: NodeRef<'_, K, V>) -> bool {
        let era = self.core.hot.era.load(Ordering::Relaxed);
        era != NO_ERA && node.meta().touch(era) && self.core.record(node.id())
    }

    /// Gives the entry the lifetime that it has after a read: idle time and read hook. False if its life
    /// turned out to be over. Of one that was replaced or removed since it was found nothing is prolonged;
    /// the read came before that.
    ///
    /// The new deadline competes with everything else for the one word in this node; what has taken
    /// the node's place meanwhile is another node. A later deadline leaves the wheel alone, which
    /// finds out when the old one comes due.
    ///
    /// With an idle time, cap and deadline are two words. Each is exchanged for what it was judged
    /// by, and whoever sets both sets the cap first. So a deadline made of a cap that is no longer
    /// the one is noticed afterwards, or the exchange of whoever replaced the cap fails and is
    /// made again.
    #[inline(never)]
    fn renew(&self, node: NodeRef<'_, K, V>, due: &mut bool) -> bool {
        let now = self.core.ticker.now();
        let meta = node.meta();
        loop {
            let deadline = meta.deadline();
            if deadline == GONE {
                return true;
            }
            if deadline <= now {
                return false;
            }
            let cap_word = self.pool.raw().cap(node.id());
            let cap = cap_word.map_or(deadline, |cap| cap.load(Ordering::Acquire));
            let new_cap = self.cap_after_read(node, now, cap);
            if let Some(word) = cap_word
                && new_cap != cap
                && word.compare_exchange(cap, new_cap, Ordering::AcqRel, Ordering::Acquire).is_err()
            {
                continue;
            }
            let new = self.core.lifetimes.deadline(now, new_cap);
            if new != deadline {
                if !meta.change_deadline(deadline, new) {
                    continue;
                }
                if new < deadline {
                    self.write_event(Event::Rescheduled(node.id()), 0, now);
                    *due = true;
                }
            }
            let is_current = |word: &AtomicU64| word.load(Ordering::Acquire) == new_cap;
            if cap_word.is_none_or(is_current) || seeded("renew-looks-at-the-cap-once") {
                return true;
            }
        }
    }

    fn cap_after_read(&self, node: NodeRef<'_, K, V>, now: u64, cap: u64) -> u64 {
        let Some(expiry) = self.hooks.expiry.as_ref().filter(|_| self.observes) else {
            return cap;
        };
        let current = remaining(cap, now);
        let created = node.meta().created();
        let ticker = &self.core.ticker;
        let answer = expiry.expire_after_read(
            node.key(),
            node.value(),
            ticker.instant_of(now),
            current,
            ticker.instant_of(created),
        );
        if answer == current {
            return cap;
        }
        self.core.lifetimes.cap_after_read(created, cap, end(now, answer))
    }

    /// What is left of the entry's life, apart from its idle time, in the form the hooks take.
    pub fn current_lifetime(
        &self,
        node: NodeRef<'_, K, V>,
        now: u64,
    ) -> Option<std::time::Duration> {
        let cap = self.pool.raw().cap(node.id());
        let end = cap.map_or_else(|| node.meta().deadline(), |cap| cap.load(Ordering::Acquire));
        remaining(end, now)
    }
}
