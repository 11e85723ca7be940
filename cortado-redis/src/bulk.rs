//! Loads of many keys at once.

use crate::error::{Error, LoadError};
use crate::key::RedisKey;
use crate::lease::Lease;
use crate::load::Leased;
use crate::loaded::Loaded;
use crate::read::Fetched;
use crate::slot::Slot;
use crate::stats::count;
use crate::tier::{Inner, TieredCache};
use crate::wake::Wake;
use cortado::LoadGuard;
use futures_util::FutureExt;
use futures_util::future::{Either, join_all, select};
use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// A call that waits for a load of its own process looks again after so long at the latest.
const LOOK: Duration = Duration::from_millis(20);

impl<K: RedisKey, V: Clone + Send + Sync + 'static> TieredCache<K, V> {
    /// Returns the keys' values, in their order, and loads those that are on neither level, all by
    /// one call of `loader`.
    ///
    /// `loader` gets keys of which no other call, in any process, loads one; it is called again for
    /// keys whose other load comes to nothing. A key that is missing in what it returns has no
    /// value, and that is not kept. Otherwise like [`load`](Self::load).
    ///
    /// # Errors
    /// As `load`, without stale values in their place. Keys that were found or loaded before are
    /// kept.
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
        let task = load_all(Arc::clone(&self.inner), keys.to_vec(), loader);
        #[cfg(feature = "tracing")]
        let task = tracing::Instrument::in_current_span(task);
        let mut task = tokio::spawn(task);
        let ended = match self.inner.settings.hard_limit {
            None => (&mut task).await,
            Some(limit) => timeout(limit, &mut task).await.map_err(|_| LoadError::TimedOut)?,
        };
        let found = ended.unwrap_or(Err(LoadError::Aborted))?;
        Ok(keys.iter().map(|key| found.get(key).cloned().flatten()).collect())
    }
}

type Guard<K, V> = LoadGuard<K, Slot<V>>;

/// A key that this call loads: readers of this process wait for it.
struct Ours<K, V> {
    guard: Guard<K, V>,
    lease: Lease,
    generation: u64,
}

/// What there is to do about a key.
enum Turn<K, V> {
    Found(Option<V>),
    Ours(Ours<K, V>),
    Wait(Arc<Wake>, Duration),
}

async fn load_all<K, V, L, E, F>(
    inner: Arc<Inner<K, V>>,
    keys: Vec<K>,
    loader: impl Fn(Vec<K>) -> F,
) -> Result<HashMap<K, Option<V>>, LoadError<E>>
where
    K: RedisKey,
    V: Clone + Send + Sync + 'static,
    L: Into<Loaded<V>>,
    E: Send + Sync + 'static,
    F: Future<Output = Result<Vec<(K, L)>, E>>,
{
    // Before anything is dropped that an outage may need.
    inner.link.ready().await?;
    let mut found = HashMap::with_capacity(keys.len());
    let _loading: Vec<_> = keys.iter().map(|key| inner.loading.begin(key)).collect();
    let mut missing: Vec<K> = keys.iter().cloned().collect::<HashSet<K>>().into_iter().collect();
    while !missing.is_empty() {
        let turns = join_all(missing.iter().map(|key| inner.turn(key))).await;
        let (mut ours, mut waits) = (HashMap::new(), Vec::new());
        let mut failure = None;
        for (key, turn) in missing.drain(..).zip(turns) {
            match turn {
                Ok(Turn::Found(value)) => _ = found.insert(key, value),
                Ok(Turn::Ours(leased)) => _ = ours.insert(key, leased),
                Ok(Turn::Wait(wake, limit)) => waits.push((key, wake, limit)),
                Err(error) => failure = Some(error),
            }
        }
        if let Some(error) = failure {
            join_all(ours.into_values().map(|ours| ours.lease.release())).await;
            return Err(error.into());
        }
        if !ours.is_empty() {
            found.extend(inner.make_many(ours, &loader).await?);
        }
        // Only when nothing is held any more: two calls never wait for each other.
        join_all(waits.iter().map(|(_, wake, limit)| inner.wait(wake, *limit))).await;
        missing.extend(waits.into_iter().map(|(key, ..)| key));
    }
    Ok(found)
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Looks a key up on both levels, or takes its lease. Waits for no load.
    async fn turn(&self, key: &K) -> Result<Turn<K, V>, Error> {
        let registered = self.wakes.register(key);
        if let Some(slot) = self.hit(key).filter(|slot| slot.value.is_some()) {
            return Ok(Turn::Found(slot.value));
        }
        // A copy that is not trusted, or that says that there is nothing, is in the way.
        let (trusted, now) = (self.link.trusted(), self.now());
        let in_the_way =
            |_: &K, slot: &Slot<V>| slot.value.is_none() || !slot.is_good(trusted, now, || now);
        if self.local.sync().peek(key).is_some() {
            self.local.sync().remove_if(key, in_the_way);
        }
        let guard = match self.local.get_value_or_guard(key).now_or_never() {
            Some(Err(guard)) => guard,
            // A load of this process has the key, or has just ended.
            Some(Ok(_)) | None => return Ok(Turn::Wait(registered.wake(), LOOK)),
        };
        match self.fetch_or_lease(key, false).await? {
            Leased::Ours(lease, generation) => Ok(Turn::Ours(Ours { guard, lease, generation })),
            Leased::Found(Fetched::Original(original)) => {
                let value = original.slot.value.clone();
                guard.insert(self.copy(original));
                Ok(Turn::Found(value))
            }
            Leased::Found(Fetched::Lease(left)) => Ok(Turn::Wait(registered.wake(), left)),
            Leased::Found(Fetched::Absent) => unreachable!("a lease was taken"),
        }
    }

    /// Runs the loader for keys whose leases this call has, and stores what it makes.
    async fn make_many<L, E, F>(
        &self,
        ours: HashMap<K, Ours<K, V>>,
        loader: &impl Fn(Vec<K>) -> F,
    ) -> Result<HashMap<K, Option<V>>, LoadError<E>>
    where
        L: Into<Loaded<V>>,
        F: Future<Output = Result<Vec<(K, L)>, E>>,
    {
        count(&self.counts.loads);
        let made = {
            let lease = self.settings.lease;
            let renewals = join_all(ours.values().map(|ours| ours.lease.renew(lease)));
            match select(pin!(loader(ours.keys().cloned().collect())), renewals).await {
                Either::Left((made, _)) => made,
                Either::Right(_) => unreachable!("renewals do not end"),
            }
        };
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                count(&self.counts.load_failures);
                join_all(ours.into_values().map(|ours| ours.lease.release())).await;
                return Err(LoadError::Loader(Arc::new(error)));
            }
        };
        let mut made: HashMap<K, Loaded<V>> =
            made.into_iter().map(|(key, loaded)| (key, loaded.into())).collect();
        let stores = ours.into_iter().map(|(key, ours)| {
            let loaded = made.remove(&key);
            async move {
                let Some(loaded) = loaded else {
                    ours.lease.release().await;
                    drop(ours.guard);
                    return Ok((key, None));
                };
                let value = loaded.value.clone();
                let stored = self.store(ours.lease, ours.generation, Some(loaded)).await;
                let stored = stored.map(|slot| drop(ours.guard.insert(slot)));
                stored.map(|()| (key, Some(value)))
            }
        });
        let stored = join_all(stores).await;
        stored.into_iter().collect::<Result<_, Error>>().map_err(LoadError::Redis)
    }
}
