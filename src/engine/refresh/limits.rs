//! Time limits: a caller waits for a reload or a load no longer than it wants to, and that goes on.

use crate::engine::Engine;
use crate::engine::loads::ValueOrLoad;
use crate::engine::reentrancy;
use crate::entry::Entry;
use crate::flight::cell::{FlightCell, Leader, Outcome};
use crate::loaded::LoaderResult;
use crate::node::GONE;
use crate::pool::Handle;
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
    pub fn load_until<R: LoaderResult<V> + 'static>(
        &self,
        key: &K,
        load: impl Fn(&K) -> R + Clone + Send + 'static,
        deadline: Option<Instant>,
    ) -> Waited<K, V, R::Reason>
    where
        R::Reason: Clone + Send + Sync + 'static,
    {
        let Some(engine) = self.executed() else { return self.load_here(key, load, deadline) };
        loop {
            let mut leader = Leader::of(FlightCell::new());
            let flight = Arc::clone(leader.flight());
            let (engine, key, load) = (engine.clone(), key.clone(), load.clone());
            self.core.execute(Box::new(move || {
                if let Some(engine) = engine.upgrade() {
                    let wanted = key.clone();
                    let loaded = catch_user_panic(|| engine.load_after_miss(key, || load(&wanted)));
                    leader.complete(|| loaded);
                }
            }));
            let resubmit = Instant::now() + RESUBMIT;
            let outcome = match deadline {
                None => Some(flight.wait()),
                Some(deadline) if flight.wait_until(deadline) => flight.outcome(),
                Some(_) => None,
            };
            match outcome {
                Some(Outcome::Done(Some(loaded))) => return Waited::Loaded(loaded),
                Some(Outcome::Done(None)) => return Waited::Panicked,
                // The executor has dropped the job.
                Some(Outcome::Abandoned) if deadline.is_none_or(|it| it > resubmit) => {
                    std::thread::sleep(resubmit.saturating_duration_since(Instant::now()));
                }
                Some(Outcome::Abandoned) | None => return Waited::TimedOut,
            }
        }
    }

    /// [`load_until`](Self::load_until) where reloads run inline.
    fn load_here<R: LoaderResult<V>>(
        &self,
        key: &K,
        load: impl Fn(&K) -> R,
        deadline: Option<Instant>,
    ) -> Waited<K, V, R::Reason> {
        let pending = match self.value_or_load(key, deadline) {
            ValueOrLoad::Present(entry) => return Waited::Loaded(Ok(entry)),
            ValueOrLoad::TimedOut => return Waited::TimedOut,
            ValueOrLoad::Leading(pending) => pending,
        };
        // A panic of the loader drops the load: one of those who wait leads next.
        Waited::Loaded(match load(key).into_result() {
            Ok(loaded) => Ok(self.finish_pending(pending, loaded)),
            Err(reason) => {
                self.give_up_pending(pending);
                Err(reason)
            }
        })
    }
}
