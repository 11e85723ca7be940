//! Reloads by tasks: in the task that asks for the value, or in a task that the executor runs.

use super::drive::as_task;
use super::exchange::{Exchange, Parts};
use crate::engine::Engine;
use crate::engine::flights::FlightGuard;
use crate::engine::loads::LoadTimer;
use crate::engine::reentrancy::{FlightToken, Frame, ReentrancyMark};
use crate::engine::refresh::{Answer, ReloadEnd, Running, Starter};
use crate::engine::reloads::{Reloading, Start};
use crate::entry::Entry;
use crate::executor::spawn;
use crate::loaded::NoValue;
use crate::loader::{AnyAsyncLoader, AsyncAnswer, Reloaded};
use crate::primitives::catch_user_panic;
use crate::primitives::guarded::GuardedBool;
use std::convert::identity;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;

/// What a panic of the user's code comes to in a reload.
#[derive(Clone, Copy)]
pub enum Panics<'a> {
    /// A failure: the reader that triggered the reload has not asked for it.
    Count,
    /// It reaches the caller, whose own future is asked. This says whether that is being polled.
    Reach(&'a GuardedBool),
}

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

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// Reloads a node's value by a future whose panics count as failures. Returns the new value's
    /// entry, if it brought a value. If the key has another load or computation, this waits for
    /// none. The caller pins the future, so that the futures up to here have only a pointer to it.
    pub async fn reload_by(
        &self,
        reloading: Box<Reloading>,
        key: impl FnMut(&K) -> K,
        user: Pin<&mut Option<impl Future<Output = Answer<V>>>>,
    ) -> Option<Entry<K, V>> {
        let exchange = Exchange::new();
        let ask = async |flight| exchange.ask(flight, ()).await;
        let operation = pin!(Some(self.reload_async(reloading, key, (ask, Panics::Count))));
        Parts { operation, user }.run(&exchange, identity).await
    }

    /// [`reload_by`](Self::reload_by), which asks for the answer. The user's future outlives this
    /// one: its destructor may use the key.
    pub async fn reload_async<F: Future<Output = Answer<V>>>(
        &self,
        reloading: Box<Reloading>,
        mut key: impl FnMut(&K) -> K,
        (answer, panics): (impl FnOnce(FlightToken) -> F, Panics<'_>),
    ) -> Option<Entry<K, V>> {
        let (mut running, flight) = match self.begin_reload_async(reloading) {
            Ok(begun) => begun,
            Err(made) => return made,
        };
        if let Panics::Reach(is_polling) = panics {
            running.watch(is_polling);
        }
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
        self.land_reload_async((running, flight, timer), (answer, panics), &mut key)
    }

    /// The first part of a reload. This and the last part are compiled once for all futures.
    ///
    /// # Errors
    /// The call's result, if the reload ends here.
    fn begin_reload_async(
        &self,
        reloading: Box<Reloading>,
    ) -> Result<(Running<'_>, FlightGuard), Option<Entry<K, V>>> {
        // Dropped after the flight: from then on a read may trigger the next reload.
        let reloads = self.reloads.as_ref().ok_or(None)?;
        let mut running = Running::new(&self.core, reloads, reloading);
        let flight = match self.begin_reload(self.pool.handle_ref(&running.reloading().node)) {
            Ok(flight) => flight,
            Err(hindered) => {
                running.end_hindered(hindered);
                return Err(None);
            }
        };
        let checked = running.run(|reloading| self.check_reloaded(reloading, &flight));
        let Err(present) = checked else { return Ok((running, flight)) };
        Err(as_task(|| {
            let ending = ReentrancyMark::push(Frame::Ending);
            let made = self.land_nothing(present, flight.enter()).end(running);
            drop(ending);
            self.after_write();
            made
        }))
    }

    /// The last part of a reload: commits, and ends the flight.
    fn land_reload_async(
        &self,
        (running, flight, timer): (Running<'_>, FlightGuard, LoadTimer<'_>),
        (answer, panics): (Answer<V>, Panics<'_>),
        key: &mut dyn FnMut(&K) -> K,
    ) -> Option<Entry<K, V>> {
        timer.stop(&answer);
        as_task(|| {
            // As in `run_reload`.
            let ending = ReentrancyMark::push(Frame::Ending);
            let mut running = running;
            // The flight is entered here because it ends here: marks end in the order of a stack.
            let flight = flight.enter();
            let ended = running.run(|reloading| {
                let of = (self.pool.handle_ref(&reloading.node), reloading.read_at);
                let land = || self.land_answer(of, answer, key, flight);
                match panics {
                    Panics::Count => catch_user_panic(land).unwrap_or(ReloadEnd::Failed(None)),
                    Panics::Reach(_) => land(),
                }
            });
            let made = ended.end(running);
            drop(ending);
            self.after_write();
            made
        })
    }

    /// Looks whether the entry is still the one to be reloaded.
    ///
    /// # Errors
    /// What is there, if it is another one.
    fn check_reloaded(
        &self,
        reloading: &Reloading,
        flight: &FlightGuard,
    ) -> Result<(), Option<Entry<K, V>>> {
        let _mark = flight.mark_poll();
        let node = self.pool.handle_ref(&reloading.node);
        let present = self.stable_entry(node.meta().hash(), node.key()).0;
        let is_same = present.as_ref().is_some_and(|it| it.node().id() == node.id());
        if is_same { Ok(()) } else { Err(present) }
    }
}

/// Starts reloads by an asynchronous loader, on the executor.
struct AsyncStarter<K, V, E, S> {
    starter: Starter<K, V, S>,
    loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
}

impl<K, V, E, S> Start<K, V> for AsyncStarter<K, V, E, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    fn start(&self, reloading: Reloading) -> Option<Entry<K, V>> {
        let engine = self.starter.0.upgrade()?;
        let loader = Arc::clone(&self.loader);
        let execute = engine.core.executing();
        let engine = Arc::downgrade(&engine);
        // The task keeps the cache while its loader works, as a caller's load does. A job that
        // waits keeps nothing: the executor may be the cache's own.
        let reload = async move {
            let Some(engine) = engine.upgrade() else { return };
            let node = engine.pool.handle(reloading.node.clone());
            let key = node.key().clone();
            let answer = pin!(Some(asked(loader.reload(&key, node.value()))));
            drop(engine.reload_by(Box::new(reloading), K::clone, answer).await);
        };
        spawn(Box::pin(reload), execute);
        None
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Has reads start reloads by the stored loader, if these run on an executor.
    pub fn start_reloads_by<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) {
        if let Some(reloads) = &self.reloads
            && !reloads.settings.inline
        {
            let starter = Starter(Arc::downgrade(self));
            reloads.set_starter(Arc::new(AsyncStarter { starter, loader }));
        }
    }
}
