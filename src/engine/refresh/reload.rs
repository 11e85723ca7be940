//! Reloads: the loader gets the old value, and its result replaces the entry.

use crate::clock::{NEVER, Nanos, Timestamp};
use crate::engine::Engine;
use crate::engine::asked::Basis;
use crate::engine::delivery::Notice;
use crate::engine::event::{Event, Packed};
use crate::engine::flights::{
    Clearance, CommitPermit, EnteredFlight, Flight, FlightGuard, FlightKind, LoadOutcome, Obstacle,
};
use crate::engine::loads::{Replaces, land_entry};
use crate::engine::maintenance::Core;
use crate::engine::reloads::{Ended, Reloading};
use crate::engine::step::Step;
use crate::engine::write::Readings;
use crate::entry::{Entry, Origin};
use crate::epoch::Guard;
use crate::expiration::{HookLifetime, Lease};
use crate::links::NodeId;
use crate::loaded::NoValue;
use crate::loader::{ReloadOutcome, Reloaded};
use crate::node::{GONE, ended_at};
use crate::pool::Handle;
use crate::primitives::{catch_user_panic, delay_point, seeded};
use crate::removal::RemovalCause;
use crate::span::Work;

/// The loader's result. The reason of an error is `None` if the loader panicked.
pub type ReloadResult<V> = Result<Reloaded<V>, Option<NoValue>>;

/// The outcome of a reload, and the entry of the value that it brought or found not modified, if it
/// did. If another operation overtook it, that one's entry, or a value that was not cached.
pub type ReloadEnd<K, V> = (Ended, Option<Entry<K, V>>);

impl<K: Eq + Clone, V> Engine<K, V> {
    /// Reloads a node's value by the stored loader, on this thread. If the key has a load or a
    /// computation in flight, this does nothing: it leaves the entry to that flight. Returns the
    /// entry of the value that the reload brought or found not modified, if it did.
    ///
    /// Applies no back-pressure: the thread may be the one that receives the notices.
    pub fn reload(&self, reloading: Reloading) -> Option<Entry<K, V>> {
        // A panic reaches neither the reader that triggered the reload nor the executor: neither
        // called that code.
        let ended = catch_user_panic(|| {
            let node = self.pool.handle_ref(reloading.node());
            let flight = match self.begin_reload(node) {
                Ok(flight) => flight,
                Err(ended) => return (ended, None),
            };
            let timer = {
                let _mark = flight.mark_poll();
                let _caller = reloading.caller.enter();
                self.time_load(Work::Reload)
            };
            let result = {
                let _mark = flight.mark_poll();
                let _entered = timer.span().enter();
                let loader = self.refresh().and_then(|reloads| reloads.loader.as_ref());
                let reload = || loader.map(|loader| loader(node.key(), node.value()));
                let reloaded = catch_user_panic(reload).ok_or(None);
                reloaded.and_then(|it| it.unwrap_or(Err(NoValue::Absent)).map_err(Some))
            };
            timer.stop(result.is_ok());
            reloading.give_place_back();
            self.land_reload(node, reloading.read_at, result, flight)
        });
        let made = self.end_reload(reloading, ended);
        self.maintain_after_write();
        made
    }

    /// The first part of a reload, up to the question to the loader.
    ///
    /// # Errors
    /// How it has ended, if it ends here.
    pub fn begin_reload(&self, node: &Handle<K, V>) -> Result<FlightGuard, Ended> {
        let flight = self.register_reload(node).map_err(|_| Ended::Hindered)?;
        let present = {
            let _mark = flight.mark_poll();
            self.stable_entry(node.hashed()).0
        };
        if present.as_ref().is_some_and(|entry| entry.node().id() == node.id()) {
            return Ok(flight);
        }
        // Calls that wait look for the entry themselves.
        flight.enter().land();
        drop(present);
        let is_done = seeded("reloads-of-ended-entries-stay-taken");
        Err(if is_done { Ended::Done } else { Ended::Nothing })
    }

    /// The end of a reload; `None` if code of the user's has panicked. Returns what it has made.
    pub fn end_reload(
        &self,
        reloading: Reloading,
        ended: Option<ReloadEnd<K, V>>,
    ) -> Option<Entry<K, V>> {
        let (ended, made) = ended.unwrap_or((Ended::Failed(None), None));
        if let Some(reloads) = self.refresh() {
            reloads.settle(&self.core, reloading, ended);
        }
        made
    }

    /// Registers the reload. A reload of the node's predecessor is overtaken here, since it has
    /// nothing left to commit: it has published this node itself, the write that did so overtook
    /// it, or it began later and ends when it looks at its entry. Fails if the key has a
    /// computation or another load.
    fn register_reload(&self, node: &Handle<K, V>) -> Step<FlightGuard> {
        let is_outdated = |other: &Flight| {
            other.kind == FlightKind::Reload
                && other.key_node.meta().deadline() == GONE
                && node.meta().deadline() != GONE
        };
        let share = || node.raw().clone();
        self.begin_flight(node.hashed(), FlightKind::Reload, None, &share, &is_outdated)
    }

