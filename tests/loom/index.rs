//! Models of the index under loom: what readers, writers and walkers may see of each other, with
//! reclamation through the epoch. (While buckets move: `index_resize`.)
//!
//! Run with `RUSTFLAGS="--cfg cortado_loom --cfg crossbeam_loom --cfg crossbeam_sanitize"`. Each
//! model names the seeded bugs (`CORTADO_SEEDED_BUG`) that it has been seen to catch.

use crate::support::index_world::{LOW, World, hash_of, model, model_at};
use cortado::internals::epoch::pin;
use cortado::internals::index::{BucketBusy, Patience};
use cortado::internals::links::NodeId;
use loom::thread;

/// The removed key is found or not; its neighbour of the same tag always is, and nobody looks at a
/// node that is not yet or no longer there. `index-publish-relaxed`.
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

/// A key that is replaced is always found. `index-gone-is-a-miss`, `index-publish-relaxed`.
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

/// Of two that insert one key, exactly one wins. `index-lock-ignores-version`,
/// `index-unlock-relaxed`, `index-publish-relaxed`.
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

/// Two that insert different keys into a full bucket both append. `index-lock-ignores-version`,
/// `index-unlock-relaxed`.
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

/// A key in the overflow is gone for good when it is gone, also if another takes its place there.
/// At 3 preemptions: with 2, tags that are hints and nothing more (`index-tags-relaxed`) pass for
/// good enough.
#[test]
fn read_vs_reuse_of_the_overflow() {
    model_at(("LOOM_OVERFLOW_PREEMPTIONS", 3), || {
        let world = World::new(1, &[LOW[0], LOW[1], LOW[2]], 1);
        let writer = world.spawn(|world| {
            // Pinned all the time, as the reader is: the fence of a pin would hide an order that is
            // too weak.
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

/// Who comes upon a key in the overflow finds it from then on. `index-overflow-marked-late`,
/// `index-overflow-unmarked`.
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

/// An overflow that is empty is taken off and given back under a reader, and the bucket gets
/// another. `index-overflow-unmarked`; under AddressSanitizer, whoever frees it too early.
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

/// Whoever tries to lock an id gets it, learns that it is not there, or that the bucket is held:
/// not that it is absent while somebody else is at work in its bucket. `index-held-is-absent`.
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
        match world.index.lock_id_with(&guard, hash_of(LOW[1]), NodeId::from_raw(2), Patience::Skip)
        {
            Ok(Some(mut locked)) => {
                assert_eq!(locked.remove().raw(), 2);
                left -= 1;
            }
            Ok(None) => panic!("it has been there all the time"),
            Err(BucketBusy) => {}
        }
        drop(guard);
        writer.join().unwrap();
        assert_eq!(world.find(LOW[2]), Some(3));
        assert_eq!(world.find(LOW[1]).is_some(), left == 2);
        assert_eq!(world.validate(), left);
    });
}
