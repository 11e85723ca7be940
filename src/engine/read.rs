//! Reads at their full length: judge, renew, record. (Most are over at a [glance](super::glance).)

use super::Engine;
use super::core::Core;
use super::event::Event;
use super::lookup::NodeRef;
use super::reentry::{self, Mark};
use crate::buffer::read::Push;
use crate::drain::Urge;
use crate::epoch::Guard;
use crate::expiration::end;
use crate::expiry::default_hook::{self, Hook, Sealed};
use crate::node::{GONE, NO_ERA, remaining};
use crate::pool::Cap;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::time::Duration;

/// What a lookup found, and whether the maintenance wants attention after it.
pub struct Lookup<'g, K, V> {
    pub node: Option<NodeRef<'g, K, V>>,
    pub due: bool,
}

/// What a read that was more than a glance came to.
pub(super) enum Considered<'g, K, V> {
    Done(Lookup<'g, K, V>),
    /// The entry has changed, or left the cache, since it was found, so that nothing can be said of
    /// it by the time that it is now: to be looked up again.
    Again,
}

/// What became of an entry that a read was to prolong.
enum Renewed<'g, K, V> {
    Hit(NodeRef<'g, K, V>),
    Over,
    Gone,
}

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    /// A read that leaves no trace.
    pub fn peek<'g, Q>(&'g self, guard: &'g Guard, key: &Q) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        self.peek_at(guard, self.hash(key), key)
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// [`peek`](Self::peek) for whoever knows the hash.
    pub fn peek_at<'g, Q>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        key: &Q,
    ) -> Option<NodeRef<'g, K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            let coarse = self.core.ticker.coarse();
            let found = self.find(guard, hash, key)?;
            if self.was_living(found, coarse) {
                return Some(found);
            }
            if self.is_final_miss(found) {
                return None;
            }
        }
    }
}

