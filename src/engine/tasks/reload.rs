//! Reloads by a loader that awaits, in tasks of the executor.

use super::drive::as_task;
use super::exchange::{Exchange, Parts, made_before};
use super::executed::turns;
use crate::engine::loads::LoadTimer;
use crate::engine::refresh::Answer;
use crate::engine::reloads::Reloading;
use crate::engine::{Engine, WithHasher};
use crate::entry::Entry;
use crate::loaded::NoValue;
use crate::loader::{AnyAsyncLoader, AsyncAnswer, Reloaded};
use crate::primitives::{Mutex, catch_user_panic};
use std::convert::identity;
use std::future::poll_fn;
use std::hash::{BuildHasher, Hash};
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::task::Poll;

/// The answer of a stored loader. Its panic is a failure.
async fn asked<V, E: Send + Sync + 'static>(
    mut asked: AsyncAnswer<'_, Reloaded<V>, E>,
) -> Answer<V> {
    let answer = poll_fn(|context| {
        let poll = catch_user_panic(|| asked.as_mut().poll(context));
        poll.map_or(Poll::Ready(None), |poll| poll.map(Some))
    });
    let failed = |error| Some(NoValue::Failed(Arc::new(error)));
    answer.await.map_or(Err(None), |answer| answer.map_err(failed))
}

impl<K: Eq + Clone, V> Engine<K, V> {
    /// [`reload`](Self::reload) by a loader that awaits.
    async fn reload_async<E: Send + Sync + 'static>(
        &self,
        reloading: Reloading,
        loader: &dyn AnyAsyncLoader<K, V, E>,
    ) -> Option<Entry<K, V>> {
        let node = self.pool.handle(reloading.node().clone());
        let made = {
            let answer = pin!(Some(asked(loader.reload(node.key(), node.value()))));
            let exchange = Exchange::new();
            let operation = pin!(Some(self.reload_asking(reloading, &exchange)));
            Parts { exchange: &exchange, operation, user: answer }.run(made_before, identity).await
        };
        self.core.drop_caught(node);
        made
    }

    async fn reload_asking(
        &self,
        reloading: Reloading,
        exchange: &Exchange<(), Answer<V>>,
    ) -> Option<Entry<K, V>> {
        let node = self.pool.handle(reloading.node().clone());
        let ended = match as_task(|| catch_user_panic(|| self.begin_reload(&node))) {
            None => None,
            Some(Err(ended)) => Some((ended, None)),
            Some(Ok(flight)) => {
                let timer = LoadTimer::start(&self.core);
                let answer = exchange.ask(flight.token(), ()).await;
                timer.stop(&answer);
                reloading.give_place_back();
                let read_at = reloading.read_at;
                as_task(|| catch_user_panic(|| self.land_reload(&node, read_at, answer, flight)))
            }
        };
        let made = self.end_reload(reloading, ended);
        self.core.drop_caught(node);
        as_task(|| self.after_write());
        made
    }
}

impl<K, V, S> WithHasher<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Has reads start reloads by the stored loader, as tasks of the executor.
    pub fn start_reloads_by<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) {
        let Some(reloads) = self.refresh() else { return };
        let engine = Arc::downgrade(self);
        reloads.set_starter(Box::new(move |reloading: Reloading| {
            let core = engine.upgrade().map(|engine| Arc::clone(&engine.core))?;
            let (engine, loader) = (Weak::clone(&engine), Arc::clone(&loader));
            let outcome = Arc::new(Mutex::new(None));
            let told = Arc::clone(&outcome);
            // The task keeps the cache while its loader works, as a caller's load does. A job that
            // waits keeps nothing: the executor may be the cache's own.
            let reload = async move {
                let Some(engine) = engine.upgrade() else { return };
                let made = engine.reload_async(reloading, &*loader).await;
                *told.lock() = Some(made);
            };
            core.notices.executor.spawn(Box::pin(turns(reload)));
            outcome.lock().take()
        }));
    }
}
