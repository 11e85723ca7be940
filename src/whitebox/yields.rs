//! When writers yield their cores to threads that hold guards.

use super::alone;
use crate::cache::Cache;
use crate::clock::Clock;
use crate::engine::{Budget, Core};
use crate::primitives::Arc;
use crate::primitives::atomic::{AtomicU8, Ordering::SeqCst};
use crate::primitives::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Tries again and again until `is_over`.
fn must_end_soon(is_over: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_over() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not end");
        thread::yield_now();
    }
}

fn core(cache: &Cache<u64, u64>) -> &Core {
    super::neighbour::start();
    &cache.engine().core
}

/// The yields since a batch was last reclaimed.
fn yields(cache: &Cache<u64, u64>) -> u32 {
    core(cache).upkeep().state.lock().yields
}

/// Updates one key so many times.
fn update(cache: &Cache<u64, u64>, times: u64) {
    (0..times).for_each(|value| cache.insert(0, value));
}

/// The states of a thread with a view.
const STARTING: u8 = 0;
const OPEN: u8 = 1;
const TO_END: u8 = 2;

/// A thread that has a view open until it is told to end.
fn view_of_another_thread(cache: &Cache<u64, u64>) -> (JoinHandle<()>, Arc<AtomicU8>) {
    let (cache, state) = (cache.clone(), Arc::new(AtomicU8::new(STARTING)));
    let shared = Arc::clone(&state);
    let thread = thread::spawn(move || {
        let _view = cache.pin();
        shared.store(OPEN, SeqCst);
        while shared.load(SeqCst) != TO_END {
            thread::sleep(Duration::from_millis(1));
        }
    });
    must_end_soon(|| state.load(SeqCst) == OPEN);
    (thread, state)
}

#[test]
fn writers_yield_while_guards_hold_many_nodes_back_but_not_for_ever() {
    let _alone = alone();
    let cache: Cache<u64, u64> = Cache::builder().clock(Clock::manual().0).build();
    let (others_view, state) = view_of_another_thread(&cache);
    update(&cache, 3000);
    assert_eq!(yields(&cache), 0, "few nodes are held back");
    let own_view = cache.pin();
    update(&cache, 7000);
    assert_eq!(yields(&cache), 0, "a yield of a thread that holds a guard itself");
    drop(own_view);
    update(&cache, 3000);
    let some = yields(&cache);
    assert!(some > 0, "no yield with {} nodes held back", core(&cache).unreclaimed());
    for _ in 0..1000 {
        core(&cache).try_pass(Budget::of_reader());
    }
    assert_eq!(yields(&cache), some, "a pass beside a read yields");
    update(&cache, 300_000);
    assert_eq!(yields(&cache), 256, "writers yield for a guard that is kept");
    state.store(TO_END, SeqCst);
    others_view.join().expect("no panic");
    // A guard of another test may hold them back for a moment.
    must_end_soon(|| {
        cache.run_pending_tasks();
        core(&cache).unreclaimed() == 0
    });
    assert_eq!(yields(&cache), 0, "the memory came back");
    cache.audit();
}
