//! Loading the next value before the present one ends.

use crate::key::RedisKey;
use crate::link::{Reply, locked};
use crate::loaded::Loaded;
use crate::script::Script;
use crate::slot::{Slot, millis};
use crate::stats::count;
use crate::tier::Inner;
use crate::wire::Stamp;
use std::collections::HashSet;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

/// Keys that this process refreshes, or has just tried to.
pub struct Refreshing<K>(Mutex<HashSet<K>>);

impl<K: Hash + Eq + Clone> Refreshing<K> {
    pub fn new() -> Self {
        Self(Mutex::default())
    }

    fn begin(&self, key: &K) -> bool {
        locked(&self.0).insert(key.clone())
    }

    fn end(&self, key: &K) {
        locked(&self.0).remove(key);
    }
}

/// Ends it also if the loader panics.
struct Ends<K: RedisKey, V: Clone + Send + Sync + 'static>(Arc<Inner<K, V>>, K);

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Drop for Ends<K, V> {
    fn drop(&mut self) {
        self.0.refreshing.end(&self.1);
    }
}

const BUSY: i64 = 1;
const OURS: i64 = 2;

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Whether it is time to load the next value.
    #[inline]
    pub fn is_ending(&self, slot: &Slot<V>) -> bool {
        slot.refresh_at != u64::MAX && self.now() >= slot.refresh_at
    }

    /// Begins to load the next value in a task, unless this process is at it.
    pub fn refresh<E, F>(self: &Arc<Self>, key: K, stamp: Stamp, loader: F)
    where
        F: Future<Output = Result<Option<Loaded<V>>, E>> + Send + 'static,
        E: Send + 'static,
    {
        if !self.refreshing.begin(&key) {
            return;
        }
        let ends = Ends(Arc::clone(self), key);
        let task = async move {
            let Ends(this, key) = &ends;
            let pause = this.renew_value(key, stamp, loader).await;
            if pause {
                // Somebody else is at it, or it failed: the next try is for later.
                tokio::time::sleep(this.settings.lease.min(this.settings.refresh_ahead) / 4).await;
            }
        };
        #[cfg(feature = "tracing")]
        let task = tracing::Instrument::in_current_span(task);
        tokio::spawn(task);
    }

    /// Returns whether to wait before the next try.
    async fn renew_value<E, F>(self: &Arc<Self>, key: &K, stamp: Stamp, loader: F) -> bool
    where
        F: Future<Output = Result<Option<Loaded<V>>, E>>,
    {
        let (raw, most) = (self.raw(key), self.most());
        let lease = millis(Some(self.settings.lease));
        let claim = self.link.eval(Script::Refresh, &raw, &[&most, &stamp, &lease]).await;
        match claim.map(|answer| answer.reply.pair()) {
            Ok(Some((Reply::Number(OURS), _))) => {}
            Ok(Some((Reply::Number(BUSY), _))) | Err(_) => return true,
            Ok(_) => {
                // Another value by now: the next read gets it.
                self.local.sync().invalidate(key);
                return false;
            }
        }
        count(&self.counts.loads);
        count(&self.counts.refreshes);
        #[cfg(feature = "tracing")]
        let loader = tracing::Instrument::instrument(loader, tracing::debug_span!("load"));
        let Ok(made) = loader.await else {
            count(&self.counts.load_failures);
            return true;
        };
        let (value, life) = match made {
            Some(Loaded { value, life }) => (Some(value), life.or(self.settings.ttl)),
            None => (None, Some(self.settings.negative_ttl)),
        };
        if life.is_some_and(|life| life.is_zero()) {
            return true;
        }
        let Ok(bytes) = self.encode(value.as_ref()) else { return true };
        // Others hear of it from the server, and this process does.
        let stored =
            self.link.eval(Script::StoreOver, &raw, &[&stamp, &bytes, &millis(life)]).await;
        if !matches!(stored, Ok(answer) if answer.reply.is_one()) {
            count(&self.counts.overtaken_loads);
        }
        false
    }
}
