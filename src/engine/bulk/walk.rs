//! Walking through the index.

use crate::clock::Timestamp;
use crate::engine::Engine;
use crate::engine::read::NodeRef;
use crate::entry::{Entry, Origin};
use crate::hash::Hash32;
use crate::pool::Handle;
use crate::prefetch::prefetch_contents;
use crate::primitives::seeded;

impl<K: Eq, V> Engine<K, V> {
    /// Handles on the nodes of all keys, one for each key, a bucket at a time. No guard is left
    /// between two of them.
    pub fn all_keys(&self) -> impl Iterator<Item = Handle<K, V>> {
        let mut cursor = Some(Hash32::FIRST);
        let buckets = std::iter::from_fn(move || {
            let mut nodes = Vec::new();
            cursor = self.walk_keys(cursor?, &mut nodes);
            Some(nodes)
        });
        buckets.flatten()
    }

    /// Adds handles on the nodes of one bucket, from the hash position `cursor` on, one for each
    /// key. Returns the position of the rest. No guard is left.
    pub fn walk_keys(
        &self,
        cursor: Hash32,
        nodes: &mut impl Extend<Handle<K, V>>,
    ) -> Option<Hash32> {
        let guard = crate::epoch::pin();
        let mut found: Vec<NodeRef<'_, K, V>> = Vec::new();
        let next = self.walk(&guard, cursor, &mut |node| {
            // A key that was removed and inserted again during the read may be in two slots.
            let is_new = |other: &NodeRef<'_, K, V>| {
                other.meta().hash() != node.meta().hash() || other.key() != node.key()
            };
            if found.iter().all(is_new) {
                // The misses of a bucket's entries overlap.
                prefetch_contents(node.key());
                prefetch_contents(node.value());
                found.push(node);
            }
        });
        nodes.extend(found.into_iter().map(|node| self.handle_on(node)));
        next
    }

    /// The living node that the key of `node` has at this moment: the node itself or its successor,
    /// with its deadline. So an iteration sees a key that is present throughout, however often it
    /// is updated.
    pub fn present(&self, node: Handle<K, V>) -> Option<(Handle<K, V>, Timestamp)> {
        let meta = node.meta();
        let seen = meta.deadline();
        if self.lives(seen, meta, self.core.ticker.coarse()) {
            return Some((node, seen));
        }
        if seeded("iteration-forgets-the-replaced") {
            return None;
        }
        let guard = crate::epoch::pin();
        let successor = self.peek_at(&guard, node.hashed())?;
        Some((self.handle_on(successor), successor.seen()))
    }

    /// [`present`](Self::present) as a handle for the caller.
    pub fn present_entry(&self, node: Handle<K, V>) -> Option<Entry<K, V>> {
        let (node, seen) = self.present(node)?;
        let now = self.core.ticker.now();
        Some(Entry::new(node, now, seen.max(now), Origin::Found))
    }
}
