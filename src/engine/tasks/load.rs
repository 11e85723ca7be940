//! Loads by tasks.

use super::drive::{as_task, drive};
use super::exchange::{Exchange, Parts};
use crate::clock::ReadTimes;
use crate::engine::Engine;
use crate::engine::flights::FlightGuard;
use crate::engine::loads::{Begun, LoadTimer, NoLoadCondition, OwnedReplaces, PendingLoad};
use crate::entry::Entry;
use crate::hash::Hashed;
use crate::key_source::KeySource;
use crate::loaded::{LoaderOutcome, LoaderResult, Reason};
use crate::pool::OwnedDraft;
use std::future::Future;
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

/// The outcome of a load by a task.
pub type Loaded<K, V, R> = Result<Entry<K, V>, <R as LoaderOutcome>::Reason>;

/// Here a load asks the caller's future for the value that is to replace an entry, or for the
/// first.
type MadeValue<K, V, N> = Exchange<Option<Entry<K, V>>, Result<crate::loaded::Loaded<V>, N>>;

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
    ) -> Loaded<K, V, R> {
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
            Begun::Ended(loaded) => {
                as_task(|| self.after_write());
                loaded
            }
            Begun::Leading(flight, old) => {
                let timer = LoadTimer::start(&self.core);
                let made = exchange.ask(flight.token(), old).await;
                timer.stop(&made);
                as_task(|| {
                    // The flight is entered here because it ends here: marks end in the order of a
                    // stack.
                    let flight = flight.enter();
                    let loaded =
                        replaces.lend(|replaces| self.land_made(draft, made, flight, replaces));
                    if loaded.is_err() {
                        // The future's polls may have left deliveries.
                        self.after_write();
                    }
                    loaded
                })
            }
        }
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
            let led = Self::lead(begun, draft);
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
