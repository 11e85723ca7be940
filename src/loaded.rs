//! What a loader returns, and what the callers of a load get.

use crate::clock::nanos;
use crate::expiration::{Lease, Lifetime};
use crate::primitives::seeded;
use crate::primitives::time::{Duration, Instant};
use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;

/// A value, with how long it lives and when it is stale. Loaders return it
/// ([`Cache::load`](crate::Cache::load)), and some writes take it
/// ([`insert_many`](crate::Cache::insert_many), [`Op::PutLoaded`](crate::Op::PutLoaded)). A plain
/// value converts into it.
///
/// ```
/// use cortado::{Cache, Loaded};
/// use std::time::Duration;
///
/// // An upstream says how long its answer is good for.
/// fn fetch(_url: &str) -> Result<(String, Duration), std::io::Error> {
///     Ok(("hello".to_owned(), Duration::from_secs(60)))
/// }
///
/// let pages: Cache<String, String> = Cache::new(1_000);
/// let page = pages.load("https://example.org".to_owned(), || {
///     let (body, max_age) = fetch("https://example.org")?;
///     Ok::<_, std::io::Error>(Loaded::with_ttl(body, max_age))
/// });
/// assert_eq!(page.unwrap(), "hello");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded<V> {
    value: V,
    lease: Lease,
}

// The only conversion. With another one, rustc would infer no types of literals any more, as in
// `insert_many([("a", 1)])`.
impl<V> From<V> for Loaded<V> {
    /// [`Loaded::new`].
    fn from(value: V) -> Self {
        Self::new(value)
    }
}

impl<V> Loaded<V> {
    /// A value that lives as long as the cache's settings say, like one that is inserted by
    /// [`insert`](crate::Cache::insert).
    pub fn new(value: V) -> Self {
        Self { value, lease: Lease::new(Lifetime::Policy) }
    }

    /// A value that lives for `ttl`, like one that is inserted by
    /// [`insert_with_ttl`](crate::Cache::insert_with_ttl).
    ///
    /// With a `ttl` of zero, the callers who wait get the value, and the cache does not keep it.
    pub fn with_ttl(value: V, ttl: Duration) -> Self {
        Self { value, lease: Lease::new(Lifetime::For(nanos(ttl))) }
    }

    /// Ends the value's life at this instant, in place of the lifetime that was set before, as
    /// [`insert_until`](crate::Cache::insert_until) does.
    ///
    /// If the instant has passed, the callers who wait get the value, and the cache does not keep
    /// it.
    ///
    /// ```
    /// use cortado::{Cache, Loaded};
    /// use std::time::{Duration, Instant};
    ///
    /// let tokens: Cache<&str, u32> = Cache::new(100);
    /// let expires = Instant::now() + Duration::from_secs(60);
    /// assert_eq!(tokens.load("service", || Loaded::new(7).until(expires)), 7);
    /// assert!(tokens.expires_in("service").due() <= Some(Duration::from_secs(60)));
    /// ```
    #[must_use]
    pub fn until(mut self, deadline: Instant) -> Self {
        self.lease.lifetime = Lifetime::Until(deadline);
        self
    }

    /// Makes the entry stale after this time, in place of what the cache's settings say
    /// ([`refresh_after_write`](crate::Builder::refresh_after_write)). A cache without a
    /// stored loader ([`LoadingCache`](crate::LoadingCache)) ignores it.
    #[must_use]
    pub fn refresh_after(mut self, time: Duration) -> Self {
        self.lease.refresh = Some(nanos(time));
        self
    }

    #[cfg(feature = "serde")]
    pub(crate) fn leased(value: V, lease: Lease) -> Self {
        Self { value, lease }
    }

    pub(crate) fn into_parts(self) -> (V, Lease) {
        (self.value, self.lease)
    }
}

/// The reason why a load has no value, as its waiters share it.
#[derive(Clone, Debug)]
pub enum NoValue {
    /// The loader returned `None`.
    Absent,
    /// The loader returned this error.
    Failed(Arc<dyn Any + Send + Sync>),
}

/// What a loader of many keys has made.
pub struct LoadedMany<I> {
    /// Keys and results, in any order.
    pub pairs: I,
    /// What those get who wait for a key that is not among the pairs. `None`: they load it
    /// themselves.
    pub absent: Option<NoValue>,
}

/// The reason why a load has no value, as one kind of caller gets it.
pub trait Reason: Sized {
    /// For those who wait for the load.
    fn share(&self) -> NoValue;

    /// Another caller's reason, if this kind of caller can use it.
    fn adopt(shared: &NoValue) -> Option<Self>;
}

impl Reason for Infallible {
    fn share(&self) -> NoValue {
        match *self {}
    }

    fn adopt(_: &NoValue) -> Option<Self> {
        None
    }
}

/// The loader returned `None`.
pub struct Absent;

impl Reason for Absent {
    fn share(&self) -> NoValue {
        NoValue::Absent
    }

    fn adopt(shared: &NoValue) -> Option<Self> {
        let is_absent = matches!(shared, NoValue::Absent);
        (is_absent || seeded("waiters-adopt-any-outcome")).then_some(Self)
    }
}

impl<E: Send + Sync + 'static> Reason for Arc<E> {
    fn share(&self) -> NoValue {
        NoValue::Failed(self.clone())
    }

    fn adopt(shared: &NoValue) -> Option<Self> {
        match shared {
            NoValue::Failed(error) => Arc::clone(error).downcast().ok(),
            NoValue::Absent => None,
        }
    }
}

