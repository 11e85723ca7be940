//! The maintenance pass: one at a time, run by whoever gets the lock, bounded.
//!
//! A pass drains what reads and writes recorded, brings the wheel to the present and works off what
//! is due, evicts what is too much, helps the index grow, sweeps what `invalidate_all` left, and
//! frees what nobody can see any more. Each expiration, cascade, eviction and swept bucket costs a
//! unit of the pass's [`Budget`]; what does not fit is carried forward and the drain status stays
//! `REQUIRED`, so that the next operation goes on.
//!
//! **Lock order**: maintenance → one shard of the flights → one bucket of the index. No user code
//! runs under any: values to drop and removals to announce are handed out to be dealt with after
//! the lock. A pass waits for no load and no computation: either may be waiting for it.

use super::budget::{Budget, Leftover};
use super::core::{Core, mark_of};
use super::reclaim::{Batch, Dead};
use crate::clock::NEVER;
use crate::config::Config;
use crate::drain::Left;
use crate::epoch::Guard;
use crate::index::{Held, Locked, Spares, moves_for};
use crate::links::NIL;
use crate::node::{GONE, Meta, NO_ERA, ended_at, life};
use crate::policy::Policy;
use crate::pool::{FARTHEST, Surplus, Timers};
use crate::removal::RemovalCause;
use crate::sync::atomic::Ordering;
use crate::sync::{Patience, seeded};
use crate::wheel::Wheel;
use std::collections::VecDeque;

/// Evictions of a pass beyond the number of writes it may have drained.
const EVICTIONS: u32 = 64;
/// Old buckets of a growing index that a pass moves, beside those that its additions ask for.
const MOVES: usize = 64;
/// Events that a pass takes out at most, unless somebody asked for all: what two stripes hold. On
/// machines with many cores there are more stripes, and a pass is as short as on others.
const DRAINED: usize = 2 * crate::buffer::ring::MAX_CAPACITY;
/// An era's records, as a share of the entries.
const ERA_SHARE: u64 = 4;
/// With more room than this share of its capacity a cache does not record reads.
const ROOM: u64 = 8;
/// An era's evictions, as a share of the entries.
const ERA_EVICTIONS: u64 = 64;
/// A pass that finds its time this far behind the wheel's has a clock that was set back: the wheel
/// follows, or what ends from now on would stay until the clock has caught up. Passes whose time is
/// merely old, because their threads were held up, are less behind.
const SET_BACK: u64 = 1 << 30;

/// How many of so many events a pass takes out.
pub fn drain_limit(capacity: usize) -> usize {
    if seeded("passes-drain-all") { capacity } else { capacity.min(DRAINED) }
}

/// What the maintenance lock protects.
pub struct Maintenance {
    pub wheel: Wheel,
    pub policy: Option<Policy>,
    /// Nodes that the maintenance knows to be in the index, and their weight.
    pub count: u64,
    pub weight: u64,
    /// Whether the cache is gone, and no pass runs any more.
    pub ended: bool,
    /// Reads drained, and entries evicted, in this era.
    pub(super) recorded: u64,
    pub(super) evicted: u64,
    /// Dead nodes that are not yet handed to the epoch.
    pub(super) dead: Dead,
    /// Those that were, and that the cache still has its count on, in that order.
    pub(super) in_grace: VecDeque<Batch>,
    /// Buckets that the index has done without since, to be handed to the epoch with the dead.
    pub(super) spares: Spares,
    /// Who was to be evicted next when it was last asked.
    pub(super) losers: [u32; 2],
    /// What is just being drained.
    pub(super) events: Vec<u64>,
    /// The sweep after an `invalidate_all`, if one is under way: the generation at its start, and
    /// where it is.
    sweep: Option<(u64, u64)>,
    /// The generation up to which everything older is swept.
    swept: u64,
    scratch: Vec<u32>,
}

impl Maintenance {
    pub fn new(config: &Config, now: u64) -> Self {
        Self {
            wheel: Wheel::new(config.geometry.clone(), now),
            policy: config.max_capacity.map(|capacity| Policy::new(capacity, config.seed)),
            count: 0,
            weight: 0,
            ended: false,
            recorded: 0,
            evicted: 0,
            dead: Dead::new(now),
            in_grace: VecDeque::new(),
            spares: Spares::default(),
            losers: [NIL; 2],
            events: Vec::new(),
            sweep: None,
            swept: 0,
            scratch: Vec::new(),
        }
    }
}

