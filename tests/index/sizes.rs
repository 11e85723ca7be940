//! The index's sizes: when it grows and shrinks, by how much and at which pace, what it leaves for
//! later, and where the memory of its former tables goes.
use cortado::internals::epoch::{hasten, pin};
use cortado::internals::hash::Hash32;
use cortado::internals::index::{HashOf, Index, Patience, moves_for};
use cortado::internals::links::NodeId;

/// Ids are their own keys.
struct Ids;

impl HashOf for Ids {
    fn hash(&self, id: NodeId) -> Hash32 {
        Hash32::from_raw(id.raw().wrapping_mul(0x9e37_79b9))
    }
}

fn ids(most: u32) -> impl Iterator<Item = NodeId> {
    (1..=most).map(NodeId::from_raw)
}

fn insert(index: &Index, id: NodeId) {
    let guard = pin();
    let found = index.search(&guard, Ids.hash(id), |other| other == id);
    found.lock().expect("nobody else is here").insert(id);
}

/// Moves until nothing is left.
fn settle(index: &Index) {
    while index.help(&pin(), &Ids, 1, Patience::Wait) {}
}

/// Room for what was asked, and a bucket count that growing doubles.
#[test]
fn sizes() {
    let guard = pin();
    for (entries, buckets) in [(0, 2), (14, 2), (15, 4), (112, 16), (113, 32), (1_000_000, 1 << 18)]
    {
        let index = Index::with_capacity(entries);
        assert_eq!(index.buckets(&guard), buckets, "{entries}");
        assert!(!index.resize_for(&guard, entries), "{entries} fit");
        assert!(!index.resize_for(&guard, 0), "room for {entries} was asked for");
    }
    let index = Index::with_capacity(112);
    let help = |buckets| index.help(&guard, &Ids, buckets, Patience::Wait);
    assert!(!help(1), "not growing");
    assert!(index.resize_for(&guard, 113));
    assert!(index.resize_for(&guard, 0) && index.is_moving(&guard), "still growing");
    assert!(help(0) && help(15));
    assert_eq!(index.buckets(&guard), 16);
    assert!(!help(usize::MAX));
    assert_eq!(index.buckets(&guard), 32);
    assert!(!index.resize_for(&guard, 224) && !index.is_moving(&guard));
}

/// An empty index of `1 << bits` buckets that may have been 16.
fn grown(bits: u32) -> Index {
    let index = Index::with_capacity(112);
    while index.buckets(&pin()) < 1 << bits {
        assert!(index.resize_for(&pin(), usize::MAX));
        index.help(&pin(), &Ids, usize::MAX, Patience::Wait);
    }
    index
}

/// Shrinking begins when one half would be filled to an eighth, goes to four times the room needed,
/// and not below the first size; by 16 at a time, so that as many moves as there will be buckets
/// are enough.
#[test]
fn sizes_when_shrinking() {
    let guard = pin();
    let index = grown(10);
    assert!(!index.resize_for(&guard, 449), "449 are more than 512 * 7 / 8");
    assert!(index.resize_for(&guard, 448));
    assert!(index.help(&guard, &Ids, 255, Patience::Wait));
    assert!(!index.help(&guard, &Ids, 1, Patience::Wait));
    assert_eq!(index.buckets(&guard), 256, "room for four times 448");
    assert!(
        !index.resize_for(&guard, 1792) && !index.resize_for(&guard, 113),
        "neither way at once"
    );

    let index = grown(14);
    for buckets in [1 << 10, 1 << 6, 16] {
        assert!(index.resize_for(&guard, 0));
        assert!(index.help(&guard, &Ids, buckets - 1, Patience::Wait));
        assert!(!index.help(&guard, &Ids, 1, Patience::Wait));
        assert_eq!(index.buckets(&guard), buckets);
    }
    assert!(!index.resize_for(&guard, 0));
    let index = Index::with_capacity(1000);
    assert!(index.resize_for(&guard, 5000));
    index.help(&guard, &Ids, usize::MAX, Patience::Wait);
    assert!(index.resize_for(&guard, 1));
    index.help(&guard, &Ids, usize::MAX, Patience::Wait);
    assert_eq!(index.buckets(&guard), 256, "room for 1000 was asked for");
}

