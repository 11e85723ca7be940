//! Expiry gives memory back in small pieces: what an allocator does when a large one is freed, or
//! asked for, can take as long as all that was freed since the last. (glibc's puts a million small
//! blocks together then: 14 ms in one call.)
#![cfg(not(cortado_loom))]

mod common;

use common::audited::{Audited, audited};
use cortado::{Cache, Clock};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// The largest block allocated or freed since it was last set to zero.
static LARGEST: AtomicUsize = AtomicUsize::new(0);

struct Watching;

#[expect(unsafe_code, reason = "an allocator can only be replaced by unsafe code")]
// SAFETY: the system's allocator does it all; beside it a number is kept.
unsafe impl GlobalAlloc for Watching {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), SeqCst);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LARGEST.fetch_max(layout.size(), SeqCst);
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watching = Watching;

/// Enough for several chunks of every table that the cache has.
const ENTRIES: u64 = 200_000;
/// Below what glibc calls large when it frees (64 KiB), with room for what lies beside it.
const LARGE: usize = 16 << 10;

#[test]
fn expiring_many_entries_frees_and_asks_for_small_blocks_only() {
    let (clock, hand) = Clock::manual();
    // With its index at full size from the beginning: one that has grown has yet to free its last
    // table.
    let cache: Audited<u64, Box<u64>> = audited(
        Cache::builder()
            .max_capacity(ENTRIES)
            .initial_capacity(ENTRIES as usize)
            .time_to_live(Duration::from_secs(60))
            .clock(clock)
            .build(),
    );
    for key in 0..ENTRIES {
        cache.insert(key, Box::new(key));
    }
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), ENTRIES);
    assert!(
        LARGEST.swap(0, SeqCst) > LARGE,
        "filling takes large blocks, or the test sees nothing"
    );
    hand.advance(Duration::from_secs(120));
    while cache.entry_count() > 0 {
        assert_eq!(cache.get(&0), None);
    }
    let largest = LARGEST.load(SeqCst);
    assert!(largest <= LARGE, "a block of {largest} bytes while entries expired");
}
