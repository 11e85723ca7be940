//! Settings of refresh, and building a cache with a stored loader.

use super::Builder;
use crate::cache::{Cache, LoadingCache};
use crate::engine::{Asking, TypedReloads};
use crate::error::BuildError;
use crate::loaded::NoValue;
use crate::loader::{Loader, Reload};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::{Duration, Instant};

impl<K, V, C, M> Builder<K, V, C, M> {
    /// Makes entries *stale* this long after they were inserted or replaced: readers still get the
    /// value, and one of them triggers a reload.
    ///
    /// A stale entry is a living entry for every operation, until its lifetime is over. So give
    /// entries a longer lifetime, too ([`time_to_live`](Self::time_to_live),
    /// [`expire_after`](Self::expire_after)): between the two, values are served while a new one is
    /// made, and while making one fails.
    ///
    /// The reload is made by the cache's stored loader
    /// ([`build_with_loader`](Self::build_with_loader)). An entry that nobody reads is not
    /// reloaded. `get`, `get_entry`, `touch`, `get_many` and reads of a view trigger reloads.
    /// `peek`, `contains_key` and iteration do not. The value that a reload brings takes the
    /// old one's place, which leaves as [`Replaced`](crate::RemovalCause::Replaced). A reload
    /// is no use of the entry for the eviction policy, and no read for an idle time.
    ///
    /// A write, a removal, a computation or `invalidate_all` during a reload overtakes it: what it
    /// brings is not kept.
    ///
    /// *Where reloads run*: on the [`executor`](Self::executor) or runtime
    /// (`on_tokio`, with the feature `tokio`) of the cache. Without one, those of a [`Loader`],
    /// which blocks, run on worker threads of the process: 64 of all caches at once, others
    /// wait. The read hands its reload over when it has its value. Inside a
    /// load, a computation, a callback or a listener of any cache, and while the thread holds a
    /// view, the reload waits for the next operation on the cache, or for its
    /// [`scheduler`](Self::scheduler).
    ///
    /// *Cost*: 8 bytes per entry, whether it becomes stale or not, and one comparison more in each
    /// hit.
    ///
    /// *Errors*: [`try_build`](Self::try_build) fails: a cache without a stored loader has no
    /// refresh.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Job, Loaded};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::Duration;
    ///
    /// let (clock, hand) = Clock::manual();
    /// let version = AtomicU32::new(0);
    /// let load = move |_: &str| Ok::<_, ()>(Loaded::new(version.fetch_add(1, Ordering::Relaxed)));
    /// let settings = Cache::builder()
    ///     .time_to_live(Duration::from_secs(3600))
    ///     .refresh_after_write(Duration::from_secs(60))
    ///     .executor(|job: Job| job()) // runs jobs at once, on the caller's thread
    ///     .clock(clock)
    ///     .build_with_loader(load);
    /// assert_eq!(settings.get(&"k"), Ok(0));
    /// hand.advance(Duration::from_secs(60));
    /// // Stale: this call has run the reload.
    /// assert_eq!(settings.get(&"k"), Ok(1));
    /// ```
    pub fn refresh_after_write(mut self, time: Duration) -> Self {
        self.config.refresh.after_write = Some(time);
        self
    }

    /// Sets the policy that says how long after its write an entry becomes stale; `None` is never.
    /// Otherwise like [`refresh_after_write`](Self::refresh_after_write), in whose place the
    /// policy is asked.
    ///
    /// [`Loaded::refresh_after`](crate::Loaded::refresh_after) overrides it.
    ///
    /// *Callbacks*: the policy gets key, value and the present. It is asked once per value that is
    /// written, or that a reload found not modified, with no lock held. It must not write the key
    /// that it is asked about: that write panics. A panic reaches the caller of the write, and
    /// nothing is written.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::Duration;
    ///
    /// struct Answer { address: [u8; 4], ttl: Duration }
    ///
    /// fn resolve(host: String) -> std::io::Result<Loaded<Answer>> {
    ///     Ok(Loaded::new(Answer { address: [127, 0, 0, 1], ttl: Duration::from_secs(60) }))
    /// }
    ///
    /// // Answers are asked for anew when three quarters of their time are over.
    /// let dns = Cache::builder()
    ///     .ttl_on_write(|_, answer: &Answer| Some(answer.ttl))
    ///     .refresh_after(|_, answer: &Answer, _| Some(answer.ttl * 3 / 4))
    ///     .build_with_loader(resolve);
    /// assert_eq!(dns.get_entry("localhost").unwrap().address, [127, 0, 0, 1]);
    /// ```
    pub fn refresh_after(
        mut self,
        policy: impl Fn(&K, &V, Instant) -> Option<Duration> + Send + Sync + 'static,
    ) -> Self {
        self.hooks.refresh = Some(Box::new(policy));
        self
    }

