//! The pool's reserve by itself: which free ids go there and come back, and whose memory is given
//! back.
use cortado::internals::hash::Hash32;
use cortado::internals::links::NodeId;
use cortado::internals::pool::{Columns, Local, Pool, RawPool};
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of a block, if they have 64 bytes each.
const BLOCK: u32 = 256;
/// Ids moved for each block that may be given back in one call.
const IDS_PER_BLOCK: usize = 64;
/// This many blocks' free ids are kept, ...
const IDLE_BLOCKS: usize = 8;
/// ... and this share of all that are not in the reserve.
const IDLE_SHARE: usize = 8;
type Nodes<'p, V = u64> = Vec<Local<'p, u64, V>>;

/// Takes so many nodes. None has a hash of zero.
fn take<V: Copy + Default>(pool: &Pool<u64, V>, count: usize) -> Nodes<'_, V> {
    (0..count as u64)
        .map(|n| pool.draft(Hash32::from_raw(n as u32 | 1).with(n)).fill(V::default()))
        .collect()
}

fn are_intact(nodes: &Nodes<'_>) -> bool {
    nodes
        .iter()
        .all(|node| node.meta().hash().raw() == *node.key() as u32 | 1 && *node.value() == 0)
}

/// All that are free, in lists or reserve: each once.
fn free_ids(raw: &RawPool) -> BTreeSet<NodeId> {
    let (mut ids, mut count) = (BTreeSet::new(), 0);
    raw.for_each_free(|id| {
        ids.insert(id);
        count += 1;
    });
    assert_eq!(ids.len(), count, "each once");
    ids
}

fn block_of(id: NodeId) -> u32 {
    id.raw() / BLOCK
}

/// How many of these ids there are of each block.
fn by_block(ids: impl IntoIterator<Item = NodeId>) -> BTreeMap<u32, u32> {
    let mut blocks = BTreeMap::new();
    ids.into_iter().for_each(|id| *blocks.entry(block_of(id)).or_default() += 1);
    blocks
}

/// Trims until there is nothing more to do.
fn trim(raw: &RawPool) {
    let calls = (0..10_000).find(|_| !raw.trim(128));
    assert!(calls.is_some(), "it comes to an end");
}

/// Blocks that are in the reserve as a whole are given back; others, and nodes in use beside them,
/// are not.
#[test]
fn whole_blocks_are_given_back() {
    let pool: Pool<u64, u64> = Pool::new(Columns::NONE);
    let raw = pool.raw();
    let nodes = take(&pool, 10_000);
    let (kept, given_back): (Nodes<'_>, Nodes<'_>) =
        nodes.into_iter().partition(|node| match block_of(node.id()) % 8 {
            1 => true,
            2..4 => node.id().raw() % BLOCK == 7,
            _ => false,
        });
    let ids: BTreeSet<NodeId> = given_back.iter().map(Local::id).collect();
    drop(given_back);
    let mut moved = 0;
    while moved < ids.len() {
        let more = raw.shelve(1_000);
        assert!((1..=1_000).contains(&more), "{more} after {moved}");
        moved += more;
        assert_eq!(free_ids(raw), ids, "after {moved}");
    }
    assert_eq!((moved, raw.shelve(1_000)), (ids.len(), 0));

    let (whole, others): (BTreeMap<u32, u32>, BTreeMap<u32, u32>) =
        by_block(ids.iter().copied()).into_iter().partition(|&(_, count)| count == BLOCK);
    assert!(whole.len() > 15 && others.len() > 10);
    assert_eq!(raw.parked(), whole.len() * BLOCK as usize);
    assert!(are_intact(&kept));
    // Whole pages; where a block begins with a huge page's beginning, the first page stays.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        let zeros = ids.iter().filter(|&&id| raw.meta(id).hash() == Hash32::FIRST).count();
        assert!(zeros * 8 > raw.parked() * 7, "{zeros} of {} read as zeros", raw.parked());
        assert!(zeros <= raw.parked());
    }

    // Those of blocks that have their memory come back first, in either case the lowest.
    let expected =
        others.iter().chain(&whole).flat_map(|(&block, &count)| vec![block; count as usize]);
    let mut back: Nodes<'_> = Vec::new();
    let mut left: BTreeSet<u32> = whole.keys().copied().collect();
    for block in expected {
        back.extend(take(&pool, 1));
        let id = back[back.len() - 1].id();
        assert_eq!(block_of(id), block);
        left.remove(&block);
        assert_eq!(raw.parked(), left.len() * BLOCK as usize);
        if back.len().is_multiple_of(100) {
            let taken: BTreeSet<NodeId> = back.iter().map(Local::id).collect();
            assert_eq!(free_ids(raw), &ids - &taken);
        }
    }
    assert!(back.iter().map(Local::id).collect::<BTreeSet<NodeId>>() == ids, "each once");
    assert!(free_ids(raw).is_empty() && are_intact(&kept));
    assert_eq!(raw.ids().count(), 10_000, "none is new");
    let new = take(&pool, 1);
    assert!(raw.ids().count() == 10_001 && !ids.contains(&new[0].id()));
}

/// A call gives back one block for 64 ids that it may move.
#[test]
fn a_call_gives_back_a_few_blocks() {
    let pool: Pool<u64, u64> = Pool::new(Columns::NONE);
    let raw = pool.raw();
    let nodes = take(&pool, 10_000);
    let blocks = by_block(nodes.iter().map(Local::id));
    // Of each block that could be whole, the first node is kept.
    let (kept, rest): (Nodes<'_>, Nodes<'_>) = (nodes.into_iter())
        .partition(|node| node.id().raw() % BLOCK == 0 && blocks[&block_of(node.id())] == BLOCK);
    drop(rest);
    assert_eq!(raw.shelve(usize::MAX), 10_000 - kept.len());
    assert_eq!(raw.parked(), 0);
    drop(kept);
    let mut parked = 0;
    for most in [1, IDS_PER_BLOCK, IDS_PER_BLOCK + 1, 3 * IDS_PER_BLOCK] {
        let blocks = most.div_ceil(IDS_PER_BLOCK);
        assert_eq!(raw.shelve(most), blocks, "each id completes a block");
        parked += blocks * BLOCK as usize;
        assert_eq!(raw.parked(), parked);
    }
}

