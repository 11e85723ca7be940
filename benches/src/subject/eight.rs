//! Eight caches of cortado side by side: what shards would be.

use super::{Cortado, Lookup, Plan, Subject};
use crate::key::Key;
use crate::value::Value;

/// A key is hashed twice: for the choice of the cache, and by that cache.
pub struct CortadoEight<K, V> {
    parts: [Cortado<K, V>; 8],
    hasher: ahash::RandomState,
}

impl<K: Key, V: Value> CortadoEight<K, V> {
    #[inline]
    fn part(&self, key: &K) -> &Cortado<K, V> {
        &self.parts[(self.hasher.hash_one(key) % 8) as usize]
    }
}

impl<K: Key, V: Value> Lookup<K> for CortadoEight<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.part(key).look_up(key)
    }
}

impl<K: Key, V: Value> Subject<K, V> for CortadoEight<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        let part = Plan { capacity: plan.capacity / 8, ..plan };
        Self {
            parts: std::array::from_fn(|_| Cortado::new(part)),
            hasher: ahash::RandomState::new(),
        }
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.part(&key).insert(key, value);
    }

    fn settle(&self) {
        self.parts.iter().for_each(Subject::settle);
    }
}
