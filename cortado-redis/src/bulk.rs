//! Loads of many keys at once.

use crate::error::LoadError;
use crate::key::RedisKey;
use crate::loaded::Loaded;
use crate::read::all;
use crate::span::{self, Work};
use crate::stats::count;
use crate::store::while_renewed;
use crate::task::{self, Course, Limits};
use crate::tier::{Inner, TieredCache};
use crate::turn::{Lead, Turn};
use futures_util::future::join_all;
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

impl<K: RedisKey, V: Clone + Send + Sync + 'static> TieredCache<K, V> {
    /// Returns the keys' values, in their order, and loads those that are on neither level, up to
    /// 1,000 by a call of `loader`.
    ///
    /// `loader` gets the keys that no other call, in any process, is loading. It is called again
    /// for keys whose other load fails. A key that is missing in what it returns is `None`,
    /// which is not kept. Otherwise like [`load`](Self::load); the
    /// [limit](crate::Builder::hard_limit) is for the whole call. If this future is dropped, the
    /// call of `loader` that runs ends, and its values are stored.
    ///
    /// # Errors
    /// As `load`, and of one key for all; but the loader's own is not replaced by stale values.
    /// Keys that were found or loaded before are kept.
    pub async fn load_many<L, E, F>(
        &self,
        keys: &[K],
        loader: impl Fn(Vec<K>) -> F + Send + Sync + 'static,
    ) -> Result<Vec<Option<V>>, LoadError<E>>
    where
        L: Into<Loaded<V>> + Send + 'static,
        E: Send + Sync + 'static,
        F: Future<Output = Result<Vec<(K, L)>, E>> + Send + 'static,
    {
        let (inner, keys_to_load) = (Arc::clone(&self.inner), keys.to_vec());
        let limits = Limits { wait: self.inner.settings.hard_limit, linger: Duration::ZERO };
        let load = |course| load_all(inner, keys_to_load, loader, course);
        let found = task::run(limits, load).await?;
        Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
    }
}

/// A loader gets so many keys at the most: few enough to be leased, renewed and stored in much less
/// time than a lease takes.
const MOST_KEYS: usize = 1_000;

type Leads<K, V, E> = HashMap<K, Lead<V, E>>;

async fn load_all<K, V, L, E, F>(
    inner: Arc<Inner<K, V>>,
    keys: Vec<K>,
    loader: impl Fn(Vec<K>) -> F,
    course: Arc<Course>,
) -> Result<HashMap<K, Option<V>>, LoadError<E>>
where
    K: RedisKey,
    V: Clone + Send + Sync + 'static,
    L: Into<Loaded<V>>,
    E: Send + Sync + 'static,
    F: Future<Output = Result<Vec<(K, L)>, E>>,
{
    let mut found = HashMap::with_capacity(keys.len());
    let mut missing: Vec<K> = keys.into_iter().collect::<HashSet<K>>().into_iter().collect();
    let (mut waiting, mut waits) = (Vec::new(), Vec::new());
    while !missing.is_empty() {
        let keys = missing.split_off(missing.len().saturating_sub(MOST_KEYS));
        let (mut ours, mut failure) = (HashMap::new(), None);
        let turns = all(keys.iter().map(|key| inner.turn::<E>(key, false)).collect()).await;
        for (key, turn) in keys.into_iter().zip(turns) {
            match turn {
                Turn::Found(value) => _ = found.insert(key, value),
                Turn::Ours(lead) => _ = ours.insert(key, lead),
                Turn::Wait(wait) => {
                    waiting.push(key);
                    waits.push(wait);
                }
                Turn::Failed(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            tokio::spawn(async move { inner.release_all(ours).await });
            return Err(error);
        }
        if !ours.is_empty() {
            if !course.begin_loader() {
                return Err(LoadError::Aborted);
            }
            found.extend(inner.make_many(ours, &loader).await?);
            if !course.end_loader() {
                return Err(LoadError::Aborted);
            }
        }
        if missing.is_empty() {
            // Only when nothing is held any more: two calls never wait for each other.
            join_all(waits.drain(..).map(|wait| inner.wait(wait))).await;
            missing.append(&mut waiting);
        }
    }
    Ok(found)
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Gives all leases back. Those who wait in this process begin anew then.
    async fn release_all<E>(&self, leads: Leads<K, V, E>) {
        let releases = leads.into_iter().map(|(key, lead)| async move {
            if let Ok(false) = lead.lease.release().await {
                // By a removal: what was removed replaces no error.
                self.fallback.forget(&key);
            }
        });
        all(releases.collect()).await;
    }

    /// Runs the loader for keys whose leases this call has, and stores what it makes.
    async fn make_many<L, E, F>(
        &self,
        ours: Leads<K, V, E>,
        loader: &impl Fn(Vec<K>) -> F,
    ) -> Result<HashMap<K, Option<V>>, LoadError<E>>
    where
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
        F: Future<Output = Result<Vec<(K, L)>, E>>,
    {
        count(&self.counts.loads);
        let loader = loader(ours.keys().cloned().collect());
        let loader = span::of_loader(Work::BulkLoad, &self.settings.name, loader);
        let renewals = join_all(ours.values().map(|lead| lead.lease.renew(self.settings.lease)));
        let renewals = async { renewals.await.pop().expect("there is a key") };
        let made = match while_renewed(loader, renewals).await {
            Ok(made) => made,
            Err(error) => {
                count(&self.counts.load_failures);
                self.release_all(ours).await;
                return Err(LoadError::Loader(Arc::new(error)));
            }
        };
        let mut made: HashMap<K, Loaded<V>> =
            made.into_iter().map(|(key, loaded)| (key, loaded.into())).collect();
        let stores = ours.into_iter().map(|(key, Lead { lease, outcome })| {
            let loaded = made.remove(&key);
            async move {
                let Some(loaded) = loaded else {
                    let _ = lease.release().await;
                    self.fallback.forget(&key);
                    return Ok((key, None));
                };
                let stored = self.store(&key, lease, Some(&loaded)).await;
                let made = stored.map(|()| Some(loaded.value)).map_err(LoadError::Redis);
                outcome.send_replace(Some(made.clone()));
                made.map(|value| (key, value))
            }
        });
        all(stores.collect()).await.into_iter().collect()
    }
}
