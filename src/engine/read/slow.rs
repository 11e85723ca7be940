//! Reads that are not [plain hits](super::fast): judge, renew, record.

use super::lookup::NodeRef;
use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::typed::Renewed;
use crate::entry::Entry;
use crate::epoch::Guard;
use crate::expiration::{HookLifetime, lifetime};
use crate::expiry::Expiry;
use crate::expiry::default_hook::{self, Hook, Sealed};
use crate::hash::LookupKey;
use crate::links::NodeId;
use crate::node::{GONE, remaining};
use crate::pool::{HardDeadline, RefreshMark};
use crate::primitives::seeded;
use std::time::Duration;

/// What a lookup found, and whether maintenance is due.
pub struct Lookup<'g, K, V> {
    pub node: Option<NodeRef<'g, K, V>>,
    pub due: bool,
}

/// How often a read asks its hook again because the entry's lifetime was changed after the hook was
/// told it. There is a limit, since the hook may change the lifetime itself, each time.
const MOST_QUESTIONS: u32 = 16;

impl<K, V> Engine<K, V> {
    /// The key's living entry, read without side effects.
    pub fn peek_entry(&self, key: impl LookupKey<K>) -> Option<Entry<K, V>> {
        let guard = crate::epoch::pin();
        self.peek_at(&guard, key).map(|node| self.entry_of(node))
    }

