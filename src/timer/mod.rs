//! Timers: items that wait for their time, on the wheel that the cache has. With the feature
//! `timer`.
//!
//! * [`DelayQueue`] is the structure alone: it has no thread and reads no clock.
//! * [`tokio::DelayQueue`](self::tokio::DelayQueue) is the same for a tokio runtime: a stream of
//!   due items.
//!
//! # Time
//!
//! A *tick* is a millisecond, or longer if you say so. An item is handed out at the first tick that
//! does not begin before its deadline: never early, and less than a tick late.
//!
//! On Linux monotonic time stands still while the machine is suspended, so all deadlines move by
//! the length of the suspension. A queue takes its time from you, and may count it by another
//! clock.

mod core;
mod error;
mod id;
mod queue;
mod slab;
#[cfg(feature = "tokio")]
pub mod tokio;

pub use error::TimerError;
pub use id::TimerId;
pub use queue::{DelayQueue, Expired, Polled};
