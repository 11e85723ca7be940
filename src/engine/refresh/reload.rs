//! Reloads: the loader gets the old value, and its result replaces the entry.

use super::running::{Ended, Hindered, Running};
use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::flights::{EnteredFlight, FlightGuard, FlightKind, LoadOutcome, OnLoad};
use crate::engine::loads::{LoadTimer, Replaces, land_entry};
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::reloads::Reloading;
use crate::entry::{Entry, Origin};
use crate::loaded::NoValue;
use crate::loader::{ReloadOutcome, Reloaded};
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::guarded::GuardedBool;
use crate::primitives::{catch_user_panic, seeded};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// The loader's result. The reason of an error is `None` if the loader panicked.
pub type Answer<V> = Result<Reloaded<V>, Option<NoValue>>;

/// The user's code in a reload by a call: what makes the key of the new entry, and what makes its
/// value. Each is called once at most. What takes them so is compiled once for all calls.
pub type Call<'a, K, V> = (&'a mut dyn FnMut(&K) -> K, &'a mut dyn FnMut(&K, &V) -> Answer<V>);

/// What a panic of the user's code comes to in a reload.
#[derive(Clone, Copy)]
pub enum Panics<'a> {
    /// A failure. It reaches neither the reader that triggered the reload nor the executor: neither
    /// called that code.
    Count,
    /// It reaches the caller, whose own loader is asked. If that is a future, this says whether it
    /// is being polled.
    Reach(Option<&'a GuardedBool>),
}

impl Panics<'_> {
    /// Runs the user's code. `None` if it has panicked, and that is a failure.
    fn meet<T>(self, run: impl FnOnce() -> T) -> Option<T> {
        match self {
            Self::Count => catch_user_panic(run),
            Self::Reach(_) => Some(run()),
        }
    }
}

