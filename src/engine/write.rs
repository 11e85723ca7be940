//! Inserts and removals of single keys.

use super::Engine;
use super::commit::{Done, Obstacle, Put};
use super::core::mark_of;
use super::event::Event;
use super::flights::Clearance;
use super::lookup::NodeRef;
use crate::clock::NEVER;
use crate::entry::Entry;
use crate::expiration::{Term, lifetime};
use crate::links::NIL;
use crate::node::remaining;
use crate::pool::Local;
use crate::removal::RemovalCause;
use crate::epoch::Guard;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    pub fn insert(&self, key: K, value: V, term: Term) {
        // The line that the search will need is on its way while the node is made.
        let hash = self.hash_ahead(&key);
        let guard = crate::epoch::pin();
        // What the caller has just written is moved after the pin, which has waited for it.
        self.insert_pinned(guard, hash, key, value, term);
    }

    #[inline(always)]
    fn insert_pinned(&self, guard: Guard, hash: u32, key: K, value: V, term: Term) {
        let weight = self.weigh(&key, &value);
        let node = self.pool.draft(hash, key).fill(value);
        let Some((found, old)) = self.search_in_passing(&guard, hash, node.key()) else {
            return self.insert_at_length(guard, node, (weight, term), (None, Obstacle::Changed));
        };
        let (put, advice) = self.prepare_here((&node, hash), old, weight, term, None);
        match self.core.commit_put_if_idle(found, &put) {
            Ok(done) => self.conclude_put(node, done, weight, put.now),
            Err(obstacle) => {
                return self.insert_at_length(guard, node, (weight, term), (advice, obstacle));
            }
        }
        drop(guard);
        self.tend();
    }

    /// [`insert`](Self::insert) from its first failure on: apart, so that nothing is kept for a loop that seldom begins.
    #[cold]
    #[inline(never)]
    fn insert_at_length(
        &self,
        mut guard: Guard,
        node: Local<'_, K, V>,
        (weight, term): (u32, Term),
        (mut advice, mut obstacle): (Advice, Obstacle),
    ) {
        let hash = node.meta().hash();
        let mut clearance = Clearance::Idle;
        let (done, now) = loop {
            if obstacle == Obstacle::Flight {
                // A load or computation may be in the way.
                drop(guard);
                clearance = self.await_turn(hash, node.key());
                guard = crate::epoch::pin();
                advice = None;
            }
            let (found, old) = self.search(&guard, hash, node.key());
            let put = self.prepare(&node, old, weight, term, &mut advice);
            match self.core.commit_put(found, &put, clearance) {
                Ok(done) => break (done, put.now),
                Err(next) => obstacle = next,
            }
        };
        self.conclude_put(node, done, weight, now);
        drop(guard);
        self.tend();
    }
}

/// Does what is seldom done, not compiled into the caller.
#[cold]
#[inline(never)]
fn apart<T>(what: impl FnOnce() -> T) -> T {
    what()
}

/// What an expiry hook said of a new value.
#[derive(Clone, Copy)]
pub enum Variable {
    /// So many nanoseconds from the present; [`NEVER`] is for ever.
    For(u64),
    /// The same end as before.
    Same(u64),
}

impl Variable {
    fn end(self, now: u64) -> u64 {
        match self {
            Self::For(nanos) => now.saturating_add(nanos),
            Self::Same(end) => end,
        }
    }
}

/// What the hooks said of a new value: the living node in whose place it was to come ([`NIL`] for
/// none), and the lifetime.
///
/// Found that node again, under the same guard, they are not asked again. It may well be their own
/// doing that the bucket has changed: a hook that writes a neighbour each time would be asked for ever.
pub type Advice = Option<(u32, Variable)>;

impl<K, V, S> Engine<K, V, S> {
    /// What the weigher says; 1 without one.
    pub fn weigh(&self, key: &K, value: &V) -> u32 {
        self.hooks.weigher.as_ref().map_or(1, |weigher| weigher(key, value))
    }

    /// Asks the hooks how long the node is to live in the place of `old`, and completes it.
    pub fn prepare(
        &self,
        node: &Local<'_, K, V>,
        old: Option<NodeRef<'_, K, V>>,
        weight: u32,
        term: Term,
        advice: &mut Advice,
    ) -> Put {
        let hash = node.meta().hash();
        let (put, given) = self.prepare_here((node, hash), old, weight, term, *advice);
        *advice = given;
        put
    }

