//! moka, with lifetimes entry by entry and without, and its smaller sister.

use super::{Lookup, Plan, Subject};
use crate::key::Key;
use crate::value::Value;
use mini_moka::sync::ConcurrentCacheExt;
use std::time::{Duration, Instant};

/// Each value's own lifetime, also when it replaces another; reads change nothing.
pub struct Lifetimes;

impl<K, V: Value> moka::Expiry<K, V> for Lifetimes {
    fn expire_after_create(&self, _: &K, value: &V, _: Instant) -> Option<Duration> {
        Some(value.lifetime())
    }

    fn expire_after_update(
        &self,
        _: &K,
        value: &V,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(value.lifetime())
    }
}

type Sync<K, V> = moka::sync::Cache<K, V, ahash::RandomState>;

/// moka with an expiry policy.
pub struct MokaExpiry<K, V>(Sync<K, V>);

/// moka without lifetimes, but perhaps an idle time.
pub struct Moka<K, V>(Sync<K, V>);

macro_rules! subject {
    ($name:ident, $plan:ident, $builder:ident => $configured:expr) => {
        impl<K: Key, V: Value> Lookup<K> for $name<K, V> {
            #[inline]
            fn look_up(&self, key: &K) -> bool {
                self.0.get(key).inspect(Value::look).is_some()
            }
        }

        impl<K: Key, V: Value> Subject<K, V> for $name<K, V> {
            type Reader<'a> = &'a Self;

            fn new($plan: Plan) -> Self {
                let $builder = moka::sync::Cache::builder().max_capacity($plan.capacity);
                Self($configured.build_with_hasher(ahash::RandomState::new()))
            }

            fn reader(&self) -> Self::Reader<'_> {
                self
            }

            #[inline]
            fn insert(&self, key: K, value: V) {
                self.0.insert(key, value);
            }

            fn settle(&self) {
                self.0.run_pending_tasks();
            }
        }
    };
}

subject!(MokaExpiry, plan, builder => builder.expire_after(Lifetimes));
subject!(Moka, plan, builder => match plan.idle {
    Some(idle) => builder.time_to_idle(idle),
    None => builder,
});

/// mini-moka, perhaps with an idle time.
pub struct MiniMoka<K, V>(mini_moka::sync::Cache<K, V, ahash::RandomState>);

impl<K: Key, V: Value> Lookup<K> for MiniMoka<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        self.0.get(key).inspect(Value::look).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for MiniMoka<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        let builder = mini_moka::sync::Cache::builder().max_capacity(plan.capacity);
        let builder = match plan.idle {
            Some(idle) => builder.time_to_idle(idle),
            None => builder,
        };
        Self(builder.build_with_hasher(ahash::RandomState::new()))
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn settle(&self) {
        self.0.sync();
    }
}
