//! Inserts of single keys.

use super::commit::{CommitOutcome, Put};
use super::hooks::Readings;
use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::asked::{Answered, Basis, Insert, InsertState, Terms, Waiting};
use crate::engine::flights::{FlightKind, Obstacle};
use crate::engine::read::{NodeRef, Slot};
use crate::engine::step::{Step, block_on};
use crate::engine::typed::Asking;
use crate::epoch::Guard;
use crate::expiration::{Lease, Lifetime};
use crate::hash::Hashed;
use crate::loaded::Loaded;
use crate::pool::Local;

impl<K: Eq, V> Engine<K, V> {
    pub fn insert(&self, key: Hashed<K>, value: V, lifetime: Lifetime) {
        if let Some(mut insert) = self.begin_insert(key, value, lifetime) {
            block_on(|| self.step_insert(&mut insert));
            self.after_write();
        }
    }

    /// Inserts, or returns what is left to do if that takes waiting.
    #[inline(always)]
    pub fn begin_insert(&self, key: Hashed<K>, value: V, lifetime: Lifetime) -> Waiting<K, V> {
        // Prefetches the bucket, so that the miss overlaps with making the node.
        self.core.index.prefetch(key.hash);
        self.check_key(key.as_ref());
        if let Some(asking) = &self.asking
            && (self.is_asked(lifetime) || self.asks_about_values)
        {
            return (asking.insert)(self, key, value, lifetime);
        }
        let guard = crate::epoch::pin_inline();
        // Pinning is a full fence: it waits until all earlier stores are done. So it is cheaper to
        // move key and value into the node after the pin.
        let node = self.pool.draft(key).fill(value);
        let terms = Terms { weight: 1, lifetime, refresh: None };
        self.insert_node(guard, node, terms, None)
    }

    /// [`insert`](Self::insert) of a value with its lease.
    pub fn insert_loaded(&self, key: Hashed<K>, loaded: Loaded<V>) {
        if let Some(mut insert) = self.begin_insert_loaded(key, loaded) {
            block_on(|| self.step_insert(&mut insert));
            self.after_write();
        }
    }

    /// [`begin_insert`](Self::begin_insert) of a value with its lease.
    pub fn begin_insert_loaded(&self, key: Hashed<K>, loaded: Loaded<V>) -> Waiting<K, V> {
        let (value, lease) = loaded.into_parts();
        if self.reloads.is_none() {
            return self.begin_insert(key, value, lease.lifetime);
        }
        self.check_key(key.as_ref());
        self.insert_refreshing(self.pool.draft(key).fill(value), lease)
    }

    /// [`insert`](Self::insert) that calls the weigher or the hooks. They run before the pin.
    #[inline(never)]
    fn insert_with_hooks(&self, key: Hashed<K>, value: V, lifetime: Lifetime) -> Waiting<K, V> {
        if self.reloads.is_some() {
            let node = self.pool.draft(key).fill(value);
            return self.insert_refreshing(node, Lease::new(lifetime));
        }
        let is_asked = self.is_asked(lifetime);
        let depends = is_asked && self.depends_on_entry();
        // Without a weigher, the pin comes before the node for the reason that `begin_insert`
        // gives. A weigher runs before the pin, and before the look at the key's entry, which
        // notes that it has ended: an insert whose weigher panics changes nothing.
        let guard = (depends && self.weigher.is_none()).then(crate::epoch::pin_inline);
        let node = self.pool.draft(key).fill(value);
        let mut terms = Terms { weight: self.weigh(&node), lifetime, refresh: None };
        let mut asked = None;
        if is_asked && self.answers_alone {
            terms.lifetime = self.ask_alone(&node);
        } else {
            let basis = depends.then(|| {
                let guard = guard.unwrap_or_else(crate::epoch::pin);
                self.basis_of(guard, node.hashed())
            });
            let ask = || self.ask(&node, basis.as_ref(), Readings::CoarseFirst);
            let answer = is_asked.then(ask);
            asked = Some(Answered { answer, basis });
        }
        self.insert_node(crate::epoch::pin_inline(), node, terms, asked)
    }

