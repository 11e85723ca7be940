//! Lifetimes by key: ask for them, change them.

use super::Engine;
use super::event::Event;
use super::flights::Clearance;
use super::lookup::NodeRef;
use crate::clock::NEVER;
use crate::removal::RemovalCause;
use crate::sync::atomic::Ordering;
use crossbeam_epoch::Guard;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K, V, S: BuildHasher> Engine<K, V, S> {
    /// The deadline of the key's living entry, with the present.
    pub fn deadline<Q>(&self, key: &Q) -> Option<(u64, u64)>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let guard = crossbeam_epoch::pin();
        let now = self.core.ticker.now();
        let node = self.find(&guard, self.hash(key), key)?;
        let living = node.seen() > now && node.meta().generation() == self.core.generation();
        living.then_some((node.seen(), now))
    }

    /// Gives the key's living entry the cap that `cap` makes of the present. False if there is none.
    pub fn set_cap<Q>(&self, key: &Q, cap: impl Fn(u64) -> u64) -> bool
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hash(key);
        self.await_computation(hash, key);
        let changed = {
            let guard = crossbeam_epoch::pin();
            loop {
                let now = self.core.ticker.now();
                let Some(node) = self.find(&guard, hash, key) else { break false };
                // What is judged to live is what is exchanged. (Of a node that was replaced since it
                // was found, nothing is: the loop goes on with what replaced it.)
                let judged = node.seen();
                if judged <= now || node.meta().generation() != self.core.generation() {
                    break false;
                }
                if self.try_set_cap(&guard, node, judged, now, cap(now)) {
                    break true;
                }
            }
        };
        self.tend();
        changed
    }

    /// False if the deadline is no longer as `judged`.
    fn try_set_cap(
        &self,
        guard: &Guard,
        node: NodeRef<'_, K, V>,
        judged: u64,
        now: u64,
        cap: u64,
    ) -> bool {
        let meta = node.meta();
        let new = self.core.lifetimes.deadline(now, cap);
        let word = self.pool.raw().cap(node.id());
        if let Some(word) = word {
            word.store(cap, Ordering::Release);
        }
        // No life left: over from this moment on.
        let over = new <= now;
        let new = if over { now } else { new };
        if !meta.change_deadline(judged, new) {
            return false;
        }
        if over {
            self.remove_expired(guard, node, now);
        } else if new < judged && (new != NEVER) {
            self.write_event(Event::Rescheduled(node.id()), 0, now);
        }
        true
    }

    /// Removes a node that has just been given an end in the past. If a load or computation may be in
    /// the way, the maintenance will.
    fn remove_expired(&self, guard: &Guard, node: NodeRef<'_, K, V>, now: u64) {
        let place = (node.meta().hash(), node.id());
        let cause = RemovalCause::Expired;
        match self.core.remove_id(guard, place, now, cause, Clearance::Idle) {
            Ok(true) => self.write_event(Event::Removed(node.id()), 0, now),
            Ok(false) => {}
            Err(_) => self.write_event(Event::Rescheduled(node.id()), 0, now),
        }
    }
}
