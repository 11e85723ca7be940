//! Time limits: a caller waits for a reload or a load no longer than it wants to, and that goes on.

use crate::engine::Engine;
use crate::engine::loads::ValueOrLoad;
use crate::engine::reentrancy;
use crate::entry::Entry;
use crate::loaded::LoaderResult;
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::{Arc, Condvar, Mutex, catch_user_panic};
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

/// The end of a job, for the caller that waits for it.
enum State<T> {
    Running,
    Ended(T),
    /// The executor dropped the job.
    Dropped,
}

struct Cell<T> {
    state: Mutex<State<T>>,
    ended: Condvar,
}

/// The job's side of the cell.
struct Sender<T>(Arc<Cell<T>>);

impl<T> Cell<T> {
    fn new() -> (Arc<Self>, Sender<T>) {
        let cell = Arc::new(Self { state: Mutex::new(State::Running), ended: Condvar::new() });
        (Arc::clone(&cell), Sender(cell))
    }

    /// Waits until the job has ended, or until `deadline`.
    fn wait(&self, deadline: Option<Instant>) -> State<T> {
        let mut state = self.state.lock();
        while matches!(*state, State::Running) {
            let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
            state = match left {
                None => self.ended.wait(state),
                Some(left) if left.is_zero() => return State::Running,
                Some(left) => self.ended.wait_timeout(state, left),
            };
        }
        std::mem::replace(&mut *state, State::Dropped)
    }
}

impl<T> Sender<T> {
    fn send(self, result: T) {
        *self.0.state.lock() = State::Ended(result);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if matches!(*state, State::Running) {
            *state = State::Dropped;
        }
        drop(state);
        self.0.ended.notify_all();
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
    pub fn load_until<R: LoaderResult<V> + 'static>(
        &self,
        key: &K,
        load: impl Fn(&K) -> R + Clone + Send + 'static,
        deadline: Option<Instant>,
    ) -> Waited<K, V, R::Reason>
    where
        R::Reason: Send + 'static,
    {
        let Some(engine) = self.executed() else { return self.load_here(key, load, deadline) };
        loop {
            let (cell, sender) = Cell::new();
            let (engine, key, load) = (engine.clone(), key.clone(), load.clone());
            self.core.execute(Box::new(move || {
                if let Some(engine) = engine.upgrade() {
                    let wanted = key.clone();
                    let load = || engine.load_after_miss(key, || load(&wanted));
                    sender.send(catch_user_panic(load));
                }
            }));
            let resubmit = Instant::now() + RESUBMIT;
            match cell.wait(deadline) {
                State::Ended(Some(loaded)) => return Waited::Loaded(loaded),
                State::Ended(None) => return Waited::Panicked,
                State::Running => return Waited::TimedOut,
                State::Dropped if deadline.is_some_and(|it| it <= resubmit) => {
                    return Waited::TimedOut;
                }
                State::Dropped => {
                    std::thread::sleep(resubmit.saturating_duration_since(Instant::now()))
                }
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