    /// The last part of a reload: commits the loader's result, unless it is an error, and ends the
    /// flight.
    pub fn land_reload(
        &self,
        node: &Handle<K, V>,
        read_at: Option<Timestamp>,
        result: ReloadResult<V>,
        flight: FlightGuard,
    ) -> ReloadEnd<K, V> {
        // The flight is entered here because it ends here: marks end in the order of a stack.
        let flight = flight.enter();
        let Reloaded { outcome, lease } = match result {
            Ok(reloaded) => reloaded,
            Err(reason) => {
                let shared = reason.clone();
                // A failure from before a change says nothing of the next reload.
                let is_overtaken = flight.is_overtaken(self.core.hot.generation());
                flight.land_with(|| shared.map(LoadOutcome::NoValue));
                let ended = if is_overtaken { Ended::Overtaken } else { Ended::Failed(reason) };
                return (ended, None);
            }
        };
        match outcome {
            ReloadOutcome::New(value) => {
                let made = self.pool.draft(node.hashed().to_key()).fill(value);
                let mut replaces = Replaces::only(node.clone(), read_at);
                let (entry, ends) = self.commit_load(made, lease, &flight, &mut replaces);
                // `entry` may have the last count on the new value, whose destructor may use the
                // key. So it is dropped after the flight has left the board.
                land_entry(flight, &entry, ends);
                let is_over = self.is_over(node);
                (if is_over { Ended::Done } else { Ended::Overtaken }, Some(entry))
            }
            ReloadOutcome::NotModified => {
                let prolonged = self.prolong(node, lease, &flight, read_at);
                let is_over = prolonged.is_some() || self.is_taken_out(node, &flight);
                let now = node.meta().created();
                // The loader made no value. So a caller with a condition judges the old one.
                let confirmed =
                    prolonged.map(|ends| Entry::new(node.clone(), now, ends, Origin::Found));
                match &confirmed {
                    Some(entry) => land_entry(flight, entry, entry.deadline()),
                    None => flight.land(),
                }
                (if is_over { Ended::Done } else { Ended::Overtaken }, confirmed)
            }
            ReloadOutcome::Gone => {
                let is_removed = self.core.remove_node(node.id(), &flight);
                let is_over = is_removed || self.is_taken_out(node, &flight);
                flight.land_with(|| is_removed.then_some(LoadOutcome::NoValue(NoValue::Absent)));
                if is_over { (Ended::Done, None) } else { (Ended::Overtaken, None) }
            }
        }
    }

    /// Whether another operation has taken the old node out: then nothing is left to reload.
    fn is_taken_out(&self, node: &Handle<K, V>, flight: &EnteredFlight) -> bool {
        flight.is_overtaken(self.core.hot.generation()) && self.is_over(node)
    }
}

/// A new life for a value that was not modified.
struct NewLife {
    id: NodeId,
    now: Timestamp,
    hard_deadline: Timestamp,
    /// The hard deadline that the update hook was shown, if it was asked.
    shown: Option<Timestamp>,
    /// The hard deadline must be in its word whatever it is, since reads exchange it.
    is_exchanged: bool,
    /// The end of the idle time that the triggering read has given.
    idle_end: Option<Timestamp>,
    /// When the value is stale.
    stale: Timestamp,
}

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
    /// [`Obstacle::EntryChanged`] if the lifetime is no longer what the update hook was shown;
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

    /// The part of [`prolong`](Self::prolong) under the bucket's lock. Returns the end of the life
    /// and the event for the maintenance.
    fn commit_unmodified(
        &self,
        guard: &Guard,
        new: &NewLife,
        permit: &CommitPermit<'_>,
    ) -> Result<(Timestamp, Option<Packed>), Obstacle> {
        let &NewLife { id, now, hard_deadline, .. } = new;
        let meta = self.pool.meta(id);
        let mut locked = self.index.lock_id(guard, meta.hash(), id).ok_or(Obstacle::Overtaken)?;
        permit.check(&self.flights, meta.hash(), || self.hot.generation())?;
        if self.hot.is_cleared(meta) {
            return Err(Obstacle::Overtaken);
        }
        if new.shown.is_some_and(|shown| shown != ended_at(self.hard_deadline(id)))
            && !seeded("unmodified-takes-back-lifetimes")
        {
            return Err(Obstacle::EntryChanged);
        }
        let (mut deadline, mut end);
        loop {
            deadline = meta.deadline();
            if deadline <= now {
                if meta.claim(deadline) {
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
                Some(idle_end) => deadline.max(idle_end).min(hard_deadline),
                None => hard_deadline,
            };
            end = end.max(now);
            delay_point();
            if meta.change_deadline(deadline, end) {
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
        let event = (end < deadline).then(|| Event::Rescheduled(id).pack());
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
            new.shown = new.shown.filter(|_| self.asks_again(rounds));
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
            shown: answer.map(|_| ends),
            is_exchanged: self.mode.asks(),
            idle_end: has_idle.then(|| read_at.map_or(Timestamp::from_raw(0), read)),
            stale: now.saturating_add(refresh.unwrap_or(after_write)),
        }
    }
}