/// Ids that are not many stay where they are. If there are more, ids are moved until neither those
/// in the lists are many nor those of incomplete blocks in the reserve.
fn only_many_are_moved<V: Copy + Default + Send + Sync + 'static>(
    made: usize,
    shelved: usize,
    block: usize,
) {
    let many = ((made - shelved) / IDLE_SHARE).max(IDLE_BLOCKS * block);
    for beyond in [-15, 0, 15] {
        let pool: Pool<u64, V> = Pool::new(Columns::NONE);
        let raw = pool.raw();
        let mut nodes = take(&pool, made);
        nodes.truncate(made - shelved);
        assert_eq!(raw.shelve(usize::MAX), shelved);
        let free = many.saturating_add_signed(beyond);
        nodes.truncate(nodes.len() - free);
        trim(raw);
        let parked = raw.parked();
        let kept = raw.shelve(usize::MAX);
        let scattered = shelved + free - parked - kept;
        let what = format!("{made}, {shelved}: {kept} of {free} kept, {scattered} scattered");
        assert!(if beyond > 0 { kept.max(scattered) <= many } else { kept == free }, "{what}");
    }
}

#[test]
fn only_many_ids_are_moved() {
    for made in [10_000, 20_000, 33_333, 100_000] {
        only_many_are_moved::<u64>(made, 0, BLOCK as usize);
    }
    only_many_are_moved::<u64>(100_000, 50_000, BLOCK as usize);
    // Nodes of 128 bytes.
    only_many_are_moved::<[u64; 9]>(5_000, 0, BLOCK as usize / 2);
}

/// A call ends when there are no more free ids, whatever it was to move.
#[test]
fn what_is_needed_after_all_is_not_looked_for() {
    let pool: Pool<u64, u64> = Pool::new(Columns::NONE);
    let raw = pool.raw();
    drop(take(&pool, 50_000));
    assert!(raw.trim(100));
    let needed = take(&pool, 50_000);
    assert_eq!(raw.ids().count(), 50_000);
    assert!(!raw.trim(100));
    drop(needed);
    assert_eq!(raw.shelve(usize::MAX), 50_000);
}

fn calls_suffice<V: Copy + Default + Send + Sync + 'static>(
    made: usize,
    block: usize,
    bound: usize,
) {
    let pool: Pool<u64, V> = Pool::new(Columns::NONE);
    drop(take(&pool, made));
    let most = pool.raw().most_trims(128);
    assert!(most <= bound, "{most} for {made} in blocks of {block}");
    let calls = (1..=most).find(|_| !pool.raw().trim(128));
    assert!(calls.is_some() && !pool.raw().has_surplus(), "{most} for {made} in blocks of {block}");
    // As many as are kept at hand, and as many again in incomplete blocks.
    let left = made - pool.raw().parked();
    assert!(left <= 2 * IDLE_BLOCKS * block, "{left} of {made} in blocks of {block}");
}

/// The number of calls that the pool names suffices, and is no more than one for each 128 ids and
/// one for each two blocks, as many as a call may give back.
#[test]
fn calls_that_suffice_are_known() {
    for made in [10_000_usize, 100_000] {
        let blocks = made.div_ceil(BLOCK as usize);
        calls_suffice::<u64>(made, BLOCK as usize, made.div_ceil(128) + blocks.div_ceil(2));
    }
    // Nodes of 2 KiB and more, eight to a block. Here it is the blocks that limit a call.
    calls_suffice::<[[u64; 25]; 10]>(10_000, 8, 10_000_usize.div_ceil(128) + 1_250 / 2);
}

/// As long as many ids are in blocks that are not whole, few free ids are moved too.
#[test]
fn scattered_ids_are_exchanged() {
    let pool: Pool<u64, u64> = Pool::new(Columns::NONE);
    let raw = pool.raw();
    let (kept, rest): (Nodes<'_>, Nodes<'_>) =
        take(&pool, 50_000).into_iter().partition(|node| node.id().raw() % BLOCK == 0);
    drop(rest);
    raw.shelve(usize::MAX);
    assert_eq!(raw.parked(), 0, "one of each block is in use");
    let needed = take(&pool, 1_600);
    raw.shelve(usize::MAX); // What was taken beyond need.
    drop(needed);
    for moved in [128, 256, 384] {
        assert!(raw.trim(128), "{moved} of 1,600");
    }
    assert_eq!(raw.shelve(usize::MAX), 1_600 - 384);
    drop(kept);
}

/// Ids of whole blocks are not scattered: they do not have others moved that are needed.
#[test]
fn whole_blocks_have_nothing_exchanged() {
    let pool: Pool<u64, u64> = Pool::new(Columns::NONE);
    let raw = pool.raw();
    // The first chunks are smaller than a block.
    let mut kept = take(&pool, 50_000);
    drop(kept.split_off(2_000));
    raw.shelve(usize::MAX);
    assert!(raw.parked() > 47_000, "{} of 48,000", raw.parked());
    drop(take(&pool, 1_500));
    (0..4).for_each(|_| assert!(!raw.trim(128)));
    // Those, and what was taken out of the reserve with them.
    let back = raw.shelve(usize::MAX);
    assert!((1_500..1_564).contains(&back), "{back} were left where they were");
}
