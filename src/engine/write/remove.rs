//! Removals of single keys.

use crate::engine::Engine;
use crate::engine::conflict::Attempt;
use crate::engine::core::Search;
use crate::engine::event::Event;
use crate::engine::flights::{Clearance, Obstacle, OnLoad};
use crate::engine::read::NodeRef;
use crate::engine::reentrancy::ReentrancyMark;
use crate::engine::step::{Step, block_on};
use crate::entry::{Entry, Origin};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::pool::Handle;
use crate::primitives::seeded;
use crate::removal::RemovalCause;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A condition of a removal.
pub type Condition<'a, K, V> = &'a mut dyn FnMut(&K, &V) -> bool;

/// A removal with a condition, between two steps. The condition is asked once, and once more with
/// the key taken if the entry changed meanwhile.
pub enum Removal<K, V> {
    /// The condition was not asked yet.
    Unjudged,
    /// The condition holds for this entry.
    Judged(Handle<K, V>),
    /// It held for this entry, and the key has another one by now.
    Outdated(Handle<K, V>),
}

/// What an operation holds between two steps may go to another thread, and borrows nothing.
const _: () = {
    const fn is_owned<T: Send + 'static>() {}
    is_owned::<Removal<String, String>>();
};

/// What a removal knows of its condition.
#[derive(Clone, Copy)]
pub enum Allowed {
    Any,
    None,
    /// The node with this id, on which the caller has a count.
    Only(NodeId),
}

impl Allowed {
    fn allows(self, id: NodeId) -> bool {
        match self {
            Self::Any => true,
            Self::None => false,
            Self::Only(allowed) => allowed == id,
        }
    }
}

