//! Loads by a stored loader that awaits: they run in tasks of the executor, so that they go on if
//! their callers are dropped.

use super::drive::{as_task, flight_ended};
use super::exchange::{Exchange, Parts, made_before};
use super::load::{Unmade, UnmadePlainly};
use crate::engine::bulk::{BulkValues, Missing, Wanted};
use crate::engine::flights::FlightGuard;
use crate::engine::loads::{Begun, Replaces};
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::refresh::ReloadResult;
use crate::engine::reloads::{Place, Reloading};
use crate::engine::{Engine, WithHasher};
use crate::entry::Entry;
use crate::flight::cell::{FlightCell, Follow, Leader};
use crate::hash::Hashed;
use crate::loaded::{LoadedMany, NoValue};
use crate::loader::{AnyAsyncLoader, AsyncAnswer, Reloaded};
use crate::pool::OwnedDraft;
use crate::primitives::{Mutex, catch_user_panic};
use crate::span::{Span, Work};
use crate::to_key::ToKey;
use std::convert::identity;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::Poll;

/// What a task has made; `None` if the executor has dropped it.
type Made<K, V, E> = Option<Result<Entry<K, V>, Arc<E>>>;

/// The result of `work`.
///
/// # Errors
/// That of `limit`, if it is ready first.
pub async fn race<T, L>(
    mut work: Pin<&mut impl Future<Output = T>>,
    mut limit: Pin<&mut impl Future<Output = L>>,
) -> Result<T, L> {
    poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(result) => Poll::Ready(Ok(result)),
        Poll::Pending => limit.as_mut().poll(context).map(Err),
    })
    .await
}

/// A future whose polls are turns of their own: an executor may run one inside of another task's.
pub async fn turns<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _turn = ReentrancyMark::push(Frame::Turn);
        work.as_mut().poll(context)
    })
    .await
}

impl<K, V, S> WithHasher<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Has the executor run a future. Returns what it makes; `None` if the executor drops or
    /// refuses it. A panic of it goes on in this call.
    fn begin_task<T, W>(&self, work: W) -> impl Future<Output = Option<T>> + use<K, V, S, T, W>
    where
        T: Send + 'static,
        W: Future<Output = T> + Send + 'static,
    {
        let mut leader = Leader::of(FlightCell::new());
        let (end, result) = (Follow::new(leader.flight().clone()), Arc::new(Mutex::new(None)));
        let (made, caller) = (Arc::clone(&result), Span::current());
        let task = async move {
            let outcome = {
                let mut work = pin!(work);
                poll_fn(|context| {
                    let _entered = caller.enter();
                    let poll = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
                    poll.map_or_else(|payload| Poll::Ready(Err(payload)), |poll| poll.map(Ok))
                })
                .await
            };
            *made.lock() = Some(outcome);
            leader.complete(|| ());
        };
        // The executor may be the user's, and panic: then it has dropped the task.
        catch_user_panic(|| self.core.notices.executor.spawn(Box::pin(turns(task))));
        async move {
            end.await;
            let made = result.lock().take();
            made.map(|made| made.unwrap_or_else(|payload| resume_unwind(payload)))
        }
    }

    /// Has reads start reloads by the stored loader, as tasks of the executor.
    pub fn start_reloads_by<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        loader: Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) {
        let Some(reloads) = self.refresh() else { return };
        let engine = Arc::downgrade(self);
        reloads.set_starter(Box::new(move |core, reloading, made| {
            let (engine, loader) = (Weak::clone(&engine), Arc::clone(&loader));
            // The task keeps the cache while its loader works, as a caller's load does. A job that
            // waits keeps nothing: the executor may be the cache's own.
            core.notices.executor.spawn(Box::pin(turns(async move {
                let Some(engine) = engine.upgrade() else { return };
                let reloaded = engine.reload_async(reloading, &*loader).await;
                *made.lock() = Some(reloaded);
            })));
        }));
    }

    /// Loads a key without an entry. The loader runs in a task of the executor, or if that is
    /// dropped, in this one. A value that anyone else brings meanwhile is as good.
    ///
    /// # Errors
    /// The loader's.
    pub async fn load_executed<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        key: Hashed<K>,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> Result<Entry<K, V>, Arc<E>> {
        if let Some(loaded) = self.load_in_a_task(key.as_ref(), loader).await {
            return loaded;
        }
        let unmade = &mut Some(Unmade::missing(key.clone()));
        self.make_async(unmade, pin!(Some(loader.load(&key.key))), made_before, identity).await
    }

    /// `None` if the executor has dropped the task.
    async fn load_in_a_task<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        key: Hashed<&K>,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> Made<K, V, E> {
        let (draft, mut joined) = (self.draft_for_load(key.to_key()), None);
        let hash = draft.hashed().hash;
        let wait = self.refresh()?.waits.on(hash);
        loop {
            let brought = pin!(wait.wait_for(|| self.peek_entry(key)));
            let begun = self.begin_load::<Arc<E>>(None, &draft, &mut joined, &mut Replaces::none());
            match begun {
                Ok(Begun::Ended(loaded)) => return Some(loaded),
                Ok(Begun::Leading(flight, _)) => {
                    let begins = pin!(self.begin_load_task(flight, draft, None, loader));
                    let made = race(begins, brought).await;
                    return made.map_or_else(|entry| Some(Ok(entry)), Option::flatten);
                }
                Err(flight) => {
                    if let Err(entry) = race(pin!(flight_ended(flight)), brought).await {
                        return Some(Ok(entry));
                    }
                }
            }
        }
    }

    /// Starts a reload of the key's entry, or a load if there is no entry. Returns whether this
    /// call has.
    pub fn refresh_key_async<Q: ToKey<K> + ?Sized, E: Send + Sync + 'static>(
        self: &Arc<Self>,
        key: Hashed<&Q>,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> bool {
        self.check_key(key);
        if let Some(entry) = self.peek_entry(key) {
            return self.refresh_node(entry.node());
        }
        let place = self.refresh().and_then(|reloads| reloads.place());
        let Some(place) = place else { return false };
        let draft = self.draft_for_load(key.to_key());
        let begun = self.begin_load::<Arc<E>>(None, &draft, &mut None, &mut Replaces::none());
        let Ok(Begun::Leading(flight, _)) = begun else { return false };
        drop(self.begin_load_task(flight, draft, Some(place), loader));
        true
    }

    fn begin_load_task<E: Send + Sync + 'static>(
        self: &Arc<Self>,
        flight: FlightGuard,
        draft: OwnedDraft<K, V>,
        place: Option<Place>,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> impl Future<Output = Option<Made<K, V, E>>> + use<K, V, S, E> {
        // A task that waits must not keep the cache: the executor may be the cache's own.
        let (engine, loader) = (Arc::downgrade(self), Arc::clone(loader));
        self.begin_task(async move {
            let engine = engine.upgrade()?;
            let key = draft.key().clone();
            let mut unmade: Option<UnmadePlainly<K, V>> = Some(Unmade::Leading(flight, draft));
            let load = async {
                let loaded = loader.load(&key).await;
                place.iter().for_each(Place::give_back);
                loaded
            };
            Some(engine.make_async(&mut unmade, pin!(Some(load)), made_before, identity).await)
        })
    }

    /// The values of keys, some of which are missing. One task of the executor loads those, or if
    /// that is dropped, this one.
    ///
    /// # Errors
    /// That of the first key that has one.
    pub async fn load_many_executed<'q, Q, E: Send + Sync + 'static>(
        self: &Arc<Self>,
        keys: impl IntoIterator<Item = &'q Q>,
        loader: &Arc<dyn AnyAsyncLoader<K, V, E>>,
    ) -> (Result<BulkValues<V>, Arc<E>>, bool)
    where
        Q: ToKey<K> + Hash + ?Sized + 'q,
        V: Clone,
    {
        let keys: Vec<&Q> = keys.into_iter().collect();
        let wanted = as_task(|| self.want_all(keys.iter().copied()));
        let missing = Missing::of(&wanted);
        if missing.positions().next().is_none() {
            return (Ok(self.values_of(wanted)), true);
        }
        for position in missing.positions() {
            let Wanted::Missing(draft, _) = &wanted[position] else { continue };
            // The executor's task cannot see this task's flights on its stack.
            let (_, flight) = as_task(|| self.flight_of(draft.hashed()));
            flight.iter().for_each(|flight| flight.assert_not_own());
        }
        let (engine, stored) = (Arc::downgrade(self), Arc::clone(loader));
        let begins = self.begin_task(async move {
            let engine = engine.upgrade()?;
            Some(engine.load_wanted_by(wanted, &*stored).await)
        });
        if let Some(Some(loaded)) = begins.await {
            return loaded;
        }
        self.load_wanted_by(as_task(|| self.want_all(keys)), &**loader).await
    }

    async fn load_wanted_by<E: Send + Sync + 'static>(
        &self,
        wanted: Vec<Wanted<K, V>>,
        loader: &dyn AnyAsyncLoader<K, V, E>,
    ) -> (Result<BulkValues<V>, Arc<E>>, bool)
    where
        V: Clone,
    {
        let load = |keys: &[&K]| loader.load_many(keys.iter().copied().cloned().collect());
        let into_result = |pairs| Ok(LoadedMany { pairs, absent: None });
        self.load_many_async(wanted, load, into_result).await
    }
}