/// One pass: the state under the lock, with what it needs at hand.
pub struct Work<'a> {
    pub(super) core: &'a Core,
    pub(super) state: &'a mut Maintenance,
    pub(super) guard: &'a Guard,
    pub(super) now: u64,
    /// Whether something was handed to the epoch.
    pub(super) retired: bool,
    /// What to do about a bucket that another thread holds.
    pub(super) patience: Patience,
    /// Whether there was one that was not waited for.
    pub(super) held: bool,
}

impl Core {
    /// Runs a pass with the lock already held. What it takes out to be dropped waits in `doomed`
    /// for after the lock.
    ///
    /// The guard is from before the lock: pinning and flushing run what other users of the
    /// process's epoch have deferred, and that may use this cache. So the caller flushes, too,
    /// if the pass has retired something, after it has let go of the lock.
    #[inline(never)]
    pub fn pass(
        &self,
        guard: &Guard,
        state: &mut Maintenance,
        now: u64,
        budget: &mut Budget,
    ) -> Leftover {
        let running = self.status.begin();
        self.begin_pass();
        let patience = budget.patience();
        let mut work =
            Work { core: self, state, guard, now, retired: false, patience, held: false };
        work.turn_back();
        let drained = work.drain(budget);
        // Events are left behind one that its writer is just storing.
        work.held |= drained.more && drained.count == 0;
        let mut left = Leftover { writes: drained.more, ..Leftover::default() };
        work.expire(budget);
        // Evictions keep up with what was drained, whatever the expirations cost.
        let additions = drained.count;
        let drained = drained.count.max(drain_limit(self.writes.capacity()));
        left.blocked = work.evict(&mut Budget::of_units(drained as u32 + EVICTIONS));
        left.work |= work.grow(additions);
        left.work |= work.sweep(budget);
        left.expirations = work.state.wheel.has_backlog();
        left.excess = work.excess();
        left.work |= left.expirations || (left.excess > 0 && !left.blocked);
        work.publish();
        if budget.is_asked_for() {
            work.retire();
        } else {
            work.retire_in_time();
        }
        left.retired = work.retired;
        left.held = work.held;
        let more = self.collect(&mut state.in_grace);
        left.work |= more;
        self.attend_to_grace(now);
        if !more {
            // Keys and values first.
            left.surplus = self.trim(now, budget);
        }
        left.work |= budget.is_asked_for() && left.surplus == Surplus::Left;
        let anything = left.writes || left.work || left.blocked;
        let _ = running.finish(if anything { Left::More } else { Left::Nothing });
        left
    }
}

