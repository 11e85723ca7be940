//! The index under threads: readers, writers, growing, shrinking and walks at once, over nodes that
//! are recycled as soon as the epoch allows.
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::thread;

use cortado::internals::epoch::{Guard, pin};
use cortado::internals::hash::Hash32;
use cortado::internals::index::{BucketBusy, HashOf, HomeLookup, Index, Patience, Probe};
use cortado::internals::links::NodeId;

/// The key of a node that is free.
const POISON: u64 = u64::MAX;
const NODES: usize = 6000;
/// Keys below this are replaced but never removed.
const PERMANENT: u64 = 1000;
const KEYS: u64 = 2000;
const ROUNDS: usize = 4;
const WRITES: u64 = 40_000;
/// What is reserved, one after the other: the table doubles, or becomes smaller by as much as it
/// may. From 16 buckets to 512, 32, 256, 16, 128.
const PLAN: [usize; 14] =
    [MORE, MORE, MORE, MORE, MORE, 0, MORE, MORE, MORE, 0, MORE, MORE, MORE, 0];
const MORE: usize = usize::MAX;

/// Relaxed on purpose: the index must carry the node to its readers.
struct Node {
    key: AtomicU64,
    /// Counts the insertions and replacements of the key.
    sequence: AtomicU64,
    generation: AtomicU32,
    gone: AtomicBool,
}

struct Store {
    nodes: Vec<Node>,
    free: Mutex<Vec<NodeId>>,
}

/// Four tags in all, and every bucket used.
fn hash_of(key: u64) -> Hash32 {
    let mixed = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    Hash32::from_raw(mixed & !0xff | (key % 4) as u32)
}

impl Store {
    fn new() -> Arc<Self> {
        let node = |_| Node {
            key: AtomicU64::new(POISON),
            sequence: AtomicU64::new(0),
            generation: AtomicU32::new(0),
            gone: AtomicBool::new(false),
        };
        let nodes = (0..NODES).map(node).collect();
        let free = (1..NODES as u32).map(NodeId::from_raw).collect();
        Arc::new(Self { nodes, free: Mutex::new(free) })
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    fn make(&self, key: u64) -> NodeId {
        let id = loop {
            if let Some(id) = self.free.lock().unwrap().pop() {
                break id;
            }
            pin().flush();
            thread::yield_now();
        };
        self.node(id).gone.store(false, Relaxed);
        self.node(id).key.store(key, Relaxed);
        id
    }

    fn give_back(&self, id: NodeId) {
        let node = self.node(id);
        node.key.store(POISON, Relaxed);
        node.generation.fetch_add(1, Relaxed);
        self.free.lock().unwrap().push(id);
    }

    /// Marks a node gone, and recycles it after the grace period.
    fn retire(self: &Arc<Self>, guard: &Guard, id: NodeId) {
        self.node(id).gone.store(true, Release);
        let store = self.clone();
        guard.defer(move || store.give_back(id));
    }

    fn key(&self, id: NodeId) -> u64 {
        let key = self.node(id).key.load(Relaxed);
        assert_ne!(key, POISON, "id {id} was looked at too early or too late");
        key
    }

    fn probe(&self, id: NodeId, key: u64) -> Probe {
        if self.key(id) != key {
            Probe::Other
        } else if self.node(id).gone.load(Acquire) {
            Probe::Gone
        } else {
            Probe::Hit
        }
    }
}

impl HashOf for Store {
    fn hash(&self, id: NodeId) -> Hash32 {
        hash_of(self.key(id))
    }
}

struct World {
    index: Index,
    store: Arc<Store>,
    /// Insertions and replacements of each key; counted under the key's lock.
    sequences: Vec<AtomicU64>,
    /// Writers at work, and writes done.
    writers: AtomicUsize,
    writes: AtomicU64,
    entries: AtomicUsize,
}

impl World {
    /// Inserts or replaces.
    fn put(&self, key: u64) {
        let id = self.store.make(key);
        let guard = pin();
        loop {
            let is_match = |other| self.store.key(other) == key;
            let found = self.index.search(&guard, hash_of(key), is_match);
            let Ok(mut locked) = found.lock() else { continue };
            let sequence = self.sequences[key as usize].fetch_add(1, Relaxed) + 1;
            self.store.node(id).sequence.store(sequence, Relaxed);
            if locked.id().is_some() {
                let old = locked.replace(id);
                drop(locked);
                self.store.retire(&guard, old);
            } else {
                locked.insert(id);
                drop(locked);
                self.entries.fetch_add(1, Relaxed);
            }
            return;
        }
    }

    fn remove(&self, key: u64) {
        let guard = pin();
        let hash = hash_of(key);
        let Some(id) = self.index.find(&guard, hash, |id| self.store.probe(id, key)) else {
            return;
        };
        // Another may have removed or replaced it since, or be at work there.
        let locked = match self.index.lock_id_with(&guard, hash, id, Patience::Skip) {
            Ok(locked) => locked,
            Err(BucketBusy) => self.index.lock_id(&guard, hash, id),
        };
        let Some(mut locked) = locked else { return };
        assert_eq!(locked.remove(), id);
        drop(locked);
        self.entries.fetch_sub(1, Relaxed);
        self.store.retire(&guard, id);
    }

