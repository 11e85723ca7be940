//! A thread that is in the way of all tests of its process, where `CORTADO_NEIGHBOUR` says how. The
//! tests do the same to each other by chance: all caches of a process share a collector and the
//! numbers by which threads choose their stripes.

use super::Cache;
use std::sync::Once;
use std::thread::{self, sleep, spawn};
use std::time::Duration;

pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let kind = std::env::var("CORTADO_NEIGHBOUR");
        match kind.as_deref() {
            Ok("guards") => drop(spawn(hold_guards)),
            Ok("garbage") => drop(spawn(make_garbage)),
            Ok("threads") => drop(spawn(start_threads)),
            Ok(other) => panic!("CORTADO_NEIGHBOUR={other}: no such neighbour"),
            Err(_) => {}
        }
    });
}

/// Holds a view ten elevenths of the time.
fn hold_guards() {
    let cache: Cache<u32, u32> = Cache::builder().build();
    loop {
        let view = cache.pin();
        sleep(Duration::from_millis(20));
        drop(view);
        sleep(Duration::from_millis(2));
    }
}

/// Retires nodes all the time.
fn make_garbage() {
    let cache: Cache<u32, u32> = Cache::builder().build();
    loop {
        (0..64).for_each(|key| cache.insert(key, key));
        cache.invalidate_all();
        cache.run_pending_tasks();
        thread::yield_now();
    }
}

/// Starts threads that use a cache once. Each takes a number from those of the tests.
fn start_threads() {
    let cache: Cache<u32, u32> = Cache::builder().build();
    for key in 0.. {
        let cache = cache.clone();
        let thread = spawn(move || cache.insert(key, key));
        thread.join().expect("no panic");
        sleep(Duration::from_micros(u64::from(key % 7) * 20));
    }
}