/// What an attempt to remove found.
pub enum RemoveOutcome<K, V> {
    /// There is no entry, or none any more.
    Absent,
    Removed(Entry<K, V>),
    /// A living entry, which the condition has to judge.
    Judge(Handle<K, V>),
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Removes the key's living entry if `condition` holds for it, and returns it.
    pub fn remove<Q>(
        &self,
        hash: Hash32,
        key: &Q,
        condition: Option<Condition<'_, K, V>>,
    ) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.check_key(hash, key);
        let removed = match condition {
            None => {
                let mut clearance = Clearance::Idle;
                match block_on(|| self.step_attempt((hash, key), Allowed::Any, &mut clearance)) {
                    RemoveOutcome::Removed(entry) => Some(entry),
                    _ => None,
                }
            }
            Some(condition) => {
                let mut removal = Removal::Unjudged;
                block_on(|| self.step_removal((hash, key), &mut removal, condition))
            }
        };
        self.after_write();
        removed
    }

    /// Removes the key's living entry, or says that the condition has to judge it first.
    pub fn step_attempt<Q>(
        &self,
        (hash, key): (Hash32, &Q),
        allowed: Allowed,
        clearance: &mut Clearance<'static>,
    ) -> Step<RemoveOutcome<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        self.step_write(
            (hash, key),
            clearance,
            || self.clearance_for_write(hash, key),
            |found, clearance| self.try_remove(found, hash, allowed, clearance),
        )
    }

    /// The next step of a removal with a condition.
    pub fn step_removal<Q>(
        &self,
        key: (Hash32, &Q),
        removal: &mut Removal<K, V>,
        condition: Condition<'_, K, V>,
    ) -> Step<Option<Entry<K, V>>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        loop {
            let allowed = match removal {
                Removal::Unjudged => Allowed::None,
                Removal::Judged(entry) => Allowed::Only(entry.id()),
                Removal::Outdated(entry) => return self.step_remove_owning(entry, condition),
            };
            let mut clearance = Clearance::Idle;
            let found = match self.step_attempt(key, allowed, &mut clearance) {
                Step::Wait(flight) => return Step::Wait(flight),
                Step::Done(RemoveOutcome::Absent) => return Step::Done(None),
                Step::Done(RemoveOutcome::Removed(entry)) => return Step::Done(Some(entry)),
                Step::Done(RemoveOutcome::Judge(found)) => found,
            };
            *removal = match std::mem::replace(removal, Removal::Unjudged) {
                Removal::Unjudged if !self.judge(&found, condition) => return Step::Done(None),
                Removal::Unjudged => Removal::Judged(found),
                Removal::Judged(judged) | Removal::Outdated(judged) => Removal::Outdated(judged),
            };
        }
    }

    /// Judges the key's entry with the key taken as a computation takes it, and removes it if the
    /// condition holds.
    fn step_remove_owning(
        &self,
        node: &Handle<K, V>,
        condition: Condition<'_, K, V>,
    ) -> Step<Option<Entry<K, V>>> {
        let (hash, key) = (node.meta().hash(), node.key());
        let share = || node.raw().clone();
        // Dropped after the flight: this may be the last count on the entry, whose destructor may
        // use the key.
        let kept;
        let flight = match self.acquire_key((hash, key), &share, OnLoad::Overtake) {
            Step::Wait(flight) => return Step::Wait(flight),
            Step::Done(flight) => flight.enter(),
        };
        let (entry, _) = self.stable_entry(hash, key);
        kept = entry.clone();
        let judged = entry.filter(|entry| self.judge(entry.node(), condition));
        // It may have expired while the condition was asked.
        let removed = judged.filter(|_| self.remove_owned(hash, key));
        flight.land();
        drop(kept);
        Step::Done(removed)
    }

    pub fn judge(&self, entry: &Handle<K, V>, condition: Condition<'_, K, V>) -> bool {
        let _mark = ReentrancyMark::callback(self.core.subject(entry.meta(), entry.id()));
        condition(entry.key(), entry.value())
    }

    /// Removes the entry of a key that this thread's flight owns. Returns false if it had expired
    /// or was gone.
    pub fn remove_owned(&self, hash: Hash32, key: &K) -> bool {
        let guard = crate::epoch::pin();
        loop {
            let (found, _) = self.search_exact(&guard, hash, key);
            let now = self.core.ticker.now();
            let cause = RemovalCause::Explicit;
            match self.core.commit_remove(found, hash, now, cause, Clearance::Exclusive) {
                Ok(Some((id, cause))) => {
                    drop(guard);
                    self.core.write_event(Event::Removed(id).pack(), 0, now);
                    return cause == RemovalCause::Explicit;
                }
                Ok(None) => return false,
                Err(_) => {}
            }
        }
    }

    fn try_remove<'g>(
        &self,
        (found, node): (Search<'g>, Option<NodeRef<'g, K, V>>),
        hash: Hash32,
        allowed: Allowed,
        clearance: Clearance<'_>,
    ) -> Attempt<RemoveOutcome<K, V>> {
        let Some(node) = node else {
            // Committed all the same: a load that is in progress must not bring back a value that
            // the caller believes gone.
            self.core.commit_absent(found, hash, clearance)?;
            return Ok((RemoveOutcome::Absent, None));
        };
        let deadline = node.seen();
        let now = self.core.ticker.reading_for(deadline, self.core.ticker.coarse());
        let living = deadline > now && !self.core.hot.is_cleared(node.meta());
        if living && !allowed.allows(node.id()) {
            return Ok((RemoveOutcome::Judge(self.handle_on(node)), None));
        }
        if !living && !seeded("expiry-unclaimed") && !self.confirm_miss(node) {
            return Err(Obstacle::Changed);
        }
        let cause = RemovalCause::Explicit;
        let Some((id, cause)) = self.core.commit_remove(found, hash, now, cause, clearance)? else {
            return Ok((RemoveOutcome::Absent, None));
        };
        let removed = if living && cause == RemovalCause::Explicit {
            RemoveOutcome::Removed(Entry::new(self.handle_on(node), now, deadline, Origin::Found))
        } else {
            RemoveOutcome::Absent
        };
        Ok((removed, Some((Event::Removed(id).pack(), now))))
    }
}
