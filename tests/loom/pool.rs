//! Loom models of the pool's free ids.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `an_id_is_one_threads_at_a_time` | threads that take nodes and give them back never have the same one | `free-list-without-tag` |
//! | `what_is_in_use_keeps_its_memory` | while free ids are shelved and blocks given back, nodes that are taken are whole, and nobody else's | `park-what-is-in-use` |
//! | `a_look_at_a_node_that_was_given_back` | a thread that takes a node may look at one that was taken, shelved and given back meanwhile | `free-list-without-tag` |

use cortado::internals::hash::Hash32;
use cortado::internals::pool::{Columns, Pool};
use cortado::internals::sync::{Arc, thread};

#[test]
fn an_id_is_one_threads_at_a_time() {
    explore_from_a_point_on(|| {
        let pool: Arc<Pool<u32, u32>> = Arc::new(Pool::new(Columns::NONE));
        // Two nodes are free, and the chunk is there.
        drop((pool.draft(Hash32::FIRST.with(90)), pool.draft(Hash32::FIRST.with(91))));
        loom::explore();
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || {
            let first = other.draft(Hash32::FIRST.with(1));
            let second = other.draft(Hash32::FIRST.with(2));
            drop(first);
            let third = other.draft(Hash32::FIRST.with(3));
            assert_eq!((*second.key(), *third.key()), (2, 3));
            (second.share(), third.share())
        });
        let own = pool.draft(Hash32::FIRST.with(10));
        let (second, third) = thread.join().unwrap();
        loom::stop_exploring();
        let fourth = pool.draft(Hash32::FIRST.with(11));
        let keys = [second, third].map(|node| *pool.handle(node).key());
        assert_eq!((*own.key(), keys, *fourth.key()), (10, [2, 3], 11));
    });
}

/// A model that says from where on the order of steps matters.
fn explore_from_a_point_on(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.expect_explicit_explore = true;
    crate::support::explore::explore(builder, ("LOOM_MAX_PREEMPTIONS", 2), model);
}

/// A pool in which the nodes of so many ids are free, from 1 on.
fn pool_of(free: u32) -> Arc<Pool<u32, u32>> {
    let pool: Arc<Pool<u32, u32>> = Arc::new(Pool::new(Columns::NONE));
    drop((0..free).map(|key| pool.draft(Hash32::FIRST.with(key))).collect::<Vec<_>>());
    pool
}

#[test]
fn what_is_in_use_keeps_its_memory() {
    explore_from_a_point_on(|| {
        // A block is two nodes; that of 1 is not whole, for 0 is no node.
        let pool = pool_of(3);
        loom::explore();
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || {
            let first = other.draft(Hash32::from_raw(7).with(1));
            let second = other.draft(Hash32::from_raw(7).with(2));
            (first.share(), second.share())
        });
        pool.raw().shelve(3);
        let own = pool.draft(Hash32::from_raw(7).with(10));
        let (first, second) = thread.join().unwrap();
        loom::stop_exploring();
        pool.raw().shelve(3);
        assert!(pool.raw().parked() <= 2);
        let more =
            [pool.draft(Hash32::from_raw(7).with(11)), pool.draft(Hash32::from_raw(7).with(12))];
        for node in [&first, &second] {
            assert_eq!((node.meta().refs(), node.meta().hash().raw()), (1, 7), "given back in use");
        }
        let keys = [first, second].map(|node| *pool.handle(node).key());
        let more = more.map(|node| *node.key());
        assert_eq!((*own.key(), keys, more), (10, [1, 2], [11, 12]));
    });
}

#[test]
fn a_look_at_a_node_that_was_given_back() {
    explore_from_a_point_on(|| {
        let pool = pool_of(3);
        loom::explore();
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || other.draft(Hash32::from_raw(7).with(1)).share());
        // 2 and 3 are given back, and 3 is again where it was, with another behind it.
        pool.raw().shelve(3);
        let first = pool.draft(Hash32::from_raw(7).with(10));
        let second = pool.draft(Hash32::from_raw(7).with(11));
        let node = thread.join().unwrap();
        loom::stop_exploring();
        drop(first);
        let more =
            [pool.draft(Hash32::from_raw(7).with(12)), pool.draft(Hash32::from_raw(7).with(13))];
        assert_eq!((node.meta().refs(), node.meta().hash().raw()), (1, 7), "given back in use");
        let keys = (*pool.handle(node).key(), *second.key(), more.map(|node| *node.key()));
        assert_eq!(keys, (1, 11, [12, 13]));
    });
}
