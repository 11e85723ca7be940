//! Removals of single keys.

use super::Engine;
use super::commit::Obstacle;
use super::event::Event;
use super::flights::{Clearance, Joining};
use super::lookup::{NodeRef, Search};
use super::reentry::Mark;
use crate::entry::Entry;
use crate::pool::Handle;
use crate::removal::RemovalCause;
use crate::sync::seeded;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A condition of a removal.
pub type Condition<'a, K, V> = &'a mut dyn FnMut(&K, &V) -> bool;

/// What a removal knows of its condition.
enum Judged<'a, K, V> {
    /// There is none.
    Unneeded,
    /// It was not asked yet.
    Nothing,
    /// It holds for this entry.
    Entry(&'a Handle<K, V>),
}

impl<K, V> Judged<'_, K, V> {
    /// Whether the entry may be removed without asking.
    fn allows(&self, id: u32) -> bool {
        match self {
            Self::Unneeded => true,
            Self::Nothing => false,
            Self::Entry(judged) => judged.id() == id,
        }
    }
}

/// What an attempt to remove found.
enum Attempt<K, V> {
    /// There is nothing, or no more.
    None,
    Removed(Entry<K, V>),
    /// A living entry, which the condition has to judge.
    Judge(Handle<K, V>),
}

impl<K, V> Attempt<K, V> {
    fn into_removed(self) -> Option<Entry<K, V>> {
        match self {
            Self::Removed(entry) => Some(entry),
            _ => None,
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Removes the key's living entry if `condition` holds for it, and returns it.
    pub fn remove<Q>(
        &self,
        hash: u32,
        key: &Q,
        condition: Option<Condition<'_, K, V>>,
    ) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.check_key(hash, key);
        let removed = match condition {
            None => self.attempt_removal(hash, key, &Judged::Unneeded).into_removed(),
            Some(condition) => self.remove_judged(hash, key, condition),
        };
        self.tend();
        removed
    }

    /// Removes what is there, or says which entry is to be judged first: any other than the one
    /// that was `judged`.
    fn attempt_removal<Q>(&self, hash: u32, key: &Q, judged: &Judged<'_, K, V>) -> Attempt<K, V>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut clearance = Clearance::Idle;
        let mut is_first = true;
        loop {
            let guard = crate::epoch::pin();
            let found = if is_first {
                self.search(&guard, hash, key)
            } else {
                self.search_exact(&guard, hash, key)
            };
            match self.try_remove(found, hash, judged, clearance) {
                Ok(attempt) => return attempt,
                Err(Obstacle::Flight) => {
                    drop(guard);
                    clearance = self.await_turn(hash, key);
                }
                Err(_) => is_first = false,
            }
        }
    }

    /// A removal with a condition, which is asked once, and once more with the key taken if the
    /// entry changed meanwhile.
    #[inline(never)]
    fn remove_judged<Q>(
        &self,
        hash: u32,
        key: &Q,
        condition: Condition<'_, K, V>,
    ) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let Attempt::Judge(entry) = self.attempt_removal(hash, key, &Judged::Nothing) else {
            return None;
        };
        if !self.judge(&entry, condition) {
            return None;
        }
        match self.attempt_removal(hash, key, &Judged::Entry(&entry)) {
            Attempt::Removed(removed) => Some(removed),
            Attempt::None => None,
            Attempt::Judge(_) => self.remove_owning(&entry, condition),
        }
    }

    /// Judges what a key has, with the key taken as a computation takes it, and removes it if the
    /// condition holds.
    pub fn remove_owning(
        &self,
        node: &Handle<K, V>,
        condition: Condition<'_, K, V>,
    ) -> Option<Entry<K, V>> {
        let (hash, key) = (node.meta().hash(), node.key());
        let airborne = self.take_key(hash, key, &|| node.raw().clone(), Joining::Overtaking);
        let (entry, _) = self.settled(hash, key);
        let removed = entry.filter(|entry| self.judge(entry.node(), condition));
        if removed.is_some() {
            self.remove_owned(hash, key);
        }
        airborne.land(None);
        removed
    }

    /// Removes this entry, for which a condition holds; true if another one was there.
    pub fn is_replaced_in_removal(&self, entry: &Handle<K, V>) -> bool {
        let (hash, key) = (entry.meta().hash(), entry.key());
        matches!(self.attempt_removal(hash, key, &Judged::Entry(entry)), Attempt::Judge(_))
    }

    pub fn judge(&self, entry: &Handle<K, V>, condition: Condition<'_, K, V>) -> bool {
        let _mark = Mark::callback(&self.core, entry.meta().hash(), entry.id());
        condition(entry.key(), entry.value())
    }

    /// Removes what a key has that this thread's flight owns.
    pub fn remove_owned(&self, hash: u32, key: &K) {
        let guard = crate::epoch::pin();
        loop {
            let (found, _) = self.search_exact(&guard, hash, key);
            let now = self.core.ticker.now();
            let cause = RemovalCause::Explicit;
            match self.core.commit_remove(found, hash, now, cause, Clearance::Own) {
                Ok(Some((id, _))) => {
                    return self.core.write_event(Event::Removed(id).pack(), 0, now);
                }
                Ok(None) => return,
                Err(_) => {}
            }
        }
    }

    fn try_remove<'g>(
        &self,
        (found, node): (Search<'g>, Option<NodeRef<'g, K, V>>),
        hash: u32,
        judged: &Judged<'_, K, V>,
        clearance: Clearance<'_>,
    ) -> Result<Attempt<K, V>, Obstacle> {
        let Some(node) = node else {
            // Committed all the same: a load that is under way must not bring back what the caller
            // believes gone.
            self.core.commit_absence(found, hash, clearance)?;
            return Ok(Attempt::None);
        };
        let deadline = node.seen();
        let now = self.core.ticker.settling(deadline, self.core.ticker.coarse());
        let living = deadline > now && !self.core.is_cleared(node.meta());
        if living && !judged.allows(node.id()) {
            return Ok(Attempt::Judge(self.handle_on(node)));
        }
        if !living && !seeded("expiry-unclaimed") && !self.is_final_miss(node) {
            return Err(Obstacle::Changed);
        }
        let cause = RemovalCause::Explicit;
        let Some((id, cause)) = self.core.commit_remove(found, hash, now, cause, clearance)? else {
            return Ok(Attempt::None);
        };
        let removed = if living && cause == RemovalCause::Explicit {
            Attempt::Removed(Entry::new(self.handle_on(node), now, deadline, false))
        } else {
            Attempt::None
        };
        self.core.write_event(Event::Removed(id).pack(), 0, now);
        Ok(removed)
    }
}