    /// [`insert`](Self::insert) in a cache with refresh.
    #[cold]
    #[inline(never)]
    fn insert_refreshing(&self, node: Local<'_, K, V>, lease: Lease) -> Waiting<K, V> {
        let terms = self.terms(&node, lease);
        let answered = self.ask_if_needed(&node, lease.lifetime, Readings::CoarseFirst);
        let attempt = InsertState::new(terms, Some(answered), Obstacle::Changed);
        self.insert_slow(crate::epoch::pin(), node, attempt)
    }

    /// The last steps of an insert. `asked` is what the hooks have answered, if they were asked.
    #[inline(always)]
    fn insert_node(
        &self,
        guard: Guard,
        node: Local<'_, K, V>,
        terms: Terms,
        asked: Option<Answered<K, V>>,
    ) -> Waiting<K, V> {
        let found = self.search_home(&guard, node.hashed());
        let is_plain = |old| asked.as_ref().is_none_or(|it| self.is_plainly_about(it, old));
        let Some((found, old)) = found.filter(|(_, old)| is_plain(*old)) else {
            let attempt = InsertState::new(terms, asked, Obstacle::Changed);
            return self.insert_slow(guard, node, attempt);
        };
        let shown = asked.as_ref().and_then(|it| it.basis.as_ref()).and_then(Basis::shown);
        let answer = asked.as_ref().and_then(|it| it.answer);
        let put = Put { shown, ..self.prepare(&node, old, terms, answer) };
        match self.core.commit_put_if_idle(found, &put) {
            Ok(done) => {
                // The event keeps both nodes. The pass that may follow must not hold up the epoch.
                drop(guard);
                self.finish_put(node, done, terms.weight, put.now);
                self.after_write();
                None
            }
            Err(obstacle) => {
                self.insert_slow(guard, node, InsertState::new(terms, asked, obstacle))
            }
        }
    }

    /// Whether the answer is about the entry that was found, beyond doubt. The slow path decides
    /// what is in doubt: an entry that may have expired.
    #[inline(always)]
    fn is_plainly_about(&self, answered: &Answered<K, V>, old: Option<NodeRef<'_, K, V>>) -> bool {
        let Some(basis) = &answered.basis else { return true };
        match (basis, old) {
            (Basis::Absent, None) => true,
            (Basis::Entry { .. }, Some(old)) => {
                let asked_at = answered.answer.map(|answer| answer.now);
                basis.is_still(Some(old.id()))
                    && asked_at.is_some_and(|now| old.seen() > now)
                    && !self.core.hot.is_cleared(old.meta())
            }
            _ => false,
        }
    }

    /// The slow path of [`insert`](Self::insert): after the first failed attempt, or if the answer
    /// depends on the key's entry. Not inlined, so that the fast path keeps no registers for a loop
    /// that seldom runs.
    #[inline(never)]
    fn insert_slow(
        &self,
        guard: Guard,
        node: Local<'_, K, V>,
        mut attempt: InsertState<K, V>,
    ) -> Waiting<K, V> {
        if let Err(node) = self.try_insert(guard, node, &mut attempt) {
            let insert = Insert { node: node.handle(), attempt };
            drop(node);
            return Some(Box::new(insert));
        }
        self.after_write();
        None
    }

    /// The next step of an insert that had to wait.
    #[cold]
    pub fn step_insert(&self, insert: &mut Insert<K, V>) -> Step<()> {
        loop {
            let Insert { node, attempt } = insert;
            if attempt.obstacle == Obstacle::Flight {
                attempt.clearance = self.clearance(node.hashed(), |_| true)?;
            }
            if let Some(asking) = &self.asking
                && (asking.again)(self, insert)?
            {
                return Ok(());
            }
            let Insert { node, attempt } = insert;
            attempt.obstacle = Obstacle::Changed;
            if self.try_insert(crate::epoch::pin(), self.pool.local(node), attempt).is_ok() {
                return Ok(());
            }
        }
    }

