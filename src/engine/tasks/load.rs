//! Loads by tasks.

use super::drive::{as_task, drive, poll_as_owner};
use super::reload::{Panics, caught};
use crate::engine::Engine;
use crate::engine::flights::{FlightGuard, LoadOutcome};
use crate::engine::loads::{Begun, LoadTimer, OnStale, OwnedReplaces, loaded_node, once};
use crate::engine::refresh::answer;
use crate::engine::reloads::Reloading;
use crate::entry::Entry;
use crate::executor::spawn;
use crate::loaded::{LoaderResult, Reason};
use crate::pool::OwnedDraft;
use equivalent::Equivalent;
use std::future::Future;
use std::hash::{BuildHasher, Hash};
use std::pin::pin;

/// A key that a read has found without an entry.
enum Missing<K, V> {
    Key(K),
    /// The caller leads its load already.
    Leading(FlightGuard, OwnedDraft<K, V>),
}

/// A key without an entry, when its load may begin.
enum Led<'e, K, V, S, N> {
    /// There is nothing to load: another call did, or failed.
    Ended(Result<Entry<K, V>, N>),
    /// This call makes the value.
    Leading(LeadLoad<'e, K, V, S>),
}

/// A load that this call leads, while its future is polled. The draft, declared last, is dropped
/// after the flight, which has its key.
struct LeadLoad<'e, K, V, S> {
    timer: LoadTimer<'e, K, V, S>,
    flight: FlightGuard,
    draft: OwnedDraft<K, V>,
}

