//! Reads that take an entry only if a condition holds for it.

use super::fast::Sought;
use super::lookup::NodeRef;
use super::slow::Lookup;
use crate::clock::ReadTimes;
use crate::engine::Engine;
use crate::hash::LookupKey;

/// How often a read asks its condition, since the entry may change while the read prolongs its
/// life. There is a limit, since the condition may write the key itself, each time.
const MOST_QUESTIONS: u32 = 16;

impl<K, V: Clone> Engine<K, V> {
    /// [`read_clone`](Self::read_clone) of an entry for which `accept` holds. Any other one is a
    /// miss, and is left alone.
    #[inline(always)]
    pub fn read_clone_if(
        &self,
        key: impl LookupKey<K>,
        mut accept: impl FnMut(&V, ReadTimes) -> bool,
    ) -> Option<V> {
        self.core.index.prefetch(key.hash());
        let guard = crate::epoch::pin_inline();
        let coarse = self.core.ticker.coarse();
        let times = |node: NodeRef<'_, K, V>, now| ReadTimes::new(now, node.meta().created());
        let due = || self.core.is_maintenance_due(coarse);
        let (value, due) = match self.find(&guard, key) {
            Some(node) if self.is_plain(node, coarse) && self.is_recorded(node) => {
                let value = node.value();
                (accept(value, times(node, coarse)).then(|| value.clone()), due())
            }
            Some(node) if self.is_otherwise_plain(node, coarse) && self.is_recorded(node) => {
                let is_accepted = accept(node.value(), times(node, coarse));
                self.count(is_accepted);
                (is_accepted.then(|| node.value().clone()), due())
            }
            found => {
                let mut questions = 0;
                let accepts = |node: NodeRef<'_, K, V>, now| {
                    questions += 1;
                    questions <= MOST_QUESTIONS && accept(node.value(), times(node, now))
                };
                let Lookup { node, due } =
                    self.retry_read(Sought { guard: &guard, key }, found, coarse, accepts);
                (node.map(|node| node.value().clone()), due)
            }
        };
        drop(guard);
        if due {
            self.after_read();
        }
        value
    }
}
