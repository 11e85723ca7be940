//! Models of the index under loom: what readers, writers, helpers and walkers may see of each
//! other, with reclamation through the epoch.
//!
//! Run with `RUSTFLAGS="--cfg cortado_loom --cfg crossbeam_loom --cfg crossbeam_sanitize"`. Each
//! model names the seeded bugs (`CORTADO_SEEDED_BUG`) that it has been seen to catch.
#![cfg(cortado_loom)]

#[path = "loom_support/explore.rs"]
mod explore;

use std::sync::Arc;

use cortado::internals::index::{Changed, Glimpse, HashOf, Held, Index, Patience, Probe, Spares};
use crossbeam_epoch::{Guard, pin};
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use loom::thread;

fn model(check: impl Fn() + Send + Sync + 'static) {
    model_at(("LOOM_MAX_PREEMPTIONS", 2), check);
}

fn model_at(preemptions: (&str, usize), check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    explore::explore(builder, preemptions, check);
}

/// The key of a node that is not made yet, or has been reclaimed.
const POISON: u64 = u64::MAX;

/// A node. Its key is relaxed on both sides, so that whoever looks at it before its publication has
/// reached him, or when its grace period may be over, finds the poison in some execution.
struct Node {
    key: AtomicU64,
    gone: AtomicBool,
}

/// Node `i` of the store has id `i + 1`.
struct Store {
    nodes: Vec<Node>,
}

/// The two low bits of a key choose the bucket, and all keys share a tag.
fn hash_of(key: u64) -> u32 {
    (key as u32) << 30 | 7
}

/// Keys of the lower and of the upper half of the table, the first of two, or four, buckets in it.
const LOW: [u64; 4] = [0, 4, 8, 12];
const HIGH: [u64; 4] = [2, 6, 10, 14];

impl Store {
    fn new(nodes: usize) -> Arc<Self> {
        let node = |_| Node { key: AtomicU64::new(POISON), gone: AtomicBool::new(false) };
        Arc::new(Self { nodes: (0..nodes).map(node).collect() })
    }

    /// Makes a node; the caller publishes it.
    fn make(&self, id: u32, key: u64) {
        self.node(id).key.store(key, Relaxed);
    }

    fn node(&self, id: u32) -> &Node {
        &self.nodes[id as usize - 1]
    }

    fn key(&self, id: u32) -> u64 {
        let key = self.node(id).key.load(Relaxed);
        assert_ne!(key, POISON, "id {id} was looked at too early or too late");
        key
    }

    fn probe(&self, id: u32, key: u64) -> Probe {
        if self.key(id) != key {
            Probe::Other
        } else if self.node(id).gone.load(Acquire) {
            Probe::Gone
        } else {
            Probe::Hit
        }
    }

    /// Marks a node gone that the index no longer has, and poisons it after the grace period.
    fn retire(self: &Arc<Self>, guard: &Guard, id: u32) {
        self.node(id).gone.store(true, Release);
        let store = self.clone();
        guard.defer(move || store.make(id, POISON));
        guard.flush();
    }
}

impl HashOf for Store {
    fn hash(&self, id: u32) -> u32 {
        hash_of(self.key(id))
    }
}

#[derive(Clone)]
struct World {
    index: Arc<Index>,
    store: Arc<Store>,
}

impl World {
    /// `keys[i]` is node `i + 1`; there are `spare` more nodes after them.
    fn new(capacity: usize, keys: &[u64], spare: usize) -> Self {
        let index = Arc::new(Index::with_capacity(capacity));
        let world = Self { index, store: Store::new(keys.len() + spare) };
        for (id, &key) in (1..).zip(keys) {
            assert!(world.insert(id, key));
        }
        world
    }

    fn spawn(&self, f: impl FnOnce(&Self) + Send + 'static) -> thread::JoinHandle<()> {
        let world = self.clone();
        thread::spawn(move || f(&world))
    }

    fn find(&self, key: u64) -> Option<u32> {
        self.find_in(&pin(), key)
    }

    fn find_in(&self, guard: &Guard, key: u64) -> Option<u32> {
        let hash = hash_of(key);
        match self.index.glimpse(guard, hash) {
            Glimpse::Absent => None,
            Glimpse::Candidate(id) if self.store.probe(id, key) == Probe::Hit => Some(id),
            _ => self.index.find(guard, hash, |id| self.store.probe(id, key)),
        }
    }