/// The outcome of a load by a task.
pub type Loaded<K, V, R> = Result<Entry<K, V>, <R as LoaderResult<V>>::Reason>;

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// The key's entry, read or loaded. An entry for which `replace_if` holds counts as none.
    ///
    /// # Errors
    /// If this call's loader, or the loader that it waited for, made no value.
    pub async fn load_async<R: LoaderResult<V>>(
        &self,
        key: K,
        init: impl Future<Output = R>,
        (replace_if, on_stale): (Option<impl FnMut(&K, &V) -> bool>, OnStale),
    ) -> Loaded<K, V, R> {
        let mut replaces = OwnedReplaces::new(replace_if);
        match replaces.lend(|replaces| self.read_for_load(&key, replaces)) {
            Some(entry) => {
                if on_stale == OnStale::Reload
                    && let Some(reloading) = self.take_stale_inline(&entry)
                {
                    return Ok(self
                        .reload_own_async(Box::new(reloading), entry, || key, init)
                        .await);
                }
                // The drop must come before the entry is the return value: otherwise a panic of the
                // key's destructor would leak the entry.
                drop(key);
                Ok(entry)
            }
            None => self.load_missing_async(Missing::Key(key), init, replaces).await,
        }
    }

    /// [`load_async`](Self::load_async) that makes a key only if it has to load.
    ///
    /// # Errors
    /// As [`load_async`](Self::load_async).
    pub async fn load_by_ref_async<Q, R: LoaderResult<V>>(
        &self,
        key: &Q,
        init: impl Future<Output = R>,
        (replace_if, on_stale): (Option<impl FnMut(&K, &V) -> bool>, OnStale),
    ) -> Loaded<K, V, R>
    where
        Q: Equivalent<K> + Hash + ToOwned<Owned = K> + ?Sized,
    {
        let mut replaces = OwnedReplaces::new(replace_if);
        match replaces.lend(|replaces| self.read_for_load(key, replaces)) {
            Some(entry) => {
                if on_stale == OnStale::Reload
                    && let Some(reloading) = self.take_stale_inline(&entry)
                {
                    let key = || key.to_owned();
                    return Ok(self.reload_own_async(Box::new(reloading), entry, key, init).await);
                }
                Ok(entry)
            }
            None => self.load_missing_async(Missing::Key(key.to_owned()), init, replaces).await,
        }
    }

    /// [`load_async`](Self::load_async) for a caller that has just found the key without an entry.
    ///
    /// # Errors
    /// As [`load_async`](Self::load_async).
    pub async fn load_after_miss_async<R: LoaderResult<V>>(
        &self,
        key: K,
        init: impl Future<Output = R>,
    ) -> Loaded<K, V, R> {
        let replaces = OwnedReplaces::new(None::<fn(&K, &V) -> bool>);
        self.load_missing_async(Missing::Key(key), init, replaces).await
    }

    /// The last part of a load that was queued, and has begun.
    ///
    /// # Errors
    /// As [`load_async`](Self::load_async).
    pub async fn finish_load_async<R: LoaderResult<V>>(
        &self,
        flight: FlightGuard,
        draft: OwnedDraft<K, V>,
        init: impl Future<Output = R>,
    ) -> Loaded<K, V, R> {
        let replaces = OwnedReplaces::new(None::<fn(&K, &V) -> bool>);
        self.load_missing_async(Missing::Leading(flight, draft), init, replaces).await
    }

    /// Reloads a stale entry in this task, by the call's own loader. Returns the new value's entry,
    /// or `entry` if the loader made no value.
    async fn reload_own_async<R: LoaderResult<V>>(
        &self,
        mut reloading: Box<Reloading<K, V>>,
        entry: Entry<K, V>,
        key: impl FnOnce() -> K,
        init: impl Future<Output = R>,
    ) -> Entry<K, V> {
        let mut key = once(key);
        reloading.leave_no_trace();
        let answer = pin!(async { answer(init.await.into_result()) });
        let made = self.reload_async(reloading, |_| key(), (answer, Panics::Reach)).await;
        // As in `load_async`.
        drop(key);
        made.unwrap_or(entry)
    }

    async fn load_missing_async<R: LoaderResult<V>>(
        &self,
        missing: Missing<K, V>,
        init: impl Future<Output = R>,
        mut replaces: OwnedReplaces<K, V, impl FnMut(&K, &V) -> bool>,
    ) -> Loaded<K, V, R> {
        // Dropped after the flight, also when the task is cancelled: its destructor may use the
        // key.
        let init = pin!(init);
        let loaded = match self.lead_async(missing, &mut replaces).await {
            Led::Ended(outcome) => outcome,
            Led::Leading(load) => {
                let result = poll_as_owner(&load.flight, init).await.into_result();
                self.land_async(load, result, &mut replaces)
            }
        };
        // It may have the last count on the entry that it judged. The drop must come before the
        // entry is the return value: otherwise a panic of a destructor would leak the entry.
        drop(replaces);
        loaded
    }

    /// Takes the lead, or waits for another call's load. This part and
    /// [`land_async`](Self::land_async) are compiled once for all futures.
    async fn lead_async<N: Reason>(
        &self,
        missing: Missing<K, V>,
        replaces: &mut OwnedReplaces<K, V, impl FnMut(&K, &V) -> bool>,
    ) -> Led<'_, K, V, S, N> {
        // The draft, declared first, is dropped after the flight, which has its key.
        let (draft, flight);
        match missing {
            Missing::Leading(led, node) => (draft, flight) = (node, led),
            Missing::Key(key) => {
                draft = self.draft_for_load(key);
                let mut joined = None;
                let begin =
                    || replaces.lend(|replaces| self.begin_load(&draft, &mut joined, replaces));
                match drive(begin).await {
                    Begun::Present(entry) => {
                        // As in `load_async`; so below.
                        drop(draft);
                        return Led::Ended(Ok(entry));
                    }
                    Begun::NoValue(reason) => {
                        drop(draft);
                        return Led::Ended(Err(reason));
                    }
                    Begun::Leading(led) => flight = led,
                }
            }
        }
        let present = {
            let _mark = flight.mark_poll();
            replaces.lend(|replaces| self.present_for_load(&draft, replaces))
        };
        if let Some(entry) = present {
            flight
                .enter()
                .land_with(|| Some(LoadOutcome::Value(loaded_node(&entry, entry.deadline()))));
            drop(draft);
            as_task(|| self.after_write());
            return Led::Ended(Ok(entry));
        }
        Led::Leading(LeadLoad { timer: LoadTimer::start(self), flight, draft })
    }

    /// Commits what the future has made, and ends the flight.
    fn land_async<N: Reason>(
        &self,
        load: LeadLoad<'_, K, V, S>,
        result: Result<crate::loaded::Loaded<V>, N>,
        replaces: &mut OwnedReplaces<K, V, impl FnMut(&K, &V) -> bool>,
    ) -> Result<Entry<K, V>, N> {
        let LeadLoad { draft, flight, timer } = load;
        match result {
            Ok(loaded) => {
                timer.succeed();
                Ok(as_task(|| {
                    // The flight is entered here because it ends here: marks end in the order of a
                    // stack.
                    let flight = flight.enter();
                    replaces.lend(|replaces| self.land_value(draft, loaded, flight, replaces))
                }))
            }
            Err(reason) => {
                drop(timer);
                flight.enter().land_with(|| Some(LoadOutcome::NoValue(reason.share())));
                drop(draft);
                // The future's polls may have deferred deliveries on another thread.
                as_task(|| self.after_write());
                Err(reason)
            }
        }
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
    /// As [`load_async`](Self::load_async).
    pub async fn load_refreshing_async<R: LoaderResult<V>>(
        &self,
        key: K,
        init: impl Future<Output = R> + Send + 'static,
    ) -> Loaded<K, V, R> {
        let entry = OwnedReplaces::new(None::<fn(&K, &V) -> bool>)
            .lend(|replaces| self.read_for_load(&key, replaces));
        let Some(entry) = entry else { return self.load_after_miss_async(key, init).await };
        let Some(reloading) = self.take_stale(&entry) else {
            // As in `load_async`. The future is this call's own here.
            drop((key, init));
            return Ok(entry);
        };
        let reloading = Box::new(reloading);
        let Some(engine) = self.executed() else {
            return Ok(self.reload_own_async(reloading, entry, || key, init).await);
        };
        let execute = self.core.executing();
        // A job that waits must not keep the cache alive: the executor may be the cache's own.
        let reload = async move {
            let Some(engine) = engine.upgrade() else { return };
            let answer = pin!(caught(async { answer(init.await.into_result()) }));
            let mut key = once(|| key);
            drop(engine.reload_async(reloading, |_| key(), (answer, Panics::Count)).await);
        };
        spawn(Box::pin(reload), execute);
        Ok(entry)
    }
}
