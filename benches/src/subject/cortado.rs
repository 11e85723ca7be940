//! cortado, with lifetimes given in each of the ways that its users have, and read in two ways.

use super::{Lookup, Plan, READS_PER_GUARD, Reader, Subject};
use crate::key::Key;
use crate::value::{HOUR, Value};
use ::cortado::{Builder, Cache, ClockTime, Expiry, Loaded, expire};
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// How a cache is set up, and how its entries get their lifetimes.
pub trait Setup: Send + Sync {
    const SCHEDULER: bool = false;
    const STATS: bool = false;

    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V>;

    fn build<K: Key, V: Value>(builder: Builder<K, V>) -> Cache<K, V> {
        builder.build_with_hasher(ahash::RandomState::new())
    }

    #[inline]
    fn insert<K: Key, V: Value>(cache: &Cache<K, V>, key: K, value: V) {
        cache.insert(key, value);
    }
}

/// The policy of the documentation: the create hook, and nothing else.
pub struct Documented;

impl<K, V: Value> Expiry<K, V> for Documented {
    fn expire_after_create(&self, _: &K, value: &V, _: Instant) -> Option<Duration> {
        Some(value.lifetime())
    }
}

impl Setup for Documented {
    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        builder.expire_after(Self)
    }
}

/// The same with the scheduler's thread.
pub struct Scheduled;

impl Setup for Scheduled {
    const SCHEDULER: bool = true;

    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        Documented::lifetimes(builder)
    }
}

/// The same with statistics.
pub struct Counted;

impl Setup for Counted {
    const STATS: bool = true;

    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        Documented::lifetimes(builder)
    }
}

/// A ready-made policy.
pub struct OnWrite;

impl Setup for OnWrite {
    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        builder.expire_after(expire::on_write(|_: &K, value: &V| Some(value.lifetime())))
    }
}

/// No policy: the lifetime is an argument of each insert.
pub struct InsertTtl;

impl Setup for InsertTtl {
    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        builder
    }

    #[inline]
    fn insert<K: Key, V: Value>(cache: &Cache<K, V>, key: K, value: V) {
        let lifetime = value.lifetime();
        cache.insert_with_ttl(key, value, lifetime);
    }
}

/// One lifetime for all entries.
pub struct TimeToLive;

impl Setup for TimeToLive {
    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        builder.time_to_live(HOUR)
    }
}

/// A policy with a read hook of its own, which leaves each lifetime as it is.
pub struct ReadHook;

impl<K, V: Value> Expiry<K, V> for ReadHook {
    fn expire_after_create(&self, _: &K, value: &V, _: Instant) -> Option<Duration> {
        Some(value.lifetime())
    }

    fn expire_after_read(
        &self,
        _: &K,
        _: &V,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        current
    }
}

impl Setup for ReadHook {
    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        builder.expire_after(Self)
    }
}

/// The policy of the documentation, with a soft deadline that does not come.
pub struct Refresh;

impl Setup for Refresh {
    fn lifetimes<K: Key, V: Value>(builder: Builder<K, V>) -> Builder<K, V> {
        Documented::lifetimes(builder)
            .refresh_after_write(HOUR / 2)
            .executor(|job: cortado::Job| job())
    }

    fn build<K: Key, V: Value>(builder: Builder<K, V>) -> Cache<K, V> {
        let loader = |_: K| Err::<Loaded<V>, ()>(());
        let loading = builder.try_build_with_loader(loader, ahash::RandomState::new());
        loading.expect("it has a loader").cache().clone()
    }
}

/// cortado, read by `get`.
pub struct Cortado<K, V, S = Documented> {
    cache: Cache<K, V>,
    setup: PhantomData<S>,
}

impl<K: Key, V: Value, S: Setup> Lookup<K> for Cortado<K, V, S> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.cache.get(key).inspect(Value::look).is_some()
    }
}

impl<K: Key, V: Value, S: Setup> Subject<K, V> for Cortado<K, V, S> {
    type Reader<'a>
        = &'a Self
    where
        Self: 'a;

