//! Loads by tasks.

use super::drive::{as_task, drive};
use super::exchange::{Exchange, Parts};
use super::reload::caught;
use crate::engine::Engine;
use crate::engine::flights::FlightGuard;
use crate::engine::loads::{Begun, KeySource, LoadTimer, OnStale, OwnedReplaces, ValueRead, once};
use crate::engine::refresh::{Panics, answer};
use crate::engine::reloads::Reloading;
use crate::engine::write::NoCondition;
use crate::entry::Entry;
use crate::executor::spawn;
use crate::loaded::{LoaderOutcome, LoaderResult, Reason};
use crate::pool::OwnedDraft;
use std::convert::identity;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};

/// A value that the caller's future is to make.
pub enum Unmade<K, V, C> {
    /// A read has found the key without an entry.
    Missing { key: K, replaces: OwnedReplaces<K, V, C> },
    /// A read has found this stale entry, and triggered its reload. The box keeps the futures of
    /// loads small, which seldom need it.
    Stale { reloading: Box<Reloading>, entry: Entry<K, V>, key: K },
    /// The caller leads the load of a key already.
    Leading(FlightGuard, OwnedDraft<K, V>),
}

/// The same for a call without a condition.
pub type UnmadePlainly<K, V> = Unmade<K, V, NoCondition<K, V>>;

impl<K, V> UnmadePlainly<K, V> {
    /// A key that the caller has just found without an entry.
    pub fn missing(key: K) -> Self {
        Self::Missing { key, replaces: OwnedReplaces::new(None) }
    }
}

/// The outcome of a load by a task.
pub type Loaded<K, V, R> = Result<Entry<K, V>, <R as LoaderOutcome>::Reason>;