/// A call zeroes 256 KiB of a new table, so a table of 4 MiB takes 17 calls: 16 and one for the
/// words by which it is aligned. Another wanted size begins again.
#[test]
fn a_large_table_is_zeroed_piece_by_piece() {
    let guard = pin();
    let index = grown(15);
    let calls = |entries: usize| {
        let mut calls = 0;
        while !index.is_moving(&guard) {
            assert!(index.resize_for(&guard, entries));
            calls += 1;
        }
        calls
    };
    assert!(index.resize_for(&guard, usize::MAX) && !index.is_moving(&guard));
    assert!(!index.help(&guard, &Ids, usize::MAX, Patience::Wait), "there is nothing to move to");
    // Nearly full is enough to go on with.
    assert!(index.resize_for(&guard, 201_000) && !index.is_moving(&guard));
    assert!(!index.resize_for(&guard, 200_000), "no longer too small: given up");
    assert_eq!(calls(usize::MAX), 17);
    index.help(&guard, &Ids, usize::MAX, Patience::Wait);
    assert_eq!(index.buckets(&guard), 1 << 16);
    // A shrink goes on for fewer entries too, and begins again for more.
    assert!(index.resize_for(&guard, 28_000) && !index.is_moving(&guard), "1 MiB");
    assert_eq!(calls(1_000), 4);
    index.help(&guard, &Ids, usize::MAX, Patience::Wait);
    assert_eq!(index.buckets(&guard), 1 << 14);
}

/// The moves that additions pay for keep up with them: growing is done with half of the room for it
/// left, and who comes to a table that shrinks does not fill it before it is whole.
#[test]
fn moves_keep_up_with_additions() {
    assert_eq!((moves_for(0), moves_for(1), moves_for(7), moves_for(100)), (0, 1, 2, 29));
    for (add, first) in [(1, 9), (7, 9), (64, 9), (64, 4)] {
        let index = grown(first);
        index.resize_for(&pin(), 0);
        let mut entries = 0;
        while entries < 20_000 {
            let added = (entries + 1..=entries + add).map(NodeId::from_raw);
            added.for_each(|id| insert(&index, id));
            entries += add;
            let guard = pin();
            index.resize_for(&guard, entries as usize);
            index.help(&guard, &Ids, moves_for(add as usize), Patience::Wait);
            let room = 7 * index.buckets(&guard) as u32;
            assert!(entries * 2 <= room * 3, "{entries} in a table for {room}");
        }
        settle(&index);
        assert_eq!(index.validate(&pin(), &Ids), Ok(entries as usize));
    }
}

/// Whoever moves without waiting leaves what is locked, and moves it when it is free.
#[test]
fn what_is_held_is_moved_later() {
    let index = Index::with_capacity(112);
    ids(100).for_each(|id| insert(&index, id));
    let check = || assert_eq!(index.validate(&pin(), &Ids), Ok(100));
    let help = || index.help(&pin(), &Ids, usize::MAX, Patience::Skip);
    for (entries, buckets) in [(200, 32), (400, 64), (800, 128), (1600, 256), (0, 16)] {
        let guard = pin();
        let before = index.buckets(&guard);
        assert!(index.resize_for(&guard, entries));
        let seventh = NodeId::from_raw(7);
        let held = index.lock_id(&guard, Ids.hash(seventh), seventh).unwrap();
        assert!(help() && help(), "one is left");
        assert_eq!(index.buckets(&guard), before);
        drop(held);
        check();
        assert!(!help());
        assert_eq!(index.buckets(&guard), buckets);
        check();
    }
}