    /// Whether the key was not there and was put in.
    fn insert(&self, id: u32, key: u64) -> bool {
        let guard = pin();
        // After the pin, whose fence would hide a publication that is too weak.
        self.store.make(id, key);
        loop {
            let is_match = |other| self.store.key(other) == key;
            let passing = self.index.search_in_passing(&guard, hash_of(key), is_match);
            let found = match passing {
                Some(found) => found,
                None => self.index.search(&guard, hash_of(key), is_match),
            };
            if found.id().is_some() {
                return false;
            }
            match found.lock() {
                Ok(mut locked) => {
                    locked.insert(id);
                    return true;
                }
                Err(Changed) => thread::yield_now(),
            }
        }
    }

    fn replace(&self, id: u32, key: u64) {
        let guard = pin();
        self.store.make(id, key);
        loop {
            let is_match = |other| self.store.key(other) == key;
            let found = self.index.search(&guard, hash_of(key), is_match);
            assert!(found.id().is_some(), "key {key} has been there all the time");
            if let Ok(mut locked) = found.lock() {
                let old = locked.replace(id);
                drop(locked);
                return self.store.retire(&guard, old);
            }
            thread::yield_now();
        }
    }

    fn remove(&self, id: u32, key: u64) {
        let guard = pin();
        let mut locked = self.index.lock_id(&guard, hash_of(key), id).expect("it is there");
        assert_eq!(locked.remove(), id);
        let spare = locked.take_spare();
        drop(locked);
        if let Some(spare) = spare {
            let mut spares = Spares::default();
            spares.keep(spare);
            spares.retire(&guard);
        }
        self.store.retire(&guard, id);
    }

    /// A table of two buckets that may shrink to one.
    fn grown(keys: &[u64], spare: usize) -> Self {
        let world = Self::new(1, keys, spare);
        world.grow();
        assert_eq!(world.index.buckets(&pin()), 2);
        world
    }

    /// Helps until there is nothing left to move.
    fn grow(&self) {
        self.resize(usize::MAX);
    }

    fn shrink(&self) {
        self.resize(0);
    }

    fn resize(&self, entries: usize) {
        assert!(self.index.reserve(&pin(), entries));
        while self.help(1, Patience::Wait) {}
        // Retired tables and chains are freed by later pins, if nobody is in their way.
        pin().flush();
        drop(pin());
    }

    fn help(&self, buckets: usize, patience: Patience) -> bool {
        self.index.help(&pin(), &*self.store, buckets, patience)
    }

    fn walk(&self) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut cursor = Some(0);
        while let Some(position) = cursor {
            cursor = self.index.collect(&pin(), &*self.store, position, &mut ids);
        }
        ids
    }

    fn validate(&self) -> usize {
        self.index.validate(&pin(), &*self.store).unwrap()
    }
}

/// The removed key is found or not; its neighbour of the same tag always is, and nobody looks at a
/// node that is not yet or no longer there. `index_publish_relaxed`.
#[test]
fn read_vs_remove_and_reuse_of_the_slot() {
    model(|| {
        let world = World::new(1, &[LOW[0], LOW[1]], 1);
        let writer = world.spawn(|world| {
            world.remove(1, LOW[0]);
            assert!(world.insert(3, LOW[2]));
        });
        assert!(matches!(world.find(LOW[0]), None | Some(1)));
        assert!(matches!(world.find(LOW[2]), None | Some(3)));
        assert_eq!(world.find(LOW[1]), Some(2));
        writer.join().unwrap();
        assert_eq!(world.find(LOW[0]), None);
        assert_eq!(world.validate(), 2);
    });
}

/// A key that is replaced is always found. `index_gone_is_a_miss`, `index_publish_relaxed`.
#[test]
fn read_vs_replace() {
    model(|| {
        let world = World::new(1, &[LOW[0], LOW[1]], 2);
        let writer = world.spawn(|world| {
            world.replace(3, LOW[1]);
            world.replace(4, LOW[1]);
        });
        assert!(matches!(world.find(LOW[1]), Some(2..=4)));
        writer.join().unwrap();
        assert_eq!(world.find(LOW[1]), Some(4));
        assert_eq!(world.validate(), 2);
    });
}

