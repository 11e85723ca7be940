//! Stored loaders, and what a reload brings.

#![expect(clippy::type_complexity, reason = "an alias would hide what a loader returns")]

use crate::clock::nanos;
use crate::expiration::{Lease, Lifetime};
use crate::loaded::{Loaded, NoValue};
use crate::primitives::time::{Duration, Instant};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Makes the values of a [`LoadingCache`](crate::LoadingCache).
///
/// A closure that takes a key by value and returns a `Result` of a [`Loaded`] is a loader.
/// Implement the trait to use the old value in a reload, or to load many keys at once.
///
/// *Callbacks*: a loader runs with no lock and no guard of the cache held: a load on the thread of
/// the call that needs it, a reload, and a load that
/// [`refresh`](crate::LoadingCache::refresh) starts, on the executor
/// ([where](crate::Builder::refresh_after_write)). A panic of a load reaches that call; a panic of
/// a reload counts as a failure. It may use the cache for other keys. Only one
/// load or reload of a key runs at a time, unless a write of the key comes meanwhile.
///
/// The cache owns the loader. A loader that owns its own cache is a cycle, and neither is ever
/// dropped: give it a `Weak`, by `Arc::new_cyclic` ([refresh](crate::guide::refresh)).
///
/// ```
/// use cortado::{Cache, Loaded, Loader, Reloaded};
/// use std::time::Duration;
///
/// struct Page { body: String, etag: u64 }
/// struct Upstream;
///
/// /// A conditional request; `None` stands for "304 Not Modified".
/// fn fetch(_url: &str, _etag: Option<u64>) -> Result<Option<Page>, std::io::Error> {
///     Ok(Some(Page { body: "hello".to_owned(), etag: 1 }))
/// }
///
/// impl Loader<String, Page> for Upstream {
///     type Error = std::io::Error;
///
///     fn load(&self, url: &String) -> Result<Loaded<Page>, std::io::Error> {
///         let page = fetch(url, None)?.ok_or(std::io::ErrorKind::InvalidData)?;
///         Ok(Loaded::new(page))
///     }
///
///     fn reload(&self, url: &String, old: &Page) -> Result<Reloaded<Page>, std::io::Error> {
///         Ok(fetch(url, Some(old.etag))?.map_or(Reloaded::not_modified(), Reloaded::new))
///     }
/// }
///
/// let pages = Cache::builder()
///     .time_to_live(Duration::from_secs(3600))
///     .refresh_after_write(Duration::from_secs(60))
///     .build_with_loader(Upstream);
/// assert_eq!(pages.get_entry(&"/".to_owned()).unwrap().body, "hello");
/// ```
///
/// An `Arc` of a loader is one, too, and so is an `Arc<dyn Loader<..>>`:
///
/// ```
/// use cortado::{Cache, Loaded, Loader};
/// use std::sync::Arc;
///
/// let chosen: Arc<dyn Loader<u64, u64, Error = ()>> = Arc::new(|n: u64| Ok(Loaded::new(n * n)));
/// let squares = Cache::builder().build_with_loader(chosen);
/// assert_eq!(squares.get(&7), Ok(49));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no loader of this cache",
    note = "a closure that loads takes the key by value, and returns a `Result` of a `Loaded`"
)]
pub trait Loader<K, V>: Send + Sync + 'static {
    /// Why there is no value.
    type Error: Send + Sync + 'static;

    /// Makes the value of a key that has none.
    ///
    /// # Errors
    /// Every caller that waits for the load gets the error.
    fn load(&self, key: &K) -> Result<Loaded<V>, Self::Error>;

    /// Makes a new value of a key, with the old one at hand. By default it [loads](Self::load).
    ///
    /// # Errors
    /// The old value stays until its lifetime is over. The reload is counted as failed, and tried
    /// again after [`refresh_retry`](crate::Builder::refresh_retry).
    fn reload(&self, key: &K, old: &V) -> Result<Reloaded<V>, Self::Error> {
        let _ = old;
        self.load(key).map(Reloaded::from)
    }

    /// Makes the values of several keys. By default it [loads](Self::load) one after the other, and
    /// an error stops it at none.
    ///
    /// * Every value is kept, also if other keys fail.
    /// * Callers who wait for a key that has failed get its error.
    /// * A key for which it returns nothing has no value. Callers who wait for it load it
    ///   themselves.
    /// * A value whose key was not asked for is inserted, too.
    fn load_many(&self, keys: &[&K]) -> Vec<(K, Result<Loaded<V>, Self::Error>)>
    where
        K: Clone,
    {
        keys.iter().map(|&key| (key.clone(), self.load(key))).collect()
    }
}

impl<K, V, E, F> Loader<K, V> for F
where
    F: Fn(K) -> Result<Loaded<V>, E> + Send + Sync + 'static,
    K: Clone,
    E: Send + Sync + 'static,
{
    type Error = E;

    fn load(&self, key: &K) -> Result<Loaded<V>, E> {
        self(key.clone())
    }
}

impl<K, V, L: Loader<K, V> + ?Sized> Loader<K, V> for Arc<L> {
    type Error = L::Error;

