//! Matching the fingerprints of a bucket, all at once.
#![cfg_attr(
    all(target_arch = "x86_64", target_feature = "sse2"),
    expect(unsafe_code, reason = "vector instructions, where the target has them")
)]

/// The number of fingerprints in the fingerprint word. The model checker gets one here and one in
/// the control word, so that its few entries reach both kinds and the overflow.
pub const WORD_FINGERPRINTS: usize = if cfg!(cortado_loom) { 1 } else { 8 };
/// The number of fingerprints in the low bytes of the control word.
pub const CTRL_FINGERPRINTS: usize = if cfg!(cortado_loom) { 1 } else { 2 };
/// The number of slots in a bucket.
pub const SLOTS: usize = WORD_FINGERPRINTS + CTRL_FINGERPRINTS;

/// The fingerprint of an empty slot.
pub const EMPTY: u8 = 0;

/// The fingerprints of a bucket, as they were read.
#[derive(Clone, Copy)]
pub struct Fingerprints {
    /// The fingerprint word.
    pub word: u64,
    /// The control word.
    pub ctrl: u64,
}

impl Fingerprints {
    /// The slots with this fingerprint.
    #[inline(always)]
    pub fn matching(self, fingerprint: u8) -> Slots {
        Slots(equal_bytes(self.word, self.ctrl, fingerprint) & Slots::ALL)
    }

    /// The empty slots.
    #[inline(always)]
    pub fn free(self) -> Slots {
        self.matching(EMPTY)
    }

    /// The slots that are not empty.
    #[inline(always)]
    pub fn occupied(self) -> Slots {
        Slots(!equal_bytes(self.word, self.ctrl, EMPTY) & Slots::ALL)
    }

    /// The fingerprint of one slot.
    pub fn get(self, slot: usize) -> u8 {
        let bytes = if slot < WORD_FINGERPRINTS { self.word } else { self.ctrl };
        (bytes >> (8 * (slot % WORD_FINGERPRINTS))) as u8
    }
}

/// A set of slots, and the iterator over it. Bit `b` stands for byte `b` of the two words, of which
/// the fingerprint word comes first.
#[derive(Clone, Copy)]
pub struct Slots(u32);

impl Slots {
    const ALL: u32 = ((1 << WORD_FINGERPRINTS) - 1) | ((1 << CTRL_FINGERPRINTS) - 1) << 8;
}

impl Iterator for Slots {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let byte = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(if WORD_FINGERPRINTS == 8 { byte } else { byte % 8 + byte / 8 * WORD_FINGERPRINTS })
    }
}

/// Bit `b` of the result is set if byte `b` of the two words equals `byte`.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
fn equal_bytes(low: u64, high: u64, byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    // SAFETY: this function is compiled only for targets that have SSE2.
    unsafe {
        let bytes = _mm_set_epi64x(high as i64, low as i64);
        _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
use equal_bytes_by_words as equal_bytes;

/// The same without vector instructions.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
#[inline(always)]
fn equal_bytes_by_words(low: u64, high: u64, byte: u8) -> u32 {
    equal_in_word(low, byte) | equal_in_word(high, byte) << 8
}

/// Bit `b` of the result is set if byte `b` of the word equals `byte`. No borrow crosses bytes, so
/// there is no false match. The multiplication gathers the lowest bits of the bytes at the top.
#[cfg(any(test, not(all(target_arch = "x86_64", target_feature = "sse2"))))]
#[inline(always)]
fn equal_in_word(word: u64, byte: u8) -> u32 {
    const LOW_BITS: u64 = u64::from_ne_bytes([0x01; 8]);
    const LOW_SEVEN: u64 = u64::from_ne_bytes([0x7f; 8]);
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let differing = word ^ (LOW_BITS * u64::from(byte));
    let nonzero = ((differing & LOW_SEVEN) + LOW_SEVEN) | differing;
    let equal = (!nonzero >> 7) & LOW_BITS;
    (equal.wrapping_mul(GATHER) >> 56) as u32
}

#[cfg(all(test, not(cortado_loom)))]
#[path = "../whitebox/fingerprints.rs"]
mod tests;