    /// As the cache reads: at a glance if that is enough.
    fn find(&self, guard: &Guard, key: u64) -> Option<NodeId> {
        let hash = hash_of(key);
        match self.index.lookup_home(guard, hash) {
            HomeLookup::Absent => None,
            HomeLookup::Candidate(id) if self.store.probe(id, key) == Probe::Hit => Some(id),
            _ => self.index.find(guard, hash, |id| self.store.probe(id, key)),
        }
    }

    fn write(&self, seed: u64, patience: Patience) {
        let mut random = Random(seed);
        for _ in 0..WRITES {
            let key = random.below(KEYS);
            if key >= PERMANENT && random.below(2) == 0 {
                self.remove(key);
            } else {
                self.put(key);
            }
            self.index.help(&pin(), &*self.store, 2, patience);
            self.writes.fetch_add(1, Relaxed);
        }
        self.writers.fetch_sub(1, Relaxed);
    }

    fn is_written(&self) -> bool {
        self.writers.load(Relaxed) > 0
    }

    fn read(&self, seed: u64) {
        let mut random = Random(seed);
        let mut newest = vec![0; KEYS as usize];
        while self.is_written() {
            let key = random.below(KEYS);
            let guard = pin();
            let found = self.find(&guard, key);
            let Some(id) = found else {
                assert!(key >= PERMANENT, "key {key} has been there all the time");
                continue;
            };
            let node = self.store.node(id);
            let generation = node.generation.load(Relaxed);
            let sequence = node.sequence.load(Relaxed);
            assert!(sequence >= newest[key as usize], "key {key} went back");
            newest[key as usize] = sequence;
            assert_eq!(self.store.key(id), key);
            assert_eq!(node.generation.load(Relaxed), generation, "recycled under a guard");
        }
    }

    /// Each key that is there throughout is visited: its one node, or the ones that replaced it.
    fn walk(&self) {
        while self.is_written() {
            let mut visits = HashMap::new();
            let mut cursor = Some(Hash32::FIRST);
            while let Some(position) = cursor {
                let guard = pin();
                let mut ids = Vec::new();
                cursor = self.index.ids_at(&guard, &*self.store, position, &mut ids);
                for id in ids {
                    let key = self.store.key(id);
                    assert!(hash_of(key) >= position);
                    *visits.entry(key).or_insert(0) += 1;
                }
            }
            for key in 0..PERMANENT {
                assert_eq!(visits.get(&key), Some(&1), "key {key}");
            }
        }
    }

    /// Makes the table larger or smaller, at even intervals of writes; most of the moving is left
    /// to the writers.
    fn resize(&self) {
        for (time, wanted) in (0..).zip(PLAN) {
            while self.writes.load(Relaxed) < time * (2 * WRITES) / PLAN.len() as u64 {
                thread::yield_now();
            }
            let before = self.index.buckets(&pin());
            assert!(self.index.resize_for(&pin(), wanted));
            // Another helper may still be at it.
            while self.index.buckets(&pin()) == before {
                self.index.help(&pin(), &*self.store, 1, Patience::Skip);
                thread::yield_now();
            }
        }
    }
}

/// A small generator: what matters is that the threads differ.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[test]
fn readers_writers_resizing_and_walks() {
    for round in 0..ROUNDS {
        let world = World {
            index: Index::with_capacity(112),
            store: Store::new(),
            sequences: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            writers: AtomicUsize::new(2),
            writes: AtomicU64::new(0),
            entries: AtomicUsize::new(0),
        };
        (0..PERMANENT).for_each(|key| world.put(key));
        let seed = 0x5eed + 16 * round as u64;
        thread::scope(|scope| {
            for (writer, patience) in [(1, Patience::Wait), (2, Patience::Skip)] {
                let world = &world;
                scope.spawn(move || world.write(seed + writer, patience));
            }
            for reader in 3..=4 {
                let world = &world;
                scope.spawn(move || world.read(seed + reader));
            }
            scope.spawn(|| world.walk());
            scope.spawn(|| world.resize());
        });
        assert_eq!(world.index.buckets(&pin()), 16);
        let entries = world.entries.load(Relaxed);
        assert_eq!(world.index.validate(&pin(), &*world.store), Ok(entries));
    }
}

/// Every id's hash.
struct AllZero;

impl HashOf for AllZero {
    fn hash(&self, _id: NodeId) -> Hash32 {
        Hash32::FIRST
    }
}

/// All writers in one bucket, whose entries all have one hash: nothing is lost, no key is twice.
#[test]
fn writers_of_one_bucket() {
    const EACH: u64 = 2000;
    let store = Store::new();
    let index = Index::with_capacity(112);
    let insert = |key: u64| {
        let guard = pin();
        let id = store.make(key);
        loop {
            let found = index.search(&guard, Hash32::FIRST, |other| store.key(other) == key);
            if found.id().is_some() {
                store.give_back(id);
                return false;
            }
            if let Ok(mut locked) = found.lock() {
                locked.insert(id);
                return true;
            }
        }
    };
    let won = thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let insert = &insert;
                // Each pair of threads shares half of its keys.
                let keys = thread * EACH / 2..thread * EACH / 2 + EACH;
                scope.spawn(move || keys.filter(|&key| insert(key)).count())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<usize>()
    });
    assert_eq!(won as u64, 2 * EACH);
    let mut ids = Vec::new();
    index.ids_at(&pin(), &AllZero, Hash32::FIRST, &mut ids);
    let mut keys: Vec<u64> = ids.iter().map(|&id| store.key(id)).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..2 * EACH));
}
