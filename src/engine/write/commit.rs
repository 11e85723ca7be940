//! The sections under a bucket's lock. They run no user code, do not wait, and know no `K` and no
//! `V`.

use crate::clock::{NEVER, Timestamp};
use crate::engine::base::Search;
use crate::engine::delivery::Notice;
use crate::engine::event::{Event, Packed};
use crate::engine::flights::{Clearance, CommitPermit, EnteredFlight, Obstacle};
use crate::engine::maintenance::Core;
use crate::hash::Hash32;
use crate::index::{Found, Locked};
use crate::links::NodeId;
use crate::node::{Generation, ended_at, state};
use crate::pool::HardDeadline;
use crate::primitives::{delay_point, seeded};
use crate::removal::RemovalCause;

/// A node to publish.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    pub id: NodeId,
    pub hash: Hash32,
    pub now: Timestamp,
    pub deadline: Timestamp,
    /// The generation for which the node was made.
    pub generation: Generation,
    /// The generation of the entry from which the value was computed, if there was an entry.
    pub computed_from: Option<Generation>,
    /// The hard deadline that the hooks were shown of the entry that this node replaces. If that
    /// entry has another one by now, the commit fails: the hooks must be asked again.
    pub shown: Option<Timestamp>,
    /// If set, the commit publishes nothing, and the value leaves at once with this cause.
    pub refused: Option<RemovalCause>,
}

/// The outcome of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitOutcome {
    /// Of a node to publish: whether it is in the index. If so, the cache has taken over the
    /// caller's count on it. Of a new hard deadline: whether the entry has it.
    pub done: bool,
    /// The event for the maintenance.
    pub event: Option<Packed>,
}

impl CommitOutcome {
    /// Nothing was changed.
    const NOTHING: Self = Self { done: false, event: None };
}

/// A node that was published, or refused.
struct Published {
    outcome: CommitOutcome,
    /// The end of the life that it has taken the place of, if there was one.
    replaced: Option<Timestamp>,
}

/// A new hard deadline for an entry.
#[derive(Clone, Copy, Debug)]
pub struct NewHardDeadline {
    pub hash: Hash32,
    pub now: Timestamp,
    /// The entry's deadline when it was found.
    pub seen: Timestamp,
    pub hard_deadline: Timestamp,
}

impl Core {
    /// [`commit_put`](Self::commit_put) with [`Clearance::Idle`], which nearly all commits have.
    pub fn commit_put_if_idle(
        &self,
        found: Found<'_>,
        put: &Put,
    ) -> Result<CommitOutcome, Obstacle> {
        if !self.flights.is_idle(put.hash) {
            return self.commit_put(Search::Versioned(found), put, Clearance::Idle);
        }
        self.commit_put_under(&CommitPermit::IfIdle, Search::Versioned(found), put)
    }