/// Of a loader that may find nothing, or fail: `None`, or this error.
impl<E: Send + Sync + 'static> Reason for Option<Arc<E>> {
    fn share(&self) -> NoValue {
        self.as_ref().map_or(NoValue::Absent, Reason::share)
    }

    fn adopt(shared: &NoValue) -> Option<Self> {
        let is_absent = matches!(shared, NoValue::Absent);
        if is_absent { Some(None) } else { Arc::adopt(shared).map(Some) }
    }
}

/// What a loader may return: [`Loaded`], an `Option` or a `Result` of it, or a `Result` of an
/// `Option`. The trait is sealed.
///
/// | the loader returns | [`Cache::load`](crate::Cache::load) returns |
/// |---|---|
/// | `Loaded<V>` | `V` |
/// | `Option<Loaded<V>>` | `Option<V>` |
/// | `Result<Loaded<V>, E>` | `Result<V, Arc<E>>` |
/// | `Result<Option<Loaded<V>>, E>` | `Result<Option<V>, Arc<E>>` |
///
/// A loader that makes no value has an outcome all the same, `None` or an error: every caller who
/// waited for it gets that outcome if its own loader could have it, and else runs its own loader
/// next.
///
/// ```
/// use cortado::{Cache, Loaded, LoaderResult};
///
/// /// Takes loaders of all kinds.
/// fn greeting<R: LoaderResult<u32>>(
///     cache: &Cache<&'static str, u32>,
///     loader: impl FnOnce() -> R,
/// ) -> R::Shared<u32> {
///     cache.load("greeting", loader)
/// }
///
/// let cache = Cache::new(100);
/// assert_eq!(greeting(&cache, || None::<Loaded<u32>>), None);
/// assert!(greeting(&cache, || Err::<Loaded<u32>, _>("no answer")).is_err());
/// assert_eq!(greeting(&cache, || Ok::<_, &str>(None)), Ok(None));
/// assert_eq!(greeting(&cache, || Loaded::new(7)), 7);
/// ```
pub trait LoaderResult<V>: LoaderOutcome<Reason: Reason> {
    #[doc(hidden)]
    fn into_result(self) -> Result<Loaded<V>, Self::Reason>;

    #[doc(hidden)]
    fn shared<T>(result: Result<T, Self::Reason>) -> Self::Shared<T>;
}

/// What callers get of what a [loader returns](LoaderResult). The trait is sealed.
///
/// It is a trait of its own, without bounds on a loader's error, for the sake of futures: rustc
/// does not know the lifetimes in an error's type when it decides whether a future is `Send`, so a
/// future that needs `E: 'static` would not be if the error is a `Box<dyn Error + Send + Sync>`.
pub trait LoaderOutcome: sealed::Sealed {
    /// What the callers get, in terms of the value's type or of a handle's.
    type Shared<T>;
    #[doc(hidden)]
    type Reason;
}

impl<V> LoaderOutcome for Loaded<V> {
    type Shared<T> = T;
    type Reason = Infallible;
}

impl<V> LoaderOutcome for Option<Loaded<V>> {
    type Shared<T> = Option<T>;
    type Reason = Absent;
}

impl<V, E> LoaderOutcome for Result<Loaded<V>, E> {
    type Shared<T> = Result<T, Arc<E>>;
    type Reason = Arc<E>;
}

impl<V, E> LoaderOutcome for Result<Option<Loaded<V>>, E> {
    type Shared<T> = Result<Option<T>, Arc<E>>;
    type Reason = Option<Arc<E>>;
}

mod sealed {
    pub trait Sealed {}
    impl<V> Sealed for super::Loaded<V> {}
    impl<V> Sealed for Option<super::Loaded<V>> {}
    impl<V, E> Sealed for Result<super::Loaded<V>, E> {}
    impl<V, E> Sealed for Result<Option<super::Loaded<V>>, E> {}
}

impl<V> LoaderResult<V> for Loaded<V> {
    fn into_result(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn shared<T>(result: Result<T, Infallible>) -> T {
        let Ok(value) = result;
        value
    }
}

impl<V> LoaderResult<V> for Option<Loaded<V>> {
    fn into_result(self) -> Result<Loaded<V>, Absent> {
        self.ok_or(Absent)
    }

    fn shared<T>(result: Result<T, Absent>) -> Option<T> {
        result.ok()
    }
}

impl<V, E: Send + Sync + 'static> LoaderResult<V> for Result<Loaded<V>, E> {
    fn into_result(self) -> Result<Loaded<V>, Arc<E>> {
        self.map_err(Arc::new)
    }

    fn shared<T>(result: Result<T, Arc<E>>) -> Result<T, Arc<E>> {
        result
    }
}

impl<V, E: Send + Sync + 'static> LoaderResult<V> for Result<Option<Loaded<V>>, E> {
    fn into_result(self) -> Result<Loaded<V>, Option<Arc<E>>> {
        self.map_err(|error| Some(Arc::new(error)))?.ok_or(None)
    }

    fn shared<T>(result: Result<T, Option<Arc<E>>>) -> Result<Option<T>, Arc<E>> {
        result.map(Some).or_else(|reason| reason.map_or(Ok(None), Err))
    }
}
