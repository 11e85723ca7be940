//! Loading the next value before the present one ends.

use crate::key::RedisKey;
use crate::link::{Reply, locked};
use crate::loaded::Loaded;
use crate::script::Script;
use crate::slot::{Slot, millis};
use crate::span::{self, Work};
use crate::stats::count;
use crate::tier::Inner;
use crate::wire::Stamp;
use std::collections::HashSet;
use std::future::Future;
use std::hash::Hash;
use std::sync::{Arc, Mutex, Weak};

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

/// Ends it also if the loader panics. It keeps no cache.
struct Ends<K: RedisKey, V: Clone + Send + Sync + 'static>(Weak<Inner<K, V>>, K);

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Drop for Ends<K, V> {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.refreshing.end(&self.1);
        }
    }
}

const OURS: i64 = 1;
const BUSY: i64 = 2;

impl<K: RedisKey, V: Clone + Send + Sync + 'static> Inner<K, V> {
    /// Which value it is, if it is time to load the next one.
    #[inline]
    pub fn ending(&self, slot: &Slot<V>) -> Option<Stamp> {
        slot.stamp.filter(|_| slot.is_ending(|| self.now()))
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
        let ends = Ends(Arc::downgrade(self), key);
        let pause = self.settings.lease.min(self.settings.refresh_ahead) / 4;
        let this = Arc::clone(self);
        let task = async move {
            let is_later = this.renew_value(&ends.1, stamp, loader).await;
            drop(this);
            if is_later {
                // Somebody else is at it, or it failed: the next try is for later.
                tokio::time::sleep(pause).await;
            }
            drop(ends);
        };
        tokio::spawn(span::of_caller(task));
    }

    /// Returns whether to wait before the next try.
    async fn renew_value<E, F>(self: &Arc<Self>, key: &K, stamp: Stamp, loader: F) -> bool
    where
        F: Future<Output = Result<Option<Loaded<V>>, E>>,
    {
        let (raw, lease) = (self.raw(key), millis(Some(self.settings.lease)));
        let claim = self.link.eval(Script::Refresh, &raw, &[&stamp.text(), &lease]).await;
        match claim.map(|answer| answer.reply) {
            Ok(Reply::Number(OURS)) => {}
            Ok(Reply::Number(BUSY)) | Err(_) => return true,
            Ok(_) => {
                // Another value by now: the next read gets it.
                self.local.sync().invalidate(key);
                return false;
            }
        }
        count(&self.counts.loads);
        count(&self.counts.refreshes);
        let Ok(made) = span::of_loader(Work::Reload, &self.settings.name, loader).await else {
            count(&self.counts.load_failures);
            return true;
        };
        let made = made.as_ref();
        let life = self.life_of(made);
        if life.is_some_and(|life| life.is_zero()) {
            return true;
        }
        let Ok(bytes) = self.encode(made.map(|loaded| &loaded.value)) else { return true };
        // Others hear of it from the server.
        let stored =
            self.link.eval(Script::StoreOver, &raw, &[&stamp.text(), &bytes, &millis(life)]).await;
        if stored.is_ok_and(|answer| answer.reply.is_one()) {
            self.local.sync().invalidate(key);
        } else {
            count(&self.counts.overtaken_loads);
        }
        false
    }
}