    /// A read without side effects.
    pub fn peek_at<'g>(
        &'g self,
        guard: &'g Guard,
        key: impl LookupKey<K>,
    ) -> Option<NodeRef<'g, K, V>> {
        loop {
            let coarse = self.core.ticker.coarse();
            let found = self.find(guard, key)?;
            if self.is_live_at(found, coarse) {
                return Some(found);
            }
            if self.confirm_miss(found) {
                return None;
            }
        }
    }

    /// One attempt to read the node that was found, if one was found. It may read the precise
    /// clock, prolong the entry's life, count and record the read. `None` if the entry has changed
    /// or left the cache since it was found: the key has to be looked up again. A living entry for
    /// which `accepts` does not hold is a miss, and is left alone.
    #[inline(always)]
    pub(super) fn read_slow<'g>(
        &'g self,
        found: Option<NodeRef<'g, K, V>>,
        coarse: Timestamp,
        accepts: &mut impl FnMut(NodeRef<'g, K, V>, Timestamp) -> bool,
    ) -> Option<Lookup<'g, K, V>> {
        let mut due = self.core.is_maintenance_due(coarse);
        let mut node = found.filter(|node| self.is_live_at(*node, coarse));
        if node.is_none() && found.is_some_and(|found| !self.confirm_miss(found)) {
            return None;
        }
        node = node.filter(|node| accepts(*node, coarse));
        if self.mode.renews()
            && let (Some(living), Some(renew)) = (node, self.renew)
        {
            node = match renew(self, living.id(), living.seen(), coarse, &mut due) {
                Renewed::Until(deadline) => Some(living.with_deadline(deadline)),
                Renewed::Over => None,
                Renewed::Changed => return None,
            };
        }
        if let Some(node) = node {
            due |= self.core.record_read(node.id());
            due |= self.triggers_reload(node, coarse);
        }
        if let Some(recorder) = &self.core.recorder {
            if node.is_some() { recorder.hit() } else { recorder.miss() }
        }
        Some(Lookup { node, due })
    }

    /// Gives the entry the lifetime that it has after a read, by idle time and read hook. A guard
    /// of the caller's protects the node, which had the deadline `seen`. If the entry has left
    /// the cache since it was found:
    ///
    /// * and the hook was not asked, the key is looked up again: the entry may have expired, and an
    ///   earlier read would have kept it alive;
    /// * and the hook was asked, the read is a hit, since a read asks about one entry only;
    /// * and a reload has replaced it, the key is looked up again in any case: the new entry goes
    ///   on from the last read of the old one.
    ///
    /// The new deadline competes with all other changes for the one word in this node. A
    /// successor of the node is another node. The wheel is not told of a later deadline: it finds
    /// out when the old one comes due.
    ///
    /// With an idle time, the hard deadline and the deadline are two words, and each is changed by
    /// a compare-exchange. Writers store the hard deadline before the deadline. After our
    /// compare-exchange we re-read the hard deadline; if it changed we recompute the deadline, and
    /// never restore our own hard deadline, since the other write is newer.
    ///
    /// The clock is read after the deadline that it judges. So a read that was held up never takes
    /// back what a later read has given. A coarse reading from before the lookup, where it is good
    /// enough, only prolongs.
    pub fn renew(&self, id: NodeId, seen: Timestamp, coarse: Timestamp, due: &mut bool) -> Renewed {
        let node = self.node_at(id).with_deadline(seen);
        let life = node.meta();
        let hard_word = self.pool.raw().hard_deadline(node.id());
        let (mut memo, mut was_asked) = (None, false);
        // The hard deadline that the memo is about, if it has an answer, and how often the hook may
        // be asked about another.
        let (mut asked_about, mut questions) = (node.seen(), MOST_QUESTIONS);
        // Whether this read has stored a hard deadline.
        let mut has_stored = false;
        loop {
            let deadline = life.deadline();
            if deadline == GONE {
                let refresh = self.pool.raw().refresh(node.id());
                let goes_on = refresh.is_some_and(RefreshMark::was_reloaded);
                let is_hit = was_asked && !goes_on || seeded("gone-is-a-hit");
                return if is_hit { Renewed::Until(seen) } else { Renewed::Changed };
            }
            let now = self.now_for(deadline, coarse);
            if deadline <= now {
                if !life.claim(deadline) {
                    // Another thread has prolonged the life in time.
                    continue;
                }
                let is_indexed = self.core.is_indexed(node.id().with(node.meta()));
                return if is_indexed { Renewed::Over } else { Renewed::Changed };
            }
            let hard_deadline = hard_word.map_or(deadline, HardDeadline::load);
            let mut new_hard = hard_deadline;
            if !has_stored || seeded("renewals-are-made-again") {
                was_asked = self.mode.asks();
                let is_other = hard_deadline != asked_about && questions > 0;
                if is_other && !seeded("answers-outlive-lifetimes") {
                    // The hook was asked about another lifetime, or not yet.
                    memo = None;
                    (asked_about, questions) = (hard_deadline, questions - 1);
                }
                new_hard = self.hard_deadline_after_read(node, now, hard_deadline, &mut memo);
            }
            match hard_word {
                // Nothing changes.
                None if new_hard == deadline => return Renewed::Until(deadline),
                Some(word) if new_hard != hard_deadline => {
                    has_stored = word.exchange(hard_deadline, new_hard);
                    if !has_stored {
                        continue;
                    }
                }
                _ => {}
            }
            let Some(new) = self.store_renewed(node, deadline, new_hard, now, due) else {
                continue;
            };
            if new <= now && !matches!(memo, Some(HookLifetime::For(_))) {
                // A call has set a hard deadline that is over, and the life has just ended by it.
                continue;
            }
            let changed = hard_word.filter(|word| word.load() != new_hard);
            match changed {
                Some(_) if seeded("renewals-are-made-again") => {}
                Some(word) if !seeded("renew-looks-at-the-hard-deadline-once") => {
                    return Renewed::Until(self.follow(node, word, new, coarse, due));
                }
                _ => return Renewed::Until(new),
            }
        }
    }

    /// Computes the deadline again, because a writer changed the hard deadline after this read had
    /// stored `ours`. Any other change of the deadline is newer, and stays.
    #[cold]
    fn follow(
        &self,
        node: NodeRef<'_, K, V>,
        word: HardDeadline<'_>,
        mut ours: Timestamp,
        coarse: Timestamp,
        due: &mut bool,
    ) -> Timestamp {
        loop {
            let (now, hard_deadline) = (self.now_for(ours, coarse), word.load());
            if ours > now
                && let Some(new) = self.store_renewed(node, ours, hard_deadline, now, due)
                && new > now
            {
                ours = new;
                if word.load() != hard_deadline {
                    continue;
                }
            }
            // It was alive when this read prolonged it.
            return ours;
        }
    }

    /// The reading by which a read judges and prolongs a life that ends at `deadline`.
    fn now_for(&self, deadline: Timestamp, coarse: Timestamp) -> Timestamp {
        let ticker = &self.core.ticker;
        if self.mode.coarsely() { ticker.reading_for(deadline, coarse) } else { ticker.now() }
    }

    /// Replaces `deadline` by the deadline after a read at `now`, and returns that. `None` if
    /// another thread has changed it.
    fn store_renewed(
        &self,
        node: NodeRef<'_, K, V>,
        deadline: Timestamp,
        hard_deadline: Timestamp,
        now: Timestamp,
        due: &mut bool,
    ) -> Option<Timestamp> {
        let mut new = self.core.lifetimes.deadline(now, hard_deadline);
        if new < deadline && new != hard_deadline {
            // A later read has already prolonged the life further, or the idle time has become
            // shorter. A read takes back no idle time.
            new = deadline.min(hard_deadline);
        }
        if new != deadline && !node.meta().change_deadline(deadline, new) {
            return None;
        }
        if new < deadline {
            self.core.record_shortening(node.id(), now);
            *due = true;
        }
        Some(new)
    }

    /// The hard deadline after the read hook's answer, which `memo` keeps: the hook is asked if
    /// there is none.
    fn hard_deadline_after_read(
        &self,
        node: NodeRef<'_, K, V>,
        now: Timestamp,
        hard_deadline: Timestamp,
        memo: &mut Option<HookLifetime>,
    ) -> Timestamp {
        let Some(expiry) = self.expiry.as_deref().filter(|_| self.mode.asks()) else {
            return hard_deadline;
        };
        let answer = memo.get_or_insert_with(|| {
            let current = remaining(hard_deadline, now);
            let ask = || self.call_read_hook(expiry, node, now, current);
            let answer = if self.mode.is_unknown() { self.ask_unknown(expiry, ask) } else { ask() };
            let is_same = answer == current;
            if is_same {
                HookLifetime::Same(hard_deadline)
            } else {
                HookLifetime::For(lifetime(answer))
            }
        });
        match *answer {
            HookLifetime::Same(_) => hard_deadline,
            HookLifetime::For(_) => {
                let created = node.meta().created();
                let end = answer.end(now);
                self.core.lifetimes.hard_deadline_after_read(created, hard_deadline, end)
            }
        }
    }

    #[inline(always)]
    fn call_read_hook(
        &self,
        expiry: &dyn Expiry<K, V>,
        node: NodeRef<'_, K, V>,
        now: Timestamp,
        current: Option<Duration>,
    ) -> Option<Duration> {
        let ticker = &self.core.ticker;
        let (now, created) = (ticker.instant_of(now), ticker.instant_of(node.meta().created()));
        // The mark covers the hook alone: the clock may use the cache as it likes.
        let _mark = self.core.mark_callback(node.meta(), node.id());
        expiry.expire_after_read(node.key(), node.value(), now, current, created)
    }

    /// Asks the read hook, and learns whether it is the trait's default.
    #[cold]
    fn ask_unknown<T>(&self, expiry: &dyn Expiry<K, V>, read: impl FnOnce() -> T) -> T {
        let (answer, is_default) = default_hook::asked(Hook::Read, expiry.identity(Sealed), read);
        self.mode.learn(is_default);
        if !self.mode.renews() && self.reloads.is_none() {
            self.core.hot.end_prolonging();
        }
        answer
    }
}
