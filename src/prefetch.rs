//! Asks the processor for a cache line before it is needed.
#![expect(unsafe_code, reason = "the instruction takes a pointer")]

/// Begins to load the cache line that holds the first byte of `place`. Does nothing where the
/// target has no such instruction.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    prefetch_address(std::ptr::from_ref(place).addr());
}

/// [`prefetch`] by address. The address need not be that of any object.
#[inline(always)]
pub fn prefetch_address(address: usize) {
    let _ = address;
    #[cfg(all(target_arch = "x86_64", not(cortado_loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is a hint that changes nothing and faults on no address. SSE is
        // in x86-64's baseline.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance::<i8>(address)) };
    }
}

/// [`prefetch_pointees`] looks at so many words of an object. A `String` or a `Vec` has three, and
/// the compiler chooses which of them is the pointer.
#[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(any(cortado_loom, miri))))]
const WORDS: usize = 3;

/// [`prefetch_pointees`] of an object that is there.
#[inline(always)]
pub fn prefetch_contents<T>(object: &T) {
    // SAFETY: what a reference refers to is readable. Another thread may change its parts that have
    // interior mutability meanwhile; nothing depends on what was read of them.
    unsafe { prefetch_pointees(object) };
}

/// Prefetches what the first words of an object point to, if they are pointers: the counts of an
/// `Arc`, the contents of a `Box`, a `String` or a `Vec`. A word that is no pointer costs a useless
/// prefetch.
///
/// # Safety
/// The memory at `object` must be readable, with the size and alignment of a `T`. It need not be
/// initialised.
#[inline(always)]
pub unsafe fn prefetch_pointees<T>(object: *const T) {
    let _ = object;
    #[cfg(all(target_arch = "x86_64", target_pointer_width = "64", not(any(cortado_loom, miri))))]
    if align_of::<T>() >= align_of::<usize>() {
        for word in 0..(size_of::<T>() / size_of::<usize>()).min(WORDS) {
            // SAFETY: the word lies within the object, so it is readable. The instructions give no
            // value to the program and change none, and the hint faults on no address. So it does
            // not matter what the word is, or whether it is initialised.
            unsafe {
                std::arch::asm!(
                    "mov {word}, qword ptr [{place}]",
                    "prefetcht0 byte ptr [{word}]",
                    word = out(reg) _,
                    place = in(reg) object.cast::<usize>().add(word),
                    options(nostack, preserves_flags, readonly),
                );
            }
        }
    }
}
