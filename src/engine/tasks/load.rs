//! Loads by tasks.

use super::drive::{as_task, drive, flight_ended};
use super::exchange::{Exchange, Parts};
use crate::clock::ReadTimes;
use crate::engine::bulk::{
    BulkValues, FirstError, Missing, OwnLoads, Unasked, Wanted, keys_of, polled,
};
use crate::engine::flights::FlightGuard;
use crate::engine::loads::{Begun, NoLoadCondition, OwnedReplaces, PendingLoad};
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::{Engine, WithHasher};
use crate::entry::Entry;
use crate::hash::Hashed;
use crate::key_source::KeySource;
use crate::loaded::{Loaded, LoadedMany, LoaderResult, Reason};
use crate::pool::OwnedDraft;
use crate::primitives::plain::Arc;
use crate::primitives::seeded;
use crate::span::{Span, Work};
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::{Pin, pin};

/// A value that the caller's future is to make.
pub enum Unmade<K, V, C> {
    /// A read has found the key without an entry.
    Missing { key: Hashed<K>, replaces: OwnedReplaces<K, V, C> },
    /// The caller leads the load of a key already.
    Leading(FlightGuard, OwnedDraft<K, V>),
}

/// The same for a call without a condition.
pub type UnmadePlainly<K, V> = Unmade<K, V, NoLoadCondition<V>>;

impl<K, V> UnmadePlainly<K, V> {
    /// A key that the caller has just found without an entry.
    pub fn missing(key: Hashed<K>) -> Self {
        Self::Missing { key, replaces: OwnedReplaces::new(None) }
    }
}

/// Here a load asks the caller's future for the value that is to replace an entry, or for the
/// first.
type MadeValue<K, V, N> = Exchange<Option<Entry<K, V>>, Result<Loaded<V>, N>>;

impl<K: Eq, V> Engine<K, V> {
    /// Reads the key's entry, which may be stale.
    ///
    /// # Errors
    /// What is to be made, if there is no entry. One for which `replace_if` holds counts as none.
    pub fn read_or_unmade<C: FnMut(&V, ReadTimes) -> bool>(
        &self,
        key: Hashed<impl KeySource<K>>,
        replace_if: Option<C>,
    ) -> Result<Entry<K, V>, Unmade<K, V, C>> {
        let mut replaces = OwnedReplaces::new(replace_if);
        let found = replaces.lend(|replaces| self.read_for_load(key.borrowed(), replaces));
        match found {
            Some(entry) => Ok(entry),
            None => Err(Unmade::Missing { key: key.into_key(), replaces }),
        }
    }

    /// [`read_or_unmade`](Self::read_or_unmade) of a clone of the value.
    ///
    /// # Errors
    /// What is to be made.
    pub fn read_or_unmade_value(
        &self,
        key: Hashed<impl KeySource<K>>,
    ) -> Result<V, UnmadePlainly<K, V>>
    where
        V: Clone,
    {
        let found = self.read_clone(key.borrowed());
        found.ok_or_else(|| Unmade::missing(key.into_key()))
    }

    /// Makes the value of a key by the caller's future, of whose output `result_of` makes the
    /// result. (A future around the caller's would take more code.) That future is in `init`, or
    /// `begin` makes it of the entry that the value is to replace. The first poll takes `unmade`,
    /// so that only its owner's future has room for it. The caller's future is dropped when it
    /// has ended, or when the call is cancelled.
    ///
    /// # Errors
    /// If this call's future, or the loader that it waited for, made no value.
    pub async fn make_async<F: Future, R: LoaderResult<V>>(
        &self,
        unmade: &mut Option<Unmade<K, V, impl FnMut(&V, ReadTimes) -> bool>>,
        init: Pin<&mut Option<F>>,
        begin: impl FnMut(Option<Entry<K, V>>) -> Option<F>,
        result_of: fn(F::Output) -> R,
    ) -> Result<Entry<K, V>, R::Reason> {
        let exchange = Exchange::new();
        let operation = pin!(Some(self.make_asking(unmade, &exchange)));
        let parts = Parts { exchange: &exchange, operation, user: init };
        parts.run(begin, |made| result_of(made).into_result()).await
    }

    /// [`make_async`](Self::make_async), which asks for the value.
    async fn make_asking<N: Reason>(
        &self,
        unmade: &mut Option<Unmade<K, V, impl FnMut(&V, ReadTimes) -> bool>>,
        exchange: &MadeValue<K, V, N>,
    ) -> Result<Entry<K, V>, N> {
        // Dropped after the flight. It may have the last count on the entry that it judged.
        let mut replaces;
        // In a block, so that the future has no room for `begun` while it asks.
        let (draft, flight, old) = {
            let (draft, begun) = match unmade.take().expect("it is taken once") {
                Unmade::Leading(flight, draft) => {
                    replaces = OwnedReplaces::new(None);
                    let begun = replaces.lend(|replaces| self.look_again(flight, &draft, replaces));
                    (draft, begun)
                }
                Unmade::Missing { key, replaces: of_caller } => {
                    replaces = of_caller;
                    self.begin_load_async(key, &mut replaces).await
                }
            };
            match begun {
                Begun::Leading(flight, old) => (draft, flight, old),
                Begun::Ended(loaded) => {
                    as_task(|| self.after_write());
                    return loaded;
                }
            }
        };
        let timer = {
            let _mark = flight.mark_poll();
            self.time_load(Work::Load)
        };
        let made = exchange.ask(flight.token(), timer.span(), old).await;
        timer.stop(made.is_ok());
        as_task(|| {
            // The flight is entered here because it ends here: marks end in the order of a stack.
            let flight = flight.enter();
            let loaded = replaces.lend(|replaces| self.land_made(draft, made, flight, replaces));
            if loaded.is_err() {
                // The future's polls may have left deliveries.
                self.after_write();
            }
            loaded
        })
    }