    /// [`prepare`](Self::prepare), compiled into its caller.
    #[inline(always)]
    fn prepare_here(
        &self,
        (node, hash): (&Local<'_, K, V>, u32),
        old: Option<NodeRef<'_, K, V>>,
        weight: u32,
        term: Term,
        advice: Advice,
    ) -> (Put, Advice) {
        let core = &self.core;
        let coarse = core.ticker.coarse();
        let mut now = old.map_or(coarse, |old| core.ticker.settling(old.seen(), coarse));
        let generation = core.full_generation();
        let living = old.filter(|old| old.meta().is_live(now, mark_of(generation)));
        let place = living.map_or(NIL, |old| old.id());
        let mut variable = match (term, advice) {
            (Term::For(_) | Term::Until(_), _) => Variable::Same(NEVER),
            (Term::Policy, Some(given)) if given.0 == place => given.1,
            (Term::Policy, _) => self.lifetime(node, living, now),
        };
        let (mut cap, mut deadline) = self.ends(term, variable, now);
        if core.ticker.is_short(deadline.saturating_sub(now)) {
            now = core.ticker.now();
            if let Variable::For(_) = variable {
                // The answer may have been made of the reading that it was given.
                variable = apart(|| self.lifetime(node, living, now));
            }
            (cap, deadline) = self.ends(term, variable, now);
        }
        node.meta().init(deadline, now, weight, mark_of(generation));
        if let Some(word) = self.pool.raw().cap(node.id()) {
            word.store(cap, self.observes);
        }
        let refused = if deadline <= now {
            Some(RemovalCause::Expired)
        } else if core.max_capacity == 0 || u64::from(weight) > core.max_capacity {
            Some(RemovalCause::Size)
        } else {
            None
        };
        let put = Put { id: node.id(), hash, now, deadline, generation, basis: None, refused };
        (put, Some((place, variable)))
    }

    /// The cap and the deadline of an entry written at `now`.
    #[inline(always)]
    fn ends(&self, term: Term, variable: Variable, now: u64) -> (u64, u64) {
        let lifetimes = &self.core.lifetimes;
        let cap = match term {
            Term::For(nanos) => now.saturating_add(nanos),
            Term::Until(instant) => instant,
            Term::Policy => lifetimes.cap(now, variable.end(now)),
        };
        (cap, lifetimes.deadline(now, cap))
    }

    /// What the hooks say of a node that is to come in the place of a living one, or of none.
    #[inline(always)]
    fn lifetime(
        &self,
        node: &Local<'_, K, V>,
        living: Option<NodeRef<'_, K, V>>,
        now: u64,
    ) -> Variable {
        let Some(expiry) = &self.hooks.expiry else { return Variable::Same(NEVER) };
        let (key, value) = (node.key(), node.value());
        let instant = self.core.ticker.instant_of(now);
        match living {
            None => Variable::For(lifetime(expiry.expire_after_create(key, value, instant))),
            Some(old) => {
                let cap = self.cap_of(old);
                let current = remaining(cap, now);
                let answer = expiry.expire_after_update(key, value, instant, current);
                if answer == current {
                    Variable::Same(cap)
                } else {
                    Variable::For(lifetime(answer))
                }
            }
        }
    }

    /// Right after a commit, with the lock released: the count goes to the index, the event to the
    /// buffer. Nothing of the user's may run between the commit and this: what unwound there would
    /// drop `node`, and with it the count of a node that is in the index.
    pub fn conclude_put(&self, node: Local<'_, K, V>, done: Done, weight: u32, now: u64) {
        if done.published {
            node.into_count();
        }
        if let Some(event) = done.event {
            self.write_event(event, weight, now);
        }
    }

    /// Removes the key's living entry if `condition` holds for it, and returns it.
    pub fn remove<Q>(
        &self,
        hash: u32,
        key: &Q,
        mut condition: impl FnMut(&K, &V) -> bool,
    ) -> Option<Entry<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let mut clearance = Clearance::Idle;
        let removed = loop {
            let guard = crate::epoch::pin();
            // Judged once, also if the condition itself has changed the bucket by writing a neighbour.
            let mut judged = NIL;
            let mut condition = |node: NodeRef<'_, K, V>| {
                let holds = node.id() == judged || condition(node.key(), node.value());
                judged = if holds { node.id() } else { NIL };
                holds
            };
            let attempt = loop {
                match self.try_remove(&guard, hash, key, &mut condition, clearance) {
                    Err(Obstacle::Changed | Obstacle::Overtaken) => {}
                    attempt => break attempt,
                }
            };
            if let Ok(removed) = attempt {
                break removed;
            }
            drop(guard);
            clearance = self.await_turn(hash, key);
        };
        self.tend();
        removed
    }

    fn try_remove<Q>(
        &self,
        guard: &Guard,
        hash: u32,
        key: &Q,
        condition: &mut dyn FnMut(NodeRef<'_, K, V>) -> bool,
        clearance: Clearance<'_>,
    ) -> Result<Option<Entry<K, V>>, Obstacle>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let (found, node) = self.search(guard, hash, key);
        let Some(node) = node else {
            // Committed all the same: a load that is under way must not bring back what the caller
            // believes gone.
            self.core.commit_absence(found, hash, clearance)?;
            return Ok(None);
        };
        let deadline = node.meta().deadline();
        let now = self.core.ticker.settling(deadline, self.core.ticker.coarse());
        let living = node.meta().is_live(now, self.core.generation());
        if living && !condition(node) {
            return Ok(None);
        }
        let cause = RemovalCause::Explicit;
        let Some((id, cause)) = self.core.commit_remove(found, hash, now, cause, clearance)? else {
            return Ok(None);
        };
        let removed = (living && cause == RemovalCause::Explicit)
            .then(|| Entry::new(self.handle_on(node), now, deadline, false));
        self.write_event(Event::Removed(id).pack(), 0, now);
        Ok(removed)
    }
}
