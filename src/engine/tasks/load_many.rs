//! Loads of many keys by one future of a task.

use super::drive::{as_task, drive, flight_ended};
use crate::engine::WithHasher;
use crate::engine::bulk::{
    Answers, FirstError, Missing, OwnLoads, Unasked, Wanted, keys_of, polled,
};
use crate::engine::loads::LoadTimer;
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::key_source::KeySource;
use crate::loaded::{Loaded, LoadedMany};
use crate::primitives::plain::Arc;
use crate::primitives::seeded;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;

/// The loads of a call, and the loader's future.
struct Round<F> {
    own: OwnLoads,
    loading: Option<Pin<Box<F>>>,
}

impl<F: Future> Round<F> {
    /// Makes the loader's future, and polls it to its end. Returns also the loads.
    async fn run(&mut self, load: impl FnOnce(&OwnLoads) -> F) -> (F::Output, OwnLoads) {
        let Self { own, loading } = self;
        let loading = loading.insert(polled(own, || Box::pin(load(own))));
        let made = poll_fn(|context| polled(own, || loading.as_mut().poll(context))).await;
        (made, own.take())
    }
}

impl<F> Drop for Round<F> {
    /// The round has ended, or the task was cancelled, or the future has panicked. As in
    /// [`Parts`](super::exchange::Parts).
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
    /// Reads the keys, for a bulk load.
    pub fn want_all(&self, keys: impl IntoIterator<Item: KeySource<K>>) -> Vec<Wanted<K, V>>
    where
        V: Clone,
    {
        as_task(|| keys.into_iter().map(|key| self.want(self.source(key))).collect())
    }

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
    ) -> (Result<Answers<V>, Arc<E>>, bool)
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
                let timer = LoadTimer::start(&self.core);
                let mut round = Round { own, loading: None };
                let (made, own) = round.run(|own| loader(&keys_of(&wanted, own))).await;
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
        (Ok(self.answers(wanted)), wrote_nothing)
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
