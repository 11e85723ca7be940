//! The pool by itself: ids and their nodes, one life after the other.
use cortado::internals::clock::Timestamp;
use cortado::internals::hash::Hash32;
use cortado::internals::links::NodeId;
use cortado::internals::node::{Generation, Meta};
use cortado::internals::policy::{PolicyNode, PolicyStore, Region};
use cortado::internals::pool::{Column, Columns, FARTHEST, Local, Pool, RawPool, Timers};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Barrier};
use std::thread;

/// More than the first chunks have room for.
const MANY: u32 = 1_000;

/// A deadline, or a cap, that never comes.
const NEVER: Timestamp = Timestamp::from_raw(u64::MAX);

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_raw(nanos)
}

/// A time as caches have them, with the top bit.
fn instant(nanos: u64) -> Timestamp {
    at(1 << 63 | nanos)
}

fn free_ids(raw: &RawPool) -> BTreeSet<NodeId> {
    let mut free = Vec::new();
    raw.for_each_free(|id| free.push(id));
    let set: BTreeSet<NodeId> = free.iter().copied().collect();
    assert_eq!(set.len(), free.len(), "each once");
    set
}

/// Each node has memory of its own, aligned as its parts have to be, and is found by its id again.
fn nodes_are_apart<K>(columns: Columns, key_of: impl Fn(u32) -> K)
where
    K: Copy + Debug + PartialEq + Send + Sync + 'static,
{
    let pool: Pool<K, u64> = Pool::new(columns);
    let nodes: Vec<Local<'_, K, u64>> = (0..MANY)
        .map(|n| pool.draft(Hash32::from_raw(n * 7).with(key_of(n))).fill(u64::from(n)))
        .collect();
    let mut ends = BTreeMap::new();
    for (n, node) in (0..).zip(&nodes) {
        assert_eq!((*node.key(), *node.value()), (key_of(n), u64::from(n)));
        assert_eq!((node.meta().hash().raw(), node.meta().refs()), (n * 7, 1));
        let meta = std::ptr::from_ref::<Meta>(pool.raw().meta(node.id())).addr();
        let value = std::ptr::from_ref(node.value()).addr();
        let key = std::ptr::from_ref(node.key()).addr();
        assert_eq!((meta % align_of::<Meta>(), key % align_of::<K>()), (0, 0));
        let end = (key + size_of::<K>()).max(value + size_of::<u64>());
        assert!(end > meta && end - meta < 4_096);
        if end - meta <= 64 {
            assert_eq!(meta / 64, (end - 1) / 64, "what fits into a cache line is in one");
        }
        ends.insert(meta, end);
    }
    let starts = ends.keys().skip(1);
    assert!(ends.values().zip(starts).all(|(end, next)| end <= next), "no two overlap");
    let given: Vec<NodeId> = nodes.iter().map(Local::id).collect();
    assert!(pool.raw().ids().eq(given.iter().copied()), "all that were given out, in order");
    assert!(given.iter().all(|&id| pool.raw().exists(id)));
    for (n, node) in (0..).zip(&nodes) {
        let handle = node.handle();
        assert_eq!((handle.id(), handle.raw().id()), (node.id(), node.id()));
        assert_eq!((*handle.key(), *handle.value()), (key_of(n), u64::from(n)));
    }
}

#[test]
fn every_node_has_memory_of_its_own() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(align(256))]
    struct Aligned(u32);
    let one = Columns::NONE.with(Column::HardDeadline);
    for columns in [Columns::NONE, one, one.with(Column::Refresh)] {
        nodes_are_apart(columns, |n| n);
        nodes_are_apart(columns, |n| [n; 20]);
        nodes_are_apart(columns, Aligned);
    }
}

/// What was given back is given out again before anything new, and one id is never two nodes' at a
/// time.
#[test]
fn ids_are_used_again() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE);
    let ids =
        |nodes: &[Local<'_, u32, u32>]| nodes.iter().map(Local::id).collect::<BTreeSet<NodeId>>();
    let draft = |n: u32| pool.draft(Hash32::from_raw(n).with(n)).fill(n);
    let mut kept: Vec<Local<'_, u32, u32>> = (0..MANY).map(draft).collect();
    let all = ids(&kept);
    for round in 0..20 {
        let given_back = kept.split_off(MANY as usize / 2);
        let expected = ids(&given_back);
        drop(given_back);
        assert_eq!(free_ids(pool.raw()), expected, "round {round}");
        kept.extend((0..MANY / 2).map(draft));
        assert!(free_ids(pool.raw()).is_empty());
        assert_eq!(ids(&kept), all, "round {round}");
    }
    kept.push(draft(0));
    assert_eq!(ids(&kept).len(), all.len() + 1);
    drop(kept);
    assert_eq!(free_ids(pool.raw()), pool.raw().ids().collect(), "all of them");
}

