//! How much the tests do. `cargo test` does a share of the long ones; `.ci/test` does them whole.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::hash::{DefaultHasher, Hash, Hasher};

/// The share of the long tests, in percent: what `CORTADO_EFFORT` says.
pub fn effort() -> u64 {
    setting("CORTADO_EFFORT", 5).clamp(1, 100)
}

/// The number that an environment variable gives, or the default.
///
/// # Panics
/// If the variable gives anything else.
pub fn setting(variable: &str, default: u64) -> u64 {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable}={text}"));
    std::env::var(variable).map_or(default, number)
}

/// How often a long test does what it does: the number that the variable gives, or the share of the
/// whole.
pub fn scale(variable: &str, whole: u64) -> u64 {
    setting(variable, share(whole))
}

/// The share of the whole.
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
