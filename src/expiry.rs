//! How long an entry lives: the [`Expiry`] trait and ready-made policies ([`expire`]).

use crate::primitives::time::{Duration, Instant};
use std::sync::Arc;

use default_hook::{Hook, Identity, Sealed, SetsOn};

/// Detects whether the trait's default body of a hook has answered. Such a body makes no
/// difference: the read hook keeps the lifetime, the update hook calls the create hook. So the
/// cache need not call it again.
///
/// The trait's default bodies report the policy that they ran for. A policy may wrap another one
/// and call its hooks for some keys only. The wrapper's identity is then not the reported one, so
/// the cache concludes nothing from the report.
pub(crate) mod default_hook {
    use std::any::TypeId;
    use std::cell::Cell;
    use std::marker::PhantomData;

    /// A hook for which the trait has a body of its own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Hook {
        Read,
        Update,
    }

    /// The type of a policy and the types of its keys and values, without their lifetimes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Identity(TypeId);

    impl Identity {
        pub fn of<E: ?Sized, K: ?Sized, V: ?Sized>() -> Self {
            Self(typeid::of::<(PhantomData<E>, PhantomData<K>, PhantomData<V>)>())
        }
    }

    /// Argument that keeps a trait method private to this crate.
    #[derive(Clone, Copy, Debug)]
    pub struct Sealed;

    /// Which operations set a new lifetime by a ready-made policy.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SetsOn {
        Create,
        Write,
        Access,
    }

    thread_local! {
        static REPORTED: Cell<Option<(Hook, Identity)>> = const { Cell::new(None) };
    }

    /// Reports that the trait's default body of `hook` has run for this policy.
    pub fn report(hook: Hook, policy: Identity) {
        REPORTED.set(Some((hook, policy)));
    }

    /// Runs `ask`. Returns its answer, and whether the trait's default body for `policy` gave it.
    pub fn asked<T>(hook: Hook, policy: Identity, ask: impl FnOnce() -> T) -> (T, bool) {
        REPORTED.set(None);
        let answer = ask();
        (answer, REPORTED.take() == Some((hook, policy)))
    }
}

/// Decides, entry by entry, how long entries live.
///
/// Each hook returns the time from now until the entry expires. `None` means that the entry never
/// expires by this policy. A builder's `time_to_live` or `time_to_idle` may still end it; the
/// earliest end wins. A lifetime of zero means *not stored*: a removal listener gets the value as
/// `Expired`. A lifetime longer than the clock can hold (some 250 years) means never.
///
/// # Callbacks
/// Hooks run on the thread of the operation that calls them. The cache holds no lock meanwhile, and
/// the operation has had no effect yet. If a hook panics, the panic reaches the caller and the
/// operation has not happened.
///
/// A hook may call any operation on the cache for other keys, and may read its own key. It must not
/// write its own key: that write panics.
///
/// An operation calls a hook once, with these exceptions:
/// * With the system's clock, a write's first `now` is a coarse reading, which may lag by some
///   milliseconds. If the entry then has less than 4.3 s (2^32 ns) to live, be it by the returned
///   lifetime or by a `time_to_live` or `time_to_idle` of the cache, the hook is called a second
///   time with a precise `now`; that answer counts. (A read's `now` is precise.)
/// * If the key's own entry changed meanwhile, the hook is called once more; a load calls it once
///   more for each change. If the entry only got another lifetime, each such change causes a call,
///   up to 16. Writes to other keys never cause a call.
/// * If a write had to wait for a computation of its key, the hook is called once more after the
///   wait.
///
/// `get` and the like call [`expire_after_read`](Self::expire_after_read). `contains_key`, `peek`
/// and iteration call no hook. Computations call the create hook or the update hook, but not for
/// a value that is put with a lifetime of its own. Reads also call no hook if the policy's read
/// hook is the trait's default; the cache finds that out with the first read. A read hook of your
/// own costs each read a precise reading of the clock.
///
/// ```
/// use cortado::{Cache, Clock, Expiration, Expiry};
/// use std::time::{Duration, Instant};
///
/// struct Token { text: String, expires_in: Duration }
/// struct AsIssued;
///
/// impl Expiry<String, Token> for AsIssued {
///     fn expire_after_create(&self, _: &String, token: &Token, _: Instant) -> Option<Duration> {
///         Some(token.expires_in)
///     }
/// }
///
/// let (clock, hand) = Clock::manual();
/// let tokens = Cache::builder().expire_after(AsIssued).clock(clock).build();
/// let token = Token { text: "abc".into(), expires_in: Duration::from_secs(300) };
/// tokens.insert("alice".to_owned(), token);
/// assert_eq!(tokens.expires_in("alice"), Expiration::Due(Duration::from_secs(300)));
/// hand.advance(Duration::from_secs(300));
/// assert!(tokens.get_entry("alice").is_none());
/// ```
pub trait Expiry<K: ?Sized, V: ?Sized> {
    /// The lifetime of a new entry. By default it never expires.
    fn expire_after_create(&self, key: &K, value: &V, now: Instant) -> Option<Duration> {
        let _ = (key, value, now);
        None
    }

