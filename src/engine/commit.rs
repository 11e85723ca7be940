//! What happens under a bucket's lock. No user code, no waiting, no `K`, no `V`.

use super::core::Core;
use super::event::{Event, Packed};
use super::flights::{Clearance, Hold};
use super::lookup::Search;
use crate::index::{Found, Locked};
use crate::node::{Meta, ended_at, life};
use crate::removal::RemovalCause;
use crate::sync::atomic::Ordering;
use crate::sync::seeded;

/// Why a commit did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The bucket changed since the search: search again.
    Changed,
    /// A load or a computation in the same shard may be the key's: find out, then come back with a
    /// [`Clearance`].
    Flight,
    /// The load's key was written, or everything cleared, since the load began.
    Overtaken,
    /// The key's entry is another one than the hooks were asked about.
    EntryChanged,
}

/// A node to publish.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    pub id: u32,
    pub hash: u32,
    pub now: u64,
    pub deadline: u64,
    /// The generation for which the node was made.
    pub generation: u64,
    /// The generation of the entry from which the value was computed, if it was from one.
    pub basis: Option<u64>,
    /// Publish nothing: the value leaves at once, with this cause.
    pub refused: Option<RemovalCause>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The index now keeps the node's count.
    pub published: bool,
    /// What the maintenance has to hear.
    pub event: Option<Packed>,
}

/// What became of a new cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capped {
    pub changed: bool,
    /// What the maintenance has to hear.
    pub event: Option<Packed>,
}

impl Core {
    /// [`commit_put`](Self::commit_put) by [`Clearance::Idle`], as nearly all are.
    pub fn commit_put_if_idle(&self, found: Found<'_>, put: &Put) -> Result<Done, Obstacle> {
        self.commit_put_under(&Hold::IfIdle, Search::Home(found), put)
    }

