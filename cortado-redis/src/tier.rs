//! The cache, and its hits.

use crate::builder::{Builder, Settings};
use crate::codec::Codec;
use crate::error::Error;
use crate::fallback::Fallback;
use crate::key::RedisKey;
use crate::link::{Link, LinkState, Server, Sink};
use crate::slot::Slot;
use crate::stats::{Counts, Stats};
use crate::wake::{Loading, Wakes};
use cortado::{ReadTimes, ToKey};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// A cache of two levels: one in this process, one on a server of Redis or Valkey that many
/// processes share. The [crate's page](crate) has an example and the guarantees.
///
/// It is a handle: clones are the same cache. All operations but [`local`](Self::local)'s run
/// inside of a runtime of tokio.
pub struct TieredCache<K, V> {
    pub(crate) inner: Arc<Inner<K, V>>,
}

pub(crate) struct Inner<K, V> {
    pub local: cortado::future::Cache<K, Slot<V>>,
    pub link: Arc<Link>,
    pub settings: Settings,
    pub codec: Arc<dyn Codec<V>>,
    pub wakes: Wakes<K>,
    pub loading: Loading<K>,
    pub fallback: Fallback<K, V>,
    pub refreshing: crate::refresh::Refreshing<K>,
    pub counts: Counts,
}

impl<K, V> Clone for TieredCache<K, V> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> TieredCache<K, V> {
    /// The settings of a cache on this server. All of its keys begin with `name:` there, so caches
    /// of one name are the same cache; others have nothing to do with it, unless their names begin
    /// with this one and a colon. Use a database of its own, or at least no other keys of this
    /// prefix.
    pub fn builder(server: Server, name: &str) -> Builder<K, V> {
        Builder::new(server, name)
    }

    pub(crate) fn new(
        local: cortado::Cache<K, Slot<V>>,
        link: Arc<Link>,
        settings: Settings,
        codec: Arc<dyn Codec<V>>,
    ) -> Self {
        let capacity = local.policy().max_capacity().unwrap_or(u64::MAX);
        let fallback = Fallback::new(settings.stale_on_error, capacity);
        let inner = Arc::new(Inner {
            fallback,
            local: local.future(),
            link,
            settings,
            codec,
            wakes: Wakes::new(),
            loading: Loading::new(),
            refreshing: crate::refresh::Refreshing::new(),
            counts: Counts::default(),
        });
        let sink: Weak<dyn Sink> = Arc::downgrade(&(Arc::clone(&inner) as Arc<dyn Sink>));
        inner.link.attach(sink);
        Self { inner }
    }

    /// Returns the key's value: the local copy, if there is one that can be trusted, otherwise the
    /// server's. A key that is being loaded has none.
    ///
    /// # Errors
    /// If the server has to be asked and cannot be, unless the [`Outage`](crate::Outage) allows
    /// the local copy; or if the key has something else than a value of this cache.
    #[inline]
    pub async fn get<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Result<Option<V>, Error> {
        match self.inner.hit(key) {
            Some(slot) => Ok(slot.value),
            None => Box::pin(self.inner.read(key.to_key())).await,
        }
    }

    /// Returns the keys' values, in their order, as [`get`](Self::get) does. All that are missing
    /// are asked for at once.
    ///
    /// # Errors
    /// The first error of a key.
    pub async fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>, Error> {
        futures_util::future::try_join_all(keys.iter().map(|key| self.get(key))).await
    }

    /// The local level alone, for threads, and for what must not wait.
    #[must_use]
    pub fn local(&self) -> Local<'_, K, V> {
        Local { inner: &self.inner }
    }

    /// Connects, if there is no connection yet, and waits for it.
    ///
    /// # Errors
    /// If that fails: [`Error::NoTracking`] where the server tells of no changes.
    pub async fn ready(&self) -> Result<(), Error> {
        self.inner.link.ready().await
    }

    /// Whether the server can be asked.
    #[must_use]
    pub fn state(&self) -> LinkState {
        self.inner.link.state()
    }

    /// What the cache has done so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.stats()
    }
}

/// The local level of a [`TieredCache`]. Nothing here waits or fails.
pub struct Local<'c, K, V> {
    inner: &'c Inner<K, V>,
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Local<'_, K, V> {
    /// Returns the local copy, if there is one that can be trusted.
    #[inline]
    #[must_use]
    pub fn get<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Option<V> {
        self.inner.hit(key)?.value
    }

    /// Drops the local copy. The next read asks the server.
    pub fn invalidate<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) {
        self.inner.local.sync().invalidate(key);
    }

    /// Drops all local copies.
    pub fn invalidate_all(&self) {
        self.inner.local.invalidate_all();
    }

    /// How many entries there are, those included that are not trusted any more.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.inner.local.sync().entry_count()
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// The local copy, if it can be trusted.
    #[inline]
    pub fn hit<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Option<Slot<V>> {
        let trusted = self.link.trusted();
        let good = |slot: &Slot<V>, times: ReadTimes| self.is_good(slot, trusted, times);
        self.local.sync().get_if(key, good)
    }

    #[inline]
    pub fn is_good(&self, slot: &Slot<V>, trusted: (u64, u64), times: ReadTimes) -> bool {
        slot.is_good(trusted, times.now.into(), || self.now())
    }

    /// The key's bytes on the server.
    pub fn raw(&self, key: &K) -> Vec<u8> {
        let mut raw = self.link.settings.prefix.clone();
        key.encode(&mut raw);
        raw
    }

    /// The instant by the local level's clock.
    pub fn time_of(&self, at: Instant) -> u64 {
        self.local.sync().clock_time(at).into()
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Sink for Inner<K, V> {
    fn changed(&self, raw: &[u8]) {
        let key = raw.strip_prefix(&*self.link.settings.prefix).and_then(K::decode);
        let Some(key) = key else { return };
        // Overtakes what is being read, and waits for nothing.
        self.local.sync().invalidate(&key);
        self.wakes.fire(&key);
    }

    fn all_changed(&self) {
        self.local.invalidate_all();
        self.fallback.forget_all();
        self.wakes.fire_all();
    }

    fn time(&self, at: Instant) -> u64 {
        self.time_of(at)
    }
}

impl<K, V> fmt::Debug for TieredCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = &self.inner.link;
        f.debug_struct("TieredCache")
            .field("server", &link.settings.server)
            .field("coherence", &link.settings.coherence)
            .field("state", &link.state())
            .finish_non_exhaustive()
    }
}
