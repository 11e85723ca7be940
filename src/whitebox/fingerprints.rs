//! The ways of matching fingerprints.

use super::*;

/// Compares both ways with one that takes one byte at a time. The words have equal, near and
/// unequal bytes.
#[test]
fn both_ways_of_matching_agree_with_the_plain_one() {
    let mut x = 1u64;
    for round in 0..20_000 {
        x = x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let byte = (x >> 56) as u8;
        let (mut low, mut high) = (x ^ x >> 7, x.rotate_left(23));
        for b in 0..8 {
            if round >> b & 1 == 1 {
                low = low & !(0xff << (8 * b)) | u64::from(byte) << (8 * b);
                high = high & !(0xff << (8 * b)) | u64::from(byte ^ 0x80) << (8 * b);
            }
        }
        let bytes = low.to_le_bytes().into_iter().chain(high.to_le_bytes());
        let plain = bytes.enumerate().fold(0, |set, (b, x)| set | u32::from(x == byte) << b);
        assert_eq!(equal_bytes(low, high, byte), plain);
        assert_eq!(equal_bytes_by_words(low, high, byte), plain);
    }
}
