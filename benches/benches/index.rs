//! The index against what it was chosen over: shards of `hashbrown::HashTable` under a `RwLock`.
//!
//! Both map keys to ids of nodes that lie in a vector, and compare keys by looking there. One and
//! two threads; the times are per operation of one thread.

use std::hint::black_box;
use std::sync::{PoisonError, RwLock};

use cortado::internals::epoch::pin;
use cortado::internals::hash::Hash32;
use cortado::internals::index::{HashOf, Index, Patience, Probe};
use cortado::internals::links::NodeId;
use cortado_benches::threads::together;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hashbrown::HashTable;

/// Keys 1..=KEYS; key and id are the same number, but neither map knows.
const KEYS: u32 = 100_000;

struct Nodes(Vec<u64>);

impl Nodes {
    fn new() -> Self {
        Self((0..=u64::from(KEYS)).collect())
    }

    fn key(&self, id: NodeId) -> u64 {
        self.0[id.index()]
    }
}

impl HashOf for Nodes {
    fn hash(&self, id: NodeId) -> Hash32 {
        hash_of(self.key(id))
    }
}

fn hash_of(key: u64) -> Hash32 {
    Hash32::from_raw((key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
}

trait Map: Sync {
    const NAME: &str;
    fn with_capacity(entries: usize) -> Self;
    fn find(&self, nodes: &Nodes, key: u64) -> Option<NodeId>;
    fn insert(&self, nodes: &Nodes, id: NodeId);
    fn remove(&self, nodes: &Nodes, id: NodeId);
}

impl Map for Index {
    const NAME: &str = "index";

    fn with_capacity(entries: usize) -> Self {
        Self::with_capacity(entries)
    }

    fn find(&self, nodes: &Nodes, key: u64) -> Option<NodeId> {
        let probe = |id| if nodes.key(id) == key { Probe::Hit } else { Probe::Other };
        Self::find(self, &pin(), hash_of(key), probe)
    }

    fn insert(&self, nodes: &Nodes, id: NodeId) {
        let guard = pin();
        let key = nodes.key(id);
        loop {
            let found = self.search(&guard, hash_of(key), |other| nodes.key(other) == key);
            if let Ok(mut locked) = found.lock() {
                locked.insert(id);
                break;
            }
        }
        // The cache knows its size; here the id stands for it, as ids are inserted in order. A
        // thread that lags behind the others must not make the index shrink.
        if id.index() > self.buckets(&guard) {
            self.resize_for(&guard, id.index());
        }
        self.help(&guard, nodes, 2, Patience::Wait);
    }

    fn remove(&self, nodes: &Nodes, id: NodeId) {
        if let Some(mut locked) = self.lock_id(&pin(), nodes.hash(id), id) {
            locked.remove();
        }
    }
}

struct Shards(Vec<RwLock<HashTable<NodeId>>>);

impl Shards {
    const COUNT: usize = 16;

    fn shard(&self, hash: Hash32) -> &RwLock<HashTable<NodeId>> {
        &self.0[hash.raw() as usize >> 28]
    }

    /// hashbrown takes its tag from the top of a 64-bit hash and the bucket from its low bits.
    fn wide(hash: Hash32) -> u64 {
        u64::from(hash.raw()) << 32 | u64::from(hash.raw())
    }
}

impl Map for Shards {
    const NAME: &str = "rwlock_hashtable";

    fn with_capacity(entries: usize) -> Self {
        let shard = |_| RwLock::new(HashTable::with_capacity(entries / Self::COUNT));
        Self((0..Self::COUNT).map(shard).collect())
    }

    fn find(&self, nodes: &Nodes, key: u64) -> Option<NodeId> {
        let hash = hash_of(key);
        let shard = self.shard(hash).read().unwrap_or_else(PoisonError::into_inner);
        shard.find(Self::wide(hash), |&id| nodes.key(id) == key).copied()
    }

    fn insert(&self, nodes: &Nodes, id: NodeId) {
        let hash = nodes.hash(id);
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        let key = nodes.key(id);
        let _entry = shard
            .entry(
                Self::wide(hash),
                |&other| nodes.key(other) == key,
                |&other| Self::wide(nodes.hash(other)),
            )
            .insert(id);
    }

    fn remove(&self, nodes: &Nodes, id: NodeId) {
        let hash = nodes.hash(id);
        let mut shard = self.shard(hash).write().unwrap_or_else(PoisonError::into_inner);
        if let Ok(entry) = shard.find_entry(Self::wide(hash), |&other| other == id) {
            entry.remove();
        }
    }
}

fn filled<M: Map>(nodes: &Nodes) -> M {
    let map = M::with_capacity(KEYS as usize);
    (1..=KEYS).for_each(|id| map.insert(nodes, NodeId::from_raw(id)));
    map
}

fn find<M: Map>(criterion: &mut Criterion, nodes: &Nodes) {
    let map = filled::<M>(nodes);
    for (name, keys) in [("find", KEYS), ("find_one_key", 1)] {
        let mut group = criterion.benchmark_group(name);
        for threads in [1, 2] {
            group.bench_function(BenchmarkId::new(M::NAME, threads), |bencher| {
                bencher.iter_custom(|times| {
                    together(threads, |thread| {
                        for time in 0..times {
                            let key = (time * 7919 + u64::from(thread)) % u64::from(keys) + 1;
                            black_box(map.find(nodes, black_box(key)));
                        }
                    })
                });
            });
        }
        group.finish();
    }
}

/// Every thread has its share of the ids: from empty to full, growing, and back to empty.
fn insert_and_remove<M: Map>(criterion: &mut Criterion, nodes: &Nodes) {
    for threads in [1, 2] {
        let share =
            |thread: u32| (1..=KEYS).filter(move |id| id % threads == thread).map(NodeId::from_raw);
        let fill = |map: &M| {
            together(threads, |thread| share(thread).for_each(|id| map.insert(nodes, id)))
        };
        let drain = |map: &M| {
            together(threads, |thread| share(thread).for_each(|id| map.remove(nodes, id)))
        };

        let mut group = criterion.benchmark_group("insert");
        group.throughput(Throughput::Elements(u64::from(KEYS))).sample_size(10);
        group.bench_function(BenchmarkId::new(M::NAME, threads), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| fill(&M::with_capacity(0))).sum());
        });
        group.finish();

        let mut group = criterion.benchmark_group("remove");
        group.throughput(Throughput::Elements(u64::from(KEYS))).sample_size(10);
        group.bench_function(BenchmarkId::new(M::NAME, threads), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| drain(&filled::<M>(nodes))).sum());
        });
        group.finish();
    }
}

fn index(criterion: &mut Criterion) {
    let nodes = Nodes::new();
    find::<Index>(criterion, &nodes);
    find::<Shards>(criterion, &nodes);
    insert_and_remove::<Index>(criterion, &nodes);
    insert_and_remove::<Shards>(criterion, &nodes);
}

criterion_group!(benches, index);
criterion_main!(benches);
