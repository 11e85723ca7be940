//! Reloads by a call's own loader: inline, or on the executor if the loader may go there.

use super::reload::{Answer, Call, Panics};
use crate::engine::Engine;
use crate::engine::loads::{Init, OnStale, Replaces, once};
use crate::engine::reloads::Reloading;
use crate::entry::Entry;
use crate::hash::Hash32;
use crate::loaded::{Loaded, LoaderResult, Reason};
use crate::loader::Reloaded;
use crate::primitives::catch_user_panic;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::sync::{Arc, Weak};

/// A loader's result as that of a reload. If the loader made no value, `failure` gets the reason,
/// for the loader's call.
pub fn answer<V, N: Reason>(result: Result<Loaded<V>, N>, failure: &mut Option<N>) -> Answer<V> {
    result.map(Reloaded::from).map_err(|reason| Some(failure.insert(reason).share()))
}

impl<K, V, S> Engine<K, V, S> {
    /// Whether reads run the reloads that they trigger.
    pub fn reloads_inline(&self) -> bool {
        self.reloads.as_ref().is_some_and(|reloads| reloads.settings.inline)
    }

    /// Takes the trigger of a stale entry, for a call with a loader of its own. `None` if the entry
    /// is not stale, or another reload has its trigger.
    pub fn take_stale(&self, entry: &Entry<K, V>) -> Option<Reloading> {
        let reloads = self.reloads.as_ref().filter(|reloads| !reloads.are_triggered())?;
        reloads.take_stale(&self.core, entry.node().id())
    }

    /// [`take_stale`](Self::take_stale) for a loader that may not leave this thread.
    #[inline]
    pub fn take_stale_inline(&self, entry: &Entry<K, V>, on_stale: OnStale) -> Option<Reloading> {
        let may_reload = on_stale == OnStale::Reload && self.reloads_inline();
        if may_reload { self.take_stale(entry) } else { None }
    }

    /// The key's entry after a reload that this call has run, which has made `made`. The reload may
    /// have lasted, so the entry that triggered it may have ended or been removed. If the key has
    /// no entry now, the entry that the reload made: the cache need not have kept it.
    #[cold]
    pub fn entry_after_reload<Q: Equivalent<K> + ?Sized>(
        &self,
        (hash, key): (Hash32, &Q),
        mut made: Option<Entry<K, V>>,
    ) -> Option<Entry<K, V>> {
        if made.as_ref().is_some_and(|made| !key.equivalent(made.key())) {
            self.core.drop_caught(made.take());
        }
        let present = {
            let guard = crate::epoch::pin();
            self.peek_at(&guard, hash, key).map(|node| self.entry_of(node))
        };
        let id = made.as_ref().map(|made| made.node().id());
        match present {
            Some(present) if id != Some(present.node().id()) => {
                self.core.drop_caught(made);
                Some(present)
            }
            // Only `made` says that this call has made it.
            _ => made,
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: Send + Sync + 'static,
{
    /// The cache for a job of the executor; `None` if reloads run inline.
    pub fn executed(&self) -> Option<Weak<Self>> {
        let reloads = self.reloads.as_ref().filter(|reloads| !reloads.settings.inline);
        let myself = reloads.and_then(|_| self.myself.get()).and_then(Weak::upgrade)?;
        let myself = myself.downcast::<Self>().ok()?;
        Some(Arc::downgrade(&myself))
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Engine<K, V, S> {
    /// Reloads a stale entry on this thread, by the call's own loader. Returns the key's entry
    /// after that. If it has none, and the loader has not run, loads the key. A panic of the
    /// loader reaches the caller.
    ///
    /// # Errors
    /// The reason, if the loader made no value and the key has no entry.
    #[cold]
    pub fn reload_by_call<N: Reason>(
        &self,
        reloading: Reloading,
        entry: Entry<K, V>,
        key: &mut dyn FnMut() -> K,
        init: Init<'_, V, N>,
    ) -> Result<Entry<K, V>, N> {
        let mut failure = None;
        let call: Call<'_, K, V> = (&mut |_| key(), &mut |_, _| answer(init(), &mut failure));
        let made = self.reload_with(reloading, call, Panics::Reach(None));
        self.hold_back_writer();
        let present = self.entry_after_reload((entry.hash(), entry.key()), made);
        // As in `entry_after_reload`.
        drop(entry);
        match (present, failure) {
            (Some(present), _) => Ok(present),
            (None, Some(reason)) => Err(reason),
            (None, None) => self.load_missing(key(), init, &mut Replaces::none()),
        }
    }
}

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// The key's entry, read or loaded. A stale one is returned at once, and `init` makes the new
    /// value where reloads run.
    ///
    /// # Errors
    /// The reason, if this call's loader, or the loader that it waited for, made no value.
    pub fn load_refreshing<R: LoaderResult<V>>(
        &self,
        key: K,
        init: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Entry<K, V>, R::Reason> {
        let Some(entry) = self.read_for_load(&key, &mut Replaces::none()) else {
            return self.load_after_miss(key, init);
        };
        let Some(reloading) = self.take_stale(&entry) else {
            // The drop must come before the entry is the return value: otherwise a panic of the
            // user's destructors would leak the entry.
            drop((key, init));
            return Ok(entry);
        };
        let Some(engine) = self.executed() else {
            let (mut key, mut init) = (once(|| key), once(|| init().into_result()));
            let loaded = self.reload_by_call(reloading, entry, &mut key, &mut init);
            drop((key, init));
            return loaded;
        };
        let reload = move || {
            let Some(engine) = engine.upgrade() else { return };
            let (mut key, mut init) = (once(|| key), once(|| init().into_result()));
            let call: Call<'_, K, V> = (&mut |_| key(), &mut |_, _| answer(init(), &mut None));
            engine.core.drop_caught(engine.reload_with(reloading, call, Panics::Count));
        };
        // The destructors of `key` and `init` may panic, and that must not reach the executor.
        self.core.execute(Box::new(move || _ = catch_user_panic(reload)));
        Ok(entry)
    }
}
