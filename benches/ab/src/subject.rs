//! The two checkouts and quick_cache, behind one trait.

use ahash::RandomState;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// By their numbers in tables: ratios are to the first and to the last.
pub const NAMES: [&str; 3] = ["base", "new", "quick_cache"];

/// What values say of themselves.
const LIFETIME: Duration = Duration::from_secs(3600);

pub trait Value: Clone + Send + Sync + 'static {
    fn of(key: u64) -> Self;
    fn lifetime(&self) -> Duration;
}

impl Value for u64 {
    fn of(key: u64) -> Self {
        key
    }

    fn lifetime(&self) -> Duration {
        LIFETIME
    }
}

/// 64 bytes, as a small response has.
#[derive(Debug)]
pub struct Document {
    lifetime: Duration,
    _bytes: [u64; 6],
}

impl Value for Arc<Document> {
    fn of(key: u64) -> Self {
        Arc::new(Document { lifetime: LIFETIME, _bytes: [key; 6] })
    }

    fn lifetime(&self) -> Duration {
        self.lifetime
    }
}

pub trait Subject<V>: Sync {
    fn get(&self, key: u64) -> bool;
    fn insert(&self, key: u64, value: V);
    /// The key's value, or a new one.
    fn load(&self, key: u64) -> V;
    fn maintain(&self) {}
}

/// The policy as documented: it has a create hook, and says nothing of reads.
struct ByValue;

macro_rules! checkout {
    ($checkout:ident) => {
        mod $checkout {
            use super::*;

            impl<V: Value> ::$checkout::Expiry<u64, V> for ByValue {
                fn expire_after_create(&self, _: &u64, value: &V, _: Instant) -> Option<Duration> {
                    Some(value.lifetime())
                }
            }

            pub struct Checkout<V: Value>(::$checkout::Cache<u64, V, RandomState>);

            impl<V: Value> Checkout<V> {
                pub fn new(capacity: u64) -> Self {
                    let builder = ::$checkout::Cache::builder().max_capacity(capacity);
                    Self(builder.expire_after(ByValue).build_with_hasher(RandomState::new()))
                }
            }

            impl<V: Value> Subject<V> for Checkout<V> {
                fn get(&self, key: u64) -> bool {
                    self.0.get(&key).is_some()
                }

                fn insert(&self, key: u64, value: V) {
                    self.0.insert(key, value);
                }

                fn load(&self, key: u64) -> V {
                    self.0.get_with(key, || V::of(key))
                }

                fn maintain(&self) {
                    self.0.run_pending_tasks();
                }
            }
        }
    };
}

checkout!(base);
checkout!(new);

struct Quick<V>(quick_cache::sync::Cache<u64, V, quick_cache::UnitWeighter, RandomState>);

impl<V: Value> Subject<V> for Quick<V> {
    fn get(&self, key: u64) -> bool {
        self.0.get(&key).is_some()
    }

    fn insert(&self, key: u64, value: V) {
        self.0.insert(key, value);
    }

    fn load(&self, key: u64) -> V {
        let Ok(value) = self.0.get_or_insert_with(&key, || Ok::<_, Infallible>(V::of(key)));
        value
    }
}

pub fn build<V: Value>(name: &str, capacity: u64) -> Box<dyn Subject<V>> {
    match name {
        "base" => Box::new(base::Checkout::new(capacity)),
        "new" => Box::new(new::Checkout::new(capacity)),
        _ => {
            let (weighter, hasher) = (quick_cache::UnitWeighter, RandomState::new());
            let (items, lifecycle) = (capacity as usize, Default::default());
            Box::new(Quick(quick_cache::sync::Cache::with(
                items, capacity, weighter, hasher, lifecycle,
            )))
        }
    }
}
