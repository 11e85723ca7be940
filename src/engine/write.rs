//! Inserts of single keys.

use super::Engine;
use super::ask::{Answer, Basis, HookLifetime, Readings};
use super::commit::{Done, Obstacle, Put};
use super::core::mark_of;
use super::flights::{Clearance, Joining};
use super::load::fresh;
use super::lookup::{NodeRef, Search};
use crate::clock::NEVER;
use crate::entry::Entry;
use crate::epoch::Guard;
use crate::expiration::Term;
use crate::pool::Local;
use crate::removal::RemovalCause;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    pub fn insert(&self, key: K, value: V, term: Term) {
        // The line that the search will need is on its way while the node is made.
        let hash = self.hash_ahead(&key);
        self.check_key(hash, &key);
        if self.is_asked(term) || self.hooks.weigher.is_some() {
            return self.insert_asking(hash, key, value, term);
        }
        let guard = crate::epoch::pin();
        // What the caller has just written is moved after the pin, which has waited for it.
        self.insert_pinned(guard, hash, key, value, term);
    }

    #[inline(always)]
    fn insert_pinned(&self, guard: Guard, hash: u32, key: K, value: V, term: Term) {
        let node = self.pool.draft(hash, key).fill(value);
        self.insert_node(guard, (node, hash), (1, term), None);
    }

    /// [`insert`](Self::insert) of a value about which the user is asked: before anything is
    /// pinned.
    #[inline(never)]
    fn insert_asking(&self, hash: u32, key: K, value: V, term: Term) {
        let node = self.pool.draft(hash, key).fill(value);
        let weight = self.weigh(&node);
        if !self.is_asked(term) {
            return self.insert_node(crate::epoch::pin(), (node, hash), (weight, term), None);
        }
        if self.depends_on_entry() {
            return self.insert_about(node, weight);
        }
        let answer = self.ask(&node, None, Readings::CoarseFirst);
        self.insert_node(crate::epoch::pin(), (node, hash), (weight, term), Some(answer));
    }

    /// [`insert`](Self::insert) of a value about which the hooks say something that depends on what
    /// is there.
    #[inline(never)]
    fn insert_about(&self, node: Local<'_, K, V>, weight: u32) {
        let hash = node.meta().hash();
        let basis = self.basis_of(hash, node.key());
        let answer = self.ask(&node, Some(&basis), Readings::CoarseFirst);
        let guard = crate::epoch::pin();
        let answer = Some((answer, Some(basis)));
        self.insert_slow(guard, node, (weight, Term::Policy), (answer, Obstacle::Changed));
    }

    #[inline(always)]
    fn insert_node(
        &self,
        guard: Guard,
        (node, hash): (Local<'_, K, V>, u32),
        (weight, term): (u32, Term),
        answer: Option<Answer>,
    ) {
        let slow = |guard, node, obstacle| {
            let answer = answer.map(|answer| (answer, None));
            self.insert_slow(guard, node, (weight, term), (answer, obstacle));
        };
        let Some((found, old)) = self.search_in_passing(&guard, hash, node.key()) else {
            return slow(guard, node, Obstacle::Changed);
        };
        let put = self.prepare((&node, hash), old, (weight, term), answer);
        match self.core.commit_put_if_idle(found, &put) {
            Ok(done) => {
                self.finish_put(node, done, weight, put.now);
                drop(guard);
                self.tend();
            }
            Err(obstacle) => slow(guard, node, obstacle),
        }
    }

    /// [`insert`](Self::insert) from its first failure on, or with an answer that is about an
    /// entry: apart, so that nothing is kept for a loop that seldom begins.
    #[inline(never)]
    fn insert_slow(
        &self,
        mut guard: Guard,
        node: Local<'_, K, V>,
        (weight, term): (u32, Term),
        (mut answer, mut obstacle): (Answered<K, V>, Obstacle),
    ) {
        let hash = node.meta().hash();
        let mut clearance = Clearance::Idle;
        let mut is_first = true;
        let (done, now) = loop {
            match obstacle {
                Obstacle::Flight => {
                    // A load or computation may be in the way.
                    drop(guard);
                    clearance = self.await_turn(hash, node.key());
                    if let Some((answer, _)) = &mut answer {
                        // The life begins after the wait.
                        answer.now = self.core.ticker.now();
                    }
                    guard = crate::epoch::pin();
                }
                Obstacle::EntryChanged => {
                    drop((guard, answer));
                    return self.insert_owning(node, weight);
                }
                Obstacle::Changed | Obstacle::Overtaken => {}
            }
            let found = if is_first {
                self.search(&guard, hash, node.key())
            } else {
                self.search_exact(&guard, hash, node.key())
            };
            is_first = false;
            let answer =
                (answer.as_ref().map(|it| it.0), answer.as_ref().and_then(|it| it.1.as_ref()));
            let what = (&node, weight, term);
            match self.try_insert(found, what, answer, clearance) {
                Ok(done) => break done,
                Err(next) => obstacle = next,
            }
        };
        self.finish_put(node, done, weight, now);
        drop(guard);
        self.tend();
    }

    fn try_insert<'g>(
        &self,
        (found, old): (Search<'g>, Option<NodeRef<'g, K, V>>),
        (node, weight, term): (&Local<'_, K, V>, u32, Term),
        (answer, basis): (Option<Answer>, Option<&Basis<K, V>>),
        clearance: Clearance<'_>,
    ) -> Result<(Done, u64), Obstacle> {
        if let (Some(answer), Some(basis)) = (answer, basis)
            && !basis.is_still(self.living_for((answer, basis), old)?)
        {
            return Err(Obstacle::EntryChanged);
        }
        let put = self.prepare((node, node.meta().hash()), old, (weight, term), answer);
        Ok((self.core.commit_put(found, &put, clearance)?, put.now))
    }

    /// An insert whose answer was about another entry than the one that is there by now: takes the
    /// key as a computation does, and asks once more while nothing can change.
    #[cold]
    fn insert_owning(&self, node: Local<'_, K, V>, weight: u32) {
        let hash = node.meta().hash();
        let airborne = self.take_key(hash, node.key(), &|| node.share(), Joining::Overtaking);
        let settled = self.settled(hash, node.key());
        let put = self.put_owning(node, weight, None, Readings::Precise);
        airborne.land(None);
        // What may be the last counts on an entry, whose destructors may use its key.
        drop((settled, put));
        self.tend();
    }

    /// Puts a value into a key that this thread's flight owns. Returns the new entry, and the old
    /// one if the hooks were asked about it: to be dropped after the flight.
    pub fn put_owning(
        &self,
        node: Local<'_, K, V>,
        weight: u32,
        basis: Option<u64>,
        readings: Readings,
    ) -> (Entry<K, V>, Option<Basis<K, V>>) {
        let hash = node.meta().hash();
        let depends = self.hooks.expiry.is_some() && self.depends_on_entry();
        let asked_about = depends.then(|| self.basis_of(hash, node.key()));
        // Nobody but the clock and a clearing can change the entry, and the hooks are not asked
        // again.
        let ask = || self.ask(&node, asked_about.as_ref(), readings);
        let answer = self.hooks.expiry.is_some().then(ask);
        let guard = crate::epoch::pin();
        loop {
            let (found, old) = self.search_exact(&guard, hash, node.key());
            let put = self.prepare((&node, hash), old, (weight, Term::Policy), answer);
            let put = Put { basis, ..put };
            if let Ok(done) = self.core.commit_put(found, &put, Clearance::Own) {
                let handle = node.handle();
                self.finish_put(node, done, weight, put.now);
                return (fresh(handle, put.now, put.deadline), asked_about);
            }
        }
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Completes a node that is to come in the place of `old`, by what the hooks have answered if
    /// they were asked.
    #[inline(always)]
    pub fn prepare(
        &self,
        (node, hash): (&Local<'_, K, V>, u32),
        old: Option<NodeRef<'_, K, V>>,
        (weight, term): (u32, Term),
        answer: Option<Answer>,
    ) -> Put {
        let core = &self.core;
        let generation = core.full_generation();
        let coarse = core.ticker.coarse();
        // By which the old entry is judged. The new one's life may have begun before, when the
        // hooks were asked.
        let mut present = old.map_or(coarse, |old| core.ticker.settling(old.seen(), coarse));
        let (mut now, mut lifetime) = (present, HookLifetime::Same(NEVER));
        if let Some(answer) = answer {
            (now, lifetime) = (answer.now, answer.lifetime);
            present = present.max(now);
        }
        let (mut cap, mut deadline) = self.ends(term, lifetime, now);
        if answer.is_none() && core.ticker.is_short(deadline.saturating_sub(now)) {
            now = core.ticker.now();
            present = now;
            (cap, deadline) = self.ends(term, lifetime, now);
        }
        node.meta().init(deadline, now, weight, mark_of(generation));
        if let Some(word) = self.pool.raw().cap(node.id()) {
            word.store(cap, self.mode.asks());
        }
        let refused = if deadline <= now {
            Some(RemovalCause::Expired)
        } else if core.max_capacity == 0 || u64::from(weight) > core.max_capacity {
            Some(RemovalCause::Size)
        } else {
            None
        };
        Put { id: node.id(), hash, now: present, deadline, generation, basis: None, refused }
    }

    /// The entry that is there, if it lives, for a judgement of an answer about another, or about
    /// none.
    ///
    /// # Errors
    /// [`Obstacle::Changed`] if it was prolonged just when it was found expired.
    pub fn living_for<'g>(
        &self,
        (answer, basis): (Answer, &Basis<K, V>),
        old: Option<NodeRef<'g, K, V>>,
    ) -> Result<Option<NodeRef<'g, K, V>>, Obstacle> {
        let Some(old) = old else { return Ok(None) };
        let ticker = &self.core.ticker;
        let is_asked = matches!(basis, Basis::Entry { node, .. } if node.id() == old.id());
        // What was asked about lived when it was, and lives for this write, unless somebody has
        // claimed its expiry.
        let now = if is_asked { answer.now } else { ticker.settling(old.seen(), ticker.coarse()) };
        if old.seen() > now && !self.core.is_cleared(old.meta()) {
            Ok(Some(old))
        } else if self.is_final_miss(old) {
            Ok(None)
        } else {
            Err(Obstacle::Changed)
        }
    }

    /// Right after a commit, with the lock released: the count goes to the index, the event to the
    /// buffer. Nothing of the user's may run between the commit and this: what unwound there would
    /// drop `node`, and with it the count of a node that is in the index.
    #[inline(always)]
    pub fn finish_put(&self, node: Local<'_, K, V>, done: Done, weight: u32, now: u64) {
        if done.published {
            node.into_count();
        }
        if let Some(event) = done.event {
            self.core.write_event(event, weight, now);
        }
    }
}

/// What the hooks have answered, if they were asked, and about what, if that makes a difference.
type Answered<K, V> = Option<(Answer, Option<Basis<K, V>>)>;