    /// Bounds how many reloads are under way at once, those that wait for the executor included. By
    /// default 64.
    ///
    /// Beyond the limit a read triggers nothing, and the entry stays stale. That is counted
    /// ([`Stats::reloads_skipped`](crate::Stats::reloads_skipped)). A later read tries again. The
    /// same applies while more notifications wait than a
    /// [`notification_limit`](Self::notification_limit) allows.
    ///
    /// A reload has its place until its loader returns. A loader that hangs keeps the place for
    /// ever, since a thread cannot be interrupted. While all places are kept so, nothing
    /// is reloaded: stale values are served until their lifetimes are over, and
    /// [`Stats::reloads_under_way`](crate::Stats::reloads_under_way) stays at the limit. A `get` of
    /// the key past its lifetime waits for the loader that hangs;
    /// [`get_within`](LoadingCache::get_within) waits for a time, and a write of the key for none.
    /// The reloads of all caches without an executor share 64 worker threads. So give loaders a
    /// time limit: that of the client of your upstream, or, if they await, that of the runtime
    /// (`tokio::time::timeout(limit, request).await`). Its error counts as any failure.
    ///
    /// *Errors*: [`try_build`](Self::try_build) refuses zero.
    pub fn refresh_limit(mut self, limit: usize) -> Self {
        self.config.refresh.limit = limit;
        self
    }

    /// Sets how long after a failed reload a read may trigger the next one. By default a second.
    ///
    /// Until then the entry is read as if it were not stale. The delay also applies where the
    /// executor dropped the job of a reload, and where the key had a load or a computation when its
    /// reload was to begin.
    pub fn refresh_retry(mut self, delay: Duration) -> Self {
        self.config.refresh.retry = delay;
        self
    }
}

impl<K, V, C, M> Builder<K, V, C, M>
where
    K: Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// The cache has a stored loader. `reload` calls it for a reload, unless it awaits.
    pub(crate) fn use_loader(&mut self, reload: Option<Reload<K, V>>) {
        self.hooks.asking = Some(Asking::OF_INSERTS);
        self.config.refresh.has_loader = true;
        let policy = self.hooks.refresh.take();
        let reloads = TypedReloads::new(self.config.refresh, policy, reload);
        self.hooks.reloads = Some(Box::new(reloads));
    }
}

impl<K, V> Builder<K, V, Cache<K, V>>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    /// Builds a cache that makes missing values itself, by a stored loader, and reloads stale ones.
    ///
    /// [`refresh_after_write`](Self::refresh_after_write) and
    /// [`refresh_after`](Self::refresh_after) say when an entry is stale, and so may the loader
    /// ([`Loaded::refresh_after`](crate::Loaded::refresh_after)). Otherwise only
    /// [`refresh`](LoadingCache::refresh) and [`reload`](LoadingCache::reload) do.
    ///
    /// *Cost*: 8 bytes per entry, as with a soft deadline.
    ///
    /// # Panics
    /// As [`build`](Self::build).
    ///
    /// ```
    /// use cortado::{Cache, Loaded, LoadingCache};
    ///
    /// let lengths: LoadingCache<String, usize, &str> =
    ///     Cache::builder().build_with_loader(|word: String| match word.len() {
    ///         0 => Err("no word"),
    ///         length => Ok(Loaded::new(length)),
    ///     });
    /// assert_eq!(lengths.get("four"), Ok(4));
    /// assert_eq!(*lengths.get("").unwrap_err(), "no word");
    /// ```
    #[must_use]
    pub fn build_with_loader<L: Loader<K, V>>(self, loader: L) -> LoadingCache<K, V, L::Error> {
        let built = self.try_build_with_loader(loader, ahash::RandomState::new());
        built.unwrap_or_else(|error| error.fail())
    }

    /// Like [`build_with_loader`](Self::build_with_loader), with a hasher of your own, and returns
    /// an error instead of panicking.
    ///
    /// # Errors
    /// As [`try_build`](Self::try_build).
    ///
    /// ```
    /// use cortado::{Cache, Loaded, RandomState};
    /// use std::time::Duration;
    ///
    /// let builder = Cache::<u32, u32>::builder().expiry_resolution(Duration::ZERO);
    /// let double = |n: u32| Ok::<_, ()>(Loaded::new(2 * n));
    /// let refused = builder.try_build_with_loader(double, RandomState::new());
    /// assert_eq!(refused.unwrap_err().setting(), "expiry_resolution");
    /// ```
    pub fn try_build_with_loader<L, S>(
        mut self,
        loader: L,
        hasher: S,
    ) -> Result<LoadingCache<K, V, L::Error, S>, BuildError>
    where
        L: Loader<K, V>,
        S: BuildHasher + Send + Sync + 'static,
    {
        let loader: Arc<dyn Loader<K, V, Error = L::Error>> = Arc::new(loader);
        let reload = Arc::clone(&loader);
        self.use_loader(Some(Arc::new(move |key: &K, old: &V| {
            reload.reload(key, old).map_err(|error| NoValue::Failed(Arc::new(error)))
        })));
        self.config.use_workers();
        let engine = self.into_engine(hasher)?;
        engine.start_reloads();
        Ok(LoadingCache::new(Cache::of_engine(engine), loader))
    }
}
