//! Reloads: the loader gets the old value, and its result replaces the entry.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::flights::{
    EnteredFlight, FlightGuard, FlightKind, LoadOutcome, LoadedNode, OnLoad,
};
use crate::engine::loads::{LoadTimer, Replaces, loaded_node};
use crate::engine::reentrancy::ReentrancyMark;
use crate::engine::reloads::{Reloading, Start};
use crate::entry::Entry;
use crate::loaded::NoValue;
use crate::loader::{ReloadOutcome, Reloaded};
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedBool;
use crate::primitives::{catch_user_panic, seeded};
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};

/// The loader's result. The reason of an error is `None` if the loader panicked.
pub type Answer<V> = Result<Reloaded<V>, Option<NoValue>>;

/// The user's code in a reload by a call: what makes the key of the new entry, and what makes its
/// value. Each is called once at most. What takes them so is compiled once for all calls.
pub type Call<'a, K, V> = (&'a mut dyn FnMut(&K) -> K, &'a mut dyn FnMut(&K, &V) -> Answer<V>);

/// The outcome of a reload.
pub enum ReloadEnd<K, V> {
    /// The entry has a new value, which is in the field; or it has a new life or was removed, and
    /// the field is `None`. This is also the end if the loader made a value but another write took
    /// the old node out first. The field then has that write's entry, or a value that was not
    /// cached.
    Done(Option<Entry<K, V>>),
    /// The loader did not run: before it began, the entry was replaced, was removed or expired.
    Nothing,
    /// Another operation overtook the reload and left the old node in the index; or the loader made
    /// no value, and the reload was overtaken or the entry ended first.
    Overtaken,
    /// The loader failed, or panicked.
    Failed(Option<NoValue>),
}

/// What keeps a reload from its key.
#[derive(Debug)]
pub enum Hindered {
    /// A computation, or a load that has begun.
    ByAnother,
    /// A load that waits in the executor. It has found that the key has no entry, and nothing has
    /// been written since. So the reload's entry has ended.
    ByQueued,
}

/// Starts reloads by a stored loader: inline, or on the executor.
pub struct Starter<K, V, S>(pub Weak<Engine<K, V, S>>);

