//! Caches whose inserts take a lifetime, and one with a single lifetime for all entries.

use super::{Lookup, Plan, Subject};
use crate::key::Key;
use crate::value::{HOUR, Value};
use light_cache::policy::TtlPolicy;
use std::borrow::Borrow;
use std::hash::Hash;
use std::marker::PhantomData;
use stretto::{DefaultCacheCallback, DefaultCoster, DefaultUpdateValidator};

/// The two hashes that stretto knows a key by.
struct Hashes<K> {
    index: ahash::RandomState,
    conflict: ahash::RandomState,
    keys: PhantomData<fn(K)>,
}

impl<K: Key> stretto::KeyBuilder for Hashes<K> {
    type Key = K;

    fn hash_index<Q>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.index.hash_one(key)
    }

    fn hash_conflict<Q>(&self, key: &Q) -> u64
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.conflict.hash_one(key)
    }
}

type Cache<K, V> = stretto::Cache<
    K,
    V,
    Hashes<K>,
    DefaultCoster<V>,
    DefaultUpdateValidator<V>,
    DefaultCacheCallback<V>,
    ahash::RandomState,
>;

/// stretto, whose reads lock a shard while the value is looked at.
pub struct Stretto<K: Key, V: Value>(Cache<K, V>);

impl<K: Key, V: Value> Lookup<K> for Stretto<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get(key).inspect(|value| value.value().look()).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for Stretto<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        let hashes = Hashes {
            index: ahash::RandomState::new(),
            conflict: ahash::RandomState::new(),
            keys: PhantomData,
        };
        // Ten counters for each entry, as its documentation recommends.
        let counters = 10 * plan.capacity as usize;
        let cache = stretto::CacheBuilder::<K, V>::new(counters, plan.capacity as i64)
            .set_key_builder(hashes)
            .set_hasher(ahash::RandomState::new())
            .finalize();
        Self(cache.expect("its threads start"))
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        let lifetime = value.lifetime();
        self.0.insert_with_ttl(key, value, 1, lifetime);
    }

    fn settle(&self) {
        self.0.wait().expect("its thread is there");
    }
}

/// light-cache with its policy of one lifetime.
pub struct LightCache<K, V>(light_cache::LightCache<K, V, ahash::RandomState, TtlPolicy<K, V>>);

impl<K: Key + Copy, V: Value> Lookup<K> for LightCache<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get(key).inspect(Value::look).is_some()
    }
}

impl<K: Key + Copy, V: Value> Subject<K, V> for LightCache<K, V> {
    type Reader<'a> = &'a Self;

    fn new(_: Plan) -> Self {
        let hasher = ahash::RandomState::new();
        Self(light_cache::LightCache::from_parts(TtlPolicy::new(HOUR), hasher))
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

/// pingora's memory cache.
pub struct Pingora<K: Key, V: Value>(pingora_memory_cache::MemoryCache<K, V>);

impl<K: Key, V: Value> Lookup<K> for Pingora<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get(key).0.inspect(Value::look).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for Pingora<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        Self(pingora_memory_cache::MemoryCache::new(plan.capacity as usize))
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        let lifetime = value.lifetime();
        self.0.put(&key, value, Some(lifetime));
    }
}
