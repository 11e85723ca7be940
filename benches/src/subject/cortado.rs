//! cortado, read in two ways and tended in two ways.

use super::{Lookup, Plan, READS_PER_GUARD, Reader, Subject};
use crate::key::Key;
use crate::value::Value;
use std::time::{Duration, Instant};

/// Each value's own lifetime; reads change nothing.
struct Lifetimes;

impl<K, V: Value> cortado::Expiry<K, V> for Lifetimes {
    fn expire_after_create(&self, _: &K, value: &V, _: Instant) -> Option<Duration> {
        Some(value.lifetime())
    }

    fn observes_reads(&self) -> bool {
        false
    }
}

fn build<K: Key, V: Value>(plan: Plan, scheduler: bool) -> cortado::Cache<K, V> {
    let builder = cortado::Cache::builder().max_capacity(plan.capacity).scheduler(scheduler);
    let builder = match plan.idle {
        Some(idle) => builder.time_to_idle(idle),
        None => builder.expire_after(Lifetimes),
    };
    builder.build_with_hasher(ahash::RandomState::new())
}

/// cortado, read by `get`.
pub struct Cortado<K, V>(cortado::Cache<K, V>);

/// cortado, read by references.
pub struct CortadoPin<K, V>(cortado::Cache<K, V>);

/// cortado with its scheduler.
pub struct CortadoScheduled<K, V>(cortado::Cache<K, V>);

macro_rules! read_by_get {
    ($name:ident, $scheduler:literal) => {
        impl<K: Key, V: Value> Lookup<K> for $name<K, V> {
            #[inline]
            fn look_up(&self, key: &K) -> bool {
                self.0.get(key).inspect(Value::look).is_some()
            }
        }

        impl<K: Key, V: Value> Subject<K, V> for $name<K, V> {
            type Reader<'a> = &'a Self;

            fn new(plan: Plan) -> Self {
                Self(build(plan, $scheduler))
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

read_by_get!(Cortado, false);
read_by_get!(CortadoScheduled, true);

/// A held view of the cache.
pub struct Pinned<'c, K, V> {
    view: cortado::Pinned<'c, K, V, ahash::RandomState>,
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
        Self(build(plan, false))
    }

    fn reader(&self) -> Self::Reader<'_> {
        Pinned { view: self.0.pin(), reads_left: READS_PER_GUARD }
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}
