//! The two buffers between the threads that use the structure and the one that maintains it.
//!
//! | buffer | carries | when full | order |
//! |---|---|---|---|
//! | [`read::ReadBuffer`] | ids that were touched | drops the record | none promised |
//! | [`write::WriteBuffer`] | events that must be applied | refuses; the writer maintains, or, while somebody else does, pushes into the [`spill`] | per stripe |
//!
//! Both are cut into stripes, one for about each hardware thread, because a single queue is one
//! contended cache line: measured on two threads, a single write queue brought the whole write path
//! to a fifth.

pub mod read;
pub mod ring;
pub mod spill;
pub mod write;

mod stripes;

pub use stripes::stripe_count;