    /// The lifetime of a value that replaces a living one. `current` is what was left of the old
    /// lifetime (`None`: for ever). By default a new value gets a new lifetime: the create hook is
    /// called.
    ///
    /// In a cache with a `time_to_live`, `current` counts that of the old value. It does not count
    /// an idle time.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration, Expiry};
    /// use std::time::{Duration, Instant};
    ///
    /// struct Fixed(Duration);
    ///
    /// impl<K, V> Expiry<K, V> for Fixed {
    ///     fn expire_after_create(&self, _: &K, _: &V, _: Instant) -> Option<Duration> {
    ///         Some(self.0)
    ///     }
    ///
    ///     /// An update changes the value, not the end of the entry.
    ///     fn expire_after_update(
    ///         &self,
    ///         _: &K,
    ///         _: &V,
    ///         _: Instant,
    ///         current: Option<Duration>,
    ///     ) -> Option<Duration> {
    ///         current
    ///     }
    /// }
    ///
    /// let (clock, hand) = Clock::manual();
    /// let policy = Fixed(Duration::from_secs(60));
    /// let cache = Cache::builder().expire_after(policy).clock(clock).build();
    /// cache.insert("k", 1);
    /// hand.advance(Duration::from_secs(45));
    /// cache.insert("k", 2);
    /// assert_eq!(cache.expires_in("k"), Expiration::Due(Duration::from_secs(15)));
    /// ```
    fn expire_after_update(
        &self,
        key: &K,
        value: &V,
        now: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        let _ = current;
        default_hook::report(Hook::Update, Identity::of::<Self, K, V>());
        self.expire_after_create(key, value, now)
    }

    /// The lifetime of an entry that was read. `current` is what is left of the lifetime (`None`:
    /// for ever). Returning `current` leaves the lifetime as it is, which is the default.
    ///
    /// ```
    /// use cortado::{Cache, Clock, Expiration, Expiry};
    /// use std::time::{Duration, Instant};
    ///
    /// struct UntilRead;
    ///
    /// impl<K, V> Expiry<K, V> for UntilRead {
    ///     /// The first read gives the entry ten more seconds; later ones do not.
    ///     fn expire_after_read(
    ///         &self,
    ///         _: &K,
    ///         _: &V,
    ///         _: Instant,
    ///         current: Option<Duration>,
    ///         _: Instant,
    ///     ) -> Option<Duration> {
    ///         current.or(Some(Duration::from_secs(10)))
    ///     }
    /// }
    ///
    /// let (clock, hand) = Clock::manual();
    /// let links = Cache::builder().expire_after(UntilRead).clock(clock).build();
    /// links.insert("k", 1);
    /// assert_eq!(links.expires_in("k"), Expiration::Never);
    /// links.get("k");
    /// hand.advance(Duration::from_secs(5));
    /// links.get("k");
    /// assert_eq!(links.expires_in("k"), Expiration::Due(Duration::from_secs(5)));
    /// ```
    fn expire_after_read(
        &self,
        key: &K,
        value: &V,
        now: Instant,
        current: Option<Duration>,
        last_modified: Instant,
    ) -> Option<Duration> {
        let _ = (key, value, now, last_modified);
        default_hook::report(Hook::Read, Identity::of::<Self, K, V>());
        current
    }

    /// The identity of the policy that these hooks belong to. The method is sealed: no other crate
    /// can name its argument, so none can implement it.
    #[doc(hidden)]
    fn identity(&self, _: Sealed) -> Identity {
        Identity::of::<Self, K, V>()
    }

    /// Which operations set a new lifetime, if this is a ready-made policy: the cache then need not
    /// find it out, and the answers do not depend on the present time. Sealed like
    /// [`identity`](Self::identity).
    #[doc(hidden)]
    fn sets_on(&self, _: Sealed) -> Option<SetsOn> {
        None
    }
}

