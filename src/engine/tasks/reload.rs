//! Reloads by tasks: in the task that asks for the value, or in a task that the executor runs.

use super::drive::as_task;
use super::exchange::{Exchange, Parts};
use crate::engine::Engine;
use crate::engine::loads::LoadTimer;
use crate::engine::reentrancy::FlightToken;
use crate::engine::refresh::{Answer, Panics};
use crate::engine::reloads::Reloading;
use crate::entry::Entry;
use crate::executor::spawn;
use crate::loaded::NoValue;
use crate::loader::{AnyAsyncLoader, AsyncAnswer, Reloaded};
use crate::primitives::catch_user_panic;
use std::convert::identity;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// The answer of a stored loader.
pub async fn asked<V, E: Send + Sync + 'static>(
    asked: AsyncAnswer<'_, Reloaded<V>, E>,
) -> Answer<V> {
    caught(async { asked.await.map_err(|error| Some(NoValue::Failed(Arc::new(error)))) }).await
}

/// An answer, of which a panic is a failure.
pub async fn caught<V>(answer: impl Future<Output = Answer<V>>) -> Answer<V> {
    let mut answer = pin!(answer);
    poll_fn(|context| {
        let poll = catch_user_panic(|| answer.as_mut().poll(context));
        poll.unwrap_or(Poll::Ready(Err(None)))
    })
    .await
}

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Reloads a node's value by a future whose panics count as failures. Returns the entry
    /// of the value that it brought or found not modified, if it did. If the key has another load
    /// or computation, this waits for none. The caller pins the future, so that the futures up
    /// to here have only a pointer to it.
    pub async fn reload_by(
        &self,
        reloading: Box<Reloading>,
        key: impl FnMut(&K) -> K,
        user: Pin<&mut Option<impl Future<Output = Answer<V>>>>,
    ) -> Option<Entry<K, V>> {
        let exchange = Exchange::new();
        let ask = async |flight| exchange.ask(flight, ()).await;
        let operation = pin!(Some(self.reload_async(reloading, key, (ask, Panics::Count))));
        Parts { exchange: &exchange, operation, user }.run(identity).await
    }

    /// [`reload_by`](Self::reload_by), which asks for the answer.
    pub async fn reload_async<F: Future<Output = Answer<V>>>(
        &self,
        reloading: Box<Reloading>,
        mut key: impl FnMut(&K) -> K,
        (answer, panics): (impl FnOnce(FlightToken) -> F, Panics<'_>),
    ) -> Option<Entry<K, V>> {
        let begun = as_task(|| self.begin_running(reloading, panics));
        let Some((mut running, flight)) = begun else {
            as_task(|| self.after_write());
            return None;
        };
        let timer = LoadTimer::start(&self.core);
        let answer = {
            let mut answer = pin!(answer(flight.token()));
            poll_fn(|context| {
                running.run(|_| {
                    let _mark = flight.mark_poll();
                    answer.as_mut().poll(context)
                })
            })
            .await
        };
        timer.stop(&answer);
        as_task(|| {
            let made = self.land_running((running, flight), (answer, panics), &mut key);
            self.after_write();
            made
        })
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Has reads start reloads by the stored loader, as tasks, if these run on an executor.
    pub fn start_reloads_by<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) {
        let reloads = self.reloads.as_ref().filter(|reloads| !reloads.settings.inline);
        let Some(reloads) = reloads else { return };
        let engine = Arc::downgrade(self);
        reloads.set_starter(Box::new(move |reloading: Reloading| {
            let (started, loader) = (engine.upgrade()?, Arc::clone(&loader));
            let engine = Arc::downgrade(&started);
            // The task keeps the cache while its loader works, as a caller's load does. A job that
            // waits keeps nothing: the executor may be the cache's own.
            let reload = async move {
                let Some(engine) = engine.upgrade() else { return };
                let node = engine.pool.handle(reloading.node().clone());
                let made = {
                    let answer = pin!(Some(asked(loader.reload(node.key(), node.value()))));
                    engine.reload_by(Box::new(reloading), K::clone, answer).await
                };
                engine.core.drop_caught(made);
                engine.core.drop_caught(node);
            };
            spawn(Box::pin(reload), started.core.executing());
            None
        }));
    }
}