impl Core {
    /// Tells the policy of a hit; true if the read buffer wants to be drained.
    #[inline]
    pub(super) fn touch(&self, id: u32) -> bool {
        let era = self.hot.era.load(Ordering::Relaxed);
        era != NO_ERA && self.pool.meta(id).touch(era) && self.record(id)
    }

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
    /// A read of what was found, if anything was, where a [glance](super::glance) is not enough: it
    /// may have to ask the precise clock, prolong a life, be counted or recorded.
    #[inline(never)]
    pub(super) fn consider<'g>(
        &'g self,
        found: Option<NodeRef<'g, K, V>>,
        coarse: u64,
    ) -> Considered<'g, K, V> {
        let mut due = self.wants_attention(coarse);
        let mut node = found.filter(|node| self.was_living(*node, coarse));
        if node.is_none() && found.is_some_and(|found| !self.is_final_miss(found)) {
            return Considered::Again;
        }
        if self.mode.renews()
            && let Some(living) = node
        {
            let renewed = self.renew(living, coarse, &mut due);
            due |= self.mode.asks() && reentry::has_put_off();
            node = match renewed {
                Renewed::Hit(node) => Some(node),
                Renewed::Over => None,
                Renewed::Gone => return Considered::Again,
            };
        }
        if let Some(node) = node {
            due |= self.core.touch(node.id());
        }
        if let Some(recorder) = &self.core.recorder {
            if node.is_some() { recorder.hit() } else { recorder.miss() }
        }
        Considered::Done(Lookup { node, due })
    }

    /// Whether a pass is due, or wanted and not begun.
    #[inline(always)]
    pub(super) fn wants_attention(&self, coarse: u64) -> bool {
        self.core.is_due(coarse) || self.core.status.should_drain(Urge::Delayable)
    }

    /// Gives the entry the lifetime that it has after a read: idle time and read hook. Of one that
    /// has left the cache since it was found nothing can be prolonged, and it is no hit either:
    /// it may have expired by now, and had the read come before that, it would have lived on.
    /// (Unless the hook has been asked: it is asked once.)
    ///
    /// The new deadline competes with everything else for the one word in this node; what has taken
    /// the node's place meanwhile is another node. A later deadline leaves the wheel alone, which
    /// finds out when the old one comes due.
    ///
    /// With an idle time, cap and deadline are two words. Each is exchanged for what it was judged
    /// by, and whoever sets both sets the cap first. So a deadline made of a cap that is no longer
    /// the one is noticed afterwards, or the exchange of whoever replaced the cap fails and is
    /// made again. What is noticed is put right, if nobody else has done so, but the read's own
    /// change of the cap is not made again: what replaced it came later.
    ///
    /// The clock is read after the deadline that is judged by it. So no read takes back what a
    /// later one has given, while this one was held up. Where the coarse reading at the read's
    /// beginning is good enough, it is used only to prolong.
    #[inline(never)]
    fn renew<'g>(&self, node: NodeRef<'g, K, V>, coarse: u64, due: &mut bool) -> Renewed<'g, K, V> {
        let ticker = &self.core.ticker;
        let coarsely = self.mode.coarsely();
        let asks = self.mode.asks();
        let meta = node.meta();
        let mut advice = None;
        let mut precisely = false;
        let mut is_told = false;
        // The deadline that this read has put there.
        let mut mine = None;
        loop {
            let deadline = meta.deadline();
            if deadline == GONE {
                return match mine {
                    Some(mine) => Renewed::Hit(node.with_deadline(mine)),
                    // The hook has been told of this read; and it may be what replaces the entry,
                    // each time.
                    None if is_told || seeded("gone-is-a-hit") => Renewed::Hit(node),
                    None => Renewed::Gone,
                };
            }
            if let Some(mine) = mine
                && deadline != mine
            {
                return Renewed::Hit(node.with_deadline(mine));
            }
            let lazily = asks && !precisely && self.may_ask_coarsely(deadline, coarse);
            let now = match (coarsely, lazily) {
                (true, _) => ticker.settling(deadline, coarse),
                (_, true) => coarse,
                _ => ticker.now(),
            };
            if deadline <= now {
                return match mine {
                    // It was alive when this read prolonged it.
                    Some(mine) => Renewed::Hit(node.with_deadline(mine)),
                    None if meta.claim(deadline) => Renewed::Over,
                    // Prolonged since, in time.
                    None => continue,
                };
            }
            let cap_word = self.pool.raw().cap(node.id());
            let cap = cap_word.map_or(deadline, Cap::load);
            let new_cap = match mine {
                None => {
                    is_told = asks;
                    self.cap_after_read(node, now, cap, &mut advice)
                }
                Some(_) => cap,
            };
            if lazily && new_cap != cap && !(new_cap > cap && self.is_long(new_cap, coarse)) {
                // A shorter life, or a short one: by the present.
                (precisely, advice) = (true, None);
                continue;
            }
            if let Some(word) = cap_word
                && new_cap != cap
                && !word.exchange(cap, new_cap)
            {
                continue;
            }
            let new = self.core.lifetimes.deadline(now, new_cap);
            if coarsely && new < deadline && new != new_cap {
                // A later read was faster.
                return Renewed::Hit(node.with_deadline(deadline));
            }
            if new != deadline {
                if !meta.change_deadline(deadline, new) {
                    continue;
                }
                if new < deadline {
                    self.core.write_event(Event::Rescheduled(node.id()).pack(), 0, now);
                    *due = true;
                }
            }
            let is_current = |word: Cap<'_>| word.load() == new_cap;
            if cap_word.is_none_or(is_current) || seeded("renew-looks-at-the-cap-once") {
                return Renewed::Hit(node.with_deadline(new));
            }
            if !seeded("renewals-are-made-again") {
                mine = Some(new);
            }
        }
    }

    /// Whether the hook may be asked by a coarse reading: where there is no idle time, which
    /// prolongs from the present on, and the entry has long to live. If the hook leaves the
    /// lifetime as it is, the present does not matter; if it makes it longer by a long one, as
    /// little as for a new entry.
    fn may_ask_coarsely(&self, deadline: u64, coarse: u64) -> bool {
        self.core.lifetimes.idle.is_none() && self.is_long(deadline, coarse)
    }

    /// Whether so much is left at a coarse reading that its lag does not matter.
    fn is_long(&self, deadline: u64, coarse: u64) -> bool {
        deadline > coarse && self.core.ticker.may_begin_coarsely(deadline - coarse)
    }

    /// The hook is asked once; `advice` is the lifetime that it gave, if it gave a new one. It may
    /// have changed the deadline itself, and would be asked for ever.
    fn cap_after_read(
        &self,
        node: NodeRef<'_, K, V>,
        now: u64,
        cap: u64,
        advice: &mut Option<Option<Option<Duration>>>,
    ) -> u64 {
        let Some(expiry) = self.hooks.expiry.as_ref().filter(|_| self.mode.asks()) else {
            return cap;
        };
        let created = node.meta().created();
        let ask = || {
            let current = remaining(cap, now);
            let instant = |time| self.core.ticker.instant_of(time);
            let (key, value) = (node.key(), node.value());
            let (now, created) = (instant(now), instant(created));
            let read = || {
                let _mark = Mark::read_hook(&self.core, node.meta().hash(), node.id());
                expiry.expire_after_read(key, value, now, current, created)
            };
            let answer = if self.mode.is_unknown() { self.ask_unknown(read) } else { read() };
            (answer != current).then_some(answer)
        };
        match *advice.get_or_insert_with(ask) {
            None => cap,
            Some(own) => self.core.lifetimes.cap_after_read(created, cap, end(now, own)),
        }
    }

    /// Asks the read hook and finds out whether it is the trait's own.
    #[cold]
    fn ask_unknown<T>(&self, read: impl FnOnce() -> T) -> T {
        let Some(expiry) = &self.hooks.expiry else { return read() };
        let (answer, is_default) = default_hook::asked(Hook::Read, expiry.identity(Sealed), read);
        self.mode.learn(is_default);
        if !self.mode.renews() {
            self.core.reads_prolong.store(false, Ordering::Relaxed);
        }
        answer
    }
}