/// Implements the trait for pointers to a policy: each hook calls that of the policy.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<K: ?Sized, V: ?Sized, E: Expiry<K, V> + ?Sized> Expiry<K, V> for $pointer {
            fn expire_after_create(&self, key: &K, value: &V, now: Instant) -> Option<Duration> {
                (**self).expire_after_create(key, value, now)
            }

            fn expire_after_update(
                &self,
                key: &K,
                value: &V,
                now: Instant,
                current: Option<Duration>,
            ) -> Option<Duration> {
                (**self).expire_after_update(key, value, now, current)
            }

            fn expire_after_read(
                &self,
                key: &K,
                value: &V,
                now: Instant,
                current: Option<Duration>,
                last_modified: Instant,
            ) -> Option<Duration> {
                (**self).expire_after_read(key, value, now, current, last_modified)
            }

            fn identity(&self, sealed: Sealed) -> Identity {
                (**self).identity(sealed)
            }

            fn sets_on(&self, sealed: Sealed) -> Option<SetsOn> {
                (**self).sets_on(sealed)
            }
        }
    )*};
}

forward!(Box<E>, Arc<E>, &E);

/// Ready-made [`Expiry`] policies, made from a closure that returns a lifetime.
///
/// ```
/// use cortado::{Cache, expire};
/// use std::time::Duration;
///
/// // A DNS cache: each answer lives for its own TTL, shortened by up to a tenth so that answers
/// // fetched together do not all expire together.
/// let dns: Cache<String, (Vec<u8>, u64)> = Cache::builder()
///     .max_capacity(10_000)
///     .expire_after(
///         expire::on_write(|_name: &String, (_, ttl): &(Vec<u8>, u64)| {
///             Some(Duration::from_secs(*ttl))
///         })
///         .jitter(0.1),
///     )
///     .build();
/// # drop(dns);
/// ```
pub mod expire {
    use super::default_hook::{Sealed, SetsOn};
    use super::{Duration, Expiry, Instant};
    use crate::macros::debug_fields;

    use std::marker::PhantomData;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A policy made from a closure; see [`on_create`], [`on_write`], [`on_access`].
    pub struct FromFn<F, K: ?Sized, V: ?Sized> {
        lifetime: F,
        types: PhantomData<fn(&K, &V)>,
        on: SetsOn,
        /// The largest share of a lifetime by which it is shortened at random.
        jitter: f64,
        draws: AtomicU64,
    }

    /// Sets the lifetime when the entry is created. An update keeps what is left of it.
    ///
    /// ```
    /// use cortado::{Cache, expire};
    /// use std::time::Duration;
    ///
    /// let policy = expire::on_create(|_: &&str, _: &u32| Some(Duration::from_secs(60)));
    /// let quota = Cache::builder().expire_after(policy.jitter(0.1)).build();
    /// quota.insert("alice", 1);
    /// assert!(quota.expires_in("alice").due().unwrap() <= Duration::from_secs(60));
    /// ```
    pub fn on_create<F, K: ?Sized, V: ?Sized>(lifetime: F) -> FromFn<F, K, V>
    where
        F: Fn(&K, &V) -> Option<Duration>,
    {
        FromFn::new(lifetime, SetsOn::Create)
    }

    /// Sets a new lifetime at each write.
    pub fn on_write<F, K: ?Sized, V: ?Sized>(lifetime: F) -> FromFn<F, K, V>
    where
        F: Fn(&K, &V) -> Option<Duration>,
    {
        FromFn::new(lifetime, SetsOn::Write)
    }

    /// Sets a new lifetime at each write and each read: time-to-idle, entry by entry.
    ///
    /// ```
    /// use cortado::{Cache, expire};
    /// use std::time::Duration;
    ///
    /// let policy = expire::on_access(|_: &&str, idle: &Duration| Some(*idle));
    /// let cache = Cache::builder().expire_after(policy).build();
    /// cache.insert("k", Duration::from_secs(60));
    /// assert!(cache.get("k").is_some());
    /// ```
    pub fn on_access<F, K: ?Sized, V: ?Sized>(lifetime: F) -> FromFn<F, K, V>
    where
        F: Fn(&K, &V) -> Option<Duration>,
    {
        FromFn::new(lifetime, SetsOn::Access)
    }