impl<K, V, S> Start<K, V> for Starter<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    fn start(&self, reloading: Reloading<K, V>) -> Option<Entry<K, V>> {
        let engine = self.0.upgrade()?;
        let Some(executed) = engine.executed() else { return engine.reload(reloading) };
        engine.core.execute(Box::new(move || {
            // If the cache is gone, nobody needs the value.
            if let Some(engine) = executed.upgrade() {
                drop(engine.reload(reloading));
            }
        }));
        None
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// From now on, reads start reloads by the stored loader.
    pub fn start_reloads(self: &Arc<Self>) {
        if let Some(reloads) = &self.reloads {
            reloads.set_starter(Arc::new(Starter(Arc::downgrade(self))));
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone,
    S: BuildHasher,
{
    /// Reloads a node's value by the stored loader, on this thread.
    pub fn reload(&self, reloading: Reloading<K, V>) -> Option<Entry<K, V>> {
        let loader = self.reloads.as_ref().and_then(|reloads| reloads.loader.as_ref());
        let mut ask = |key: &K, old: &V| {
            let reloaded = loader.map(|loader| loader.reload(key, old));
            reloaded.unwrap_or(Err(NoValue::Absent)).map_err(Some)
        };
        self.reload_catching(reloading, (&mut K::clone, &mut ask))
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// [`reload_with`](Self::reload_with) that catches a panic of the user's code. The panic counts
    /// as a failure. It reaches neither the reader that triggered the reload nor the executor,
    /// since neither called that code.
    pub(super) fn reload_catching(
        &self,
        reloading: Reloading<K, V>,
        call: Call<'_, K, V>,
    ) -> Option<Entry<K, V>> {
        self.run_reload(reloading, |node, read_at, flight| {
            let ended = catch_user_panic(|| self.fly_reload((node, read_at), flight, call));
            ended.unwrap_or(ReloadEnd::Failed(None))
        })
    }

    /// Reloads a node's value on this thread. If the key has a load or a computation in flight,
    /// this does nothing: it leaves the entry to that flight. Returns the new value's entry, if the
    /// reload brought a value.
    pub(super) fn reload_with(
        &self,
        reloading: Reloading<K, V>,
        call: Call<'_, K, V>,
    ) -> Option<Entry<K, V>> {
        let made = self.run_reload(reloading, |node, read_at, flight| {
            self.fly_reload((node, read_at), flight, call)
        });
        self.hold_back_writer();
        made
    }

    /// Applies no back-pressure: a read may run this, or the thread of an executor that receives
    /// the notices.
    fn run_reload(
        &self,
        reloading: Reloading<K, V>,
        fly: impl FnOnce(&Handle<K, V>, Option<Timestamp>, FlightGuard) -> ReloadEnd<K, V>,
    ) -> Option<Entry<K, V>> {
        // What the loader has deferred comes after the end: the reload holds a place until then,
        // and callers wait for it.
        let ending = ReentrancyMark::ending();
        let mut running = Running::new(self, Box::new(reloading));
        let flight = match self.begin_reload(&running.reloading().node) {
            Ok(flight) => flight,
            Err(hindered) => {
                running.end_hindered(hindered);
                return None;
            }
        };
        let ended = running.run(|reloading| fly(&reloading.node, reloading.read_at, flight));
        let made = running.end(ended);
        drop(ending);
        self.maintain_after_write();
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
                    if other.is_queued() && stands && !other.may_share_entry() {
                        return Err(Hindered::ByQueued);
                    }
                    let is_outdated = other.kind() == FlightKind::Reload
                        && other.key_node().meta().deadline() == GONE
                        && node.meta().deadline() != GONE;
                    let on_load = if is_outdated { OnLoad::Overtake } else { OnLoad::Wait };
                    if !self.dismiss_overtaken(hash, &other, on_load) {
                        return Err(Hindered::ByAnother);
                    }
                }
                (seen, None) => {
                    let share = node.raw().clone();
                    if let Some(flight) = self.register(FlightKind::Reload, share, seen) {
                        return Ok(flight);
                    }
                }
            }
        }
    }

    fn fly_reload(
        &self,
        (node, read_at): (&Handle<K, V>, Option<Timestamp>),
        flight: FlightGuard,
        (key, ask): Call<'_, K, V>,
    ) -> ReloadEnd<K, V> {
        let flight = flight.enter();
        let present = self.stable_entry(node.meta().hash(), node.key()).0;
        if present.as_ref().is_none_or(|entry| entry.node().id() != node.id()) {
            return self.land_nothing(present, flight);
        }
        let timer = LoadTimer::start(self);
        let answer = ask(node.key(), node.value());
        if answer.is_ok() {
            timer.succeed();
        } else {
            drop(timer);
        }
        self.land_answer((node, read_at), answer, key, flight)
    }

    /// Ends a reload whose entry was replaced, was removed or expired before the loader began.
    pub fn land_nothing(
        &self,
        present: Option<Entry<K, V>>,
        flight: EnteredFlight,
    ) -> ReloadEnd<K, V> {
        // Calls that wait look for the entry themselves. A change of its lifetime does not overtake
        // a reload that commits nothing. So the lifetime that was found here may be over, unknown
        // to them.
        if seeded("reloads-share-what-they-find") {
            let loaded = present.as_ref().map(|entry| loaded_node(entry, entry.deadline()));
            flight.land_with(|| loaded.map(LoadOutcome::Value));
        } else {
            flight.land();
        }
        drop(present);
        if seeded("reloads-of-ended-entries-stay-taken") {
            ReloadEnd::Done(None)
        } else {
            ReloadEnd::Nothing
        }
    }

    /// Commits the loader's result, unless it is an error, and ends the flight.
    pub fn land_answer(
        &self,
        (node, read_at): (&Handle<K, V>, Option<Timestamp>),
        answer: Answer<V>,
        key: &mut dyn FnMut(&K) -> K,
        flight: EnteredFlight,
    ) -> ReloadEnd<K, V> {
        match answer {
            Ok(reloaded) => self.land_reload((node, read_at), reloaded, key, flight),
            Err(reason) => {
                let shared = reason.clone();
                flight.land_with(|| shared.map(LoadOutcome::NoValue));
                ReloadEnd::Failed(reason)
            }
        }
    }

    /// Commits the loader's result, and ends the flight.
    fn land_reload(
        &self,
        (node, read_at): (&Handle<K, V>, Option<Timestamp>),
        reloaded: Reloaded<V>,
        key: &mut dyn FnMut(&K) -> K,
        flight: EnteredFlight,
    ) -> ReloadEnd<K, V> {
        let Reloaded { outcome, lease } = reloaded;
        match outcome {
            ReloadOutcome::New(value) => {
                let made = self.pool.draft(node.meta().hash(), key(node.key())).fill(value);
                let mut replaces = Replaces::only(node.clone(), read_at);
                let (entry, ends) = self.commit_load(made, lease, &flight, &mut replaces);
                flight.land_with(|| Some(LoadOutcome::Value(loaded_node(&entry, ends))));
                if self.is_over(node) {
                    return ReloadEnd::Done(Some(entry));
                }
                // `entry` may have the last count on the new value, whose destructor may use the
                // key. So it is dropped after the flight has left the board.
                drop(entry);
                ReloadEnd::Overtaken
            }
            ReloadOutcome::NotModified => {
                let prolonged = self.prolong(node, lease, &flight, read_at);
                let is_over = prolonged.is_some() || self.is_taken_out(node, &flight);
                let count = || node.raw().clone();
                // The loader made no value. So a caller with a condition judges the old one.
                let outcome = prolonged.map(|ends| LoadedNode {
                    node: count(),
                    ends,
                    deadline: ends,
                    is_made: false,
                });
                flight.land_with(|| outcome.map(LoadOutcome::Value));
                if is_over { ReloadEnd::Done(None) } else { ReloadEnd::Overtaken }
            }
            ReloadOutcome::Gone => {
                let is_removed = self.remove_gone(node, &flight);
                let is_over = is_removed || self.is_taken_out(node, &flight);
                flight.land_with(|| is_removed.then_some(LoadOutcome::NoValue(NoValue::Absent)));
                if is_over { ReloadEnd::Done(None) } else { ReloadEnd::Overtaken }
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

/// A reload whose loader runs. If the loader panics and nobody catches it, the drop of this counts
/// a failure.
pub struct Running<'e, K, V, S> {
    engine: &'e Engine<K, V, S>,
    /// `None` once the reload has ended.
    reloading: Option<Box<Reloading<K, V>>>,
    is_in_user_code: bool,
    /// Whether a future of the user's is being polled that this waits for, and does not run.
    is_polling: Option<&'e GuardedBool>,
}

impl<'e, K, V, S> Running<'e, K, V, S> {
    pub fn new(engine: &'e Engine<K, V, S>, reloading: Box<Reloading<K, V>>) -> Self {
        Self { engine, reloading: Some(reloading), is_in_user_code: false, is_polling: None }
    }

    pub fn reloading(&self) -> &Reloading<K, V> {
        self.reloading.as_ref().expect("the reload has not ended")
    }

    /// Runs the user's code, or a part of it.
    pub fn run<T>(&mut self, run: impl FnOnce(&Reloading<K, V>) -> T) -> T {
        self.is_in_user_code = true;
        let result = run(self.reloading());
        self.is_in_user_code = false;
        result
    }

    /// Waits for a future of the user's that is polled elsewhere. `is_polling` says when: if this
    /// is dropped then, that future has panicked.
    pub fn watch(&mut self, is_polling: &'e GuardedBool) {
        self.is_polling = Some(is_polling);
    }

    /// Ends a reload without a flight. If the key has another load or a computation, this leaves
    /// the trigger to a later read, after the retry delay.
    pub fn end_hindered(mut self, by: Hindered) {
        match (by, self.reloading.take()) {
            (_, Some(reloading)) if seeded("reloads-end-in-taken-triggers") => reloading.succeed(),
            (Hindered::ByAnother, Some(reloading)) => reloading.postpone(),
            (Hindered::ByQueued, Some(reloading)) => {
                self.engine.end_reload(*reloading, ReloadEnd::Nothing);
            }
            (_, None) => {}
        }
    }

    /// Ends the reload.
    pub fn end(mut self, ended: ReloadEnd<K, V>) -> Option<Entry<K, V>> {
        let reloading = self.reloading.take()?;
        self.engine.end_reload(*reloading, ended)
    }
}

impl<K, V, S> Drop for Running<'_, K, V, S> {
    fn drop(&mut self) {
        let is_polling = self.is_polling.is_some_and(|is_polling| is_polling.load(Relaxed));
        if (self.is_in_user_code || is_polling)
            && let Some(reloading) = self.reloading.take()
        {
            self.engine.fail_reload(*reloading, None);
        }
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Counts the outcome, and decides when a read may trigger the next reload of the entry.
    fn end_reload(
        &self,
        reloading: Reloading<K, V>,
        ended: ReloadEnd<K, V>,
    ) -> Option<Entry<K, V>> {
        let reloads = self.reloads.as_ref()?;
        let id = reloading.node.id();
        match ended {
            ReloadEnd::Done(made) => {
                reloads.failures.forget(id);
                reloading.succeed();
                made
            }
            ReloadEnd::Nothing => {
                reloads.failures.forget(id);
                reloading.come_to_nothing();
                None
            }
            ReloadEnd::Overtaken => {
                reloading.give_up();
                None
            }
            ReloadEnd::Failed(reason) => {
                self.fail_reload(reloading, reason);
                None
            }
        }
    }

    fn fail_reload(&self, reloading: Reloading<K, V>, reason: Option<NoValue>) {
        if let Some(reloads) = &self.reloads {
            // The clock may be the user's, and may be what has panicked.
            let now = catch_user_panic(|| self.core.ticker.now());
            let now = now.unwrap_or_else(|| reloading.taken_from());
            let is_there = |id| self.pool.raw().meta(id).deadline() != GONE;
            let id = reloading.node.id();
            reloads.failures.note(id, (reason, now), &is_there);
            reloading.fail();
        }
    }
}
