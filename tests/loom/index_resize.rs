//! Models of the index under loom while its buckets move to a larger or smaller table: what
//! readers, writers, helpers and walkers may see of each other, with reclamation through the epoch.
//!
//! Run with `RUSTFLAGS="--cfg cortado_loom --cfg crossbeam_loom --cfg crossbeam_sanitize"`. Each
//! model names the seeded bugs (`CORTADO_SEEDED_BUG`) that it has been seen to catch.

use crate::support::index_world::{HIGH, LOW, World, model};
use cortado::internals::epoch::pin;
use cortado::internals::index::Patience;

/// Keys in the home bucket and in its overflow are found while the bucket is split and its memory
/// retired. `index-moved-before-copy`, `index-chain-without-grace`.
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

/// The table grows twice under a reader. `index-moved-before-copy`.
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
/// `index-gone-without-moved-check`, `index-gone-is-a-miss`, `index-publish-relaxed`.
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

/// No insertion, removal or replacement is lost to the migration of its bucket.
/// `index-lock-ignores-version`, `index-moved-before-copy`, `index-unlock-relaxed`,
/// `index-free-without-grace`.
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
/// `current`, finds there what the other has put. `index-moves-unlocked`.
#[test]
fn help_vs_help() {
    model(|| {
        let world = World::new(8, &[LOW[0], HIGH[0]], 0);
        world.index.resize_for(&pin(), usize::MAX);
        share_the_moving(&world, 4);
    });
}

/// The same for a table of four buckets that becomes one of two: pairs of buckets share one.
/// `index-moves-unlocked`.
#[test]
fn help_vs_help_when_shrinking() {
    model(|| {
        let world = World::new(8, &[LOW[0], HIGH[0], HIGH[0] + 1], 0);
        world.grow();
        world.index.resize_for(&pin(), 0);
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

/// A helper that does not wait for a writer leaves the bucket to a later help, also when the table
/// shrinks, and the writer is in the bucket that it moves to. `index-forgets-the-held`.
#[test]
fn help_that_skips_vs_write() {
    for entries in [usize::MAX, 0] {
        model(move || {
            let world = World::grown(&[LOW[0], HIGH[0]], 1);
            world.index.resize_for(&pin(), entries);
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
/// `index-moved-before-copy`, `index-chain-without-grace`.
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
/// `index-gone-without-moved-check`, `index-gone-is-a-miss`.
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

/// No change is lost when its bucket joins another, nor when another joins it: writers of the lower
/// bucket are in the next table while the upper one moves there. `index-merge-unmarked`.
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
/// `index-walk-takes-neighbours`, `index-walk-strides-the-last`.
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

/// A walk visits exactly once whatever is there throughout, in both halves of a bucket that splits.
/// `index-walk-strides-current`, `index-moved-before-copy`, `index-chain-without-grace`.
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

/// A walk finds each key once while its bucket moves and the key is then replaced in the next
/// table. `index-walk-strides-current`, `index-moved-before-copy`.
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