    /// Sets a new lifetime at each write, one for `Ok` and one for `Err`: negative caching, where
    /// the value type is a `Result`. `None` means that such an entry never expires.
    ///
    /// ```
    /// use cortado::{Cache, Expiration, expire};
    /// use std::time::Duration;
    ///
    /// let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
    /// let pages: Cache<&str, Result<String, u16>> = Cache::builder()
    ///     .max_capacity(1_000)
    ///     .expire_after(expire::on_result(Some(minute), Some(second)))
    ///     .build();
    /// pages.insert("/", Ok("hello".into()));
    /// pages.insert("/missing", Err(404));
    /// assert!(pages.expires_in("/").due() > pages.expires_in("/missing").due());
    /// ```
    #[expect(clippy::type_complexity, reason = "the closure's type cannot be named")]
    pub fn on_result<K: ?Sized, T, E>(
        ok: Option<Duration>,
        error: Option<Duration>,
    ) -> FromFn<impl Fn(&K, &Result<T, E>) -> Option<Duration> + Send + Sync, K, Result<T, E>> {
        on_write(move |_: &K, value: &Result<T, E>| if value.is_ok() { ok } else { error })
    }

    impl<F, K: ?Sized, V: ?Sized> FromFn<F, K, V> {
        fn new(lifetime: F, on: SetsOn) -> Self {
            let seed = crate::hash::random_state().hash_one(0);
            Self { lifetime, types: PhantomData, on, jitter: 0.0, draws: AtomicU64::new(seed) }
        }

        /// Shortens each lifetime by a random share between zero and `share`, so that entries made
        /// together do not expire together. A lifetime is never made longer.
        ///
        /// # Panics
        /// If `share` is not within `0.0..=1.0`.
        ///
        /// ```
        /// use cortado::{Cache, Clock, expire};
        /// use std::time::Duration;
        ///
        /// let (clock, _hand) = Clock::manual();
        /// let policy = expire::on_write(|_: &u32, _: &u32| Some(Duration::from_secs(100)));
        /// let cache = Cache::builder().expire_after(policy.jitter(0.2)).clock(clock).build();
        /// cache.insert_many((0..100).map(|n| (n, n)));
        /// let lifetimes = (0..100).filter_map(|n| cache.expires_in(&n).due());
        /// assert!(lifetimes.into_iter().all(|lifetime| (80..=100).contains(&lifetime.as_secs())));
        /// ```
        #[must_use]
        #[track_caller]
        pub fn jitter(mut self, share: f64) -> Self {
            assert!((0.0..=1.0).contains(&share), "jitter: share must be between 0 and 1");
            self.jitter = share;
            self
        }

        fn apply(&self, lifetime: Option<Duration>) -> Option<Duration> {
            let lifetime = lifetime?;
            if self.jitter == 0.0 {
                return Some(lifetime);
            }
            let cut = lifetime.as_secs_f64() * self.draw() * self.jitter;
            // The conversion fails only for a lifetime that is too long for a float's precision.
            // Such a lifetime is as good as for ever and stays as it is.
            let cut = Duration::try_from_secs_f64(cut).unwrap_or(Duration::ZERO);
            Some(lifetime.saturating_sub(cut))
        }

        /// The next number of a SplitMix64 sequence, uniform in 0..1.
        fn draw(&self) -> f64 {
            const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
            let mut z = self.draws.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
    }

    debug_fields!(impl[F, K: ?Sized, V: ?Sized] FromFn<F, K, V>, |it| on: it.on, jitter: it.jitter);

    impl<F, K: ?Sized, V: ?Sized> Expiry<K, V> for FromFn<F, K, V>
    where
        F: Fn(&K, &V) -> Option<Duration>,
    {
        fn expire_after_create(&self, key: &K, value: &V, _now: Instant) -> Option<Duration> {
            self.apply((self.lifetime)(key, value))
        }

        fn expire_after_update(
            &self,
            key: &K,
            value: &V,
            now: Instant,
            current: Option<Duration>,
        ) -> Option<Duration> {
            match self.on {
                SetsOn::Create => current,
                SetsOn::Write | SetsOn::Access => self.expire_after_create(key, value, now),
            }
        }

        fn expire_after_read(
            &self,
            key: &K,
            value: &V,
            now: Instant,
            current: Option<Duration>,
            _last_modified: Instant,
        ) -> Option<Duration> {
            match self.on {
                SetsOn::Create | SetsOn::Write => current,
                SetsOn::Access => self.expire_after_create(key, value, now),
            }
        }

        fn sets_on(&self, _: Sealed) -> Option<SetsOn> {
            Some(self.on)
        }
    }
}