/// Keys in the home bucket and in its overflow are found while the bucket is split and its memory
/// retired. `index_moved_before_copy`, `index_chain_without_grace`.
#[test]
fn read_vs_grow() {
    model(|| {
        let world = World::new(1, &[LOW[0], HIGH[0], LOW[1]], 0);
        let grower = world.spawn(World::grow);
        assert_eq!(world.find(LOW[1]), Some(3));
        assert_eq!(world.find(HIGH[0]), Some(2));
        grower.join().unwrap();
        assert_eq!(world.index.buckets(&pin()), 2);
        assert_eq!(world.validate(), 3);
    });
}

/// The table grows twice under a reader. `index_moved_before_copy`.
#[test]
fn read_vs_growing_twice() {
    model(|| {
        let world = World::new(1, &[LOW[0], HIGH[0]], 0);
        let grower = world.spawn(|world| {
            world.grow();
            world.grow();
        });
        assert_eq!(world.find(HIGH[0]), Some(2));
        grower.join().unwrap();
        assert_eq!(world.index.buckets(&pin()), 4);
        assert_eq!(world.validate(), 2);
    });
}

/// A key that moves and is then replaced in the next table is always found.
/// `index_gone_without_moved_check`, `index_gone_is_a_miss`, `index_publish_relaxed`.
#[test]
fn read_vs_grow_and_replace() {
    model(|| {
        let world = World::new(1, &[LOW[0], HIGH[0]], 1);
        let grower = world.spawn(|world| {
            world.grow();
            world.replace(3, HIGH[0]);
        });
        assert!(matches!(world.find(HIGH[0]), Some(2 | 3)));
        grower.join().unwrap();
        assert_eq!(world.find(HIGH[0]), Some(3));
        assert_eq!(world.validate(), 2);
    });
}

/// Of two that insert one key, exactly one wins. `index_lock_ignores_version`,
/// `index_unlock_relaxed`, `index_publish_relaxed`.
#[test]
fn insert_vs_insert_of_one_key() {
    model(|| {
        let world = World::new(1, &[LOW[0]], 2);
        let other = world.clone();
        let rival = thread::spawn(move || other.insert(3, LOW[1]));
        let won = world.insert(2, LOW[1]);
        assert_ne!(won, rival.join().unwrap(), "exactly one wins");
        assert_eq!(world.find(LOW[1]), Some(if won { 2 } else { 3 }));
        assert_eq!(world.validate(), 2);
    });
}

/// Two that insert different keys into a full bucket both append. `index_lock_ignores_version`,
/// `index_unlock_relaxed`.
#[test]
fn insert_vs_insert_into_the_overflow() {
    model(|| {
        let world = World::new(1, &[LOW[0], LOW[1]], 2);
        let rival = world.spawn(|world| assert!(world.insert(3, LOW[2])));
        assert!(world.insert(4, LOW[3]));
        rival.join().unwrap();
        assert_eq!(world.find(LOW[2]), Some(3));
        assert_eq!(world.find(LOW[3]), Some(4));
        assert_eq!(world.validate(), 4);
    });
}

/// A key in the overflow is gone for good when it is gone, also if another takes its place there. At 3 preemptions:
/// with 2, tags that are hints and nothing more (`index_tags_relaxed`) pass for good enough.
#[test]
fn read_vs_reuse_of_the_overflow() {
    model_at(("LOOM_OVERFLOW_PREEMPTIONS", 3), || {
        let world = World::new(1, &[LOW[0], LOW[1], LOW[2]], 1);
        let writer = world.spawn(|world| {
            // Pinned all the time, as the reader is: the fence of a pin would hide an order that is too weak.
            let _guard = pin();
            world.remove(3, LOW[2]);
            assert!(world.insert(4, LOW[3]));
        });
        let guard = pin();
        let first = world.find_in(&guard, LOW[2]);
        let second = world.find_in(&guard, LOW[2]);
        drop(guard);
        assert!(first.is_some() || second.is_none(), "it came back");
        writer.join().unwrap();
        assert_eq!((world.find(LOW[2]), world.find(LOW[3])), (None, Some(4)));
        assert_eq!(world.validate(), 3);
    });
}

/// Who comes upon a key in the overflow finds it from then on. `index_overflow_marked_late`,
/// `index_overflow_unmarked`.
#[test]
fn walk_and_find_vs_insert_into_the_overflow() {
    model(|| {
        let world = World::new(1, &[LOW[0], LOW[1]], 1);
        let writer = world.spawn(|world| assert!(world.insert(3, LOW[2])));
        if world.walk().contains(&3) {
            assert_eq!(world.find(LOW[2]), Some(3));
        }
        writer.join().unwrap();
        assert_eq!(world.validate(), 3);
    });
}

