//! The two buffers between the threads that use the structure and the thread that maintains it.
//!
//! | buffer | carries | when full | order |
//! |---|---|---|---|
//! | [`read::ReadBuffer`] | ids of nodes that were read | drops the record | none promised |
//! | [`write::WriteBuffer`] | events that must be applied | returns the event; the writer runs a pass, or, while another thread runs one, pushes into the [`spill`] | per stripe |
//!
//! Each buffer has about one stripe per hardware thread (the write buffer of a small cache has
//! fewer), because a single queue would be one contended cache line. Measured on two threads, a
//! single write queue slowed the whole write path down to a fifth.

pub mod read;
pub mod ring;
pub mod spill;
pub mod write;

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/buffer_audit.rs"]
mod audit;

pub use ring::stripe_count;
