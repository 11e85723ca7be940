//! Folds the 64-bit hash of a `BuildHasher` to the 32 bits that the mechanisms work with.

use crate::macros::number;
use ahash::RandomState;
use equivalent::Equivalent;
use std::hash::{BuildHasher, Hash};

/// A hasher with random keys: by aHash's own source of randomness, or, on
/// `wasm32-unknown-unknown`, by the host's `crypto.getRandomValues`.
pub fn random_state() -> RandomState {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    return RandomState::new();
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    {
        let key = || getrandom::u64().expect("the host has a source of randomness");
        RandomState::with_seeds(key(), key(), key(), key())
    }
}

/// 2^64 divided by the golden ratio, as an odd number: the multiplier of Knuth's multiplicative
/// hashing.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The bits of a key's hash that index, policy, flights and nodes work with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Hash32(u32);
number!(Hash32(u32));

impl Hash32 {
    /// The least hash, at which a walk through all hashes begins.
    pub const FIRST: Self = Self(0);

    /// A key with its hash.
    #[inline]
    pub fn with<T>(self, key: T) -> Hashed<T> {
        Hashed { hash: self, key }
    }
}

/// Hashes `key` and folds the result. Every input bit reaches both the top bits (which choose the
/// bucket) and the bottom bits (the fingerprint), even under a hasher as weak as the identity.
#[inline]
pub fn hash32<Q: Hash + ?Sized>(builder: &impl BuildHasher, key: &Q) -> Hash32 {
    fold(builder.hash_one(key))
}

/// A key, or a reference to a form of one, with the hash that the cache's hasher gives it. An
/// operation hashes once.
#[derive(Clone, Copy, Debug)]
pub struct Hashed<T> {
    pub hash: Hash32,
    pub key: T,
}

/// What an entry is looked up by: a key, or a borrowed form of one, with its hash.
pub trait LookupKey<K>: Copy {
    fn hash(self) -> Hash32;

    /// Whether this is the key `other`.
    fn is(self, other: &K) -> bool;
}

impl<K, Q: Equivalent<K> + ?Sized> LookupKey<K> for Hashed<&Q> {
    #[inline(always)]
    fn hash(self) -> Hash32 {
        self.hash
    }

    #[inline]
    fn is(self, other: &K) -> bool {
        self.key.equivalent(other)
    }
}

impl<K> Hashed<K> {
    #[inline]
    pub fn as_ref(&self) -> Hashed<&K> {
        self.hash.with(&self.key)
    }
}

#[inline]
fn fold(hash: u64) -> Hash32 {
    let folded = u128::from(hash ^ GOLDEN) * u128::from(GOLDEN);
    let mixed = (folded as u64) ^ ((folded >> 64) as u64);
    Hash32((mixed ^ (mixed >> 32)) as u32)
}

#[cfg(test)]
mod tests {
    use super::fold;
    use std::collections::HashSet;

    /// Sequential and shifted inputs, as an identity hasher would give them, spread over both ends.
    #[test]
    fn weak_hashes_spread_over_top_and_bottom_bits() {
        for shift in [0, 8, 16, 32, 40, 48] {
            let folded: Vec<u32> = (0..4096u64).map(|n| fold(n << shift).raw()).collect();
            let top: HashSet<u32> = folded.iter().map(|h| h >> 20).collect();
            let bottom: HashSet<u32> = folded.iter().map(|h| h & 0xff).collect();
            assert!(top.len() > 2000, "shift {shift}: {} of 4096 top values", top.len());
            assert!(bottom.len() > 200, "shift {shift}: {} of 256 bottom values", bottom.len());
        }
    }
}
