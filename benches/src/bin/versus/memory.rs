//! Heap bytes per entry, counted by the allocator.

use crate::adapters::{NAMES, make};
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, which counts the bytes in use.
pub struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Bytes in use.
pub fn live() -> usize {
    LIVE.load(Relaxed)
}

/// Fills each cache with a million entries of 8 + 8 bytes.
pub fn run() -> Table {
    const ENTRIES: u64 = 1_000_000;
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["1 M entries of u64 → u64, full", "bytes per entry beyond key and value"]);
    for name in NAMES.iter().filter(|name| !name.contains("pin")) {
        let before = live();
        let cache = make(name, ENTRIES);
        (0..ENTRIES).for_each(|key| cache.insert(key, key));
        cache.settle();
        let bytes = (live() - before) as f64 / ENTRIES as f64 - 16.0;
        table.add_row([(*name).to_owned(), format!("{bytes:.0}")]);
    }
    table
}