    fn new(plan: Plan) -> Self {
        let builder = Cache::builder().max_capacity(plan.capacity).scheduler(S::SCHEDULER);
        let builder = builder.record_stats(S::STATS);
        let builder = match plan.idle {
            Some(idle) => builder.time_to_idle(idle),
            None => S::lifetimes(builder),
        };
        Self { cache: S::build(builder), setup: PhantomData }
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        S::insert(&self.cache, key, value);
    }

    fn settle(&self) {
        self.cache.run_pending_tasks();
    }
}

/// Before all that a cache which is made now will hold, by its coarse clock, too.
pub fn a_second_ago() -> Instant {
    Instant::now() - Duration::from_secs(1)
}

/// How entries are read, if not by `get`.
pub trait Way: Send + Sync {
    /// `earlier` is a time before anything was written.
    fn look_up<K: Key, V: Value>(cache: &Cache<K, V>, key: &K, earlier: ClockTime) -> bool;
}

/// By loads, whose loader has no value.
pub struct Load;

impl Way for Load {
    #[inline]
    fn look_up<K: Key, V: Value>(cache: &Cache<K, V>, key: &K, _: ClockTime) -> bool {
        cache.optionally_get_with_by_ref(key, || None).inspect(Value::look).is_some()
    }
}

/// By handles.
pub struct Handle;

impl Way for Handle {
    #[inline]
    fn look_up<K: Key, V: Value>(cache: &Cache<K, V>, key: &K, _: ClockTime) -> bool {
        cache.get_entry(key).inspect(|entry| entry.look()).is_some()
    }
}

/// By a condition on the time of writing, as for groups of entries that are invalidated at once.
pub struct If;

impl Way for If {
    #[inline]
    fn look_up<K: Key, V: Value>(cache: &Cache<K, V>, key: &K, earlier: ClockTime) -> bool {
        cache.get_if(key, |_, read| read.written > earlier).inspect(Value::look).is_some()
    }
}

/// cortado, read in another way.
pub struct CortadoBy<K, V, W> {
    cortado: Cortado<K, V>,
    earlier: ClockTime,
    way: PhantomData<W>,
}

impl<K: Key, V: Value, W: Way> Lookup<K> for CortadoBy<K, V, W> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        W::look_up(&self.cortado.cache, key, self.earlier)
    }
}

impl<K: Key, V: Value, W: Way> Subject<K, V> for CortadoBy<K, V, W> {
    type Reader<'a>
        = &'a Self
    where
        Self: 'a;

    fn new(plan: Plan) -> Self {
        let cortado = Cortado::<K, V>::new(plan);
        let earlier = cortado.cache.clock_time(a_second_ago());
        Self { cortado, earlier, way: PhantomData }
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.cortado.insert(key, value);
    }

    fn settle(&self) {
        self.cortado.settle();
    }
}

/// cortado, read by references.
pub struct CortadoPin<K, V>(Cortado<K, V>);

/// A held view of the cache.
pub struct Pinned<'c, K, V> {
    view: ::cortado::Pinned<'c, K, V, ahash::RandomState>,
    reads_left: u32,
}

impl<K: Key, V: Value> Reader<K> for Pinned<'_, K, V> {
    #[inline]
    fn read(&mut self, key: &K) -> bool {
        if self.reads_left == 0 {
            self.view.repin();
            self.reads_left = READS_PER_GUARD;
        }
        self.reads_left -= 1;
        self.view.get(key).inspect(|value| value.look()).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for CortadoPin<K, V> {
    type Reader<'a> = Pinned<'a, K, V>;

    fn new(plan: Plan) -> Self {
        Self(Cortado::new(plan))
    }

    fn reader(&self) -> Self::Reader<'_> {
        Pinned { view: self.0.cache.pin(), reads_left: READS_PER_GUARD }
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn settle(&self) {
        self.0.settle();
    }
}
