//! The commit of a loaded value.

use crate::clock::{NEVER, ReadTimes, Timestamp};
use crate::engine::Engine;
use crate::engine::asked::{Answer, Basis, Terms};
use crate::engine::flights::{
    Clearance, EnteredFlight, FlightGuard, LoadOutcome, LoadedNode, Obstacle,
};
use crate::engine::read::{NodeRef, Slot};
use crate::engine::write::{Put, Readings, fresh};
use crate::entry::Entry;
use crate::expiration::Lease;
use crate::hash::Hashed;
use crate::pool::{Handle, HardDeadline, Local};
use crate::primitives::seeded;

/// The entries that a load replaces: none, those for which a condition holds, or the one that a
/// reload is of. An operation keeps it until its flight has ended: it may have the last count on an
/// entry, whose destructor may use the key. A task owns the condition, and may keep this between
/// two steps.
pub struct OwnedReplaces<K, V, C> {
    condition: Option<C>,
    /// The entry to replace: the reload's, or one for which the condition holds.
    accepted: Option<Handle<K, V>>,
    /// Entries that are not replaced.
    kept: Vec<Handle<K, V>>,
    /// When a read triggered the reload, if it is one and was triggered by a read.
    read_at: Option<Timestamp>,
}

/// Whether a load replaces an entry.
pub type Condition<'a, V> = &'a mut dyn FnMut(&V, ReadTimes) -> bool;
/// The type of no condition.
pub type NoLoadCondition<V> = fn(&V, ReadTimes) -> bool;

/// [`OwnedReplaces`] for a step.
pub type Replaces<'a, K, V> = OwnedReplaces<K, V, Condition<'a, V>>;

impl<K, V> Replaces<'_, K, V> {
    pub fn none() -> Self {
        Self::new(None)
    }
}

impl<K, V, C> OwnedReplaces<K, V, C> {
    pub fn new(condition: Option<C>) -> Self {
        Self { condition, accepted: None, kept: Vec::new(), read_at: None }
    }

    /// Replaces this entry and no other, by its reload. `read_at` is when a read triggered it.
    pub fn only(entry: Handle<K, V>, read_at: Option<Timestamp>) -> Self {
        Self { accepted: Some(entry), read_at, ..Self::new(None) }
    }

    pub fn has_condition(&self) -> bool {
        self.condition.is_some()
    }

    /// Whether they are those of a reload: without a condition, only [`only`](Self::only) accepts
    /// an entry.
    fn is_reload(&self) -> bool {
        self.condition.is_none() && self.accepted.is_some()
    }

    fn keeps(&self, entry: &Entry<K, V>) -> bool {
        self.kept.iter().any(|kept| kept.id() == entry.node().id())
    }

