//! Reads: from a key to its living entry.

mod fast;
mod lookup;
mod slow;

pub use lookup::NodeRef;