/// The outcome of a reload, and the entry of the value that it brought or found not modified, if it
/// did. If another operation overtook it, that one's entry, or a value that was not cached.
pub type ReloadEnd<K, V> = (Ended, Option<Entry<K, V>>);

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// From now on, reads start reloads by the stored loader: inline, or on the executor.
    pub fn start_reloads(self: &Arc<Self>) {
        let Some(reloads) = &self.reloads else { return };
        let engine = Arc::downgrade(self);
        reloads.set_starter(Box::new(move |reloading: Reloading| {
            let engine = engine.upgrade()?;
            let Some(executed) = engine.executed() else { return engine.reload(reloading) };
            engine.core.execute(Box::new(move || {
                // If the cache is gone, nobody needs the value.
                if let Some(engine) = executed.upgrade() {
                    engine.core.drop_caught(engine.reload(reloading));
                }
            }));
            None
        }));
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Reloads a node's value by the stored loader, on this thread.
    pub fn reload(&self, reloading: Reloading) -> Option<Entry<K, V>>
    where
        K: Clone,
    {
        let loader = self.reloads.as_ref().and_then(|reloads| reloads.loader.as_ref());
        let mut ask = |key: &K, old: &V| {
            let reloaded = loader.map(|loader| loader(key, old));
            reloaded.unwrap_or(Err(NoValue::Absent)).map_err(Some)
        };
        self.reload_with(reloading, (&mut K::clone, &mut ask), Panics::Count)
    }

    /// Reloads a node's value on this thread. If the key has a load or a computation in flight,
    /// this does nothing: it leaves the entry to that flight. Returns the entry of the value that
    /// the reload brought or found not modified, if it did.
    ///
    /// Applies no back-pressure: a read may run this, or the thread of an executor that receives
    /// the notices.
    pub(super) fn reload_with(
        &self,
        reloading: Reloading,
        (key, ask): Call<'_, K, V>,
        panics: Panics<'_>,
    ) -> Option<Entry<K, V>> {
        // As in `land_running`. Here it also keeps what the loader itself defers.
        let ending = ReentrancyMark::push(Frame::Ending);
        let begun = self.begin_running(Box::new(reloading), panics);
        let made = begun.and_then(|(mut running, flight)| {
            let timer = LoadTimer::start(&self.core);
            let answer = running.run(|reloading| {
                let _mark = flight.mark_poll();
                let node = self.pool.handle_ref(reloading.node());
                panics.meet(|| ask(node.key(), node.value())).unwrap_or(Err(None))
            });
            timer.stop(&answer);
            self.land_running((running, flight), (answer, panics), key)
        });
        drop(ending);
        self.maintain_after_write();
        made
    }

    /// The first part of a reload, up to the question to the loader. This and the last part are
    /// compiled once for all loaders. `None` if the reload ends here.
    pub fn begin_running<'e>(
        &'e self,
        reloading: Box<Reloading>,
        panics: Panics<'e>,
    ) -> Option<(Running<'e>, FlightGuard)> {
        // Dropped after the flight: from then on a read may trigger the next reload.
        let reloads = self.reloads.as_ref()?;
        let mut running = Running::new(&self.core, reloads, reloading);
        if let Panics::Reach(Some(is_polling)) = panics {
            running.watch(is_polling);
        }
        let begin =
            |it: &Reloading| panics.meet(|| self.begin_reload(self.pool.handle_ref(it.node())));
        let flight = match running.run(begin) {
            Some(Ok(flight)) => flight,
            Some(Err(hindered)) => {
                running.end_hindered(hindered);
                return None;
            }
            None => {
                running.end(Ended::Failed(None));
                return None;
            }
        };
        let present = running.run(|reloading| {
            let _mark = flight.mark_poll();
            let node = self.pool.handle_ref(reloading.node());
            panics.meet(|| self.stable_entry(node.meta().hash(), node.key()).0)
        });
        let id = running.reloading().node().id();
        if present.iter().flatten().any(|entry| entry.node().id() == id) {
            return Some((running, flight));
        }
        // As in `land_running`.
        let ending = ReentrancyMark::push(Frame::Ending);
        running.end(match present {
            Some(present) => self.land_nothing(present, flight.enter()),
            None => {
                drop(flight);
                Ended::Failed(None)
            }
        });
        drop(ending);
        None
    }

    /// The last part of a reload: commits the loader's answer, and ends the flight.
    pub fn land_running(
        &self,
        (running, flight): (Running<'_>, FlightGuard),
        (answer, panics): (Answer<V>, Panics<'_>),
        key: &mut dyn FnMut(&K) -> K,
    ) -> Option<Entry<K, V>> {
        // What the loader has deferred comes after the end: the reload holds a place until then,
        // and callers wait for it.
        let ending = ReentrancyMark::push(Frame::Ending);
        let mut running = running;
        // The flight is entered here because it ends here: marks end in the order of a stack.
        let flight = flight.enter();
        let (ended, made) = running.run(|reloading| {
            let of = (self.pool.handle_ref(reloading.node()), reloading.read_at);
            let landed = panics.meet(|| self.land_answer(of, answer, key, flight));
            landed.unwrap_or((Ended::Failed(None), None))
        });
        running.end(ended);
        drop(ending);
        made
    }

    /// Registers the reload. A reload of the node's predecessor is overtaken here, since it has
    /// nothing left to commit: it has published this node itself, the write that did so overtook
    /// it, or it began later and ends when it looks at its entry.
    ///
    /// # Errors
    /// If the key has a computation or another load.
    pub fn begin_reload(&self, node: &Handle<K, V>) -> Result<FlightGuard, Hindered> {
        let (hash, key) = (node.meta().hash(), node.key());
        loop {
            match self.flight_of(hash, key) {
                (_, Some(other)) => {
                    let stands = !other.is_overtaken(self.core.hot.generation());
                    // Only a caller that waits bypasses a load that waits in the executor.
                    if other.is_queued() && stands {
                        let may_share = other.may_share_entry();
                        let by = if may_share { Hindered::ByAnother } else { Hindered::ByQueued };
                        return Err(by);
                    }
                    let is_outdated = other.kind() == FlightKind::Reload
                        && other.key_node().meta().deadline() == GONE
                        && node.meta().deadline() != GONE;
                    let on_load = if is_outdated { OnLoad::Overtake } else { OnLoad::Wait };
                    if !self.core.dismiss_overtaken(hash, &other, on_load) {
                        return Err(Hindered::ByAnother);
                    }
                }
                (seen, None) => {
                    let share = node.raw().clone();
                    if let Some(flight) =
                        self.core.register((FlightKind::Reload, None), share, seen)
                    {
                        return Ok(flight);
                    }
                }
            }
        }
    }

    /// Ends a reload whose entry was replaced, was removed or expired before the loader began.
    pub fn land_nothing(&self, present: Option<Entry<K, V>>, flight: EnteredFlight) -> Ended {
        // Calls that wait look for the entry themselves.
        flight.land();
        drop(present);
        if seeded("reloads-of-ended-entries-stay-taken") { Ended::Done } else { Ended::Nothing }
    }

    /// Commits the loader's result, unless it is an error, and ends the flight.
    fn land_answer(
        &self,
        (node, read_at): (&Handle<K, V>, Option<Timestamp>),
        answer: Answer<V>,
        key: &mut dyn FnMut(&K) -> K,
        flight: EnteredFlight,
    ) -> ReloadEnd<K, V> {
        let Reloaded { outcome, lease } = match answer {
            Ok(reloaded) => reloaded,
            Err(reason) => {
                let shared = reason.clone();
                flight.land_with(|| shared.map(LoadOutcome::NoValue));
                return (Ended::Failed(reason), None);
            }
        };
        match outcome {
            ReloadOutcome::New(value) => {
                let made = self.pool.draft(node.meta().hash(), key(node.key())).fill(value);
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

    /// Whether the entry has left the cache, perhaps by a clearing whose sweep has not reached it.
    pub fn is_over(&self, node: &Handle<K, V>) -> bool {
        node.meta().deadline() == GONE || self.core.hot.is_cleared(node.meta())
    }

    /// Whether another operation has taken the old node out: then nothing is left to reload.
    fn is_taken_out(&self, node: &Handle<K, V>, flight: &EnteredFlight) -> bool {
        flight.is_overtaken(self.core.hot.generation()) && self.is_over(node)
    }
}