    /// Publishes a node in the place of whatever was found.
    pub fn commit_put<'g>(
        &self,
        found: Search<'g>,
        put: &Put,
        clearance: Clearance<'_>,
    ) -> Result<Done, Obstacle> {
        let hold = self.flights.hold(put.hash, clearance).ok_or(Obstacle::Flight)?;
        self.commit_put_under(&hold, found, put)
    }

    /// Compiled for each of its callers. What it knows of the locked bucket stays in registers,
    /// which it would not if another function were given it.
    #[inline(always)]
    fn commit_put_under<'g>(
        &self,
        hold: &Hold<'_>,
        found: Search<'g>,
        put: &Put,
    ) -> Result<Done, Obstacle> {
        let Ok(mut locked) = found.lock() else { return Err(Obstacle::Changed) };
        self.check(hold, put.hash)?;
        if self.full_generation() != put.generation {
            // What it replaces is not what the hooks were told. An `invalidate_all` from here on
            // finds the node older than itself.
            return Err(Obstacle::Changed);
        }
        let meta = self.pool.meta(put.id);
        if let Some(recorder) = &self.recorder {
            recorder.inserted();
        }
        // What was computed from an entry that an `invalidate_all` has taken since goes with it.
        let outdated = put.basis.is_some_and(|basis| basis != put.generation)
            && !seeded("computations-ignore-clearings");
        let refused = if outdated || self.closed.load(Ordering::Acquire) {
            Some(RemovalCause::Explicit)
        } else {
            put.refused
        };
        if let Some(cause) = refused {
            let event = locked.id().map(|old| {
                self.unlink(&mut locked, old, put.now, RemovalCause::Replaced);
                Event::Removed(old).pack()
            });
            if cause == RemovalCause::Explicit {
                self.refuse_closed(put.id, meta.deadline(), put.now);
            } else {
                self.announce(put.id, cause, meta.deadline(), put.now);
            }
            return Ok(Done { published: false, event });
        }
        meta.set_life(life::OWNED);
        self.note_published(put.generation);
        let event = match locked.id() {
            None => {
                locked.insert(put.id);
                Event::Added(put.id, put.hash)
            }
            Some(old) => {
                // The new node first: a reader that finds the old one gone looks again and must
                // not miss.
                if seeded("gone-before-replaced") {
                    self.pool.meta(old).mark_gone();
                }
                locked.replace(put.id);
                let before = self.pool.meta(old);
                let (_, end) = self.gone((old, before), put.now, RemovalCause::Replaced);
                // The wheel has the old one at the latest where it was to be looked at by its
                // deadline, unless that was moved and the event that says so is on
                // its way.
                let later = put.deadline >= end && !before.was_shortened();
                Event::Replaced { new: put.id, old, later }
            }
        };
        Ok(Done { published: true, event: Some(event.pack()) })
    }

    /// Removes the node that was found. Returns the cause with which it left.
    pub fn commit_remove<'g>(
        &self,
        found: Search<'g>,
        hash: u32,
        now: u64,
        cause: RemovalCause,
        clearance: Clearance<'_>,
    ) -> Result<Option<(u32, RemovalCause)>, Obstacle> {
        let hold = self.flights.hold(hash, clearance).ok_or(Obstacle::Flight)?;
        let mut locked = self.lock(found, hash, &hold)?;
        Ok(locked.id().map(|id| (id, self.unlink(&mut locked, id, now, cause))))
    }

    /// Gives the node that was found, with the deadline `seen`, this cap, if it lives. Under the
    /// lock for the sake of computations, which must find what they looked at as they left it;
    /// reads prolong lives without it.
    pub fn commit_cap<'g>(
        &self,
        found: Search<'g>,
        seen: u64,
        (hash, now): (u32, u64),
        cap: u64,
        clearance: Clearance<'_>,
    ) -> Result<Capped, Obstacle> {
        let hold = self.flights.hold(hash, clearance).ok_or(Obstacle::Flight)?;
        let mut locked = self.lock(found, hash, &hold)?;
        let Some(id) = locked.id() else { return Ok(Capped { changed: false, event: None }) };
        let meta = self.pool.meta(id);
        // No life left: over from this moment on.
        let over = self.lifetimes.deadline(now, cap) <= now;
        let unchanged = Capped { changed: false, event: None };
        if self.is_cleared(meta) {
            return Ok(unchanged);
        }
        let (mut judged, mut new);
        let mut is_set = false;
        loop {
            judged = meta.deadline();
            if judged <= now {
                // If it is to be over, a read has just made the new cap its deadline.
                if is_set && over && !seeded("zero-terms-lose-to-reads") {
                    new = now;
                    break;
                }
                if meta.claim(judged) {
                    return Ok(unchanged);
                }
                continue;
            }
            is_set = true;
            if let Some(word) = self.pool.cap(id) {
                word.store(cap, false);
            }
            new = if over { now } else { self.lifetimes.deadline(now, cap) };
            if !over && judged != seen && !seeded("terms-take-back-reads") {
                // Read since, by a later reading of the clock: what that gave is not taken back.
                new = new.max(judged).min(cap);
            }
            if meta.change_deadline(judged, new) {
                break;
            }
        }
        let event = if over {
            self.unlink(&mut locked, id, now, RemovalCause::Expired);
            Some(Event::Removed(id).pack())
        } else {
            (new < judged).then(|| Event::Rescheduled(id).pack())
        };
        Ok(Capped { changed: true, event })
    }

    /// Makes sure that there is nothing where nothing was found.
    pub fn commit_absence<'g>(
        &self,
        found: Search<'g>,
        hash: u32,
        clearance: Clearance<'_>,
    ) -> Result<(), Obstacle> {
        if seeded("absence-uncommitted") {
            return Ok(());
        }
        let hold = self.flights.hold(hash, clearance).ok_or(Obstacle::Flight)?;
        self.lock(found, hash, &hold).map(drop)
    }

    /// Locks what was found, if no load or computation can be in the way, which `hold` keeps so.
    fn lock<'g>(
        &self,
        found: Search<'g>,
        hash: u32,
        hold: &Hold<'_>,
    ) -> Result<Locked<'g>, Obstacle> {
        let locked = found.lock().map_err(|_| Obstacle::Changed)?;
        self.check(hold, hash)?;
        Ok(locked)
    }

    /// Whether no load or computation can be in the way, with the bucket locked: a load or
    /// computation registers its flight, then takes this lock once. So either it sees what the
    /// locked section does, or this sees the flight.
    #[inline(always)]
    fn check(&self, hold: &Hold<'_>, hash: u32) -> Result<(), Obstacle> {
        hold.check(&self.flights, hash, || self.full_generation())
    }

    #[inline(always)]
    fn unlink(
        &self,
        locked: &mut Locked<'_>,
        id: u32,
        now: u64,
        cause: RemovalCause,
    ) -> RemovalCause {
        locked.remove();
        self.gone((id, self.pool.meta(id)), now, cause).0
    }

    /// Marks a node as unlinked, under its bucket's lock. Where reads prolong nothing, every other
    /// change of a deadline is made under that lock too.
    #[inline(always)]
    pub(super) fn mark_gone(&self, meta: &Meta) -> u64 {
        if self.reads_prolong.load(Ordering::Relaxed) {
            meta.mark_gone()
        } else {
            meta.mark_gone_alone()
        }
    }

    /// Marks a node that has just been unlinked and announces it. Returns the true cause, and the
    /// deadline that it had.
    fn gone(&self, (id, meta): (u32, &Meta), now: u64, cause: RemovalCause) -> (RemovalCause, u64) {
        let deadline = self.mark_gone(meta);
        let cause = self.true_cause(meta, deadline, now, cause);
        self.announce(id, cause, ended_at(deadline), now);
        (cause, ended_at(deadline))
    }
}
