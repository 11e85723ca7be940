//! How a reload gives an unmodified value a new life, under the bucket's lock. A new value is
//! committed as that of a load; an entry that is gone is removed by `Core::remove_node`.

use crate::clock::{NEVER, Nanos, Timestamp};
use crate::engine::Engine;
use crate::engine::asked::Basis;
use crate::engine::delivery::Notice;
use crate::engine::event::{Event, Packed};
use crate::engine::flights::{Clearance, CommitPermit, EnteredFlight, Obstacle};
use crate::engine::maintenance::Core;
use crate::engine::write::Readings;
use crate::epoch::Guard;
use crate::expiration::{HookLifetime, Lease};
use crate::links::NodeId;
use crate::node::ended_at;
use crate::pool::Handle;
use crate::primitives::{delay_point, seeded};
use crate::removal::RemovalCause;

/// A new life for a value that was not modified.
#[derive(Clone, Copy)]
struct NewLife {
    id: NodeId,
    now: Timestamp,
    hard_deadline: Timestamp,
    /// The hard deadline that the update hook was told, if it was asked.
    told: Option<Timestamp>,
    /// The hard deadline must be in its word whatever it is, since reads exchange it.
    is_exchanged: bool,
    /// The end of the idle time that the triggering read has given.
    idle_end: Option<Timestamp>,
    /// When the value is stale.
    stale: Timestamp,
}

/// The outcome of a new life: its end, and the event for the maintenance.
type Prolonged = (Timestamp, Option<Packed>);

impl Core {
    /// Gives the trigger of a node back that its reload has taken, if the node is still in the
    /// index. The next read triggers a reload from `instant` on, and not before the entry is stale:
    /// a call may have asked for the reload before that. The caller has a count on the node.
    pub fn give_trigger_back(&self, id: NodeId, instant: Timestamp) {
        let guard = crate::epoch::pin();
        // Without a count the id may be another node's by now.
        debug_assert!(self.pool.meta(id).refs() > 0, "a node without a count");
        let hash = self.pool.meta(id).hash();
        if let Some(_locked) = self.index.lock_id(&guard, hash, id)
            && let Some(refresh) = self.pool.refresh(id)
        {
            refresh.set(instant.max(refresh.stale_from()));
        }
    }

    /// Gives a node a new life, as if its value were written now. Returns the end of that life. The
    /// caller has a count on the node.
    ///
    /// # Errors
    /// [`Obstacle::EntryChanged`] if the lifetime is no longer what the update hook was told;
    /// another one if something overtook the flight, or the entry has ended.
    fn prolong(&self, new: &NewLife, flight: &EnteredFlight) -> Result<Timestamp, Obstacle> {
        let hash = self.pool.meta(new.id).hash();
        let permit =
            self.flights.permit(hash, Clearance::Load(flight)).ok_or(Obstacle::Overtaken)?;
        let guard = crate::epoch::pin();
        flight.set_may_share(true);
        let (end, event) = self.commit_unmodified(&guard, new, &permit)?;
        drop(guard);
        if let Some(event) = event {
            self.record_write(event, 0, new.now);
        }
        Ok(end)
    }

    /// The part of [`prolong`](Self::prolong) under the bucket's lock.
    fn commit_unmodified(
        &self,
        guard: &Guard,
        new: &NewLife,
        permit: &CommitPermit<'_>,
    ) -> Result<Prolonged, Obstacle> {
        let &NewLife { id, now, hard_deadline, .. } = new;
        let meta = self.pool.meta(id);
        let mut locked = self.index.lock_id(guard, meta.hash(), id).ok_or(Obstacle::Overtaken)?;
        permit.check(&self.flights, meta.hash(), || self.hot.generation())?;
        if self.hot.is_cleared(meta) {
            return Err(Obstacle::Overtaken);
        }
        if new.told.is_some_and(|told| told != ended_at(self.hard_deadline(id)))
            && !seeded("unmodified-takes-back-lifetimes")
        {
            return Err(Obstacle::EntryChanged);
        }
        let (mut judged, mut end);
        loop {
            judged = meta.deadline();
            if judged <= now {
                if meta.claim(judged) {
                    return Err(Obstacle::Overtaken);
                }
                continue;
            }
            // A read that sees the new word bounds the life by the new time.
            meta.set_created(now);
            if let Some(word) = self.pool.hard_deadline(id) {
                word.store(hard_deadline, new.is_exchanged);
            }
            end = match new.idle_end {
                Some(idle_end) => judged.max(idle_end).min(hard_deadline),
                None => hard_deadline,
            };
            end = end.max(now);
            delay_point();
            if meta.change_deadline(judged, end) {
                break;
            }
        }
        if end == now {
            locked.remove();
            self.mark_gone(meta);
            let cause = RemovalCause::Expired;
            self.notices.announce(self, Notice { id, cause, deadline: end, at: now });
            return Ok((end, Some(Event::Removed(id).pack())));
        }
        if let Some(refresh) = self.pool.refresh(id) {
            refresh.set(new.stale);
        }
        let event = (end < judged).then(|| Event::Rescheduled(id).pack());
        Ok((end, event))
    }
}

impl<K, V> Engine<K, V> {
    /// Gives the value of `node` a new life, as if it were written now. Returns the end of that
    /// life; `None` if something overtook the flight, or the entry has ended.
    pub(super) fn prolong(
        &self,
        node: &Handle<K, V>,
        lease: Lease,
        flight: &EnteredFlight,
        read_at: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let mut new = self.new_life(node, lease, read_at);
            new.told = new.told.filter(|_| self.asks_again(rounds));
            match self.core.prolong(&new, flight) {
                // The hook is asked about the lifetime that was set meanwhile.
                Err(Obstacle::EntryChanged) => flight.set_may_share(false),
                prolonged => return prolonged.ok(),
            }
        }
    }

    /// Asks policies and settings for the life of a value that is as good as written now.
    fn new_life(&self, node: &Handle<K, V>, lease: Lease, read_at: Option<Timestamp>) -> NewLife {
        let local = self.pool.local(node);
        let refresh = lease.refresh.or_else(|| self.ask_refresh(&local));
        let ends = ended_at(self.core.hard_deadline(node.id()));
        let answer = self.is_asked(lease.lifetime).then(|| {
            let basis = Basis::Entry { node: node.clone(), ends };
            self.ask(&local, Some(&basis), Readings::Precise)
        });
        let now = answer.map_or_else(|| self.core.ticker.now(), |answer| answer.now);
        let hook = answer.map_or(HookLifetime::Same(NEVER), |answer| answer.hook);
        let hard_deadline = self.ends(lease.lifetime, hook, now).hard_deadline;
        let has_idle = self.core.lifetimes.has_idle();
        let read = |read| self.core.lifetimes.deadline(read, NEVER);
        let after_write = self.refresh().map_or(Nanos::FOREVER, |it| it.after_write());
        NewLife {
            id: node.id(),
            now,
            hard_deadline,
            told: answer.map(|_| ends),
            is_exchanged: self.mode.asks(),
            idle_end: has_idle.then(|| read_at.map_or(Timestamp::from_raw(0), read)),
            stale: now.saturating_add(refresh.unwrap_or(after_write)),
        }
    }
}