/// The result of a stored loader. Its panic is a failure.
async fn asked<V, E: Send + Sync + 'static>(
    mut asked: AsyncAnswer<'_, Reloaded<V>, E>,
) -> ReloadResult<V> {
    let result = poll_fn(|context| {
        let poll = catch_user_panic(|| asked.as_mut().poll(context));
        poll.map_or(Poll::Ready(None), |poll| poll.map(Some))
    });
    let failed = |error| Some(NoValue::Failed(Arc::new(error)));
    result.await.map_or(Err(None), |result| result.map_err(failed))
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
            // In a future of its own, so that all of the loader's code runs in its span.
            let reload = async { asked(loader.reload(node.key(), node.value())).await };
            let result = pin!(Some(reload));
            let exchange = Exchange::new();
            let operation = pin!(Some(self.reload_asking(reloading, &exchange)));
            Parts { exchange: &exchange, operation, user: result }.run(made_before, identity).await
        };
        self.core.drop_caught(node);
        made
    }

    async fn reload_asking(
        &self,
        reloading: Reloading,
        exchange: &Exchange<(), ReloadResult<V>>,
    ) -> Option<Entry<K, V>> {
        let node = self.pool.handle(reloading.node().clone());
        let ended = match as_task(|| catch_user_panic(|| self.begin_reload(&node))) {
            None => None,
            Some(Err(ended)) => Some((ended, None)),
            Some(Ok(flight)) => {
                let timer = {
                    let _mark = flight.mark_poll();
                    let _caller = reloading.caller.enter();
                    self.time_load(Work::Reload)
                };
                let result = exchange.ask(flight.token(), timer.span(), ()).await;
                timer.stop(result.is_ok());
                reloading.give_place_back();
                let read_at = reloading.read_at;
                as_task(|| catch_user_panic(|| self.land_reload(&node, read_at, result, flight)))
            }
        };
        let made = self.end_reload(reloading, ended);
        self.core.drop_caught(node);
        as_task(|| self.after_write());
        made
    }
}
