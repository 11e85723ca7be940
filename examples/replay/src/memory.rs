//! What the cache's own memory comes to: a global allocator that counts, while a thread is inside
//! [`counted`], what that thread takes and gives back.
//!
//! The bookkeeping of this program stays outside, so the sum is what the cache holds. A block that
//! is taken inside and given back outside, or the other way round, would falsify it; the replay
//! makes every call of the cache inside.
#![expect(unsafe_code, reason = "a global allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Written by every thread inside [`counted`], read by [`held`]; `Relaxed`, as it carries nothing
/// but itself.
static HELD: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, counting its memory.
pub fn counted<T>(work: impl FnOnce() -> T) -> T {
    INSIDE.set(true);
    let result = work();
    INSIDE.set(false);
    result
}

/// Bytes that counted work has taken and not given back.
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed).max(0).unsigned_abs()
}

fn count(bytes: i64) {
    // A thread that is being torn down has no thread-locals any more, and is inside nothing.
    if INSIDE.try_with(Cell::get).unwrap_or(false) {
        HELD.fetch_add(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to `System` unchanged, which keeps the contract; counting allocates
// nothing (the thread-local is const-initialised and has no destructor) and does not unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as i64);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(-(layout.size() as i64));
        // SAFETY: `block` came from this allocator, hence from `System`, with this `layout`.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as i64 - layout.size() as i64);
        // SAFETY: `block` came from this allocator, hence from `System`, with this `layout`.
        unsafe { System.realloc(block, layout, size) }
    }
}