    /// Publishes a node, in place of the node that was found, if one was found.
    #[inline(never)]
    pub fn commit_put<'g>(
        &self,
        found: Search<'g>,
        put: &Put,
        clearance: Clearance<'_>,
    ) -> Result<CommitOutcome, Obstacle> {
        let permit = self.flights.permit(put.hash, clearance).ok_or(Obstacle::Flight)?;
        self.commit_put_under(&permit, found, put)
    }

    /// Publishes a reloaded value in place of the living node that was found. A reload does not
    /// count as a read, so the idle time still runs from the last read of the old value. `read_at`
    /// is the read that triggered the reload. The resulting deadline is stored in `put`.
    ///
    /// Reads take no lock, so one may prolong the old life after this call has read its end. When
    /// the old node is out of the index, the call reads that end again and prolongs the new life
    /// accordingly. In between, calls that show or judge the new life miss that one read.
    pub fn commit_reload(
        &self,
        found: Search<'_>,
        put: &mut Put,
        clearance: Clearance<'_>,
        read_at: Option<Timestamp>,
    ) -> Result<CommitOutcome, Obstacle> {
        let (_permit, mut locked) = self.lock(found, put.hash, clearance)?;
        let Some((old, mark)) = locked.id().and_then(|old| Some((old, self.pool.refresh(old)?)))
        else {
            return Ok(self.publish_slow(&mut locked, put)?.outcome);
        };
        let (old_meta, new_meta) = (self.pool.meta(old), self.pool.meta(put.id));
        let hard_deadline = self.pool.hard_deadline(put.id).map(HardDeadline::load);
        if let Some(hard_deadline) = hard_deadline {
            let old_end = old_meta.deadline();
            if ended_at(old_end) != old_end {
                // A read has found the old entry expired.
                return Err(Obstacle::Changed);
            }
            let read = read_at.map_or(old_end, |read| self.lifetimes.deadline(read, NEVER));
            put.deadline = old_end.max(read).min(hard_deadline);
            if put.deadline <= put.now {
                if old_end <= put.now && !old_meta.claim(old_end) {
                    // A read has prolonged the old life.
                    return Err(Obstacle::Changed);
                }
                put.refused = Some(RemovalCause::Expired);
            }
            new_meta.set_deadline(put.deadline);
        }
        // This mark must come before the old node is gone: a read that finds it gone checks the
        // mark next.
        let instant = mark.note_reloaded();
        let done = self.publish_slow(&mut locked, put);
        if done.is_err() {
            mark.note_taken(instant);
        }
        let Published { outcome, replaced } = done?;
        if let (Some(hard_deadline), Some(last_end)) = (hard_deadline, replaced)
            && !seeded("reloads-read-the-end-once")
        {
            // No read prolongs the old life any more.
            put.deadline = put.deadline.max(last_end.min(hard_deadline));
            new_meta.raise_deadline(put.deadline);
        }
        Ok(outcome)
    }

    /// Inlined into its callers, so that the locked bucket stays in registers.
    #[inline(always)]
    fn commit_put_under<'g>(
        &self,
        permit: &CommitPermit<'_>,
        found: Search<'g>,
        put: &Put,
    ) -> Result<CommitOutcome, Obstacle> {
        let Ok(mut locked) = found.lock() else { return Err(Obstacle::Changed) };
        self.check(permit, put.hash)?;
        Ok(self.publish(&mut locked, put)?.outcome)
    }

    /// [`publish`](Self::publish) off the fast path of a plain insert. Not inlined, so that its
    /// code exists once.
    #[inline(never)]
    fn publish_slow(&self, locked: &mut Locked<'_>, put: &Put) -> Result<Published, Obstacle> {
        self.publish(locked, put)
    }

    /// Publishes a node with its bucket locked.
    #[inline(always)]
    fn publish(&self, locked: &mut Locked<'_>, put: &Put) -> Result<Published, Obstacle> {
        if self.hot.generation() != put.generation {
            // The hooks were called for an entry that was cleared since. An `invalidate_all` that
            // begins after this check finds the new node older than itself.
            return Err(Obstacle::Changed);
        }
        if let (Some(shown), Some(old)) = (put.shown, locked.id())
            && self.hard_deadline(old) != shown
        {
            return Err(Obstacle::EntryChanged);
        }
        let meta = self.pool.meta(put.id);
        if let Some(recorder) = &self.recorder {
            recorder.inserted();
        }
        // If an `invalidate_all` took the entry from which a value was computed, it takes the
        // value as well.
        let outdated =
            put.computed_from.is_some_and(|computed_from| computed_from != put.generation)
                && !seeded("computations-ignore-clearings");
        let refused = if outdated || self.notices.is_closed() {
            Some(RemovalCause::Explicit)
        } else {
            put.refused
        };
        if let Some(cause) = refused {
            let event = locked.id().map(|old| {
                self.unlink(locked, old, put.now, RemovalCause::Replaced);
                Event::Removed(old).pack()
            });
            let notice = Notice { id: put.id, cause, deadline: put.deadline, at: put.now };
            if cause == RemovalCause::Explicit && self.notices.is_closed() {
                self.notices.refuse_closed(self, notice);
            } else {
                self.notices.announce_refused(self, notice);
            }
            let outcome = CommitOutcome { done: false, event };
            return Ok(Published { outcome, replaced: None });
        }
        meta.set_state(state::OWNED);
        self.hot.note_published(put.generation);
        let mut replaced = None;
        let event = match locked.id() {
            None => {
                locked.insert(put.id);
                Event::Added(put.id, put.hash)
            }
            Some(old) => {
                // The new node comes first: a reader that finds the old node gone looks again and
                // must not miss.
                if seeded("gone-before-replaced") {
                    self.pool.meta(old).mark_gone();
                    // On a busy machine no other thread would run at this moment by chance.
                    crate::primitives::thread::yield_now();
                }
                locked.replace(put.id);
                let before = self.pool.meta(old);
                let gone = self.mark_gone(before);
                let cause = RemovalCause::Replaced;
                let notice = Notice { id: old, cause, deadline: gone, at: put.now };
                self.notices.announce_gone(self, before, notice);
                let old_end = ended_at(gone);
                replaced = Some(old_end);
                // If `later`, the new node may take over the old node's bucket on the wheel. The
                // wheel looks into that bucket no later than at the old deadline, unless this was
                // made earlier and the event of that is still on the way.
                let later = put.deadline >= old_end && !before.was_shortened();
                Event::Replaced { new: put.id, old, later }
            }
        };
        let outcome = CommitOutcome { done: true, event: Some(event.pack()) };
        Ok(Published { outcome, replaced })
    }

    /// When a node ends even if it is read.
    #[cold]
    pub fn hard_deadline(&self, id: NodeId) -> Timestamp {
        let word = self.pool.hard_deadline(id);
        word.map_or_else(|| self.pool.meta(id).deadline(), HardDeadline::load)
    }

    /// Removes the node that was found. Returns the cause with which it left.
    pub fn commit_remove<'g>(
        &self,
        found: Search<'g>,
        hash: Hash32,
        now: Timestamp,
        cause: RemovalCause,
        clearance: Clearance<'_>,
    ) -> Result<Option<(NodeId, RemovalCause)>, Obstacle> {
        let (_permit, mut locked) = self.lock(found, hash, clearance)?;
        Ok(locked.id().map(|id| (id, self.unlink(&mut locked, id, now, cause))))
    }

    /// Removes this very node, on which the caller has a count, for a load or reload of its key.
    /// Returns whether it lived, and nothing had overtaken the load.
    pub fn remove_node(&self, id: NodeId, flight: &EnteredFlight) -> bool {
        let hash = self.pool.meta(id).hash();
        // The clock is user code and runs before the lock.
        let now = self.ticker.now();
        let Some(permit) = self.flights.permit(hash, Clearance::Load(flight)) else { return false };
        let guard = crate::epoch::pin();
        flight.set_may_share(true);
        let Some(mut locked) = self.index.lock_id(&guard, hash, id) else { return false };
        if self.check(&permit, hash).is_err() {
            return false;
        }
        let cause = self.unlink(&mut locked, id, now, RemovalCause::Explicit);
        drop(locked);
        drop(guard);
        self.record_write(Event::Removed(id).pack(), 0, now);
        cause == RemovalCause::Explicit
    }

    /// Gives the node that was found a new hard deadline, if it lives. This takes the lock because
    /// a computation must find its entry as it left it. Reads prolong lives without the lock.
    pub fn commit_hard_deadline<'g>(
        &self,
        found: Search<'g>,
        limit: &NewHardDeadline,
        clearance: Clearance<'_>,
    ) -> Result<CommitOutcome, Obstacle> {
        let &NewHardDeadline { hash, now, seen, hard_deadline } = limit;
        let (_permit, mut locked) = self.lock(found, hash, clearance)?;
        let Some(id) = locked.id() else { return Ok(CommitOutcome::NOTHING) };
        let meta = self.pool.meta(id);
        let ends_now = self.lifetimes.deadline(now, hard_deadline) <= now;
        if self.hot.is_cleared(meta) {
            return Ok(CommitOutcome::NOTHING);
        }
        let (mut deadline, mut new);
        // The hard deadline that an earlier round of this loop has replaced. Without an idle time
        // there is one word only, and nothing is replaced before the last round.
        let mut replaced = None;
        loop {
            deadline = meta.deadline();
            if deadline <= now {
                if meta.claim(deadline) {
                    // A read may have made the new hard deadline the deadline before the expiry was
                    // claimed: then the life has ended by this call. A life that ended by the idle
                    // time, within both hard deadlines, may have ended before this call.
                    let end = ended_at(deadline);
                    let is_ours = |old| end > old || (end == hard_deadline && hard_deadline < old);
                    let is_hidden = seeded("claims-hide-new-deadlines");
                    let done = replaced.is_some_and(is_ours) && !is_hidden;
                    return Ok(CommitOutcome { done, event: None });
                }
                continue;
            }
            // In each round: a read may have exchanged it.
            let old = self.pool.hard_deadline(id).map(|word| word.replace(hard_deadline));
            replaced = replaced.or(old).or(seeded("unstored-lifetimes-count").then_some(deadline));
            new = if ends_now { now } else { self.lifetimes.deadline(now, hard_deadline) };
            if !ends_now && deadline != seen && !seeded("terms-take-back-reads") {
                // A read has prolonged the life since the search, by a later reading of the clock.
                // This call does not take that back.
                new = new.max(deadline).min(hard_deadline);
            }
            delay_point();
            if meta.change_deadline(deadline, new) {
                break;
            }
        }
        let event = if ends_now {
            self.unlink(&mut locked, id, now, RemovalCause::Expired);
            Some(Event::Removed(id).pack())
        } else {
            (new < deadline).then(|| Event::Rescheduled(id).pack())
        };
        Ok(CommitOutcome { done: true, event })
    }

    /// Makes the node that was found stale, if there is one.
    pub fn commit_stale<'g>(
        &self,
        found: Search<'g>,
        hash: Hash32,
        clearance: Clearance<'_>,
    ) -> Result<(), Obstacle> {
        let (_permit, locked) = self.lock(found, hash, clearance)?;
        if let Some(refresh) = locked.id().and_then(|id| self.pool.refresh(id)) {
            refresh.make_stale();
        }
        Ok(())
    }

    /// Makes sure that the key still has no entry.
    pub fn commit_absent<'g>(
        &self,
        found: Search<'g>,
        hash: Hash32,
        clearance: Clearance<'_>,
    ) -> Result<(), Obstacle> {
        if seeded("absence-uncommitted") {
            return Ok(());
        }
        self.lock(found, hash, clearance).map(|(_permit, locked)| drop(locked))
    }

    /// Locks the bucket of the search, if no load or computation can be in the way. The permit
    /// keeps further ones from being registered; it must outlive the lock.
    #[inline(always)]
    fn lock<'c, 'g>(
        &'c self,
        found: Search<'g>,
        hash: Hash32,
        clearance: Clearance<'c>,
    ) -> Result<(CommitPermit<'c>, Locked<'g>), Obstacle> {
        let permit = self.flights.permit(hash, clearance).ok_or(Obstacle::Flight)?;
        let locked = found.lock().map_err(|_| Obstacle::Changed)?;
        self.check(&permit, hash)?;
        Ok((permit, locked))
    }

    /// Whether no load or computation can be in the way, with the bucket locked. A load or
    /// computation registers its flight and then takes this lock once. So either the load sees what
    /// the locked section does, or this check sees the flight.
    #[inline(always)]
    fn check(&self, permit: &CommitPermit<'_>, hash: Hash32) -> Result<(), Obstacle> {
        permit.check(&self.flights, hash, || self.hot.generation())
    }

    #[inline(always)]
    fn unlink(
        &self,
        locked: &mut Locked<'_>,
        id: NodeId,
        now: Timestamp,
        cause: RemovalCause,
    ) -> RemovalCause {
        locked.remove();
        let meta = self.pool.meta(id);
        let notice = Notice { id, cause, deadline: self.mark_gone(meta), at: now };
        self.notices.announce_gone(self, meta, notice)
    }
}