    /// The part of a step in which the hooks are asked again, if they have to be. Returns whether
    /// the insert is done.
    #[cold]
    fn ask_again(&self, insert: &mut Insert<K, V>) -> Step<bool> {
        let Insert { node, attempt } = insert;
        match attempt.obstacle {
            // The life begins after the wait, so the hooks are asked about that instant.
            Obstacle::Flight if attempt.answered.basis.is_some() => {
                // That step may have to wait as well.
                attempt.obstacle = Obstacle::EntryChanged;
                self.step_insert_owning(insert).map(|()| true)
            }
            Obstacle::Flight if attempt.answered.answer.is_some() => {
                let local = self.pool.local(node);
                attempt.answered.answer = Some(self.ask(&local, None, Readings::Precise));
                Ok(false)
            }
            Obstacle::EntryChanged => self.step_insert_owning(insert).map(|()| true),
            Obstacle::Flight | Obstacle::Changed | Obstacle::Overtaken => Ok(false),
        }
    }

    /// Searches and commits, again and again. Gives up if a computation owns the key, or if the
    /// key's entry is not the one that the hooks were asked about.
    ///
    /// # Errors
    /// Returns the node if the insert has to wait.
    fn try_insert<'p>(
        &self,
        mut guard: Guard,
        node: Local<'p, K, V>,
        attempt: &mut InsertState<K, V>,
    ) -> Result<(), Local<'p, K, V>> {
        let (hash, mut exact) = (node.meta().hash(), false);
        loop {
            match attempt.obstacle {
                Obstacle::EntryChanged => return Err(node),
                Obstacle::Flight => {
                    // Comparing keys is user code, and the last count on a flight may go here.
                    drop(guard);
                    match self.clearance(node.hashed(), |_| true) {
                        Err(_) => return Err(node),
                        Ok(clearance) => attempt.clearance = clearance,
                    }
                    guard = crate::epoch::pin();
                }
                Obstacle::Changed | Obstacle::Overtaken => {}
            }
            let found = self.search_either(&guard, node.hashed(), exact);
            exact = true;
            match self.commit_insert(found, &node, attempt) {
                Ok((done, now)) => {
                    drop(guard);
                    self.finish_put(node, done, attempt.terms.weight, now);
                    self.wake_for(hash);
                    return Ok(());
                }
                Err(obstacle) => attempt.obstacle = obstacle,
            }
        }
    }

    fn commit_insert<'g>(
        &self,
        Slot { found, node: old }: Slot<'g, K, V>,
        node: &Local<'_, K, V>,
        attempt: &InsertState<K, V>,
    ) -> Result<(CommitOutcome, Timestamp), Obstacle> {
        let Answered { answer, basis } = &attempt.answered;
        if let (Some(answer), Some(basis)) = (answer, basis)
            && !basis.is_still(self.living_for(answer.now, basis, old)?.map(NodeRef::id))
        {
            return Err(Obstacle::EntryChanged);
        }
        let put = self.prepare_any(node, old, attempt.terms, *answer);
        let put = Put { shown: basis.as_ref().and_then(Basis::shown), ..put };
        Ok((self.core.commit_put(found, &put, attempt.clearance)?, put.now))
    }

    /// The next step of an insert if the key's entry changed after the hooks were asked. It takes
    /// the key as a computation does, and asks once more while no other write can change the entry.
    #[cold]
    fn step_insert_owning(&self, insert: &mut Insert<K, V>) -> Step<()> {
        let Insert { node, attempt } = insert;
        attempt.answered = Answered::NOBODY;
        let share = || node.raw().clone();
        // Dropped after the flight, also when a hook panics: these may be the last counts on an
        // entry, whose destructors may use the key.
        let (_stable, _put);
        let flight = self
            .begin_flight(node.hashed(), FlightKind::Exclusive, None, &share, &|_| true)?
            .enter();
        _stable = self.stable_entry(node.hashed());
        let local = self.pool.local(node);
        _put = self.put_owning(local, attempt.terms, None, Readings::Precise);
        flight.land();
        Ok(())
    }
}

impl<K: Eq, V> Asking<K, V> {
    pub const OF_INSERTS: Self =
        Self { insert: Engine::insert_with_hooks, again: Engine::ask_again };
}