    /// Runs a step with it.
    pub fn lend<T>(&mut self, step: impl FnOnce(&mut Replaces<'_, K, V>) -> T) -> T
    where
        C: FnMut(&V, ReadTimes) -> bool,
    {
        let condition = self.condition.as_mut().map(|condition| condition as Condition<'_, V>);
        let (accepted, kept) = (self.accepted.take(), std::mem::take(&mut self.kept));
        let mut lent = Replaces { condition, accepted, kept, read_at: self.read_at };
        let result = step(&mut lent);
        (self.accepted, self.kept) = (lent.accepted, lent.kept);
        result
    }
}

/// The key's entry before a commit, and what the hooks have said.
struct Asked<'a, K, V> {
    basis: &'a Basis<K, V>,
    answer: Option<Answer>,
    /// The hard deadline of the entry that the hooks were shown, if they are asked again where it
    /// has changed.
    shown: Option<Timestamp>,
    /// Whether the load was overtaken before this look at the entry, which is the last one then.
    is_last: bool,
}

/// Ends a load or a reload, whose waiters share this entry. `ends` is the end of the value's life,
/// or [`NEVER`] if the cache does not keep the value: every waiter that has joined still gets it.
pub fn land_entry<K, V>(flight: EnteredFlight, entry: &Entry<K, V>, ends: Timestamp) {
    flight.land_with(|| {
        let (node, deadline) = (entry.node().raw().clone(), ends.min(entry.deadline()));
        Some(LoadOutcome::Value(LoadedNode { node, ends, deadline, is_made: entry.is_fresh() }))
    });
}

impl<K: Eq, V> Engine<K, V> {
    /// Finds the key's entry, and whether the load replaces it. The caller's flight must be on the
    /// board.
    ///
    /// An entry that is kept will be shared with other calls, with the lifetime that is found here.
    /// So `may_share` is set before the last look at it. From then on a change of that lifetime
    /// overtakes the flight.
    pub fn judged_entry(
        &self,
        flight: &FlightGuard,
        key: Hashed<&K>,
        replaces: &mut Replaces<'_, K, V>,
    ) -> Option<(Entry<K, V>, bool)> {
        // A load without a condition runs no code of the user's here, so it looks once. A reload
        // does not share before its commit.
        let looks_once = replaces.condition.is_none() && !replaces.is_reload();
        let mut may_share = looks_once;
        loop {
            // Where each look finds another entry, writes have overtaken the flight. A look that
            // begins when the flight is overtaken is the last. All waiters joined it before, so
            // they may get any entry that this look finds.
            let is_last = flight.is_overtaken(self.core.hot.generation());
            flight.set_may_share(may_share);
            let Some(entry) = self.stable_entry(key).0 else {
                flight.set_may_share(false);
                return None;
            };
            if looks_once || (may_share && replaces.keeps(&entry)) {
                return Some((entry, false));
            }
            // What happens while the condition is asked is no reason to give the load up.
            flight.set_may_share(false);
            if self.is_replaced(&entry, replaces) {
                return Some((entry, true));
            }
            if is_last || seeded("conditions-are-asked-too-late") {
                return Some((entry, false));
            }
            replaces.kept.push(entry.node().clone());
            may_share = true;
        }
    }

    /// Whether a load replaces this entry. Each entry is judged once.
    pub fn is_replaced(&self, entry: &Entry<K, V>, replaces: &mut Replaces<'_, K, V>) -> bool {
        if replaces.accepted.as_ref().is_some_and(|it| it.id() == entry.node().id()) {
            return true;
        }
        if replaces.keeps(entry) {
            return false;
        }
        let Some(condition) = &mut replaces.condition else {
            return replaces.is_reload() && seeded("loads-land-overtaken");
        };
        let holds = {
            let node = entry.node();
            // The mark covers the condition alone: the clock may use the cache as it likes.
            let times = ReadTimes::new(self.core.ticker.coarse(), node.meta().created());
            let _mark = self.core.mark_callback(node.meta(), node.id());
            condition(node.value(), times)
        };
        if holds {
            replaces.kept.extend(replaces.accepted.replace(entry.node().clone()));
        }
        holds
    }

    /// Commits a loaded value, unless the key has got an entry meanwhile that is not to be
    /// replaced. Returns the key's entry, and the end of its life for the waiters.
    ///
    /// The caller has registered its flight and has searched since. If it found no entry, the key
    /// most likely still has none. Then a search without a lock is enough to choose the hook, and
    /// none is needed without a hook, since the commit searches again under the lock.
    pub fn commit_load(
        &self,
        mut node: Local<'_, K, V>,
        lease: Lease,
        flight: &EnteredFlight,
        replaces: &mut Replaces<'_, K, V>,
    ) -> (Entry<K, V>, Timestamp) {
        let (terms, lifetime) = (self.terms(&node, lease), lease.lifetime);
        let mut asked: Option<(Basis<K, V>, Option<Answer>)> = None;
        let mut was_absent = replaces.accepted.is_none();
        let mut rounds = 0;
        loop {
            rounds += 1;
            let has_entry = || self.find_slow(&crate::epoch::pin(), node.hashed()).is_some();
            let is_absent =
                std::mem::take(&mut was_absent) && !(self.is_asked(lifetime) && has_entry());
            let is_last =
                replaces.condition.is_some() && flight.is_overtaken(self.core.hot.generation());
            let mut look = || self.judged_entry(flight, node.hashed(), replaces);
            let basis = match if is_absent { None } else { look() } {
                None => Basis::Absent,
                Some((entry, true)) => self.basis_on(&entry),
                Some((entry, false)) => {
                    let ends = entry.deadline();
                    return (entry, ends);
                }
            };
            let is_settled = matches!((&asked, &basis), (Some((Basis::Absent, _)), Basis::Absent));
            if !is_settled {
                let ask = || self.ask(&node, Some(&basis), Readings::CoarseFirst);
                let answer = self.is_asked(lifetime).then(ask);
                asked = Some((basis, answer));
            }
            let Some((basis, answer)) = &asked else { continue };
            let shown = basis.shown().filter(|_| answer.is_some() && self.asks_again(rounds));
            let asked = Asked { basis, answer: *answer, shown, is_last };
            match self.try_commit_load(node, terms, &asked, flight, replaces) {
                Ok(committed) => return committed,
                Err(uncommitted) => node = uncommitted,
            }
        }
    }

    /// Searches and commits, again while only the bucket changes. Returns what
    /// [`commit_load`](Self::commit_load) returns.
    ///
    /// # Errors
    /// Returns the node if the hooks have to be asked again, since the key's entry is another.
    fn try_commit_load<'p>(
        &self,
        node: Local<'p, K, V>,
        terms: Terms,
        asked: &Asked<'_, K, V>,
        flight: &EnteredFlight,
        replaces: &Replaces<'_, K, V>,
    ) -> Result<(Entry<K, V>, Timestamp), Local<'p, K, V>> {
        let &Asked { basis, answer, shown, is_last } = asked;
        let asked_at = match (answer, basis) {
            (Some(answer), _) => answer.now,
            (None, Basis::Entry { .. }) => self.core.ticker.now(),
            // No entry is judged by it.
            (None, Basis::Absent) => self.core.ticker.coarse(),
        };
        // The value of the node, whether the cache keeps it or not.
        let committed = |put: &Put| {
            let ends = if put.refused.is_some() { NEVER } else { put.deadline };
            (fresh(node.handle(), put.now, put.deadline), ends)
        };
        let guard = crate::epoch::pin();
        let mut exact = false;
        loop {
            let Slot { found, node: old } = self.search_either(&guard, node.hashed(), exact);
            exact = true;
            let Ok(living) = self.living_for(asked_at, basis, old) else { continue };
            let mut put = self.prepare_any(&node, old, terms, answer);
            if !basis.is_still(living.map(NodeRef::id)) {
                if is_last && matches!(basis, Basis::Entry { .. }) {
                    // The condition would replace an entry that was written after the load was
                    // overtaken. It might be asked about newer ones without end.
                    return Ok(committed(&put));
                }
                flight.set_may_share(false);
                return Err(node);
            }
            put.shown = shown;
            flight.set_may_share(true);
            let clearance = Clearance::Load(flight);
            let done = if living.is_some() && replaces.is_reload() {
                self.core.commit_reload(found, &mut put, clearance, replaces.read_at)
            } else {
                self.core.commit_put(found, &put, clearance)
            };
            match done {
                Ok(done) => {
                    drop(guard);
                    let (entry, ends) = committed(&put);
                    self.finish_put(node, done, terms.weight, put.now);
                    self.wake_for(flight.hash());
                    let replaced = matches!(basis, Basis::Entry { .. });
                    let entry = if replaced { entry.in_place_of_another() } else { entry };
                    return Ok((entry, ends));
                }
                Err(Obstacle::Overtaken) => return Ok(committed(&put)),
                Err(Obstacle::EntryChanged) => {
                    flight.set_may_share(false);
                    return Err(node);
                }
                Err(Obstacle::Changed | Obstacle::Flight) => {}
            }
        }
    }

    fn basis_on(&self, entry: &Entry<K, V>) -> Basis<K, V> {
        let node = entry.node().clone();
        let hard_deadline = self.pool.raw().hard_deadline(node.id());
        let ends = hard_deadline.map_or_else(|| entry.deadline(), HardDeadline::load);
        Basis::Entry { node, ends }
    }
}
