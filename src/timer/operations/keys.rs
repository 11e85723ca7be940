//! Which operations watch which key: locked shards of a hash table.

use super::op::Op;
use crate::primitives::Mutex;
use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::plain::Arc;
use crate::timer::body::drop_user_code;
use ahash::RandomState;
use equivalent::Equivalent;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::BTreeMap;
use std::hash::Hash;

/// Events of different keys rarely meet in one of so many shards. A model has one.
const SHARDS: usize = if cfg!(cortado_loom) { 1 } else { 64 };

/// A table with room for more keys gives memory back when an eighth of the room is in use.
const LEAST_TO_SHRINK: usize = 64;

/// The operations of a key, by number.
type Watchers<K> = BTreeMap<u64, Arc<Op<K>>>;

/// A key with its hash, so that neither the growth of a table nor the end of an operation calls the
/// user's `Hash`.
struct WatchedKey<K> {
    hash: u64,
    key: K,
    watchers: Watchers<K>,
}

type Shard<K> = Mutex<HashTable<WatchedKey<K>>>;

pub struct Keys<K> {
    shards: Box<[Shard<K>]>,
    hasher: RandomState,
    /// The number of pairs of an operation and a key.
    watched: AtomicUsize,
}

impl<K: Hash + Eq + Clone> Keys<K> {
    pub fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::new(HashTable::new())).collect(),
            hasher: crate::hash::random_state(),
            watched: AtomicUsize::new(0),
        }
    }

    pub fn watched(&self) -> usize {
        self.watched.load(Relaxed)
    }

    /// Each key with its hash.
    pub fn hashed(&self, keys: impl IntoIterator<Item = K>) -> Box<[(u64, K)]> {
        keys.into_iter().map(|key| (self.hasher.hash_one(&key), key)).collect()
    }

    fn shard(&self, hash: u64) -> &Shard<K> {
        // The table itself uses the other bits.
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Links an operation to all of its keys.
    pub fn link(&self, op: &Arc<Op<K>>) {
        for &(hash, ref key) in &op.keys {
            let own = key.clone();
            let mut table = self.shard(hash).lock();
            let entry = table.entry(hash, |entry| entry.key == *key, |entry| entry.hash);
            let (mut entry, unused) = match entry {
                Entry::Occupied(entry) => (entry, Some(own)),
                Entry::Vacant(entry) => {
                    let watched = WatchedKey { hash, key: own, watchers: Watchers::new() };
                    (entry.insert(watched), None)
                }
            };
            if entry.get_mut().watchers.insert(op.number, Arc::clone(op)).is_none() {
                self.watched.fetch_add(1, Relaxed);
            }
            // A key of the user's is dropped with no lock held.
            drop(table);
            drop_user_code(unused);
        }
    }

    /// Unlinks an operation from all keys that it is linked to. A key without operations leaves the
    /// table. No code of the user's runs but destructors, whose panics are caught.
    pub fn unlink(&self, op: &Op<K>) {
        for &(hash, _) in &op.keys {
            let mut table = self.shard(hash).lock();
            let is_own = |entry: &WatchedKey<K>| {
                entry.hash == hash && entry.watchers.contains_key(&op.number)
            };
            let found = table.find_entry(hash, is_own);
            let Ok(mut entry) = found else { continue };
            let removed = entry.get_mut().watchers.remove(&op.number);
            let emptied = entry.get().watchers.is_empty().then(|| entry.remove().0);
            if table.capacity() > LEAST_TO_SHRINK && table.len() < table.capacity() / 8 {
                let wanted = table.len() * 2;
                table.shrink_to(wanted, |entry| entry.hash);
            }
            drop(table);
            if removed.is_some() {
                self.watched.fetch_sub(1, Relaxed);
            }
            // Keys and operations of the user's are dropped with no lock held.
            drop(removed);
            drop_user_code(emptied);
        }
    }

    /// The operations of a key, in the order of their numbers.
    pub fn of<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Vec<Arc<Op<K>>> {
        let hash = self.hasher.hash_one(key);
        let table = self.shard(hash).lock();
        let found = table.find(hash, |entry| key.equivalent(&entry.key));
        found.map_or_else(Vec::new, |entry| entry.watchers.values().cloned().collect())
    }

    /// All operations, each once.
    pub fn all(&self) -> Vec<Arc<Op<K>>> {
        let mut all = BTreeMap::new();
        for shard in &self.shards {
            let table = shard.lock();
            let ops = table.iter().flat_map(|entry| entry.watchers.values());
            all.extend(ops.map(|op| (op.number, Arc::clone(op))));
        }
        all.into_values().collect()
    }
}
