//! Reads: from a key to its living entry.

mod condition;
mod fast;
mod lookup;
mod slow;

pub use lookup::{NodeRef, Slot};
