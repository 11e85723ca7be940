//! Timers: items that wait for their time, on the wheel that the cache has. With the feature
//! `timer`.
//!
//! * [`Timer`] runs jobs when their time has come: once or in series, on an executor.
//! * [`DelayedOps`] are operations that an event completes, or else a timeout.
//! * [`DelayQueue`] is the structure alone: it has no thread and reads no clock.
//! * `delay_queue::DelayQueue` (with the feature `tokio`) is the same for a tokio runtime: a stream
//!   of due items.
//!
//! # Time
//!
//! A *tick* is a millisecond, or longer if you say so. An item is handed out at its deadline,
//! rounded up to a whole tick: never early, and less than a tick late.
//!
//! On Linux monotonic time stands still while the machine is suspended, so all deadlines move by
//! the length of the suspension. A queue takes its time from you, and may count it by another
//! clock.

mod body;
mod builder;
mod cancel;
mod core;
#[cfg(feature = "tokio")]
pub mod delay_queue;
mod driver;
mod end;
mod error;
mod execute;
mod handle;
mod id;
mod operations;
mod queue;
mod run;
mod schedule;
mod series;
mod service;
mod settings;
mod shared;
mod shutdown;
mod slab;
mod start;
mod stats;
mod stopping;

pub use body::{IntoJob, JobFuture};
pub use builder::Builder;
pub use error::TimerError;
pub use handle::Handle;
pub use id::TimerId;
pub use operations::{Attempt, DelayedOp, DelayedOps, OpRef, Outcome, WatchFuture};
pub use queue::{DelayQueue, Expired, Polled};
pub use run::{CancelOutcome, Run};
pub use schedule::{Missed, Next, Repeat, Schedule, Turn};
pub use service::Timer;
pub use settings::{OnPanic, Rejection, TaskPanic};
pub use shutdown::{Stop, Unfired};
pub use stats::TimerStats;
