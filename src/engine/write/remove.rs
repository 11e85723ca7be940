//! Removals of single keys.

use crate::engine::Engine;
use crate::engine::conflict::Attempt;
use crate::engine::event::Event;
use crate::engine::flights::{Clearance, FlightKind, Obstacle};
use crate::engine::read::Slot;
use crate::engine::step::{Step, block_on, is_owned};
use crate::entry::{Entry, Origin};
use crate::hash::{Hash32, Hashed, LookupKey};
use crate::pool::Handle;
use crate::primitives::seeded;
use crate::removal::RemovalCause;

/// A condition of a removal.
pub type Condition<'a, K, V> = &'a mut dyn FnMut(&K, &V) -> bool;

/// A conditional removal between two steps.
pub enum Removal<K, V> {
    /// The condition was not asked yet. It is asked once, and once more with the key taken if the
    /// entry changed meanwhile.
    Unjudged,
    /// The condition holds for this entry.
    Judged(Handle<K, V>),
    /// It held for this entry, and the key has another one by now.
    Outdated(Handle<K, V>),
}

/// The entry that an attempt has removed, if there was one; or a living one, which the condition
/// has to judge.
type RemovalAttempt<K, V> = Result<Option<Entry<K, V>>, Handle<K, V>>;

const _: () = is_owned::<Removal<String, String>>();

impl<K: Eq, V> Engine<K, V> {
    /// Removes the key's living entry, and returns it.
    pub fn remove(&self, key: impl LookupKey<K>) -> Option<Entry<K, V>> {
        self.check_key(key);
        let removed = block_on(|| self.step_removal(key));
        self.after_write();
        removed
    }

    /// The next step of a removal.
    pub fn step_removal(&self, key: impl LookupKey<K>) -> Step<Option<Entry<K, V>>> {
        self.step_attempt(key, None).map(|attempt| attempt.unwrap_or(None))
    }

    /// [`remove`](Self::remove) of an entry for which `condition` holds.
    pub fn remove_if(
        &self,
        key: impl LookupKey<K>,
        condition: Condition<'_, K, V>,
    ) -> Option<Entry<K, V>> {
        self.check_key(key);
        let mut removal = Removal::Unjudged;
        let removed = block_on(|| self.step_removal_if(key, &mut removal, condition));
        // It may have the last count on an entry.
        drop(removal);
        self.after_write();
        removed
    }

    /// An attempt to remove the key's entry, if `removal` allows it; any entry without one.
    #[inline(never)]
    fn step_attempt(
        &self,
        key: impl LookupKey<K>,
        removal: Option<&Removal<K, V>>,
    ) -> Step<RemovalAttempt<K, V>> {
        self.step_write(
            key,
            &mut Clearance::Idle,
            || self.clearance(key, |_| true),
            |found, clearance| self.try_remove(found, key.hash(), removal, clearance),
        )
    }

    /// The next step of a conditional removal.
    pub fn step_removal_if(
        &self,
        key: impl LookupKey<K>,
        removal: &mut Removal<K, V>,
        condition: Condition<'_, K, V>,
    ) -> Step<Option<Entry<K, V>>> {
        loop {
            if let Removal::Outdated(entry) = removal {
                return self.step_remove_owning(entry, condition);
            }
            let attempt = self.step_attempt(key, Some(removal));
            let found = match attempt? {
                Ok(removed) => return Ok(removed),
                Err(found) => found,
            };
            *removal = match std::mem::replace(removal, Removal::Unjudged) {
                Removal::Judged(judged) | Removal::Outdated(judged) => Removal::Outdated(judged),
                _ if self.judge(&found, condition) => Removal::Judged(found),
                _ => return Ok(None),
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
        let key = node.hashed();
        let share = || node.raw().clone();
        // Dropped after the flight: this may be the last count on the entry, whose destructor may
        // use the key.
        let _kept;
        let flight =
            self.begin_flight(key, FlightKind::Exclusive, None, &share, &|_| true)?.enter();
        let (entry, _) = self.stable_entry(key);
        _kept = entry.clone();
        let judged = entry.filter(|entry| self.judge(entry.node(), condition));
        // It may have expired while the condition was asked.
        let removed = judged.filter(|_| self.remove_owned(key));
        flight.land();
        Ok(removed)
    }

    pub fn judge(&self, entry: &Handle<K, V>, condition: Condition<'_, K, V>) -> bool {
        let _mark = self.core.mark_callback(entry.meta(), entry.id());
        condition(entry.key(), entry.value())
    }

    /// Removes the entry of a key that this thread's flight owns. Returns false if it had expired
    /// or was gone.
    pub fn remove_owned(&self, key: Hashed<&K>) -> bool {
        let guard = crate::epoch::pin();
        loop {
            let Slot { found, .. } = self.search_exact(&guard, key);
            let now = self.core.ticker.now();
            let cause = RemovalCause::Explicit;
            match self.core.commit_remove(found, key.hash, now, cause, Clearance::Exclusive) {
                Ok(Some((id, cause))) => {
                    drop(guard);
                    let event = Event::Removed(id).pack();
                    self.core.record_write(event, 0, now);
                    return cause == RemovalCause::Explicit;
                }
                Ok(None) => return false,
                Err(_) => {}
            }
        }
    }

    fn try_remove<'g>(
        &self,
        Slot { found, node }: Slot<'g, K, V>,
        hash: Hash32,
        removal: Option<&Removal<K, V>>,
        clearance: Clearance<'_>,
    ) -> Attempt<RemovalAttempt<K, V>> {
        let Some(node) = node else {
            // Committed all the same: a load that is in progress must not bring back a value that
            // the caller believes gone.
            self.core.commit_absent(found, hash, clearance)?;
            return Ok((Ok(None), None));
        };
        let deadline = node.seen();
        let now = self.core.ticker.reading_for(deadline, self.core.ticker.coarse());
        let living = deadline > now && !self.core.hot.is_cleared(node.meta());
        let is_allowed = match removal {
            None => true,
            Some(Removal::Judged(judged)) => judged.id() == node.id(),
            Some(Removal::Unjudged | Removal::Outdated(_)) => false,
        };
        if living && !is_allowed {
            return Ok((Err(self.handle_on(node)), None));
        }
        if !living && !seeded("expiry-unclaimed") && !self.confirm_miss(node) {
            return Err(Obstacle::Changed);
        }
        let cause = RemovalCause::Explicit;
        let Some((id, cause)) = self.core.commit_remove(found, hash, now, cause, clearance)? else {
            return Ok((Ok(None), None));
        };
        let is_removed = living && cause == RemovalCause::Explicit;
        let removed =
            is_removed.then(|| Entry::new(self.handle_on(node), now, deadline, Origin::Found));
        Ok((Ok(removed), Some((Event::Removed(id).pack(), now))))
    }
}
