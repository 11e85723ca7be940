//! An allocator that counts the bytes in use, when asked to. It passes on to the system's, or to
//! the one that a feature names: `mimalloc` or `jemalloc`.
//!
//! Counting is a read-modify-write of one word that all threads share, so it is off while speed is
//! measured: then there is one load of a word that nobody writes.

use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
use mimalloc::MiMalloc as Inner;
#[cfg(not(any(feature = "mimalloc", feature = "jemalloc")))]
use std::alloc::System as Inner;
#[cfg(feature = "jemalloc")]
use tikv_jemallocator::Jemalloc as Inner;

/// The allocator's name, for reports.
pub const ALLOCATOR: &str = match (cfg!(feature = "jemalloc"), cfg!(feature = "mimalloc")) {
    (true, _) => "jemalloc",
    (false, true) => "mimalloc",
    (false, false) => "the system's allocator",
};

static COUNTING: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicI64 = AtomicI64::new(0);

/// The allocator, which can count.
#[derive(Debug)]
pub struct Heap;

fn count(bytes: usize, sign: i64) {
    if COUNTING.load(Relaxed) {
        BYTES.fetch_add(sign * bytes as i64, Relaxed);
    }
}

// SAFETY: every call is passed on to another allocator unchanged; counting allocates nothing.
#[expect(unsafe_code, reason = "an allocator is unsafe to write")]
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise.
        unsafe { Inner.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 1);
        // SAFETY: the caller's promise.
        unsafe { Inner.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), -1);
        count(size, 1);
        // SAFETY: the caller's promise.
        unsafe { Inner.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(layout.size(), -1);
        // SAFETY: the caller's promise.
        unsafe { Inner.dealloc(pointer, layout) }
    }
}

/// Counts while it exists; one at a time. It starts from zero, so what was allocated before and is
/// freed meanwhile counts as negative.
#[derive(Debug)]
pub struct Count(());

impl Count {
    /// Starts counting.
    pub fn start() -> Self {
        BYTES.store(0, Relaxed);
        COUNTING.store(true, Relaxed);
        Self(())
    }

    /// Bytes allocated and not freed since the start.
    pub fn bytes(&self) -> i64 {
        BYTES.load(Relaxed)
    }

    /// Helps deferred destruction along until no more than `bytes` are in use, or a second has
    /// passed: what is freed later would count as negative then.
    pub fn settle(&self, bytes: i64) {
        let start = Instant::now();
        while self.bytes() > bytes && start.elapsed() < Duration::from_secs(1) {
            // cortado's own collector, and the default one, which moka uses.
            cortado::internals::epoch::pin().flush();
            crossbeam_epoch::pin().flush();
            std::thread::yield_now();
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        COUNTING.store(false, Relaxed);
    }
}
