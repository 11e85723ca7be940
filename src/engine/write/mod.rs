//! Writes of single keys: the hooks that they ask, the section under the bucket's lock, and the
//! operations.

mod commit;
mod hooks;
mod insert;
mod lifetimes;
mod prepare;
mod remove;

pub use commit::Put;
pub use hooks::Readings;
pub use prepare::fresh;
pub use remove::{Condition, Removal};
