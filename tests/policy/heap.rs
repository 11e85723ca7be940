//! An allocator that counts the bytes of each thread by itself, so that the other tests of the
//! program do not disturb a count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// All bytes that it has allocated.
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

/// The bytes that this thread has allocated and not freed, and all that it has allocated.
pub fn memory() -> [isize; 2] {
    [HELD.get(), ALLOCATED.get()]
}

struct Counting;

impl Counting {
    fn count(bytes: isize) {
        HELD.set(HELD.get() + bytes);
        ALLOCATED.set(ALLOCATED.get() + bytes.max(0));
    }
}

#[expect(unsafe_code, reason = "an allocator can only be replaced by unsafe code")]
// SAFETY: the system's allocator does it all; beside it a number is kept.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count(layout.size().cast_signed());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::count(-layout.size().cast_signed());
        // SAFETY: the caller's promise, handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