/// An overflow that is empty is taken off and given back under a reader, and the bucket gets another.
/// `index_overflow_unmarked`; under AddressSanitizer, whoever frees it too early.
#[test]
fn read_vs_taking_the_overflow_off() {
    model(|| {
        let world = World::new(1, &[LOW[0], LOW[1], LOW[2]], 2);
        let writer = world.spawn(|world| {
            world.remove(3, LOW[2]);
            world.remove(1, LOW[0]);
            assert!(world.insert(4, LOW[3]));
            assert!(world.insert(5, LOW[2]));
        });
        assert!(matches!(world.find(LOW[2]), None | Some(3 | 5)));
        assert_eq!(world.find(LOW[1]), Some(2));
        writer.join().unwrap();
        assert_eq!((world.find(LOW[2]), world.find(LOW[3])), (Some(5), Some(4)));
        assert_eq!(world.validate(), 3);
    });
}

/// No insertion, removal or replacement is lost to the migration of its bucket.
/// `index_lock_ignores_version`, `index_moved_before_copy`, `index_unlock_relaxed`,
/// `index_free_without_grace`.
#[test]
fn write_vs_grow() {
    model(|| {
        let world = World::new(1, &[LOW[0], HIGH[0]], 2);
        let grower = world.spawn(World::grow);
        world.remove(1, LOW[0]);
        assert!(world.insert(3, LOW[1]));
        grower.join().unwrap();
        assert_eq!(world.find(LOW[0]), None);
        assert_eq!(world.find(LOW[1]), Some(3));
        assert_eq!(world.find(HIGH[0]), Some(2));
        assert_eq!(world.validate(), 2);
    });
}

/// Two helpers share a migration; the one that completes it, and is led to the new table by
/// `current`, finds there what the other has put. `index_moves_unlocked`.
#[test]
fn help_vs_help() {
    model(|| {
        let world = World::new(8, &[LOW[0], HIGH[0]], 0);
        world.index.reserve(&pin(), usize::MAX);
        share_the_moving(&world, 4);
    });
}

/// The same for a table of four buckets that becomes one of two: pairs of buckets share one.
/// `index_moves_unlocked`.
#[test]
fn help_vs_help_when_shrinking() {
    model(|| {
        let world = World::new(8, &[LOW[0], HIGH[0], HIGH[0] + 1], 0);
        world.grow();
        world.index.reserve(&pin(), 0);
        share_the_moving(&world, 2);
        assert_eq!(world.find(HIGH[0] + 1), Some(3));
    });
}

/// Two buckets are moved by two helpers, of which one does not wait for the other.
fn share_the_moving(world: &World, buckets: usize) {
    let helper = world.spawn(|world| {
        world.help(1, Patience::Wait);
    });
    let guard = pin();
    let left = world.index.help(&guard, &*world.store, 1, Patience::Skip);
    assert_eq!(world.find_in(&guard, LOW[0]), Some(1));
    assert_eq!(world.find_in(&guard, HIGH[0]), Some(2));
    drop(guard);
    helper.join().unwrap();
    assert!(left || world.index.buckets(&pin()) == buckets, "something is left");
    while world.help(1, Patience::Wait) {}
    assert_eq!(world.index.buckets(&pin()), buckets);
    assert_eq!(world.find(HIGH[0]), Some(2));
    world.validate();
}

/// A helper that does not wait for a writer leaves the bucket to a later help, also when the table shrinks, and
/// the writer is in the bucket that it moves to. `index_forgets_the_held`.
#[test]
fn help_that_skips_vs_write() {
    for entries in [usize::MAX, 0] {
        model(move || {
            let world = World::grown(&[LOW[0], HIGH[0]], 1);
            world.index.reserve(&pin(), entries);
            let writer = world.spawn(|world| assert!(world.insert(3, LOW[1])));
            let left = world.help(2, Patience::Skip);
            assert!(left || !world.index.is_moving(&pin()));
            assert_eq!(world.find(HIGH[0]), Some(2));
            writer.join().unwrap();
            while world.help(1, Patience::Skip) {}
            assert_eq!((world.find(LOW[0]), world.find(LOW[1])), (Some(1), Some(3)));
            assert_eq!(world.find(HIGH[0]), Some(2));
            assert_eq!(world.validate(), 3);
        });
    }
}

