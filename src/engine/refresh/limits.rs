//! Time limits: a caller waits for a reload or a load no longer than it wants to, and that goes on.

use crate::engine::Engine;
use crate::engine::flights::{FlightGuard, FlightKind, block_until};
use crate::engine::loads::{Begun, Replaces};
use crate::engine::reentrancy;
use crate::entry::Entry;
use crate::flight::cell::{FlightCell, Leader, Outcome};
use crate::loaded::LoaderResult;
use crate::node::{GONE, Generation};
use crate::pool::{Handle, OwnedDraft};
use crate::primitives::{Arc, catch_user_panic};
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

/// How long after a job was dropped, which an executor may do, its caller submits another one.
const RESUBMIT: Duration = Duration::from_millis(10);

/// What a load elsewhere came to.
pub enum Waited<K, V, N> {
    Loaded(Result<Entry<K, V>, N>),
    Panicked,
    TimedOut,
}

/// What became of a load that was queued.
#[derive(Clone)]
pub enum Ran<T> {
    Loaded(T),
    Panicked,
    /// Something overtook the load before its job began.
    Passed,
}

/// A load that waits in the executor. Dropping it gives the load up.
pub struct QueuedLoad<K, V, T> {
    // Declared, and so dropped, before the draft, which has the key.
    pub flight: FlightGuard,
    pub draft: OwnedDraft<K, V>,
    /// Where its caller waits. It goes last: then the caller finds no flight of it.
    pub caller: Leader<FlightCell<Ran<T>>>,
}

impl<K, V, T> QueuedLoad<K, V, T> {
    pub fn new(flight: FlightGuard, draft: OwnedDraft<K, V>) -> Self {
        Self { flight, draft, caller: Leader::of(FlightCell::new()) }
    }

    /// Begins the load in its job, with a clone of the key for the loader. `None` if it does not
    /// begin; the caller knows by then.
    ///
    /// The clone comes first: the key's code may ask for the key, and goes past the load then.
    pub fn begin(self, generation: Generation) -> Option<(Self, K)>
    where
        K: Clone,
    {
        // The executor has not asked for a panic.
        let key = catch_user_panic(|| self.draft.key().clone());
        let ran = match key {
            Some(key) if self.flight.begin_queued(generation) => return Some((self, key)),
            Some(_) => Ran::Passed,
            None => Ran::Panicked,
        };
        let Self { flight, draft, mut caller } = self;
        drop((flight, draft));
        caller.complete(|| ran);
        None
    }

    /// Where the caller waits.
    pub fn cell(&self) -> Arc<FlightCell<Ran<T>>> {
        Arc::clone(self.caller.flight())
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// Waits while the node's reload is under way, until `deadline`. A node that has left the index
    /// stays marked, whatever came of its reload. Inside user code this does not wait: the reload
    /// may be the caller's own.
    pub fn await_reload(&self, node: &Handle<K, V>, deadline: Option<Instant>) {
        let (Some(reloads), Some(refresh)) = (&self.reloads, self.pool.raw().refresh(node.id()))
        else {
            return;
        };
        if !reentrancy::is_in_user_code() {
            let is_there = || node.meta().deadline() != GONE;
            reloads.wait_while(deadline, || refresh.is_under_way() && is_there());
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Loads a key without an entry where reloads run, and waits for that until `deadline`. Inline,
    /// the loader runs on this thread, and only the wait for another call's load has a limit.
    ///
    /// On an executor a key has one job that can still begin, however many callers come and give
    /// up: the load is on the board while it waits there. Only callers of this function wait
    /// for it then.
    pub fn load_until<R: LoaderResult<V> + 'static>(
        &self,
        key: &K,
        load: impl Fn(&K) -> R + Clone + Send + 'static,
        deadline: Option<Instant>,
    ) -> Waited<K, V, R::Reason>
    where
        R::Reason: Clone + Send + Sync + 'static,
    {
        let Some(engine) = self.executed() else {
            let loaded = self.load_after_miss_until(key.clone(), || load(key), deadline);
            return loaded.map_or(Waited::TimedOut, Waited::Loaded);
        };
        // A write, or a load that went past the queued one, has left a value all the same.
        let give_up = || {
            let present = self.peek_entry(self.hash(key), key);
            present.map_or(Waited::TimedOut, |entry| Waited::Loaded(Ok(entry)))
        };
        loop {
            let (draft, mut joined) = (self.draft_for_load(key.clone()), None);
            let begin = || {
                let replaces = &mut Replaces::none();
                self.begin_load_as::<R::Reason>(FlightKind::Queued, &draft, &mut joined, replaces)
            };
            let begun = block_until(deadline, begin);
            let flight = match begun.map(|begun| self.look_again(begun, &draft)) {
                None => return give_up(),
                Some(Begun::Leading(flight)) => flight,
                Some(Begun::Present(entry)) => {
                    // Before the entry is the return value: a panic of the key's destructor would
                    // leak it.
                    drop(draft);
                    return Waited::Loaded(Ok(entry));
                }
                Some(Begun::NoValue(reason)) => {
                    drop(draft);
                    return Waited::Loaded(Err(reason));
                }
            };
            let queued = QueuedLoad::new(flight, draft);
            let (cell, engine, load) = (queued.cell(), engine.clone(), load.clone());
            self.core.execute(Box::new(move || {
                if let Some(engine) = engine.upgrade() {
                    engine.run_queued(queued, load);
                }
            }));
            let resubmit = Instant::now() + RESUBMIT;
            let outcome = match deadline {
                None => Some(cell.wait()),
                Some(deadline) if cell.wait_until(deadline) => cell.outcome(),
                Some(_) => None,
            };
            match outcome {
                Some(Outcome::Done(Ran::Loaded(loaded))) => return Waited::Loaded(loaded),
                Some(Outcome::Done(Ran::Panicked)) => return Waited::Panicked,
                Some(Outcome::Done(Ran::Passed)) => {}
                // The executor has dropped the job.
                Some(Outcome::Abandoned) if deadline.is_none_or(|it| it > resubmit) => {
                    std::thread::sleep(resubmit.saturating_duration_since(Instant::now()));
                }
                Some(Outcome::Abandoned) | None => return give_up(),
            }
        }
    }

    /// The job of a load that was queued.
    fn run_queued<R: LoaderResult<V>>(
        &self,
        queued: QueuedLoad<K, V, Result<Entry<K, V>, R::Reason>>,
        load: impl FnOnce(&K) -> R,
    ) {
        let Some((queued, key)) = queued.begin(self.core.hot.generation()) else { return };
        let QueuedLoad { flight, draft, mut caller } = queued;
        let load = || load(&key);
        // The executor has not asked for a panic.
        let loaded =
            catch_user_panic(|| self.finish_load(flight, draft, load, &mut Replaces::none()));
        caller.complete(|| loaded.map_or(Ran::Panicked, Ran::Loaded));
    }
}
