//! Asks the processor for a cache line before it is needed.
#![cfg_attr(
    all(target_arch = "x86_64", not(cortado_loom)),
    expect(unsafe_code, reason = "the instruction is an intrinsic that takes a pointer")
)]

/// Begins to load the cache line that holds the first byte of `place`. Does nothing where the
/// target has no such instruction.
#[inline(always)]
pub fn prefetch<T: ?Sized>(place: &T) {
    #[cfg(all(target_arch = "x86_64", not(cortado_loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is a hint that changes nothing and faults on no address. SSE is
        // in x86-64's baseline.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast::<i8>()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(cortado_loom))))]
    let _ = place;
}

/// [`prefetch`] by address. The address need not be that of any object.
#[inline(always)]
pub fn prefetch_address(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(cortado_loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: as above; the pointer is never dereferenced.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance::<i8>(address)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(cortado_loom))))]
    let _ = address;
}