/// The upper six bits of an id name the chunk. The first has 16 nodes, but for the id that names no
/// node, and each further one twice as many as the one before, up to 2^13. After that, two of each
/// size follow one another.
#[test]
fn chunks_double_and_then_grow_in_pairs() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE);
    let nodes: Vec<Local<'_, u32, u32>> =
        (0..100_000).map(|n| pool.draft(Hash32::from_raw(n).with(n)).fill(n)).collect();
    let mut chunks = BTreeMap::<u32, u32>::new();
    nodes.iter().for_each(|node| *chunks.entry(node.id().raw() >> 25).or_default() += 1);
    let (last, _) = chunks.pop_last().unwrap();
    let doubling = (4..14).map(|bits| 1 << bits);
    let sizes: Vec<u32> = doubling.chain([1 << 13, 1 << 13, 1 << 14, 1 << 14, 1 << 15]).collect();
    assert_eq!(last, 15, "the last one is not full");
    let expected = (0..last).zip(sizes).map(|(chunk, size)| (chunk, size - u32::from(chunk == 0)));
    assert!(chunks.into_iter().eq(expected));
    assert!(pool.raw().ids().eq(nodes.iter().map(Local::id)));
    let has = |chunk: u32| pool.raw().exists(NodeId::from_raw(chunk << 25));
    assert!(has(last) && !has(last + 1));
}

/// Keys and values of single bytes do not leave the next node in between.
#[test]
fn nodes_are_aligned_behind_pairs_of_any_size() {
    let pool: Pool<[u8; 33], [u8; 4]> = Pool::new(Columns::NONE);
    let draft = |n| pool.draft(Hash32::from_raw(n).with([0; 33])).fill([0; 4]);
    let nodes: Vec<Local<'_, [u8; 33], [u8; 4]>> = (0..20).map(draft).collect();
    for node in &nodes {
        let address = std::ptr::from_ref(pool.raw().meta(node.id())).addr();
        assert_eq!(address % align_of::<Meta>(), 0);
    }
}

/// Threads that take nodes and give them back by turns never have the same one, and none gets lost.
#[test]
fn threads_do_not_share_an_id() {
    const THREADS: u32 = 4;
    let pool: Arc<Pool<u32, u32>> = Arc::new(Pool::new(Columns::NONE));
    let barrier = Arc::new(Barrier::new(THREADS as usize));
    let threads = (0..THREADS).map(|number| {
        let (pool, barrier) = (Arc::clone(&pool), Arc::clone(&barrier));
        thread::spawn(move || {
            barrier.wait();
            for round in 0..5_000 {
                let own: Vec<Local<'_, u32, u32>> = (0..1 + round % 5)
                    .map(|n| pool.draft(Hash32::from_raw(number).with(number)).fill(n))
                    .collect();
                for (n, node) in (0..).zip(&own) {
                    assert_eq!((*node.key(), node.meta().hash().raw()), (number, number));
                    assert_eq!((*node.value(), node.meta().refs()), (n, 1));
                }
            }
        })
    });
    threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    let all: BTreeSet<NodeId> = pool.raw().ids().collect();
    assert_eq!(free_ids(pool.raw()), all);
    assert!(all.len() <= 5 * THREADS as usize, "{} nodes", all.len());
}

/// The last count drops key and value and frees the id, whoever gives it up; not an earlier one.
#[test]
fn the_last_count_ends_a_life() {
    let value = Arc::new(());
    let pool: Pool<Arc<()>, Arc<()>> = Pool::new(Columns::NONE);
    assert!(pool.raw().needs_drop());
    let node = pool.draft(Hash32::FIRST.with(Arc::clone(&value))).fill(Arc::clone(&value));
    let (id, handle) = (node.id(), node.handle());
    let second = handle.clone();
    assert_eq!((Arc::strong_count(&value), handle.meta().refs()), (3, 3));
    drop(node);
    drop(handle);
    assert_eq!((Arc::strong_count(&value), second.meta().refs()), (3, 1));
    assert!(free_ids(pool.raw()).is_empty());
    assert!(!pool.raw().give_up(id), "the cache has no count");
    drop(second);
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(free_ids(pool.raw()), BTreeSet::from([id]));
    drop(pool.draft(Hash32::FIRST.with(Arc::clone(&value))));
    assert_eq!(Arc::strong_count(&value), 1, "a draft has a key only");
}