/// The same when it is the bucket that others go to: a writer of one that has moved is at work
/// there.
#[test]
fn what_goes_to_a_bucket_that_is_held_is_moved_later() {
    let index = grown(8);
    // One in each of the first two buckets.
    let is_in = |id, bucket| Ids.hash(id).raw() >> 24 == bucket;
    let ids = [0, 1].map(|bucket| ids(u32::MAX).find(|&id| is_in(id, bucket)).unwrap());
    ids.into_iter().for_each(|id| insert(&index, id));
    let guard = pin();
    assert!(index.resize_for(&guard, 0));
    let help = || index.help(&pin(), &Ids, usize::MAX, Patience::Skip);
    let second = index.lock_id(&guard, Ids.hash(ids[1]), ids[1]).unwrap();
    assert!(help(), "the second bucket is left");
    let target = index.lock_id(&guard, Ids.hash(ids[0]), ids[0]).unwrap();
    drop(second);
    assert!(help(), "it cannot go where it belongs");
    // It is as it was.
    assert!(matches!(
        index.lock_id_with(&guard, Ids.hash(ids[1]), ids[1], Patience::Skip),
        Ok(Some(_))
    ));
    drop(target);
    assert!(!help());
    assert_eq!((index.buckets(&guard), index.validate(&guard, &Ids)), (16, Ok(2)));
}

/// A panic while buckets move leaves them where they are for good. Nothing is lost, and help ends.
#[test]
fn a_panic_ends_the_moving() {
    struct Panics;
    impl HashOf for Panics {
        fn hash(&self, id: NodeId) -> Hash32 {
            assert_ne!(id.raw(), 7, "one of the nodes");
            Ids.hash(id)
        }
    }
    let index = Index::with_capacity(112);
    ids(112).for_each(|id| insert(&index, id));
    assert!(index.resize_for(&pin(), 113));
    let settle = || while index.help(&pin(), &Panics, 1, Patience::Wait) {};
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(settle)).is_err());
    settle();
    assert!(index.is_moving(&pin()) && index.buckets(&pin()) == 16);
    let is_there = |id: NodeId| index.lock_id(&pin(), Ids.hash(id), id).is_some();
    assert!(ids(112).all(is_there));
}

/// A table that was left goes when nobody can be in it any more, a large one piece by piece.
#[test]
fn outgrown_tables_go_piece_by_piece() {
    // On other systems no memory is given back before the whole table is freed.
    let large = if cfg!(target_os = "linux") { 33 } else { 1 };
    for (entries, pieces) in [(113, 1), (1_000_000, large)] {
        let index = Index::with_capacity(entries);
        assert_eq!(pieces_after(&index, 10 * entries), pieces);
    }
    let index = grown(18);
    assert!(free_retired(&index) > large, "the large one is current");
    assert_eq!(pieces_after(&index, 0), large);
    assert_eq!(index.buckets(&pin()), 1 << 14);
}

/// The pieces in which a table goes that has become too small or too large for so many entries.
fn pieces_after(index: &Index, entries: usize) -> usize {
    let guard = pin();
    while !index.is_moving(&guard) {
        assert!(index.resize_for(&guard, entries));
    }
    assert_eq!(index.retired_tables(), 0);
    index.help(&guard, &Ids, usize::MAX, Patience::Wait);
    assert_eq!(index.retired_tables(), 1);
    assert!(!index.free_retired(), "this guard may be in it");
    drop(guard);
    let pieces = free_retired(index);
    assert_eq!(index.validate(&pin(), &Ids), Ok(0));
    pieces
}

/// Advances the epoch for what is retired.
fn hasten_retired(index: &Index) {
    let _is_over = index.awaited_grace().is_some_and(|grace| hasten(grace, u32::MAX));
}

/// Clears all away that was left; in how many pieces.
fn free_retired(index: &Index) -> usize {
    let mut pieces = 0;
    // The rest of the process may hold guards for a while.
    for _ in 0..60_000 {
        hasten_retired(index);
        let before = index.retired_tables();
        while index.free_retired() {
            pieces += 1;
        }
        // The last piece of each.
        pieces += before - index.retired_tables();
        if index.retired_tables() == 0 {
            return pieces;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("{} tables are left", index.retired_tables());
}