    fn load(&self, key: &K) -> Result<Loaded<V>, L::Error> {
        L::load(self, key)
    }

    fn reload(&self, key: &K, old: &V) -> Result<Reloaded<V>, L::Error> {
        L::reload(self, key, old)
    }

    fn load_many(&self, keys: &[&K]) -> Vec<(K, Result<Loaded<V>, L::Error>)>
    where
        K: Clone,
    {
        L::load_many(self, keys)
    }
}

/// Makes the values of a [`future::LoadingCache`](crate::future::LoadingCache); see [`Loader`]. Its
/// loads and its reloads run on the executor.
///
/// It runs on the executor, without its caller. So the cache cannot see that loaders wait for each
/// other: if that of one key awaits `get` of a second, and that of the second `get` of the first,
/// neither ends. A loader that awaits its own key panics.
///
/// A closure that takes a key by value and returns a future is a loader. An `async` closure that
/// captures something is none, since its future borrows from the closure. Clone what it captures
/// into an `async move` block, as the second example does, or implement the trait. Implement it
/// also to use the old value in a reload, or to load many keys at once:
///
/// ```
/// use cortado::{AsyncLoader, Job, Loaded, Reloaded, future::Cache};
/// use std::time::Duration;
///
/// struct Upstream;
///
/// impl AsyncLoader<String, String> for Upstream {
///     type Error = std::io::Error;
///
///     async fn load(&self, url: &String) -> Result<Loaded<String>, std::io::Error> {
///         Ok(Loaded::new(format!("body of {url}")))
///     }
///
///     async fn reload(&self, _url: &String, _old: &String) -> Result<Reloaded<String>, std::io::Error> {
///         Ok(Reloaded::not_modified()) // ... the upstream says
///     }
/// }
///
/// # pollster::block_on(async {
/// let pages = Cache::builder()
///     .refresh_after_write(Duration::from_secs(60))
///     .executor(|job: Job| job()) // in a service, `on_tokio()`
///     .build_with_loader(Upstream);
/// assert_eq!(pages.get("/").await.unwrap(), "body of /");
/// # });
/// ```
///
/// ```
/// use cortado::{Job, Loaded, future::Cache};
/// use std::sync::Arc;
///
/// # pollster::block_on(async {
/// let host = Arc::new("example.org".to_owned());
/// let pages = Cache::builder().executor(|job: Job| job()).build_with_loader(move |path: String| {
///     let host = Arc::clone(&host);
///     async move { Ok::<_, ()>(Loaded::new(format!("{host}{path}"))) }
/// });
/// assert_eq!(pages.get("/").await.unwrap(), "example.org/");
/// # });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no loader of this cache",
    note = "a closure that loads takes the key by value, and returns a future of a `Result` of a \
            `Loaded`"
)]
pub trait AsyncLoader<K: Send + Sync, V: Send + Sync>: Send + Sync + 'static {
    /// Why there is no value.
    type Error: Send + Sync + 'static;

    /// See [`Loader::load`].
    fn load(&self, key: &K) -> impl Future<Output = Result<Loaded<V>, Self::Error>> + Send;

    /// See [`Loader::reload`].
    fn reload(
        &self,
        key: &K,
        old: &V,
    ) -> impl Future<Output = Result<Reloaded<V>, Self::Error>> + Send {
        let _ = old;
        async move { self.load(key).await.map(Reloaded::from) }
    }

    /// See [`Loader::load_many`]. By default it loads one key after the other: what an upstream
    /// bears at once is yours to say.
    fn load_many(
        &self,
        keys: &[&K],
    ) -> impl Future<Output = Vec<(K, Result<Loaded<V>, Self::Error>)>> + Send
    where
        K: Clone,
    {
        async move {
            let mut made = Vec::with_capacity(keys.len());
            for &key in keys {
                made.push((key.clone(), self.load(key).await));
            }
            made
        }
    }
}

impl<K, V, E, F, Made> AsyncLoader<K, V> for F
where
    F: Fn(K) -> Made + Send + Sync + 'static,
    Made: Future<Output = Result<Loaded<V>, E>> + Send,
    K: Clone + Send + Sync,
    V: Send + Sync,
    E: Send + Sync + 'static,
{
    type Error = E;

    fn load(&self, key: &K) -> impl Future<Output = Result<Loaded<V>, E>> + Send {
        self(key.clone())
    }
}

impl<K: Send + Sync, V: Send + Sync, L: AsyncLoader<K, V>> AsyncLoader<K, V> for Arc<L> {
    type Error = L::Error;

    fn load(&self, key: &K) -> impl Future<Output = Result<Loaded<V>, L::Error>> + Send {
        L::load(self, key)
    }

    fn reload(
        &self,
        key: &K,
        old: &V,
    ) -> impl Future<Output = Result<Reloaded<V>, L::Error>> + Send {
        L::reload(self, key, old)
    }

    fn load_many(
        &self,
        keys: &[&K],
    ) -> impl Future<Output = Vec<(K, Result<Loaded<V>, L::Error>)>> + Send
    where
        K: Clone,
    {
        L::load_many(self, keys)
    }
}