#[test]
fn each_node_has_a_hard_deadline_of_its_own() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE.with(Column::HardDeadline));
    let nodes: Vec<Local<'_, u32, u32>> =
        (0..MANY).map(|n| pool.draft(Hash32::from_raw(n).with(n)).fill(n)).collect();
    let cap = |node: &Local<'_, u32, u32>| pool.raw().hard_deadline(node.id()).unwrap();
    for node in &nodes {
        node.meta().init(at(5), at(1), 1, Generation::FIRST.mark());
        assert_eq!(cap(node).load(), NEVER, "at first there is none");
    }
    for (n, node) in (1..).zip(nodes.iter().step_by(2)) {
        cap(node).store(at(n * 1_000), false);
    }
    for (n, pair) in (1..).zip(nodes.chunks(2)) {
        assert_eq!((cap(&pair[0]).load(), cap(&pair[1]).load()), (at(n * 1_000), NEVER));
        assert!(!cap(&pair[0]).exchange(at(1), at(2)), "not as judged");
        assert!(cap(&pair[0]).exchange(at(n * 1_000), at(n)));
        assert_eq!(cap(&pair[0]).load(), at(n));
        cap(&pair[0]).store(NEVER, false);
        assert_eq!(cap(&pair[0]).load(), NEVER);
    }
    assert!((0..).zip(&nodes).all(|(n, node)| *node.value() == n), "caps lie beside the nodes");
    // Where reads change caps, the word is kept also for one that never comes.
    let node = &nodes[0];
    node.meta().init(at(5), at(1), 1, Generation::FIRST.mark());
    cap(node).store(NEVER, true);
    assert!(cap(node).load() == NEVER && cap(node).exchange(NEVER, at(7)));
    assert_eq!(cap(node).load(), at(7));
    let plain: Pool<u32, u32> = Pool::new(Columns::NONE);
    let node = plain.draft(Hash32::FIRST.with(0));
    assert!(plain.raw().hard_deadline(node.share().id()).is_none());
}

/// Each column has a word per node, over several chunks, and none touches another's, nor a node.
#[test]
fn columns_are_apart() {
    use std::sync::atomic::Ordering::Relaxed;
    const BOTH: [Column; 2] = [Column::HardDeadline, Column::Refresh];
    for chosen in [&BOTH[..], &BOTH[1..], &BOTH[..1]] {
        let columns = chosen.iter().fold(Columns::NONE, |columns, &column| columns.with(column));
        let pool: Pool<u32, u32> = Pool::new(columns);
        let nodes: Vec<Local<'_, u32, u32>> =
            (0..MANY).map(|n| pool.draft(Hash32::from_raw(n).with(n)).fill(n)).collect();
        let word = |node: &Local<'_, u32, u32>, column| pool.raw().column(node.id(), column);
        for (n, node) in (0..).zip(&nodes) {
            for &column in chosen {
                let value = n << 8 | column as u64 | 1 << 60;
                assert_eq!(word(node, column).unwrap().swap(value, Relaxed), 0, "fresh");
            }
        }
        for (n, node) in (0..).zip(&nodes) {
            for column in BOTH {
                let value = word(node, column).map(|word| word.load(Relaxed));
                let expected = (n << 8 | column as u64 | 1 << 60, chosen.contains(&column));
                assert_eq!(value, expected.1.then_some(expected.0));
            }
            assert_eq!((node.meta().hash().raw(), *node.value()), (n as u32, n as u32));
        }
    }
}

/// What the policy and the wheel see of a node.
#[test]
fn nodes_are_seen_as_they_are() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE);
    let node = pool.draft(Hash32::from_raw(77).with(1)).fill(1);
    node.meta().init(at(9), at(1), 5, Generation::FIRST.mark());
    let (raw, id) = (pool.raw(), node.id());
    let region = |id| PolicyNode::region(raw.node(id));
    let seen = raw.node(id);
    assert_eq!((PolicyNode::hash(seen).raw(), PolicyNode::weight(seen)), (77, 5));
    assert_eq!(region(id), Region::None);
    for wanted in [Region::Window, Region::Probation, Region::Protected, Region::None] {
        PolicyNode::set_region(raw.node(id), wanted);
        assert_eq!(region(id), wanted);
    }
    let light = pool.draft(Hash32::from_raw(78).with(2)).fill(2);
    light.meta().init(at(9), at(1), 0, Generation::FIRST.mark());
    for wanted in [Region::Weightless, Region::None] {
        PolicyNode::set_region(raw.node(light.id()), wanted);
        assert_eq!(region(light.id()), wanted);
    }
    let now = at(3 * FARTHEST.raw());
    let show = |deadline| Timers { pool: raw, now }.show(deadline);
    for near in [now, at(now.raw() + 1), at(now.raw() - 1)] {
        assert_eq!(show(near), Some(near));
    }
    let farthest_back = now.saturating_sub(FARTHEST);
    assert_eq!(show(at(0)), Some(farthest_back), "overdue by as much as can be shown");
    let early = Timers { pool: raw, now: at(5) };
    let looks_again = at(5) + FARTHEST;
    assert_eq!(early.show(at(u64::MAX / 2)), Some(looks_again), "where the wheel looks again");
    assert_eq!((early.show(at(0)), early.show(NEVER)), (Some(at(0)), None));
}

