//! Maps, which evict nothing and expire nothing: what a cache costs beyond them is what it does.

use super::{Lookup, Plan, READS_PER_GUARD, Reader, Subject};
use crate::key::Key;
use crate::value::Value;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use papaya::Guard;
use std::sync::{PoisonError, RwLock};

/// papaya, a lock-free map.
pub struct Papaya<K, V>(papaya::HashMap<K, V, ahash::RandomState>);

/// A held guard of the map.
pub struct Guarded<'m, K, V> {
    map: &'m papaya::HashMap<K, V, ahash::RandomState>,
    guard: papaya::LocalGuard<'m>,
    reads_left: u32,
}

impl<K: Key, V: Value> Reader<K> for Guarded<'_, K, V> {
    #[inline]
    fn read(&mut self, key: &K) -> bool {
        if self.reads_left == 0 {
            self.guard.refresh();
            self.reads_left = READS_PER_GUARD;
        }
        self.reads_left -= 1;
        self.map.get(key, &self.guard).inspect(|value| value.look()).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for Papaya<K, V> {
    type Reader<'a> = Guarded<'a, K, V>;

    fn new(_: Plan) -> Self {
        Self(papaya::HashMap::with_hasher(ahash::RandomState::new()))
    }

    fn reader(&self) -> Self::Reader<'_> {
        Guarded { map: &self.0, guard: self.0.guard(), reads_left: READS_PER_GUARD }
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.0.pin().insert(key, value);
    }
}

/// A table cut into shards, each under a lock; a key is hashed once.
pub struct Shards<K, V> {
    shards: Box<[Shard<K, V>]>,
    hasher: ahash::RandomState,
}

type Shard<K, V> = RwLock<HashTable<(K, V)>>;

impl<K: Key, V> Shards<K, V> {
    const BITS: u32 = 6;

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K, V> {
        // hashbrown takes its tag from the topmost bits and the bucket from the lowest.
        &self.shards[(hash >> 40) as usize & ((1 << Self::BITS) - 1)]
    }
}

impl<K: Key, V: Value> Lookup<K> for Shards<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        let hash = self.hasher.hash_one(key);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        let value = shard.find(hash, |entry| entry.0 == *key).map(|entry| entry.1.clone());
        drop(shard);
        value.inspect(Value::look).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for Shards<K, V> {
    type Reader<'a> = &'a Self;

    fn new(_: Plan) -> Self {
        let shards = (0..1 << Self::BITS).map(|_| RwLock::new(HashTable::new())).collect();
        Self { shards, hasher: ahash::RandomState::new() }
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        let hash = self.hasher.hash_one(&key);
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        let rehash = |entry: &(K, V)| self.hasher.hash_one(&entry.0);
        match shard.entry(hash, |entry| entry.0 == key, rehash) {
            Entry::Occupied(mut entry) => entry.get_mut().1 = value,
            Entry::Vacant(entry) => {
                entry.insert((key, value));
            }
        }
    }
}
