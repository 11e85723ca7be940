//! What a wheel knows of the things it holds.

use crate::links::Links;

/// Where a wheel finds the links and the deadline of an id.
pub trait TimerStore {
    /// The links of `id` that belong to the wheel.
    fn links(&self, id: u32) -> &Links;

    /// When `id` is due, as of now; `None` if never. Instants are nanoseconds on a circle, and no
    /// value of `u64` is set apart: a store that keeps "never" as `u64::MAX` says so here.
    fn deadline(&self, id: u32) -> Option<u64>;
}
