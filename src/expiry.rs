//! How long an entry lives: the [`Expiry`] trait and ready-made policies ([`expire`]).

use std::sync::Arc;
use std::time::{Duration, Instant};

use default_hook::{Hook, Identity, Sealed};

/// Whether the hook that was just asked is the trait's own, which makes no difference: such a hook
/// need not be asked again.
///
/// The trait's own bodies report whose they are. A policy that wraps another one, and asks its
/// hooks for some keys only, has another identity than the one that is reported. So nothing is
/// concluded from it.
pub(crate) mod default_hook {
    use std::any::TypeId;
    use std::cell::Cell;
    use std::marker::PhantomData;

    /// A hook that the trait has a body for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Hook {
        Read,
        Update,
    }

    /// A policy's type and the types that it is a policy for, but for their lifetimes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Identity(TypeId);

    impl Identity {
        pub fn of<E: ?Sized, K: ?Sized, V: ?Sized>() -> Self {
            Self(typeid::of::<(PhantomData<E>, PhantomData<K>, PhantomData<V>)>())
        }
    }

    /// Makes a method of the trait this crate's own.
    #[derive(Clone, Copy, Debug)]
    pub struct Sealed;

    thread_local! {
        static REPORTED: Cell<Option<(Hook, Identity)>> = const { Cell::new(None) };
    }

    /// A hook's own body has run, for this policy.
    pub fn report(hook: Hook, policy: Identity) {
        REPORTED.set(Some((hook, policy)));
    }

    /// It was another policy.
    pub fn retract() {
        REPORTED.set(None);
    }

    /// Runs `ask`, and says whether it was the trait's own body for `policy` that answered.
    pub fn asked<T>(hook: Hook, policy: Identity, ask: impl FnOnce() -> T) -> (T, bool) {
        REPORTED.set(None);
        let answer = ask();
        (answer, REPORTED.take() == Some((hook, policy)))
    }
}

/// Decides, entry by entry, how long entries live.
///
/// Each hook returns the time from now until the entry expires; `None` means that it never does (by
/// this policy: a builder's `time_to_live` or `time_to_idle` may end it earlier, the earliest
/// wins). A lifetime of zero means *not stored*: a removal listener sees the value as `Expired`.
/// More than the clock can hold (292 years) means never.
///
/// # Callbacks
/// Hooks run on the thread of the operation that asked, with no lock of the cache held, before the
/// operation has any effect. If a hook panics, the panic reaches the caller and the operation has
/// not happened.
///
/// A hook may call anything on the cache for other keys, and read its own. It must not write its
/// own key: that write panics.
///
/// A hook is asked once for an operation. With the system's clock it is asked a second time, with a
/// precise `now`, if its answer is less than 4.3 s; that answer counts. (The first `now` is a
/// coarse reading, which may lag by some milliseconds.) It is asked once more if the key's own
/// entry changed meanwhile. Writes to other keys never cause an ask.
///
/// `get` and its kin ask [`expire_after_read`](Self::expire_after_read); `contains_key`, `peek`
/// and iteration ask nothing; computations ask create or update. Reads of a policy whose read hook
/// is the trait's own ask nothing either: the cache finds that out with the first read.
///
/// ```
/// use cortado::{Cache, Clock, Expiry};
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
/// assert_eq!(tokens.expires_in("alice"), Some(Some(Duration::from_secs(300))));
/// hand.advance(Duration::from_secs(300));
/// assert!(tokens.get_entry("alice").is_none());
/// ```
pub trait Expiry<K: ?Sized, V: ?Sized>: Send + Sync {
    /// The lifetime of a new entry.
    fn expire_after_create(&self, key: &K, value: &V, now: Instant) -> Option<Duration>;

    /// The lifetime of a value that takes the place of a living one, of which `current` is left
    /// (`None`: for ever). By default a new value gets a new life: the create hook is asked.
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

    /// The lifetime of an entry that was read, of which `current` is left (`None`: for ever).
    /// Returning `current` leaves it as it is, which is the default.
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

    /// Whose hooks these are. Sealed: nobody else can name its argument, and so implement it.
    #[doc(hidden)]
    fn identity(&self, _: Sealed) -> Identity {
        Identity::of::<Self, K, V>()
    }
}

/// A pointer to a policy is that policy.
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
        }
    )*};
}

forward!(Box<E>, Arc<E>, &E);

/// Ready-made [`Expiry`] policies, made from a closure that tells a lifetime.
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
    use super::default_hook::{self, Hook, Identity};
    use super::{Duration, Expiry, Instant};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Which operations give a new lifetime.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum On {
        Create,
        Write,
        Access,
    }

    /// A policy made from a closure; see [`on_create`], [`on_write`], [`on_access`].
    #[derive(Debug)]
    pub struct FromFn<F> {
        lifetime: F,
        on: On,
        /// The share of a lifetime by which it may be shortened at random.
        jitter: f64,
        draws: AtomicU64,
    }

    /// The lifetime is set when the entry is created; an update keeps what is left of it.
    pub fn on_create<F>(lifetime: F) -> FromFn<F> {
        FromFn::new(lifetime, On::Create)
    }

    /// The lifetime is set anew by each write.
    pub fn on_write<F>(lifetime: F) -> FromFn<F> {
        FromFn::new(lifetime, On::Write)
    }

    /// The lifetime is set anew by each write and each read: time-to-idle, entry by entry.
    pub fn on_access<F>(lifetime: F) -> FromFn<F> {
        FromFn::new(lifetime, On::Access)
    }

    impl<F> FromFn<F> {
        fn new(lifetime: F, on: On) -> Self {
            let seed = ahash::RandomState::new().hash_one(0);
            Self { lifetime, on, jitter: 0.0, draws: AtomicU64::new(seed) }
        }

        /// Shortens each lifetime by a random share between none and `share` of it, so that entries
        /// made together do not expire together. A lifetime is never made longer.
        ///
        /// # Panics
        /// If `share` is not within `0.0..=1.0`.
        #[must_use]
        pub fn jitter(mut self, share: f64) -> Self {
            assert!((0.0..=1.0).contains(&share), "jitter: share must be within 0 and 1");
            self.jitter = share;
            self
        }

        fn apply(&self, lifetime: Option<Duration>) -> Option<Duration> {
            let lifetime = lifetime?;
            if self.jitter == 0.0 {
                return Some(lifetime);
            }
            let cut = lifetime.as_secs_f64() * self.draw() * self.jitter;
            // What is too long for a float's precision is as good as for ever: left as it is.
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

    impl<K: ?Sized, V: ?Sized, F> Expiry<K, V> for FromFn<F>
    where
        F: Fn(&K, &V) -> Option<Duration> + Send + Sync,
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
                On::Create => current,
                On::Write | On::Access => {
                    default_hook::report(Hook::Update, Identity::of::<Self, K, V>());
                    self.expire_after_create(key, value, now)
                }
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
                On::Create | On::Write => {
                    default_hook::report(Hook::Read, Identity::of::<Self, K, V>());
                    current
                }
                On::Access => {
                    let lifetime = self.expire_after_create(key, value, now);
                    // The closure may have asked another policy of this type.
                    default_hook::retract();
                    lifetime
                }
            }
        }
    }
}
