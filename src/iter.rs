//! Iterators over a cache.

use crate::engine::Engine;
use crate::entry::{Entry, Key};
use crate::hash::Hash32;
use crate::macros::debug_fields;
use crate::pool::Handle;
use std::collections::VecDeque;

/// Iterator over handles on the living entries; see [`Cache::entries`](crate::Cache::entries).
pub struct Entries<'c, K, V> {
    engine: &'c Engine<K, V>,
    /// Hash position at which the walk goes on; `None` at its end.
    cursor: Option<Hash32>,
    /// One node for each key of the last bucket. A key's present entry is looked up when it is the
    /// key's turn.
    batch: VecDeque<Handle<K, V>>,
}

impl<'c, K, V> Entries<'c, K, V> {
    pub(crate) fn new(engine: &'c Engine<K, V>) -> Self {
        Self { engine, cursor: Some(Hash32::FIRST), batch: VecDeque::new() }
    }
}

impl<K: Eq, V> Entries<'_, K, V> {
    /// What `show` returns of the next node that is there when it is its turn.
    fn next_shown<T>(
        &mut self,
        show: impl Fn(&Engine<K, V>, Handle<K, V>) -> Option<T>,
    ) -> Option<T> {
        loop {
            while let Some(node) = self.batch.pop_front() {
                if let Some(shown) = show(self.engine, node) {
                    return Some(shown);
                }
            }
            self.cursor = self.engine.walk_keys(self.cursor?, &mut self.batch);
        }
    }

    /// The next living node.
    pub(crate) fn next_node(&mut self) -> Option<Handle<K, V>> {
        self.next_shown(|engine, node| engine.present(node).map(|(node, _)| node))
    }
}

impl<K: Eq, V> Iterator for Entries<'_, K, V> {
    type Item = Entry<K, V>;

    fn next(&mut self) -> Option<Entry<K, V>> {
        self.next_shown(Engine::present_entry)
    }
}

impl<K: Eq, V> std::iter::FusedIterator for Entries<'_, K, V> {}

debug_fields!(impl[K, V] Entries<'_, K, V>, |it| cache: it.engine.name());

/// Iterator over handles on the keys and clones of the values; see
/// [`Cache::iter`](crate::Cache::iter).
pub struct Iter<'c, K, V>(pub(crate) Entries<'c, K, V>);

impl<K: Eq, V: Clone> Iterator for Iter<'_, K, V> {
    type Item = (Key<K, V>, V);

    fn next(&mut self) -> Option<Self::Item> {
        let node = self.0.next_node()?;
        let value = node.value().clone();
        Some((Key::of_node(node), value))
    }
}

impl<K: Eq, V: Clone> std::iter::FusedIterator for Iter<'_, K, V> {}

debug_fields!(impl[K, V] Iter<'_, K, V>, |it| cache: it.0.engine.name());
