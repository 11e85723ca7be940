//! Loads of many keys by one future of a task.

use super::drive::{FlightEnded, as_task, drive};
use crate::engine::Engine;
use crate::engine::bulk::{Answers, Unasked, keys_of, polled};
use crate::engine::loads::LoadTimer;
use crate::loaded::Loaded;
use crate::primitives::plain::Arc;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq,
    S: BuildHasher,
{
    /// [`load_many`](Self::load_many) without a deadline. Its caller waits for listeners.
    ///
    /// # Errors
    /// If the loader returns one. Values that an earlier call of it has made stay.
    pub async fn load_many_async<E, I, F>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut loader: impl FnMut(&[&K]) -> F,
        into_result: impl Fn(F::Output) -> Result<I, E>,
    ) -> Result<Answers<V>, Arc<E>>
    where
        V: Clone,
        E: Send + Sync + 'static,
        I: IntoIterator<Item = (K, Loaded<V>)>,
        F: Future,
    {
        let mut wanted: Vec<_> = as_task(|| keys.into_iter().map(|key| self.want(key)).collect());
        loop {
            // Dropped after the flights, also when the task is cancelled: its destructor may use
            // the keys.
            let mut loading: Pin<Box<F>>;
            let (own, others) = as_task(|| self.begin_round(&mut wanted));
            if !own.is_empty() {
                let timer = LoadTimer::start(&self.core);
                loading = polled(&own, || Box::pin(loader(&keys_of(&wanted, &own))));
                let made = poll_fn(|context| polled(&own, || loading.as_mut().poll(context))).await;
                let landed =
                    as_task(|| self.land_polled(&mut wanted, own, timer, into_result(made)));
                // Others may wait for what it holds.
                drop(loading);
                match landed {
                    Ok(unasked) => self.insert_unasked_async(unasked).await,
                    Err(error) => {
                        // Before the error is the return value: a panic of the destructors would
                        // leak it.
                        drop((wanted, others));
                        return Err(error);
                    }
                }
            }
            match others {
                None => break,
                Some(other) => FlightEnded::of(other).await,
            }
        }
        Ok(self.answers(wanted))
    }

    /// Inserts what the loader was not asked for.
    async fn insert_unasked_async(&self, unasked: Unasked<K, V>) {
        // Those that need not wait come first: a dropped future drops the others.
        let begin = |(key, made)| as_task(|| self.begin_insert_made(key, made));
        let waiting: Vec<_> = unasked.into_iter().filter_map(begin).collect();
        for mut insert in waiting {
            drive(|| self.step_insert(&mut insert)).await;
            as_task(|| self.after_write());
        }
    }
}