/// Here a load asks the caller's future for the value.
type MadeValue<V, N> = Exchange<(), Result<crate::loaded::Loaded<V>, N>>;

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Reads the key's entry, which may be stale.
    ///
    /// # Errors
    /// What is to be made, if there is no entry, or an inline reload is due that `on_stale` allows.
    /// An entry for which `replace_if` holds counts as none.
    pub fn read_or_unmade<C: FnMut(&K, &V) -> bool>(
        &self,
        key: impl KeySource<K>,
        (replace_if, on_stale): (Option<C>, OnStale),
    ) -> Result<Entry<K, V>, Unmade<K, V, C>> {
        let mut replaces = OwnedReplaces::new(replace_if);
        let found = replaces.lend(|replaces| self.read_for_load(key.borrowed(), replaces));
        let Some(entry) = found else {
            return Err(Unmade::Missing { key: key.into_key(), replaces });
        };
        let Some(mut reloading) = self.take_stale_inline(&entry, on_stale) else {
            // The drop must come before the entry is the return value: otherwise a panic of the
            // key's destructor would leak the entry.
            drop((key, replaces));
            return Ok(entry);
        };
        reloading.leave_no_trace();
        let reloading = Box::new(reloading);
        Err(Unmade::Stale { reloading, entry, key: key.into_key() })
    }

    /// [`read_or_unmade`](Self::read_or_unmade) of a clone of the value, for a call that may reload
    /// it.
    ///
    /// # Errors
    /// What is to be made.
    pub fn read_or_unmade_value(&self, key: impl KeySource<K>) -> Result<V, UnmadePlainly<K, V>>
    where
        V: Clone,
    {
        match self.read_for_value(key.borrowed()) {
            ValueRead::Hit(value) => {
                // As in `read_or_unmade`.
                drop(key);
                Ok(value)
            }
            ValueRead::Miss => Err(Unmade::missing(key.into_key())),
            ValueRead::ByHandle => {
                self.read_or_unmade(key, (None, OnStale::Reload)).map(Entry::into_value)
            }
        }
    }

    /// Makes the value of a key by the caller's future, of whose output `result_of` makes the
    /// result. (A future around the caller's would take more code.) The first poll takes `unmade`,
    /// so that only its owner's future has room for it. The caller's future is dropped when it has
    /// ended, or when the call is cancelled, before deliveries. A stale entry is
    /// reloaded; the call returns the key's entry after that. If the key has none, and the future
    /// was not asked, it loads the key.
    ///
    /// # Errors
    /// If this call's future, or the loader that it waited for, made no value.
    pub async fn make_async<T, R: LoaderResult<V>>(
        &self,
        unmade: &mut Option<Unmade<K, V, impl FnMut(&K, &V) -> bool>>,
        init: Pin<&mut Option<impl Future<Output = T>>>,
        result_of: fn(T) -> R,
    ) -> Loaded<K, V, R> {
        let exchange = Exchange::new();
        let operation = pin!(Some(self.make_asking(unmade, &exchange)));
        let parts = Parts { exchange: &exchange, operation, user: init };
        parts.run(|made| result_of(made).into_result()).await
    }

    /// [`make_async`](Self::make_async), which asks for the value.
    async fn make_asking<N: Reason>(
        &self,
        unmade: &mut Option<Unmade<K, V, impl FnMut(&K, &V) -> bool>>,
        exchange: &MadeValue<V, N>,
    ) -> Result<Entry<K, V>, N> {
        // Dropped after the flight. It may have the last count on the entry that it judged.
        let mut replaces;
        let (draft, begun) = match unmade.take().expect("it is taken once") {
            Unmade::Stale { reloading, entry, key } => {
                replaces = OwnedReplaces::new(None);
                // Boxed, as it is rare and larger than all the rest.
                match Box::pin(self.reload_asking((reloading, entry, key), exchange)).await {
                    Ok(loaded) => return loaded,
                    Err(key) => self.begin_load_async(key, &mut replaces).await,
                }
            }
            Unmade::Leading(flight, draft) => {
                replaces = OwnedReplaces::new(None);
                (draft, Begun::Leading(flight))
            }
            Unmade::Missing { key, replaces: of_caller } => {
                replaces = of_caller;
                self.begin_load_async(key, &mut replaces).await
            }
        };
        let loaded = match replaces.lend(|replaces| self.look_again(begun, &draft, replaces)) {
            Begun::Ended(loaded) => {
                // As in `read_or_unmade`.
                drop(draft);
                as_task(|| self.after_write());
                loaded
            }
            Begun::Leading(flight) => {
                let timer = LoadTimer::start(&self.core);
                let made = exchange.ask(flight.token(), ()).await;
                timer.stop(&made);
                as_task(|| {
                    // The flight is entered here because it ends here: marks end in the order of a
                    // stack.
                    let flight = flight.enter();
                    let loaded =
                        replaces.lend(|replaces| self.land_made(draft, made, flight, replaces));
                    if loaded.is_err() {
                        // The future's polls may have deferred deliveries on another thread.
                        self.after_write();
                    }
                    loaded
                })
            }
        };
        // As above.
        drop(replaces);
        loaded
    }

    /// Takes the lead, or waits for another call's load.
    async fn begin_load_async<N: Reason>(
        &self,
        key: K,
        replaces: &mut OwnedReplaces<K, V, impl FnMut(&K, &V) -> bool>,
    ) -> (OwnedDraft<K, V>, Begun<K, V, N>) {
        let (draft, mut joined) = (self.draft_for_load(key), None);
        let begin = || replaces.lend(|replaces| self.begin_load(&draft, &mut joined, replaces));
        let begun = drive(begin).await;
        (draft, begun)
    }

    /// [`reload_by_call`](Self::reload_by_call) in this task.
    ///
    /// # Errors
    /// The key, if it has no entry now, and the future was not asked.
    async fn reload_asking<N: Reason>(
        &self,
        (reloading, entry, key): (Box<Reloading>, Entry<K, V>, K),
        exchange: &MadeValue<V, N>,
    ) -> Result<Result<Entry<K, V>, N>, K> {
        let (mut key, mut failure) = (Some(key), None);
        let made = {
            let ask = async |flight| answer(exchange.ask(flight, ()).await, &mut failure);
            let panics = Panics::Reach(Some(exchange.is_polling()));
            let take = |_: &K| key.take().expect("a reload makes one value");
            self.reload_async(reloading, take, (ask, panics)).await
        };
        let present = self.entry_after_reload((entry.hash(), entry.key()), made);
        // As in `read_or_unmade`.
        drop(entry);
        let loaded = match (present, failure) {
            (Some(present), _) => Ok(present),
            (None, Some(reason)) => Err(reason),
            (None, None) => return Err(key.expect("only a new value takes it")),
        };
        drop(key);
        Ok(loaded)
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// The key's entry, read or loaded. A stale one is returned at once, and `init` makes the new
    /// value on the executor. If reloads run inline, `init` runs in this task.
    ///
    /// # Errors
    /// As [`make_async`](Self::make_async).
    ///
    /// Also returns whether this task has written nothing. Then it is not held back.
    pub async fn load_refreshing_async<R: LoaderResult<V>>(
        &self,
        key: K,
        init: impl Future<Output = R> + Send + 'static,
    ) -> (Loaded<K, V, R>, bool) {
        let entry = OwnedReplaces::new(None::<NoCondition<K, V>>)
            .lend(|replaces| self.read_for_load(&key, replaces));
        let Some(entry) = entry else {
            let unmade = &mut Some(Unmade::missing(key));
            return (self.make_async(unmade, pin!(Some(init)), identity).await, false);
        };
        let Some(mut reloading) = self.take_stale(&entry) else {
            // As in `read_or_unmade`. The future is this call's own here.
            drop((key, init));
            return (Ok(entry), true);
        };
        let Some(engine) = self.executed() else {
            reloading.leave_no_trace();
            let reloading = Box::new(reloading);
            let unmade: UnmadePlainly<K, V> = Unmade::Stale { reloading, entry, key };
            let init = pin!(Some(init));
            return (self.make_async(&mut Some(unmade), init, identity).await, false);
        };
        let (reloading, execute) = (Box::new(reloading), self.core.executing());
        // A job that waits must not keep the cache alive: the executor may be the cache's own.
        let reload = async move {
            let Some(engine) = engine.upgrade() else { return };
            let mut key = once(|| key);
            let answer = pin!(Some(caught(async { answer(init.await.into_result(), &mut None) })));
            engine.core.drop_caught(engine.reload_by(reloading, |_| key(), answer).await);
        };
        spawn(Box::pin(reload), execute);
        (Ok(entry), true)
    }
}
