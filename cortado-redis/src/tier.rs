//! The cache, and its hits.

use crate::builder::{Builder, Settings};
use crate::codec::Codec;
use crate::error::Error;
use crate::fallback::Fallback;
use crate::key::RedisKey;
use crate::link::{Link, LinkState, Server, Sink, Trusted};
use crate::read::{AT_ONCE, Reading};
use crate::refresh::Refreshing;
use crate::slot::Slot;
use crate::stats::{Counts, Stats};
use crate::wake::Wakes;
use cortado::{ReadTimes, ToKey};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Instant;

/// A cache of two levels: one in this process, one on a server of Redis or Valkey that many
/// processes share. The [crate's page](crate) has an example and the guarantees.
///
/// It is a handle: clones are the same cache, with one connection. Operations that ask the server
/// panic outside of a runtime of tokio with its drivers of I/O and time. The connection's tasks run
/// on the runtime of the first operation, which must go on running. If it ends, the next operation
/// connects anew; those that begin while it ends may fail.
pub struct TieredCache<K, V> {
    pub(crate) inner: Arc<Inner<K, V>>,
}

pub(crate) struct Inner<K, V> {
    pub local: cortado::future::Cache<K, Slot<V>>,
    pub link: Arc<Link>,
    pub settings: Settings,
    pub codec: Arc<dyn Codec<V>>,
    pub wakes: Wakes<K>,
    pub fallback: Fallback<K, V>,
    pub refreshing: Refreshing<K>,
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

    pub(crate) fn new(inner: Inner<K, V>) -> Self {
        let inner = Arc::new(inner);
        let sink: Weak<dyn Sink> = Arc::downgrade(&(Arc::clone(&inner) as Arc<dyn Sink>));
        inner.link.attach(sink);
        Self { inner }
    }

    /// Returns the key's value: the local copy, if there is one that can be trusted, otherwise the
    /// server's. A key that is being loaded has none. That there is none is kept locally, too.
    ///
    /// # Errors
    /// If the server has to be asked and cannot be, unless the [`Outage`](crate::Outage) allows
    /// the local copy; or if the key has something else than a value of this cache.
    #[inline]
    pub fn get<'a, Q>(&'a self, key: &'a Q) -> impl Future<Output = Result<Option<V>, Error>>
    where
        Q: ToKey<K> + Hash + ?Sized,
    {
        // By hand, so that a hit's value never is in the future's state.
        let mut reading: Option<Reading<'a, V>> = None;
        poll_fn(move |context| {
            if let Some(reading) = &mut reading {
                return reading.as_mut().poll(context);
            }
            match self.inner.hit(key) {
                Some(value) => Poll::Ready(Ok(value)),
                None => reading.insert(self.inner.reading(key.to_key())).as_mut().poll(context),
            }
        })
    }

    /// Returns the keys' values, in their order, as [`get`](Self::get) does. Those that are
    /// missing are asked for, 256 at a time.
    ///
    /// # Errors
    /// The first error of a key; the others are not waited for.
    pub async fn get_many(&self, keys: &[K]) -> Result<Vec<Option<V>>, Error> {
        let reads: Vec<_> = keys.iter().map(|key| self.get(key)).collect();
        stream::iter(reads).buffered(AT_ONCE).try_collect().await
    }

    /// The local level alone, for threads, and for what must not wait.
    #[must_use]
    pub fn local(&self) -> Local<'_, K, V> {
        Local { inner: &self.inner }
    }

    /// Waits for the connection; the first operation starts it. Call it at the start to learn
    /// whether the server tracks.
    ///
    /// # Errors
    /// The last attempt's: [`Error::NoTracking`] where the server tells of no changes. Attempts go
    /// on.
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
        self.inner.hit(key)?
    }

    /// Drops the local copy. The next read asks the server.
    pub fn invalidate<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) {
        self.inner.local.sync().invalidate(key);
    }

    /// Drops all local copies.
    pub fn invalidate_all(&self) {
        self.inner.local.invalidate_all();
    }

    /// How many copies there are, those included that are not trusted any more, or that say that
    /// there is no value.
    #[must_use]
    pub fn entry_count(&self) -> u64 {
        self.inner.local.sync().entry_count()
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// What the local level has, a value or that there is none, if it can be trusted.
    #[inline]
    pub fn hit<Q: ToKey<K> + Hash + ?Sized>(&self, key: &Q) -> Option<Option<V>> {
        let trusted = self.link.trusted();
        let good = |slot: &Slot<V>, times: ReadTimes| self.is_good(slot, trusted, times);
        self.local.sync().get_if(key, good).map(|slot| slot.value)
    }

    #[inline]
    pub fn is_good(&self, slot: &Slot<V>, trusted: Trusted, times: ReadTimes) -> bool {
        slot.is_good(trusted, times.now.into(), || self.now())
    }

    /// The key's bytes on the server.
    pub fn raw(&self, key: &K) -> Vec<u8> {
        let prefix = &self.link.settings.prefix;
        let mut raw = prefix.clone();
        key.encode(&mut raw);
        debug_assert!(
            K::decode(&raw[prefix.len()..]).as_ref() == Some(key),
            "`RedisKey::decode` makes another key of what `encode` wrote"
        );
        raw
    }

    /// The instant by the local level's clock.
    pub fn time_of(&self, at: Instant) -> u64 {
        self.local.sync().clock_time(at).into()
    }
}

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Sink for Inner<K, V> {
    fn changed(&self, raw: &[u8]) {
        let Some(raw) = raw.strip_prefix(&*self.link.settings.prefix) else { return };
        // The connection must not end by a panic of the user's code: nobody would be told.
        let told = catch_unwind(AssertUnwindSafe(|| {
            let Some(key) = K::decode(raw) else { return };
            self.keep_expired(&key);
            // Overtakes what is being read, and waits for nothing.
            self.local.sync().invalidate(&key);
            self.wakes.fire(&key);
        }));
        if told.is_err() {
            self.all_changed();
        }
    }

    fn all_changed(&self) {
        self.local.invalidate_all();
        self.fallback.forget_all();
        self.wakes.fire_all();
    }

    fn reconnected(&self) {
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