    /// [`value_or_load`](Self::value_or_load) for a key that the caller has just found without an
    /// entry.
    ///
    /// # Errors
    /// The load of the key, which is the caller's duty.
    pub async fn load_or_lead_async(
        &self,
        unmade: UnmadePlainly<K, V>,
    ) -> Result<Entry<K, V>, PendingLoad<K, V>> {
        let (draft, begun) = match unmade {
            Unmade::Leading(flight, draft) => (draft, Begun::Leading(flight, None)),
            Unmade::Missing { key, mut replaces } => {
                self.begin_load_async(key, &mut replaces).await
            }
        };
        as_task(|| {
            let led = self.lead(begun, draft);
            // The comparisons of keys may have left deliveries.
            self.after_write();
            led
        })
    }

    /// Takes the lead, or waits for another call's load.
    async fn begin_load_async<N: Reason>(
        &self,
        key: Hashed<K>,
        replaces: &mut OwnedReplaces<K, V, impl FnMut(&V, ReadTimes) -> bool>,
    ) -> (OwnedDraft<K, V>, Begun<K, V, N>) {
        let (draft, mut joined) = (self.draft_for_load(key), None);
        let begin =
            || replaces.lend(|replaces| self.begin_load(None, &draft, &mut joined, replaces));
        let begun = drive(begin).await;
        (draft, begun)
    }
}

/// The loads of a call, and the loader's future.
struct Round<F> {
    own: OwnLoads,
    loading: Option<Pin<Box<F>>>,
}

impl<F: Future> Round<F> {
    /// Makes the loader's future, and polls it to its end. Returns also the loads.
    async fn run(
        &mut self,
        span: &Span,
        load: impl FnOnce(&OwnLoads) -> F,
    ) -> (F::Output, OwnLoads) {
        let Self { own, loading } = self;
        let loading = loading.insert(polled(own, span, || Box::pin(load(own))));
        let made = poll_fn(|context| polled(own, span, || loading.as_mut().poll(context))).await;
        (made, own.take())
    }
}

impl<F> Drop for Round<F> {
    /// The round has ended, or the task was cancelled, or the future has panicked. As in
    /// [`Parts`].
    fn drop(&mut self) {
        let mut own = self.own.take();
        let mark = own.token().map(Frame::Cancelling).and_then(ReentrancyMark::push);
        if mark.is_none() || seeded("cancelled-rounds-land-first") {
            drop(own.take());
        }
        self.loading = None;
        drop(mark);
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> WithHasher<K, V, S> {
    /// [`load_many`](Self::load_many) by tasks, when the keys have been read. Also returns whether
    /// the call wrote nothing. Its caller waits for listeners.
    ///
    /// # Errors
    /// As [`load_many`](Self::load_many).
    pub async fn load_many_async<E, I, F>(
        &self,
        mut wanted: Vec<Wanted<K, V>>,
        mut loader: impl FnMut(&[&K]) -> F,
        into_result: impl Fn(F::Output) -> Result<LoadedMany<I>, E>,
    ) -> (Result<BulkValues<V>, Arc<E>>, bool)
    where
        V: Clone,
        E: Send + Sync + 'static,
        I: IntoIterator<Item = (K, Result<Loaded<V>, E>)>,
        F: Future,
    {
        let (mut missing, mut wrote_nothing) = (Missing::of(&wanted), true);
        let mut failed = FirstError::NONE;
        loop {
            let (own, other) = as_task(|| self.begin_round(&mut wanted, &mut missing));
            if !own.is_empty() {
                let timer = polled(&own, &Span::NONE, || self.time_load(Work::BulkLoad));
                let mut round = Round { own, loading: None };
                let span = timer.span();
                let (made, own) = round.run(span, |own| loader(&keys_of(&wanted, own))).await;
                let landed = as_task(|| {
                    self.land_round(&mut wanted, own, timer, into_result(made), &mut failed)
                });
                // Others may wait for what the loader's future holds.
                drop(round);
                as_task(|| self.after_write());
                if let Some(unasked) = landed {
                    wrote_nothing = false;
                    self.insert_unasked_async(unasked).await;
                }
            }
            if let Some(error) = failed.settled(missing.positions()) {
                return (Err(error), wrote_nothing);
            }
            match other {
                None => break,
                Some(other) => flight_ended(other).await,
            }
        }
        (Ok(self.values_of(wanted)), wrote_nothing)
    }

    /// Inserts what the loader was not asked for.
    async fn insert_unasked_async(&self, unasked: Unasked<K, V>) {
        // Those that need not wait come first: a dropped future drops the others.
        let begin = |(key, made)| as_task(|| self.begin_insert_loaded(key, made));
        let waiting: Vec<_> = unasked.into_iter().filter_map(begin).collect();
        for mut insert in waiting {
            drive(|| self.step_insert(&mut insert)).await;
            as_task(|| self.after_write());
        }
    }
}
