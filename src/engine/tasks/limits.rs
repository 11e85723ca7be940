//! Time limits of tasks: a task waits for a reload or a load no longer than it wants to. The reload
//! or load goes on without it. The limit is a future of the caller's.

use super::drive::{drive, flight_ended};
use super::load::{Unmade, UnmadePlainly};
use crate::engine::Engine;
use crate::engine::flights::FlightKind;
use crate::engine::loads::Begun;
use crate::engine::reentrancy;
use crate::engine::refresh::{QueuedLoad, QueuedOutcome};
use crate::entry::Entry;
use crate::executor::spawn;
use crate::flight::cell::{Follow, Outcome};
use crate::loader::AnyAsyncLoader;
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::catch_user_panic;
use std::convert::identity;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// The outcome of a load in another task: `None` if the loader panicked.
pub type LoadedElsewhere<K, V, E> = Option<Result<Entry<K, V>, Arc<E>>>;

/// The result of `work`, or `None` if `limit` is ready first.
pub async fn until<T>(
    mut work: Pin<&mut impl Future<Output = T>>,
    mut limit: Pin<&mut impl Future>,
) -> Option<T> {
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Some(result)),
        Poll::Pending => limit.as_mut().poll(context).map(|_| None),
    })
    .await
}

impl<K, V, S> Engine<K, V, S> {
    /// [`await_reload`](Self::await_reload) for tasks, until `limit` is ready.
    pub async fn await_reload_async(&self, node: &Handle<K, V>, limit: Pin<&mut impl Future>) {
        let Some((reloads, refresh)) = self.reload_to_await(node) else { return };
        let is_over = || !refresh.is_under_way() || node.meta().deadline() == GONE;
        let mut wait = reloads.wait();
        let reload = pin!(poll_fn(|context| wait.poll(context, is_over)));
        until(reload, limit).await;
    }
}

impl<K: Eq, V, S> Engine<K, V, S> {
    /// Waits for the reload of the key that is under way. Not for one that is still to begin: it
    /// may wait for the executor's only thread, which may be this one. Nor inside user code, which
    /// the reload may be waiting for.
    pub async fn join_reload_async(&self, node: &Handle<K, V>) {
        if reentrancy::is_in_user_code() || reentrancy::tells() {
            return;
        }
        let reload = self.flight_of(node.meta().hash(), node.key()).1;
        if let Some(reload) = reload.filter(|flight| flight.kind() == FlightKind::Reload) {
            flight_ended(reload).await;
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Loads a key without an entry in a task of the executor. That task goes on if this future is
    /// dropped. If reloads run inline, or the executor drops a job, this task runs the loader
    /// itself. See [`load_until`](Self::load_until).
    pub async fn load_elsewhere_async<E: Send + Sync + 'static>(
        &self,
        key: K,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> LoadedElsewhere<K, V, E> {
        while let Some(engine) = self.executed() {
            let (draft, mut joined) = (self.draft_for_load(key.clone()), None);
            let flight = match drive(|| self.begin_queued_load(&draft, &mut joined)).await {
                Begun::Leading(flight) => flight,
                Begun::Ended(loaded) => {
                    // As in `load_until`.
                    drop((draft, key));
                    return Some(loaded);
                }
            };
            let queued = QueuedLoad::new(flight, draft);
            let follow = Follow::new(queued.cell());
            let loader = Arc::clone(loader);
            let load = async move {
                if let Some(engine) = engine.upgrade() {
                    engine.run_queued_async(queued, loader).await;
                }
            };
            spawn(Box::pin(load), self.core.executing());
            match follow.await {
                Outcome::Done(QueuedOutcome::Loaded(loaded)) => {
                    drop(key);
                    return Some(loaded);
                }
                Outcome::Done(QueuedOutcome::Panicked) => return None,
                Outcome::Done(QueuedOutcome::Bypassed) => {}
                Outcome::Abandoned => break,
            }
        }
        let unmade = &mut Some(Unmade::missing(key.clone()));
        let made = {
            let made = pin!(Some(loader.load(&key)));
            self.make_async(unmade, made, identity).await
        };
        // As in `load_until`.
        drop(key);
        Some(made)
    }

    /// The task of a load that was queued.
    async fn run_queued_async<E: Send + Sync + 'static>(
        &self,
        queued: QueuedLoad<K, V, Result<Entry<K, V>, Arc<E>>>,
        loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) {
        let Some((queued, key)) = queued.begin(self.core.hot.generation()) else { return };
        let QueuedLoad { flight, draft, mut caller } = queued;
        let mut unmade: Option<UnmadePlainly<K, V>> = Some(Unmade::Leading(flight, draft));
        // The flight is gone when the caller goes on.
        let loaded = {
            let made = pin!(Some(loader.load(&key)));
            let mut load = pin!(self.make_async(&mut unmade, made, identity));
            poll_fn(|context| {
                // A panic of the user's code must not reach the executor.
                let poll = catch_user_panic(|| load.as_mut().poll(context));
                poll.map_or(Poll::Ready(QueuedOutcome::Panicked), |poll| {
                    poll.map(QueuedOutcome::Loaded)
                })
            })
            .await
        };
        caller.complete(|| loaded);
    }
}
