//! Time limits of tasks: a task waits for a reload or a load no longer than it wants to, and that
//! goes on. The timer is the caller's: a future.

use crate::engine::Engine;
use crate::engine::reentrancy;
use crate::entry::Entry;
use crate::executor::spawn;
use crate::flight::cell::{FlightCell, Follow, Leader, Outcome};
use crate::loader::AnyAsyncLoader;
use crate::node::GONE;
use crate::pool::Handle;
use crate::primitives::catch_user_panic;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// What a load elsewhere came to: `None` if the loader panicked.
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
        let (Some(reloads), Some(refresh)) = (&self.reloads, self.pool.raw().refresh(node.id()))
        else {
            return;
        };
        if reentrancy::is_in_user_code() {
            return;
        }
        let is_over = || !refresh.is_under_way() || node.meta().deadline() == GONE;
        let mut wait = reloads.wait();
        let reload = pin!(poll_fn(|context| wait.poll(context, is_over)));
        until(reload, limit).await;
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Loads a key without an entry in a task of the executor, which goes on if this future is
    /// dropped; in this task, if reloads run inline, or if the executor drops a job.
    pub async fn load_elsewhere_async<E: Send + Sync + 'static>(
        &self,
        key: K,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> LoadedElsewhere<K, V, E> {
        if let Some(engine) = self.executed() {
            let mut leader = Leader::of(FlightCell::new());
            let follow = Follow::new(Clone::clone(leader.flight()));
            let (key, loader) = (key.clone(), Arc::clone(loader));
            let load = async move {
                let Some(engine) = engine.upgrade() else { return };
                let mut load = pin!(engine.load_after_miss_async(key.clone(), loader.load(&key)));
                let loaded = poll_fn(|context| {
                    let poll = catch_user_panic(|| load.as_mut().poll(context));
                    poll.map_or(Poll::Ready(None), |poll| poll.map(Some))
                });
                let loaded = loaded.await;
                leader.complete(|| loaded);
            };
            spawn(Box::pin(load), self.core.executing());
            if let Outcome::Done(loaded) = follow.await {
                return loaded;
            }
        }
        Some(self.load_after_miss_async(key.clone(), loader.load(&key)).await)
    }
}