/// The future of a loader.
pub type AsyncAnswer<'a, T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'a>>;

/// The future of a loader of many keys.
pub type AsyncAnswers<'a, K, V, E> =
    Pin<Box<dyn Future<Output = Vec<(K, Result<Loaded<V>, E>)>> + Send + 'a>>;

/// An [`AsyncLoader`] whose type nobody has to name.
pub trait AnyAsyncLoader<K, V, E>: Send + Sync {
    fn load<'a>(&'a self, key: &'a K) -> AsyncAnswer<'a, Loaded<V>, E>;
    fn reload<'a>(&'a self, key: &'a K, old: &'a V) -> AsyncAnswer<'a, Reloaded<V>, E>;
    fn load_many(&self, keys: Vec<K>) -> AsyncAnswers<'_, K, V, E>;
}

impl<K, V, L> AnyAsyncLoader<K, V, L::Error> for L
where
    K: Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    L: AsyncLoader<K, V>,
{
    fn load<'a>(&'a self, key: &'a K) -> AsyncAnswer<'a, Loaded<V>, L::Error> {
        // Not before the first poll, which comes when this call's load is registered: what a
        // closure does before it returns its future is part of the load.
        Box::pin(async move { AsyncLoader::load(self, key).await })
    }

    fn reload<'a>(&'a self, key: &'a K, old: &'a V) -> AsyncAnswer<'a, Reloaded<V>, L::Error> {
        Box::pin(async move { AsyncLoader::reload(self, key, old).await })
    }

    fn load_many(&self, keys: Vec<K>) -> AsyncAnswers<'_, K, V, L::Error> {
        Box::pin(async move {
            let made = {
                let keys: Vec<&K> = keys.iter().collect();
                AsyncLoader::load_many(self, &keys).await
            };
            // Before the values are the result: a panic of a destructor would leak them.
            drop(keys);
            made
        })
    }
}

/// What a reload brings: a new value, or the word that the old one is still right, or that there is
/// no value any more. See [`Loader::reload`].
///
/// ```
/// use cortado::{Loaded, Reloaded};
/// use std::time::Duration;
///
/// let minute = Duration::from_secs(60);
/// let _: Reloaded<u32> = Loaded::with_ttl(7, minute).into();
/// // As a "304 Not Modified" that says `max-age=60`: a new life for the old value.
/// let _ = Reloaded::<u32>::not_modified_with_ttl(10 * minute).refresh_after(minute);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Reloaded<V> {
    pub(crate) outcome: ReloadOutcome<V>,
    pub(crate) lease: Lease,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum ReloadOutcome<V> {
    New(V),
    NotModified,
    Gone,
}

impl<V> Reloaded<V> {
    fn of(outcome: ReloadOutcome<V>, lifetime: Lifetime) -> Self {
        Self { outcome, lease: Lease::new(lifetime) }
    }

    /// A new value, which lives as long as the cache's settings say. A [`Loaded`] with a lifetime
    /// converts into a `Reloaded`.
    pub fn new(value: V) -> Self {
        Self::of(ReloadOutcome::New(value), Lifetime::Policy)
    }

    /// The old value stays. Its life is that of a value that is written now, by the cache's
    /// settings: the policy is asked as for an update.
    #[must_use]
    pub fn not_modified() -> Self {
        Self::of(ReloadOutcome::NotModified, Lifetime::Policy)
    }

    /// The old value stays, and lives for `ttl` from now on.
    #[must_use]
    pub fn not_modified_with_ttl(ttl: Duration) -> Self {
        Self::of(ReloadOutcome::NotModified, Lifetime::For(nanos(ttl)))
    }

    /// There is no value any more: the entry is removed, as
    /// [`Explicit`](crate::RemovalCause::Explicit). A call of a loading cache that runs this reload
    /// goes on as for a key without a value: it [loads](Loader::load) the key.
    #[must_use]
    pub fn gone() -> Self {
        Self::of(ReloadOutcome::Gone, Lifetime::Policy)
    }

    /// Makes the entry stale after this time, in place of what the cache's settings say.
    #[must_use]
    pub fn refresh_after(mut self, time: Duration) -> Self {
        self.lease.refresh = Some(nanos(time));
        self
    }
}

impl<V> From<Loaded<V>> for Reloaded<V> {
    fn from(loaded: Loaded<V>) -> Self {
        let (value, lease) = loaded.into_parts();
        Self { outcome: ReloadOutcome::New(value), lease }
    }
}

/// A reload that failed; see
/// [`LoadingCache::last_failure`](crate::LoadingCache::last_failure).
#[derive(Debug)]
#[non_exhaustive]
pub struct ReloadFailure<E> {
    /// The loader's error. `None` if it panicked.
    pub error: Option<Arc<E>>,
    /// When the reload failed, by the cache's clock.
    pub at: Instant,
    /// How many reloads of the value in a row have failed.
    pub in_a_row: u32,
}

/// A stored loader's reload, whose errors have no type.
pub type Reload<K, V> = Arc<dyn Fn(&K, &V) -> Result<Reloaded<V>, NoValue> + Send + Sync>;