impl<'a> Work<'a> {
    pub(super) fn timers(&self) -> Timers<'a> {
        Timers { pool: &self.core.pool, now: self.now }
    }

    /// Follows a clock that was set back: before anything is scheduled, since a place in the wheel
    /// is chosen by the wheel's time.
    fn turn_back(&mut self) {
        if seeded("wheel-never-turns-back") {
            return;
        }
        let wheel = &mut self.state.wheel;
        // A step of the wheel in either direction is less than a quarter of its circle: what is
        // more would be one in the other direction.
        while self.now.saturating_add(SET_BACK) < wheel.clock() {
            let now = self.now.max(wheel.clock().saturating_sub(FARTHEST - 1));
            wheel.rewind(&Timers { pool: &self.core.pool, now }, now);
        }
    }

    /// Removes the node from the index, if it is still there with the deadline `judged` (any, if
    /// that is `None`); false if it is there and has to stay, also because a computation works
    /// on its key.
    pub(super) fn unlink(
        &mut self,
        (id, meta): (u32, &Meta),
        cause: RemovalCause,
        judged: Option<u64>,
    ) -> bool {
        let core = self.core;
        let hash = meta.hash();
        // What is locked stays in registers, unless it takes more than one look.
        if let Some(found) = core.index.search_in_passing(self.guard, hash, |other| other == id)
            && found.id().is_some()
            && let Ok(locked) = found.lock()
        {
            if core.flights.is_idle(hash) || seeded("maintenance-ignores-computations") {
                return self.unlink_locked(locked, (id, meta), cause, judged);
            }
            drop(locked);
            return self.unlink_unclaimed((id, meta), cause, judged);
        }
        self.unlink_at_length((id, meta), cause, judged)
    }

    /// [`unlink`](Self::unlink) where a glance at the bucket was not enough.
    #[cold]
    #[inline(never)]
    fn unlink_at_length(
        &mut self,
        (id, meta): (u32, &Meta),
        cause: RemovalCause,
        judged: Option<u64>,
    ) -> bool {
        let core = self.core;
        let hash = meta.hash();
        let locked = match self.lock_id(hash, id) {
            Ok(Some(locked)) => locked,
            // A writer was first; its event will tell.
            Ok(None) => return true,
            Err(Held) => return false,
        };
        if core.flights.is_idle(hash) || seeded("maintenance-ignores-computations") {
            return self.unlink_locked(locked, (id, meta), cause, judged);
        }
        drop(locked);
        self.unlink_unclaimed((id, meta), cause, judged)
    }

    /// [`unlink`](Self::unlink) where a load or computation may be in the way.
    #[cold]
    #[inline(never)]
    fn unlink_unclaimed(
        &mut self,
        (id, meta): (u32, &Meta),
        cause: RemovalCause,
        judged: Option<u64>,
    ) -> bool {
        // Outlives the bucket's lock.
        let hold = self.core.flights.hold_unclaimed(meta.hash(), self.patience);
        let Some(_hold) = hold else { return false };
        match self.lock_id(meta.hash(), id) {
            Ok(Some(locked)) => self.unlink_locked(locked, (id, meta), cause, judged),
            Ok(None) => true,
            Err(Held) => false,
        }
    }

    /// Locks the bucket of a node that is in the index, as patiently as the pass is.
    #[inline(always)]
    fn lock_id(&mut self, hash: u32, id: u32) -> Result<Option<Locked<'a>>, Held> {
        let index = &self.core.index;
        match self.patience {
            Patience::Wait => Ok(index.lock_id(self.guard, hash, id)),
            Patience::Skip if seeded("passes-wait-for-buckets") => {
                Ok(index.lock_id(self.guard, hash, id))
            }
            Patience::Skip => {
                let locked = index.try_lock_id(self.guard, hash, id);
                self.held |= locked.is_err();
                locked
            }
        }
    }

    /// Removes a node if an `invalidate_all` has taken it, whether or not a computation works on
    /// its key: a computation finds the key without an entry then, which is what it was for
    /// everyone.
    ///
    /// Judged under the lock: what is published there is never newer than the generation that is
    /// read after it. One that was read before may be older than a node that has come since.
    ///
    /// # Errors
    /// If somebody else holds the bucket, and the pass does not wait.
    pub(super) fn sweep_one(&mut self, id: u32) -> Result<(), Held> {
        let meta = self.core.pool.meta(id);
        if let Some(locked) = self.lock_id(meta.hash(), id)?
            && (self.core.is_cleared(meta) || seeded("sweep-judges-before-the-lock"))
        {
            self.unlink_locked(locked, (id, meta), RemovalCause::Explicit, None);
        }
        Ok(())
    }

    /// Has the sweep go through the index once more: a node of an older generation was published
    /// behind it.
    pub(super) fn sweep_again(&mut self) {
        self.state.sweep = None;
        self.state.swept = self.state.swept.min(self.core.full_generation().saturating_sub(1));
    }

    #[inline(always)]
    fn unlink_locked(
        &mut self,
        mut locked: Locked<'_>,
        (id, meta): (u32, &Meta),
        cause: RemovalCause,
        judged: Option<u64>,
    ) -> bool {
        let core = self.core;
        let deadline = match judged {
            Some(judged) if !meta.change_deadline(judged, GONE) => return false,
            Some(judged) => judged,
            None => core.mark_gone(meta),
        };
        locked.remove();
        let spare = locked.take_spare();
        // The pass's time may be coarse. (A clock of the user's is never asked here.)
        let now = core.ticker.settling(deadline, self.now);
        let cause = core.true_cause(meta, deadline, now, cause);
        core.announce(id, cause, ended_at(deadline), now);
        drop(locked);
        if let Some(spare) = spare {
            self.state.spares.keep(spare);
        }
        meta.set_life(life::REMOVED);
        self.forget(id, meta);
        if meta.life() & life::ADDED != 0 {
            self.dead(id, meta);
        }
        true
    }

    /// Starts a larger index if this one is full, or a smaller one if it is nearly empty, moves
    /// some of it, and clears some of what it has left away. True if there is more to be done.
    ///
    /// As many buckets are moved as keep up with what was just added, and some more.
    #[inline(never)]
    fn grow(&mut self, additions: usize) -> bool {
        let core = self.core;
        let outgrown = core.index.outgrown();
        // With those of which it will hear.
        let entries = self.state.count + core.writes.spilled_weight();
        core.index.reserve(self.guard, usize::try_from(entries).unwrap_or(usize::MAX));
        let moves = moves_for(if seeded("growth-lags") { 0 } else { additions }) + MOVES;
        let moves = core.index.help(self.guard, &*core.pool, moves, self.patience);
        self.held |= moves && core.index.is_held_up(self.guard);
        // Handed to the epoch, which is to get on.
        self.retired |= core.index.outgrown() > outgrown;
        core.index.clear_away() || moves
    }

    /// Removes what an `invalidate_all` made invisible, within the budget. True if there is more.
    #[inline(never)]
    fn sweep(&mut self, budget: &mut Budget) -> bool {
        let core = self.core;
        loop {
            let generation = core.full_generation();
            let (started, cursor) = match self.state.sweep {
                Some(under_way) => under_way,
                None if self.state.swept == generation => return false,
                None => (generation, 0),
            };
            self.state.sweep = Some((started, cursor));
            if !budget.take() {
                return true;
            }
            let mut is_held = false;
            let mut ids = std::mem::take(&mut self.state.scratch);
            let next = core.index.collect(self.guard, &*core.pool, cursor, &mut ids);
            for id in ids.drain(..) {
                if core.pool.meta(id).generation() != mark_of(generation) {
                    budget.take();
                    is_held |= self.sweep_one(id).is_err();
                }
            }
            self.state.scratch = ids;
            if is_held {
                // The bucket's turn comes again.
                return true;
            }
            self.state.sweep = next.map(|cursor| (started, cursor));
            if next.is_none() {
                self.state.swept = started;
            }
        }
    }

    /// How much more has to be evicted.
    fn excess(&self) -> u64 {
        self.state.policy.as_ref().map_or(0, |p| p.weight().saturating_sub(p.max_weight()))
    }

    /// Tells readers what this pass knows.
    #[inline(never)]
    fn publish(&mut self) {
        let core = self.core;
        core.entries.store(self.state.count, Ordering::Relaxed);
        core.weight.store(self.state.weight, Ordering::Relaxed);
        core.swept.store(self.state.swept, Ordering::Release);
        core.last_pass.store(self.now, Ordering::Relaxed);
        let due = self.state.wheel.next_deadline().unwrap_or(NEVER);
        core.next_due.store(due, Ordering::Relaxed);
        self.turn_era();
        if seeded("pass-forgets-wishes") {
            core.begin_pass();
        }
        core.pass_by(due);
    }

    /// A node's reads are recorded once per era, and an era is as long as it takes to record a
    /// quarter as many reads as there are entries. Hit ratios of replayed traces with every
    /// first touch since the last drain recorded, with eras of a sixteenth, and of a quarter:
    /// oltp at 5 % of its keys 62.6 / 62.2 / 62.6, p3 17.6 / 17.8 / 17.7, gcc 92.7 / 92.6 /
    /// 92.5, orm_night 86.6 / 89.1 / 88.2; zipf reads then cost 144 / 95 / 73 ns. While an
    /// eighth of the cache is free nothing is recorded: it has nothing to choose.
    fn turn_era(&mut self) {
        let Some(policy) = &self.state.policy else { return };
        let era = &self.core.hot.era;
        if policy.weight() < policy.max_weight() - policy.max_weight() / ROOM {
            era.store(NO_ERA, Ordering::Relaxed);
        } else if era.load(Ordering::Relaxed) == NO_ERA
            || (self.state.recorded > self.state.count / ERA_SHARE
                && self.state.evicted > self.state.count / ERA_EVICTIONS)
        {
            (self.state.recorded, self.state.evicted) = (0, 0);
            let next = era.load(Ordering::Relaxed).wrapping_add(1);
            era.store(if next == NO_ERA { 1 } else { next }, Ordering::Relaxed);
        }
    }
}
