//! Reloads that a call asks for.

use super::limits::QueuedLoad;
use crate::engine::Engine;
use crate::engine::failures::Failed;
use crate::engine::loads::Begun;
use crate::loaded::{LoaderResult, Reason};
use crate::loader::ReloadFailure;
use crate::primitives::catch_user_panic;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

impl<K, V, S> Engine<K, V, S>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher + Send + Sync + 'static,
{
    /// Starts a reload of the key's entry, or a load if there is no entry, where reloads run.
    /// Returns whether this call has started one.
    pub fn refresh_key<R: LoaderResult<V> + 'static>(
        &self,
        key: &K,
        load: impl FnOnce(&K) -> R + Send + 'static,
    ) -> bool
    where
        R::Reason: Clone + Send + Sync + 'static,
    {
        let hash = self.hash(key);
        self.check_key(hash, key);
        let generation = self.core.hot.generation();
        if self.flight_of(hash, key).1.is_some_and(|it| !it.is_overtaken(generation)) {
            return false;
        }
        let node = {
            let guard = crate::epoch::pin();
            self.peek_at(&guard, hash, key).map(|node| self.handle_on(node))
        };
        let Some(node) = node else { return self.load_elsewhere(key.clone(), load) };
        let Some(reloads) = &self.reloads else { return false };
        if !reloads.settings.inline && reloads.is_held_back(&self.core) {
            return false;
        }
        let Some(reloading) = self.take_reload(&node) else { return false };
        self.core.drop_caught(reloads.start(reloading));
        if reloads.settings.inline {
            self.hold_back_writer();
        }
        true
    }

    /// Loads a key where reloads run. A load that waits in the executor is on the board, as in
    /// [`load_until`](Self::load_until): so it begins once, however often it is asked for.
    fn load_elsewhere<R: LoaderResult<V> + 'static>(
        &self,
        key: K,
        load: impl FnOnce(&K) -> R + Send + 'static,
    ) -> bool
    where
        R::Reason: Clone + Send + Sync + 'static,
    {
        let Some(reloads) = &self.reloads else { return false };
        let Some(place) = reloads.place() else { return false };
        let Some(engine) = self.executed() else {
            let wanted = key.clone();
            drop(self.load_after_miss(key, || load(&wanted)));
            return true;
        };
        let (draft, mut joined) = (self.draft_for_load(key), None);
        let begun = self.begin_queued_load::<R::Reason>(&draft, &mut joined);
        let Ok(Begun::Leading(flight)) = begun else { return false };
        let queued = QueuedLoad::new(flight, draft);
        self.core.execute(Box::new(move || {
            if let Some(engine) = engine.upgrade() {
                // The result is nobody's, and its destructor may panic.
                catch_user_panic(|| engine.run_queued(queued, load));
            }
            drop(place);
        }));
        true
    }

    /// The failure of the last reload of the key's living entry, if that one failed.
    pub fn last_failure<E, Q>(&self, key: &Q) -> Option<ReloadFailure<E>>
    where
        E: Send + Sync + 'static,
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let reloads = self.reloads.as_ref()?;
        let Failed { reason, at, times } = {
            let guard = crate::epoch::pin();
            reloads.failures.of(self.peek(&guard, key)?.id())?
        };
        let error = reason.as_ref().and_then(<Arc<E> as Reason>::adopt);
        Some(ReloadFailure { error, at: self.core.ticker.instant_of(at), times })
    }
}
