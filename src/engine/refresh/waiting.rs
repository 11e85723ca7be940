//! Waiting for a reload that runs elsewhere.

use crate::engine::Engine;
use crate::engine::reentrancy;
use crate::entry::Entry;
use crate::hash::LookupKey;
use crate::node::GONE;
use crate::pool::Handle;
use std::time::Instant;

impl<K, V> Engine<K, V> {
    /// Whether a node is stale, and its reload is under way. The clock is read only if one is.
    pub fn is_being_renewed(&self, node: &Handle<K, V>) -> bool {
        let mark = self.pool.raw().refresh(node.id());
        mark.is_some_and(|mark| mark.is_under_way() && mark.stale_from() <= self.core.ticker.now())
    }

    /// Whether the entry has left the cache, perhaps by a clearing whose sweep has not reached it.
    pub fn is_over(&self, node: &Handle<K, V>) -> bool {
        node.meta().deadline() == GONE || self.core.hot.is_cleared(node.meta())
    }

    /// Whether a caller goes on waiting for the reload of a node. It waits for no node that has
    /// left the cache, since such a node stays marked.
    fn reload_goes_on(&self, node: &Handle<K, V>) -> bool {
        let mark = self.pool.raw().refresh(node.id());
        mark.is_some_and(|mark| mark.is_under_way()) && !self.is_over(node)
    }

    /// Waits while the reload of a node is under way, until `deadline`. Not where no reload may
    /// begin, since it may be the caller's own, nor in an executor that is given reloads of this
    /// cache, since it may be one of those that follow.
    pub fn await_reload(&self, node: &Handle<K, V>, deadline: Option<Instant>) {
        if let Some(reloads) = self.refresh()
            && self.reload_goes_on(node)
            && reentrancy::may_reload()
            && !reentrancy::hands_on(self.core.id())
        {
            let wait = reloads.waits.on(node.meta().hash());
            wait.block(deadline, || !self.reload_goes_on(node));
        }
    }

    /// [`await_reload`](Self::await_reload) for tasks.
    pub async fn await_reload_async(&self, node: &Handle<K, V>) {
        if let Some(reloads) = self.refresh()
            && self.reload_goes_on(node)
            && reentrancy::may_reload()
        {
            let wait = reloads.waits.on(node.meta().hash());
            wait.until(|| (!self.reload_goes_on(node)).then_some(())).await;
        }
    }

    /// The key's entry after this call has run reloads, which have made `made`. They may have
    /// lasted, so the entry that triggered one may have ended or been removed. If the key has no
    /// entry now, the one that a reload made: the cache need not have kept it.
    #[cold]
    pub fn entry_after_reload(
        &self,
        key: impl LookupKey<K>,
        made: Vec<Entry<K, V>>,
    ) -> Option<Entry<K, V>> {
        let mut own = None;
        for made in made {
            let is_own = key.is(made.key());
            self.core.drop_caught(if is_own { own.replace(made) } else { Some(made) });
        }
        let present = {
            let guard = crate::epoch::pin();
            self.peek_at(&guard, key).map(|node| self.entry_of(node))
        };
        let id = own.as_ref().map(|own| own.node().id());
        match present {
            Some(present) if id != Some(present.node().id()) => {
                self.core.drop_caught(own);
                Some(present)
            }
            // Only `own` says that this call has made it.
            _ => own,
        }
    }
}
