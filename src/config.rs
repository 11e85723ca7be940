//! What a builder has settled on: plain values, checked.

use crate::clock::Clock;
use crate::expiration::Lifetimes;
use crate::wheel::Geometry;

/// Everything about a cache that is not a type of the user's.
#[derive(Debug)]
pub struct Config {
    pub name: Option<String>,
    pub max_capacity: Option<u64>,
    pub initial_capacity: usize,
    /// Whether there is a weigher.
    pub weighs: bool,
    pub lifetimes: Lifetimes,
    pub geometry: Geometry,
    pub record_stats: bool,
    pub clock: Clock,
    /// Seeds the policy's coins.
    pub seed: u64,
    pub scheduled: bool,
    /// Whether removals are announced to a listener.
    pub announces: bool,
}
