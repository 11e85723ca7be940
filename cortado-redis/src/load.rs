//! Loads: one for a key at a time, of all processes.

use crate::error::LoadError;
use crate::key::RedisKey;
use crate::loaded::Loaded;
use crate::slot::Slot;
use crate::stats::count;
use crate::task::{self, Course, Limits};
use crate::tier::{Inner, TieredCache};
use crate::turn::{Made, Turn};
use crate::wire::Stamp;
use cortado::ToKey;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

impl<K: RedisKey, V: Clone + Send + Sync + 'static> TieredCache<K, V> {
    /// Returns the key's value, and loads it if there is none on either level.
    ///
    /// Of all calls for a key, in all processes that share the cache, one polls its `loader`; the
    /// others wait for what it stores. If that process or its runtime ends, another one loads when
    /// its [lease](crate::Builder::lease) has ended. A write or removal of the key during the
    /// load has the last word: the callers get the loaded value, and nobody keeps it. A
    /// `loader` that is not needed is dropped without being polled.
    ///
    /// A `loader` runs in a task of the runtime: it goes on, and its value is stored, also if this
    /// future is dropped. Give one that may hang a time limit of its own: as long as it runs,
    /// nobody else loads. One that loads its own key waits for itself, until the
    /// [limit](crate::Builder::hard_limit).
    ///
    /// # Errors
    /// * [`LoadError::Loader`]: the loader's. Calls of this process that began at the same time
    ///   share it. Those that came later, and other processes', run their own loaders then, one
    ///   after the other.
    /// * [`LoadError::Redis`]: the server cannot be asked, or has something else under the key. The
    ///   loader does not run then, so that an outage of the server is not one of the origin, too.
    /// * [`LoadError::TimedOut`]: by the limit.
    /// * [`LoadError::Aborted`]: the loader has panicked, or its runtime has ended.
    pub async fn load<Q, L, E, F>(&self, key: &Q, loader: F) -> Result<V, LoadError<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        L: Into<Loaded<V>>,
        E: Send + Sync + 'static,
        F: Future<Output = Result<L, E>> + Send + 'static,
    {
        if let Some(Hit { value: Some(value), ending }) = self.inner.hit_to_load(key, false) {
            if let Some(stamp) = ending {
                let loader = async { loader.await.map(|loaded| Some(loaded.into())) };
                self.inner.refresh(key.to_key(), stamp, loader);
            }
            return Ok(value);
        }
        let loader = async { loader.await.map(|loaded| Some(loaded.into())) };
        let value = self.make(key.to_key(), false, loader).await?;
        Ok(value.expect("a load that wants a value has one"))
    }

    /// [`load`](Self::load) of what the origin may not have: `None` is kept, too, on both levels,
    /// for [`negative_ttl`](crate::Builder::negative_ttl). (`load` and
    /// [`load_many`](Self::load_many) ignore a kept `None`, and run their loaders.)
    ///
    /// # Errors
    /// As `load`.
    pub async fn optionally_load<Q, E, F>(
        &self,
        key: &Q,
        loader: F,
    ) -> Result<Option<V>, LoadError<E>>
    where
        Q: ToKey<K> + Hash + ?Sized,
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send + 'static,
    {
        match self.inner.hit_to_load(key, true) {
            Some(Hit { value, ending }) => {
                if let Some(stamp) = ending {
                    self.inner.refresh(key.to_key(), stamp, loader);
                }
                Ok(value)
            }
            None => self.make(key.to_key(), true, loader).await,
        }
    }

    /// Loads in a task, and waits for it as long as the settings say.
    async fn make<E, F>(&self, key: K, optional: bool, loader: F) -> Made<V, E>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send + 'static,
    {
        let (inner, settings) = (&self.inner, &self.inner.settings);
        let stale = settings.soft_limit.and_then(|_| inner.usable(&key, optional));
        let limits = match settings.soft_limit.filter(|_| stale.is_some()) {
            // Long enough to learn whose the lease is.
            Some(soft) => Limits {
                wait: soft.min(settings.hard_limit),
                linger: inner.link.longest_exchange(),
            },
            None => Limits { wait: settings.hard_limit, linger: Duration::ZERO },
        };
        let load = |course| Arc::clone(inner).load(key, optional, loader, course);
        match (task::run(limits, load).await, stale) {
            (Err(LoadError::TimedOut), Some(stale)) => {
                count(&inner.counts.stale_served);
                Ok(stale.value)
            }
            (made, _) => made,
        }
    }
}

/// What a load finds in the local level.
struct Hit<V> {
    value: Option<V>,
    /// Which value it is, if the next one is to be loaded, too.
    ending: Option<Stamp>,
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// The local copy, if it can be trusted and says what the origin has.
    #[inline]
    fn hit_to_load<Q>(&self, key: &Q, optional: bool) -> Option<Hit<V>>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        let trusted = self.link.trusted();
        let good =
            |slot: &Slot<V>, times| slot.answers(optional) && self.is_good(slot, trusted, times);
        let slot = self.local.sync().get_if(key, good)?;
        Some(Hit { ending: self.ending(&slot), value: slot.value })
    }

    async fn load<E, F>(
        self: Arc<Self>,
        key: K,
        optional: bool,
        loader: F,
        course: Arc<Course>,
    ) -> Made<V, E>
    where
        E: Send + Sync + 'static,
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send,
    {
        loop {
            match self.turn(&key, optional).await {
                Turn::Found(value) => return Ok(value),
                Turn::Ours(lead) if course.begin_loader() => {
                    return self.make(&key, optional, lead, loader).await;
                }
                Turn::Ours(_) => return Err(LoadError::Aborted),
                Turn::Failed(error) => return Err(error),
                Turn::Wait(wait) => {
                    // Another call may have been content with "the origin has none".
                    if let Some(made) = self.wait(wait).await
                        && (optional || !matches!(made, Ok(None)))
                    {
                        return made;
                    }
                }
            }
        }
    }
}
