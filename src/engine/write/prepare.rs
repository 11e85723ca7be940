//! What all writes of a value share: completing the node before the commit, and the steps after it.

use super::commit::{CommitOutcome, Put};
use super::hooks::Readings;
use crate::clock::{NEVER, Timestamp};
use crate::engine::Engine;
use crate::engine::asked::{Answer, Answered, Basis, Terms};
use crate::engine::flights::{Clearance, Obstacle};
use crate::engine::read::{NodeRef, Slot};
use crate::entry::{Entry, Origin};
use crate::expiration::{HookLifetime, Lifetime};
use crate::hash::Hash32;
use crate::node::Generation;
use crate::pool::{Handle, Local};
use crate::removal::RemovalCause;

/// The entry of a node that this call has just committed. The node may have left the cache since.
pub fn fresh<K, V>(node: Handle<K, V>, now: Timestamp, deadline: Timestamp) -> Entry<K, V> {
    Entry::new(node, now, deadline.max(now), Origin::Inserted)
}

impl<K, V> Engine<K, V> {
    /// Completes a node that is to replace `old`, by the hooks' answer if they were asked.
    #[inline(always)]
    pub fn prepare(
        &self,
        node: &Local<'_, K, V>,
        old: Option<NodeRef<'_, K, V>>,
        terms: Terms,
        answer: Option<Answer>,
    ) -> Put {
        let core = &self.core;
        let generation = core.hot.generation();
        let coarse = core.ticker.coarse();
        // `present` judges the old entry. The new one's life may have begun before, when the hooks
        // were asked.
        let mut present = old.map_or(coarse, |old| core.ticker.reading_for(old.seen(), coarse));
        let (mut now, mut hook) = (present, HookLifetime::Same(NEVER));
        if let Some(answer) = answer {
            (now, hook) = (answer.now, answer.hook);
            present = present.max(now);
        }
        let mut ends = self.ends(terms.lifetime, hook, now);
        if answer.is_none() && core.ticker.is_short(ends.deadline.saturating_since(now)) {
            now = core.ticker.now();
            present = now;
            ends = self.ends(terms.lifetime, hook, now);
        }
        let deadline = ends.deadline;
        node.meta().init(deadline, now, terms.weight, generation.mark());
        if let Some(word) = self.pool.raw().hard_deadline(node.id()) {
            word.store(ends.hard_deadline, self.mode.asks());
        }
        let refused = if deadline <= now {
            Some(RemovalCause::Expired)
        } else if core.max_capacity() == 0 || u64::from(terms.weight) > core.max_capacity() {
            Some(RemovalCause::Size)
        } else {
            None
        };
        let (id, hash, now) = (node.id(), node.meta().hash(), present);
        Put { id, hash, now, deadline, generation, computed_from: None, shown: None, refused }
    }

    /// [`prepare`](Self::prepare) for any cache. Inserts that do not wait take another path in a
    /// cache with refresh, and call `prepare` alone.
    #[inline(never)]
    pub fn prepare_any(
        &self,
        node: &Local<'_, K, V>,
        old: Option<NodeRef<'_, K, V>>,
        terms: Terms,
        answer: Option<Answer>,
    ) -> Put {
        let put = self.prepare(node, old, terms, answer);
        if let Some(reloads) = &self.reloads {
            reloads.begin_life(&self.core, node.meta(), put.id, terms.refresh);
        }
        put
    }

    /// The key's entry, if it lives, in order to check that an answer was about it. `asked_at` is
    /// the reading of the clock that the answer was made with.
    ///
    /// # Errors
    /// [`Obstacle::Changed`] if the entry was prolonged just when it was found expired.
    pub fn living_for<'g>(
        &self,
        asked_at: Timestamp,
        basis: &Basis<K, V>,
        old: Option<NodeRef<'g, K, V>>,
    ) -> Result<Option<NodeRef<'g, K, V>>, Obstacle> {
        let Some(old) = old else { return Ok(None) };
        let ticker = &self.core.ticker;
        let is_asked = matches!(basis, Basis::Entry { node, .. } if node.id() == old.id());
        // The entry that the hooks were asked about lived then. It lives for this write, unless
        // another thread has claimed its expiry.
        let now = if is_asked { asked_at } else { ticker.reading_for(old.seen(), ticker.coarse()) };
        if old.seen() > now && !self.core.hot.is_cleared(old.meta()) {
            Ok(Some(old))
        } else if self.confirm_miss(old) {
            Ok(None)
        } else {
            Err(Obstacle::Changed)
        }
    }

    /// Ends a commit, with the lock released: the node's count goes to the index, the event to the
    /// write buffer. No user code may run between the commit and this call: unwinding would drop
    /// `node`, and with it the count of a node that is in the index.
    #[inline(always)]
    pub fn finish_put(
        &self,
        node: Local<'_, K, V>,
        done: CommitOutcome,
        weight: u32,
        now: Timestamp,
    ) {
        if done.done {
            node.into_count();
        }
        if let Some(event) = done.event {
            self.core.record_write(event, weight, now);
        }
    }

    /// Wakes those who wait for a value of a key with this hash, in a cache with refresh.
    pub fn wake_for(&self, hash: Hash32) {
        if let Some(reloads) = &self.reloads {
            reloads.wake(hash);
        }
    }
}

impl<K: Eq, V> Engine<K, V> {
    /// Asks the hooks about a value that is written with this term, if they are to be asked; before
    /// that, looks the key's entry up, if the answer depends on it.
    #[inline(never)]
    pub fn ask_if_needed(
        &self,
        node: &Local<'_, K, V>,
        lifetime: Lifetime,
        readings: Readings,
    ) -> Answered<K, V> {
        let is_asked = self.is_asked(lifetime);
        let look = || self.basis_of(crate::epoch::pin(), node.hashed());
        let basis = (is_asked && self.depends_on_entry()).then(look);
        Answered { answer: is_asked.then(|| self.ask(node, basis.as_ref(), readings)), basis }
    }

    /// Puts a value into a key that this thread's flight owns. Returns the new entry, and the old
    /// one if the hooks were asked about it: the caller drops it after the flight.
    #[inline(never)]
    pub fn put_owning(
        &self,
        node: Local<'_, K, V>,
        terms: Terms,
        computed_from: Option<Generation>,
        readings: Readings,
    ) -> (Entry<K, V>, Option<Basis<K, V>>) {
        let hash = node.meta().hash();
        // Only the clock and a clearing can change the entry now, and the hooks are not asked
        // again.
        let Answered { answer, basis: asked_about } =
            self.ask_if_needed(&node, terms.lifetime, readings);
        let guard = crate::epoch::pin();
        loop {
            let Slot { found, node: old } = self.search_exact(&guard, node.hashed());
            let put = Put { computed_from, ..self.prepare_any(&node, old, terms, answer) };
            if let Ok(done) = self.core.commit_put(found, &put, Clearance::Exclusive) {
                drop(guard);
                let handle = node.handle();
                self.finish_put(node, done, terms.weight, put.now);
                self.wake_for(hash);
                return (fresh(handle, put.now, put.deadline), asked_about);
            }
        }
    }
}
