//! Reloads: the loader gets the old value, and its result replaces the entry.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::flights::{EnteredFlight, Flight, FlightGuard, FlightKind, LoadOutcome};
use crate::engine::loads::{LoadTimer, Replaces, land_entry};
use crate::engine::reloads::{Ended, Reloading};
use crate::engine::step::Step;
use crate::entry::{Entry, Origin};
use crate::loaded::NoValue;
use crate::loader::{ReloadOutcome, Reloaded};
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::{catch_user_panic, seeded};

/// The loader's result. The reason of an error is `None` if the loader panicked.
pub type Answer<V> = Result<Reloaded<V>, Option<NoValue>>;

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
            let timer = LoadTimer::start(&self.core);
            let answer = {
                let _mark = flight.mark_poll();
                let loader = self.refresh().and_then(|reloads| reloads.loader.as_ref());
                let reload = || loader.map(|loader| loader(node.key(), node.value()));
                match catch_user_panic(reload) {
                    Some(reloaded) => reloaded.unwrap_or(Err(NoValue::Absent)).map_err(Some),
                    None => Err(None),
                }
            };
            timer.stop(&answer);
            reloading.give_place_back();
            self.land_reload(node, reloading.read_at, answer, flight)
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
            other.kind() == FlightKind::Reload
                && other.key_node().meta().deadline() == GONE
                && node.meta().deadline() != GONE
        };
        let share = || node.raw().clone();
        self.begin_flight(node.hashed(), FlightKind::Reload, None, &share, &is_outdated)
    }

    /// The last part of a reload: commits the loader's answer, unless it is an error, and ends the
    /// flight.
    pub fn land_reload(
        &self,
        node: &Handle<K, V>,
        read_at: Option<Timestamp>,
        answer: Answer<V>,
        flight: FlightGuard,
    ) -> ReloadEnd<K, V> {
        // The flight is entered here because it ends here: marks end in the order of a stack.
        let flight = flight.enter();
        let Reloaded { outcome, lease } = match answer {
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