#[test]
fn an_end_is_changed_and_claimed_only_as_judged() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE);
    let node = pool.draft(Hash32::FIRST.with(1)).fill(1);
    let (end, life) = (at(1 << 63 | 50), node.meta());
    life.init(end, at(1), 1, Generation::FIRST.mark());
    assert_eq!(life.deadline(), end);
    let later = at(end.raw() + 5);
    assert!(!life.change_deadline(later, end) && !life.claim(later), "not as judged");
    assert_eq!(life.deadline(), end);
    assert!(life.change_deadline(end, later));
    assert_eq!(life.deadline(), later);
    assert!(!life.claim(end), "it has moved");
    assert!(life.claim(later));
    let claimed = life.deadline();
    assert!(claimed < at(1 << 63), "a claimed end is past for every clock");
    assert!(!life.change_deadline(later, end) && !life.claim(later), "it is final");
    assert!(life.claim(claimed), "whoever judges a claimed end may claim it again");
    assert_eq!(life.deadline(), claimed);
}

#[test]
fn an_end_is_raised_unless_it_is_final() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE);
    let node = pool.draft(Hash32::FIRST.with(1)).fill(1);
    let life = node.meta();
    life.init(instant(50), at(1), 1, Generation::FIRST.mark());
    life.raise_deadline(instant(45));
    assert_eq!(life.deadline(), instant(50), "it was later");
    life.raise_deadline(instant(90));
    assert_eq!(life.deadline(), instant(90));
    assert!(life.claim(instant(90)));
    let claimed = life.deadline();
    life.raise_deadline(instant(200));
    assert_eq!((life.deadline(), life.mark_gone()), (claimed, claimed));
    life.raise_deadline(instant(200));
    assert_eq!(life.deadline(), at(0), "it is gone");
}

#[test]
fn a_trigger_is_taken_once() {
    let pool: Pool<u32, u32> = Pool::new(Columns::NONE.with(Column::Refresh));
    let node = pool.draft(Hash32::FIRST.with(1)).fill(1);
    let mark = pool.raw().refresh(node.id()).expect("there is a column");
    mark.set(instant(50));
    assert_eq!((mark.instant(), mark.is_under_way()), (instant(50), false));
    assert!(!mark.take(instant(49)), "not as judged");
    assert_eq!((mark.instant(), mark.is_under_way()), (instant(50), false));
    assert!(mark.take(instant(50)) && !mark.take(instant(50)));
    assert_eq!((mark.instant(), mark.is_under_way(), mark.take_any()), (NEVER, true, false));
    assert_eq!(mark.stale_from(), instant(50), "also while it is taken");
    assert_eq!(mark.note_reloaded(), instant(50));
    assert!(mark.is_under_way() && mark.was_reloaded(), "until the commit has ended");
    assert_eq!((mark.instant(), mark.take_any()), (NEVER, false));
    mark.note_taken(instant(50));
    assert!(mark.is_under_way() && !mark.was_reloaded());
    assert_eq!(mark.stale_from(), instant(50));
    // The earliest of all is no mark of another kind.
    mark.set(instant(1));
    assert_eq!((mark.take_any(), mark.was_reloaded()), (true, false));
    assert!(mark.is_under_way());
    mark.set(instant(70));
    assert_eq!((mark.is_under_way(), mark.take_any()), (false, true));
    assert!(mark.is_under_way());
    mark.make_stale();
    assert!(mark.is_under_way() && !mark.was_reloaded(), "also of an entry that is made stale");
    assert!(mark.stale_from() < instant(50));
    mark.set(instant(70));
    mark.make_stale();
    assert!(!mark.is_under_way() && mark.instant() < instant(50));
    let plain: Pool<u32, u32> = Pool::new(Columns::NONE);
    let node = plain.draft(Hash32::FIRST.with(1)).fill(1);
    assert!(plain.raw().refresh(node.id()).is_none());
}
