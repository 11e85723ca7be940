//! Loom model of the pool's free ids.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `an_id_is_one_threads_at_a_time` | threads that take nodes and give them back never have the same one | `free-list-without-tag` |
#![cfg(cortado_loom)]

#[path = "loom_support/explore.rs"]
mod explore;

use cortado::internals::pool::Pool;
use cortado::internals::sync::{Arc, thread};

#[test]
fn an_id_is_one_threads_at_a_time() {
    let mut builder = loom::model::Builder::new();
    builder.expect_explicit_explore = true;
    explore::explore(builder, ("LOOM_MAX_PREEMPTIONS", 2), || {
        let pool: Arc<Pool<u32, u32>> = Arc::new(Pool::new(false));
        // Two nodes are free, and the chunk is there.
        drop((pool.draft(0, 90), pool.draft(0, 91)));
        loom::explore();
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || {
            let first = other.draft(0, 1);
            let second = other.draft(0, 2);
            drop(first);
            let third = other.draft(0, 3);
            assert_eq!((*second.key(), *third.key()), (2, 3));
            (second.share(), third.share())
        });
        let own = pool.draft(0, 10);
        let (second, third) = thread.join().unwrap();
        loom::stop_exploring();
        let fourth = pool.draft(0, 11);
        let keys = [second, third].map(|node| *pool.handle(node).key());
        assert_eq!((*own.key(), keys, *fourth.key()), (10, [2, 3], 11));
    });
}
