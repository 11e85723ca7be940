//! How much the tests do. `cargo test` does a share of the long ones; `.ci/test` does them whole.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::hash::{DefaultHasher, Hash, Hasher};

/// How much of the long tests is done, in percent. `CORTADO_EFFORT` sets it.
pub fn effort() -> u64 {
    setting("CORTADO_EFFORT", 2).clamp(1, 100)
}

/// The number that an environment variable gives, or the default.
///
/// # Panics
/// If the variable gives anything else.
pub fn setting(variable: &str, default: u64) -> u64 {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable}={text}"));
    std::env::var(variable).map_or(default, number)
}

/// The number of operations, or rounds, of a long test: what the variable says, or else the share
/// of `whole`.
pub fn scale(variable: &str, whole: u64) -> u64 {
    setting(variable, share(whole))
}

/// The share of this number, rounded up.
pub fn share(whole: u64) -> u64 {
    (whole * effort()).div_ceil(100)
}

/// Whether this case is among the share of all cases. It is the same in each run, as long as the
/// standard library has the same default hasher.
pub fn is_sampled(case: impl Hash) -> bool {
    let mut hasher = DefaultHasher::new();
    case.hash(&mut hasher);
    hasher.finish() % 100 < effort()
}
