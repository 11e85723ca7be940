//! Time limits: a caller waits for a reload or a load no longer than it wants to. The reload or
//! load goes on without it.

use crate::engine::Engine;
use crate::engine::flights::FlightGuard;
use crate::engine::loads::{Begun, Replaces, once};
use crate::engine::reentrancy::{self, Frame, ReentrancyMark};
use crate::engine::reloads::Reloads;
use crate::engine::step::block_until;
use crate::entry::Entry;
use crate::flight::cell::{FlightCell, Leader, Outcome};
use crate::loaded::LoaderResult;
use crate::node::{GONE, Generation};
use crate::pool::{Handle, OwnedDraft, RefreshMark};
use crate::primitives::{Arc, catch_user_panic};
use std::hash::{BuildHasher, Hash};
use std::time::{Duration, Instant};

/// If an executor drops a job, its caller submits another one this long after the first.
const RESUBMIT: Duration = Duration::from_millis(10);

/// The outcome of a limited wait for a load that runs where reloads run.
pub enum Waited<K, V, N> {
    Loaded(Result<Entry<K, V>, N>),
    Panicked,
    TimedOut,
}

/// The outcome of a queued load.
#[derive(Clone)]
pub enum QueuedOutcome<T> {
    Loaded(T),
    Panicked,
    /// Another operation overtook or bypassed the load before its job began.
    Bypassed,
}

/// A load that waits in the executor. Dropping it gives the load up.
pub struct QueuedLoad<K, V, T> {
    // Declared, and so dropped, before the draft, which has the key.
    pub flight: FlightGuard,
    pub draft: OwnedDraft<K, V>,
    /// The cell in which the caller waits. It is dropped last, so that the caller finds the flight
    /// gone.
    pub caller: Leader<FlightCell<QueuedOutcome<T>>>,
}

impl<K, V, T> QueuedLoad<K, V, T> {
    pub fn new(flight: FlightGuard, draft: OwnedDraft<K, V>) -> Self {
        Self { flight, draft, caller: Leader::of(FlightCell::new()) }
    }

    /// Begins the load in its job. Returns it with a clone of the key for the loader; `None` if the
    /// load does not begin. The caller has the outcome by then.
    ///
    /// The clone comes first: it runs user code, which may load the key and so bypass this load.
    pub fn begin(self, generation: Generation) -> Option<(Self, K)>
    where
        K: Clone,
    {
        // A panic of the user's code must not reach the executor.
        let key = catch_user_panic(|| self.draft.key().clone());
        let ran = match key {
            Some(key) if self.flight.begin_queued(generation) => return Some((self, key)),
            Some(_) => QueuedOutcome::Bypassed,
            None => QueuedOutcome::Panicked,
        };
        let Self { flight, draft, mut caller } = self;
        drop((flight, draft));
        caller.complete(|| ran);
        None
    }

    /// The cell in which the caller waits.
    pub fn cell(&self) -> Arc<FlightCell<QueuedOutcome<T>>> {
        Arc::clone(self.caller.flight())
    }
}

impl<K, V, S> Engine<K, V, S> {
    /// The reloads of the cache, and the mark of a node that is stale and whose reload a caller may
    /// wait for. Inside user code none may, since the reload may be the caller's own. Nor may one
    /// that holds a view, if reloads run inline: its own reload waits for the end of the view.
    pub fn reload_to_await(&self, node: &Handle<K, V>) -> Option<(&Reloads, RefreshMark<'_>)> {
        let (reloads, mark) = (self.reloads.as_ref()?, self.pool.raw().refresh(node.id())?);
        // The clock is read only if a reload is under way.
        let is_awaited = mark.is_under_way()
            && !reentrancy::is_in_user_code()
            && !(reloads.settings.inline && crate::epoch::is_pinned())
            && mark.stale_from() <= self.core.ticker.now();
        is_awaited.then_some((&**reloads, mark))
    }

    /// Waits while the reload of a stale node is under way, until `deadline`. It waits for no node
    /// that has left the index, since such a node stays marked.
    pub fn await_reload(&self, node: &Handle<K, V>, deadline: Option<Instant>) {
        if reentrancy::has_deferred() {
            // The reload may be one that this thread has put off.
            reentrancy::deliver_deferred();
        }
        if let Some((reloads, refresh)) = self.reload_to_await(node) {
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
    /// A load that waits in an executor is on the board. So at most one such job per key can still
    /// begin, however often callers give up and call again. Until it begins, only callers of this
    /// function wait for it.
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
        // A write, or a load that bypassed the queued one, may have stored a value meanwhile.
        let give_up = || {
            let present = self.peek_entry(self.hash(key), key);
            present.map_or(Waited::TimedOut, |entry| Waited::Loaded(Ok(entry)))
        };
        loop {
            let (draft, mut joined) = (self.draft_for_load(key.clone()), None);
            let begin = || self.begin_queued_load(&draft, &mut joined);
            let flight = match block_until(deadline, begin) {
                None => return give_up(),
                Some(Begun::Leading(flight)) => flight,
                Some(Begun::Ended(loaded)) => {
                    // The drop must come before the entry is the return value: otherwise a panic of
                    // the key's destructor would leak the entry.
                    drop(draft);
                    return Waited::Loaded(loaded);
                }
            };
            let queued = QueuedLoad::new(flight, draft);
            let (cell, engine, load) = (queued.cell(), engine.clone(), load.clone());
            self.core.execute(Box::new(move || {
                if let Some(engine) = engine.upgrade() {
                    // If the caller has given up, the result is nobody's, and its destructor may
                    // panic.
                    catch_user_panic(|| engine.run_queued(queued, load));
                }
            }));
            let resubmit = Instant::now() + RESUBMIT;
            let has_ended = cell.wait_until(deadline);
            match cell.outcome().filter(|_| has_ended) {
                Some(Outcome::Done(QueuedOutcome::Loaded(loaded))) => {
                    return Waited::Loaded(loaded);
                }
                Some(Outcome::Done(QueuedOutcome::Panicked)) => return Waited::Panicked,
                Some(Outcome::Done(QueuedOutcome::Bypassed)) => {}
                // The executor has dropped the job.
                Some(Outcome::Abandoned) if deadline.is_none_or(|it| it > resubmit) => {
                    std::thread::sleep(resubmit.saturating_duration_since(Instant::now()));
                }
                Some(Outcome::Abandoned) | None => return give_up(),
            }
        }
    }

    /// The job of a load that was queued.
    pub(super) fn run_queued<R: LoaderResult<V>>(
        &self,
        queued: QueuedLoad<K, V, Result<Entry<K, V>, R::Reason>>,
        load: impl FnOnce(&K) -> R,
    ) {
        let Some((queued, key)) = queued.begin(self.core.hot.generation()) else { return };
        let QueuedLoad { flight, draft, mut caller } = queued;
        // A panic of the user's code, destructors included, must not reach the executor.
        let loaded = catch_user_panic(|| {
            // Nothing holds the job back: the executor's thread may be the one that receives.
            let _mark = ReentrancyMark::push(Frame::Task);
            let mut load = once(|| load(&key).into_result());
            let loaded = self.finish_load(flight, draft, &mut load, &mut Replaces::none());
            drop(load);
            loaded
        });
        caller.complete(|| loaded.map_or(QueuedOutcome::Panicked, QueuedOutcome::Loaded));
    }
}