/// Keys of both buckets, one of them with an overflow, are found while they become one.
/// `index_moved_before_copy`, `index_chain_without_grace`.
#[test]
fn read_vs_shrink() {
    model(|| {
        let world = World::grown(&[LOW[0], HIGH[0], LOW[1], LOW[2]], 0);
        let shrinker = world.spawn(World::shrink);
        assert_eq!(world.find(LOW[2]), Some(4));
        assert_eq!(world.find(HIGH[0]), Some(2));
        shrinker.join().unwrap();
        assert_eq!(world.index.buckets(&pin()), 1);
        assert_eq!(world.validate(), 4);
    });
}

/// A key that moves to a smaller table and is then replaced there is always found.
/// `index_gone_without_moved_check`, `index_gone_is_a_miss`.
#[test]
fn read_vs_shrink_and_replace() {
    model(|| {
        // A glance at its bucket, which shows the other key, does not settle where it is.
        let world = World::grown(&[LOW[0], HIGH[1], HIGH[0]], 1);
        let shrinker = world.spawn(|world| {
            world.shrink();
            world.replace(4, HIGH[0]);
        });
        assert!(matches!(world.find(HIGH[0]), Some(3 | 4)));
        shrinker.join().unwrap();
        assert_eq!(world.find(HIGH[0]), Some(4));
        assert_eq!(world.validate(), 3);
    });
}

/// No change is lost when its bucket joins another, nor when another joins it: writers of the lower bucket are
/// in the next table while the upper one moves there. `index_merge_unmarked`.
#[test]
fn write_vs_shrink() {
    model(|| {
        let world = World::grown(&[LOW[0], HIGH[0]], 2);
        let shrinker = world.spawn(World::shrink);
        world.remove(1, LOW[0]);
        assert!(world.insert(3, LOW[1]));
        shrinker.join().unwrap();
        assert_eq!(world.find(LOW[0]), None);
        assert_eq!(world.find(LOW[1]), Some(3));
        assert_eq!(world.find(HIGH[0]), Some(2));
        assert_eq!(world.validate(), 2);
    });
}

/// A walk visits exactly once whatever is there throughout, in two buckets that become one.
/// `index_walk_takes_neighbours`, `index_walk_strides_the_last`.
#[test]
fn walk_vs_shrink() {
    model(|| {
        let world = World::grown(&[LOW[0], HIGH[0], HIGH[1]], 0);
        let shrinker = world.spawn(World::shrink);
        let mut ids = world.walk();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
        shrinker.join().unwrap();
    });
}

/// Whoever tries to lock an id gets it, learns that it is not there, or that the bucket is held: not that it
/// is absent while somebody else is at work in its bucket. `index_held_is_absent`.
#[test]
fn try_lock_id_vs_write() {
    model(|| {
        let world = World::new(1, &[LOW[0], LOW[1]], 1);
        let writer = world.spawn(|world| {
            world.remove(1, LOW[0]);
            assert!(world.insert(3, LOW[2]));
        });
        let guard = pin();
        let mut left = 2;
        match world.index.try_lock_id(&guard, hash_of(LOW[1]), 2) {
            Ok(Some(mut locked)) => {
                assert_eq!(locked.remove(), 2);
                left -= 1;
            }
            Ok(None) => panic!("it has been there all the time"),
            Err(Held) => {}
        }
        drop(guard);
        writer.join().unwrap();
        assert_eq!(world.find(LOW[2]), Some(3));
        assert_eq!(world.find(LOW[1]).is_some(), left == 2);
        assert_eq!(world.validate(), left);
    });
}

/// A walk visits exactly once whatever is there throughout, in both halves of a bucket that splits.
/// `index_walk_strides_current`, `index_moved_before_copy`, `index_chain_without_grace`.
#[test]
fn walk_vs_grow() {
    model(|| {
        let world = World::new(1, &[LOW[0], HIGH[0], HIGH[1]], 0);
        let grower = world.spawn(World::grow);
        let mut ids = world.walk();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3]);
        grower.join().unwrap();
    });
}

/// A walk finds each key once while its bucket moves and the key is then replaced in the next table.
/// `index_walk_strides_current`, `index_moved_before_copy`.
#[test]
fn walk_vs_write() {
    model(|| {
        let world = World::new(1, &[LOW[0], HIGH[0]], 1);
        let writer = world.spawn(|world| {
            world.grow();
            world.replace(3, LOW[0]);
        });
        let mut ids = world.walk();
        ids.sort_unstable();
        assert!(ids == [1, 2] || ids == [2, 3], "{ids:?}");
        writer.join().unwrap();
    });
}
