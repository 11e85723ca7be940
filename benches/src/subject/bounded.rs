//! Caches that stay within a capacity and know no lifetimes.

use super::{Lookup, Plan, Subject};
use crate::key::Key;
use crate::value::Value;
use quick_cache::UnitWeighter;

/// quick_cache.
pub struct QuickCache<K, V>(quick_cache::sync::Cache<K, V, UnitWeighter, ahash::RandomState>);

impl<K: Key, V: Value> Lookup<K> for QuickCache<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get(key).inspect(Value::look).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for QuickCache<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        let hasher = ahash::RandomState::new();
        let entries = plan.capacity as usize;
        Self(quick_cache::sync::Cache::with(
            entries,
            plan.capacity,
            UnitWeighter,
            hasher,
            Default::default(),
        ))
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

/// The in-memory part of foyer, whose reads return handles.
pub struct Foyer<K: Key, V: Value>(foyer_memory::Cache<K, V, ahash::RandomState>);

impl<K: Key, V: Value> Lookup<K> for Foyer<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get(key).inspect(|entry| entry.value().look()).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for Foyer<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        let builder = foyer_memory::CacheBuilder::new(plan.capacity as usize);
        Self(builder.with_hash_builder(ahash::RandomState::new()).build())
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        drop(self.0.insert(key, value));
    }
}

/// scc's cache, whose reads lock the entry.
pub struct Scc<K, V>(scc::HashCache<K, V, ahash::RandomState>);

impl<K: Key, V: Value> Lookup<K> for Scc<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get_sync(key).inspect(|entry| entry.get().look()).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for Scc<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        // It evicts from a full bucket before it grows: without room beforehand it holds less.
        let (entries, hasher) = (plan.capacity as usize, ahash::RandomState::new());
        Self(scc::HashCache::with_capacity_and_hasher(entries, entries, hasher))
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        let (_evicted, _entry) = self.0.entry_sync(key).put_entry(value);
    }
}
