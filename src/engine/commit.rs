//! What happens under a bucket's lock. No user code, no waiting, no `K`, no `V`.

use super::core::Core;
use super::flights::{Clearance, Hold};
use super::maintenance::Event;
use crate::index::{Found, Locked};
use crate::node::life;
use crate::removal::RemovalCause;
use crate::sync::atomic::Ordering;

/// Why a commit did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The bucket changed since the search: search again.
    Changed,
    /// A load or a computation in the same shard may be the key's: find out, then come back with a
    /// [`Clearance`].
    Flight,
}

/// A node to publish.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    pub id: u32,
    pub hash: u32,
    pub now: u64,
    /// Publish nothing: the value leaves at once, with this cause.
    pub refused: Option<RemovalCause>,
}

/// What a commit did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The index now keeps the node's count.
    pub published: bool,
    /// What the maintenance has to hear.
    pub event: Option<Event>,
}

impl Core {
    /// Publishes a node in the place of whatever was found.
    pub fn commit_put(
        &self,
        found: Found<'_>,
        put: Put,
        clearance: Clearance,
    ) -> Result<Done, Obstacle> {
        let hold = self.flights.hold(put.hash, clearance).ok_or(Obstacle::Flight)?;
        let mut locked = self.lock(found, put.hash, &hold)?;
        let meta = self.pool.meta(put.id);
        // Under the lock: an insert that overlaps an `invalidate_all` happens after it.
        meta.set_generation(self.generation());
        if let Some(recorder) = &self.recorder {
            recorder.inserted();
        }
        let refused = if self.closed.load(Ordering::Acquire) {
            Some(RemovalCause::Explicit)
        } else {
            put.refused
        };
        if let Some(cause) = refused {
            let event = locked.id().map(|old| {
                self.unlink(&mut locked, old, put.now, RemovalCause::Replaced);
                Event::Removed(old)
            });
            self.announce(put.id, cause, meta.deadline(), put.now);
            return Ok(Done { published: false, event });
        }
        meta.set_life(life::OWNED);
        let event = match locked.id() {
            None => {
                locked.insert(put.id);
                Event::Added(put.id)
            }
            Some(old) => {
                // The new node first: a reader that finds the old one gone looks again and must
                // not miss.
                if crate::sync::seeded("gone-before-replaced") {
                    self.pool.meta(old).mark_gone();
                }
                locked.replace(put.id);
                self.gone(old, put.now, RemovalCause::Replaced);
                Event::Replaced { new: put.id, old }
            }
        };
        Ok(Done { published: true, event: Some(event) })
    }

    /// Removes the node that was found. Returns the cause with which it left.
    pub fn commit_remove(
        &self,
        found: Found<'_>,
        hash: u32,
        now: u64,
        cause: RemovalCause,
        clearance: Clearance,
    ) -> Result<Option<(u32, RemovalCause)>, Obstacle> {
        let hold = self.flights.hold(hash, clearance).ok_or(Obstacle::Flight)?;
        let mut locked = self.lock(found, hash, &hold)?;
        Ok(locked.id().map(|id| (id, self.unlink(&mut locked, id, now, cause))))
    }

    /// Locks what was found, if no load or computation can be in the way, which `hold` keeps so.
    fn lock<'g>(
        &self,
        found: Found<'g>,
        hash: u32,
        hold: &Hold<'_>,
    ) -> Result<Locked<'g>, Obstacle> {
        let locked = found.lock().map_err(|_| Obstacle::Changed)?;
        if self.is_clear(hash, hold) { Ok(locked) } else { Err(Obstacle::Flight) }
    }

    /// Under the bucket's lock: whether no computation can be in the way. A computation registers its
    /// flight, then takes this lock once. So either it sees what this section does, or this sees the
    /// flight.
    fn is_clear(&self, hash: u32, hold: &Hold<'_>) -> bool {
        match hold {
            Hold::IfIdle => self.flights.is_idle(hash),
            Hold::Locked { .. } | Hold::Own => true,
        }
    }

    fn unlink(
        &self,
        locked: &mut Locked<'_>,
        id: u32,
        now: u64,
        cause: RemovalCause,
    ) -> RemovalCause {
        locked.remove();
        self.gone(id, now, cause)
    }

    /// Marks a node that has just been unlinked and announces it.
    fn gone(&self, id: u32, now: u64, cause: RemovalCause) -> RemovalCause {
        let meta = self.pool.meta(id);
        let deadline = meta.mark_gone();
        let cause = self.true_cause(meta.generation(), deadline, now, cause);
        self.announce(id, cause, deadline, now);
        cause
    }
}

impl Core {
    /// Removes a node by its id, by a writer's hand. False if it has left the index already.
    pub fn remove_id(
        &self,
        guard: &crossbeam_epoch::Guard,
        id: u32,
        now: u64,
        cause: RemovalCause,
        clearance: Clearance,
    ) -> Result<bool, Obstacle> {
        let hash = self.pool.meta(id).hash();
        let hold = self.flights.hold(hash, clearance).ok_or(Obstacle::Flight)?;
        let Some(mut locked) = self.index.lock_id(guard, hash, id) else { return Ok(false) };
        if !self.is_clear(hash, &hold) {
            return Err(Obstacle::Flight);
        }
        self.unlink(&mut locked, id, now, cause);
        Ok(true)
    }
}
