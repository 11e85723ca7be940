//! Values whose life is over, kept for errors of their loaders.
//!
//! They are not local copies any more: the server's word about a lease, or about the end of a life,
//! drops those. A value leaves when this process writes, removes or loads the key, finds a value on
//! the server, or hears that its lease was broken; and after some time.

use crate::builder::Weigher;
use crate::slot::Slot;
use cortado::{Loaded, Op};
use std::hash::Hash;
use std::time::Duration;

/// Such values, for as long as they may be used. There are none where
/// [`stale_on_error`](crate::Builder::stale_on_error) is zero.
pub struct Fallback<K, V> {
    values: Option<cortado::Cache<K, Kept<V>>>,
    at_most: Duration,
}

#[derive(Clone)]
struct Kept<V> {
    slot: Slot<V>,
    /// Until when the loader is not asked again.
    again: u64,
}

impl<K, V> Fallback<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    pub fn new(at_most: Duration, capacity: u64, weigher: Option<Weigher<K, V>>) -> Self {
        let build = || {
            let values = cortado::Cache::builder().max_capacity(capacity);
            match weigher {
                None => values.build(),
                Some(weigher) => values
                    .weigher(move |key: &K, kept: &Kept<V>| weigher(key, kept.slot.value.as_ref()))
                    .build(),
            }
        };
        Self { values: (!at_most.is_zero()).then(build), at_most }
    }

    /// Keeps a value, unless it is there already. Returns whether it was not.
    pub fn keep(&self, key: &K, slot: Slot<V>) -> bool {
        let Some(values) = &self.values else { return false };
        let is_new = values.peek(key).is_none_or(|kept| kept.slot.stamp != slot.stamp);
        if is_new {
            values.insert_with_ttl(key.clone(), Kept { slot, again: 0 }, self.at_most);
        }
        is_new
    }

    pub fn get(&self, key: &K) -> Option<Slot<V>> {
        self.values.as_ref()?.get(key).map(|kept| kept.slot)
    }

    /// The value, if its loader has just failed.
    pub fn after_an_error(&self, key: &K, now: u64) -> Option<Slot<V>> {
        let values = self.values.as_ref()?;
        values.get_if(key, |kept, _| now < kept.again).map(|kept| kept.slot)
    }

    /// The loader has failed, and is asked again at this time.
    pub fn has_failed(&self, key: &K, again: u64) {
        let Some(values) = &self.values else { return };
        let _ = values.entry(key.clone()).and_compute_with(|kept| {
            let Some(kept) = kept else { return Op::Nop };
            let left = kept.expires_in().unwrap_or(self.at_most);
            Op::PutLoaded(Loaded::with_ttl(Kept { again, ..(*kept).clone() }, left))
        });
    }

    pub fn forget(&self, key: &K) {
        if let Some(values) = &self.values {
            values.invalidate(key);
        }
    }

    pub fn forget_all(&self) {
        if let Some(values) = &self.values {
            values.invalidate_all();
        }
    }
}
