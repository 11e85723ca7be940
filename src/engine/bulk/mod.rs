//! Operations on all entries.

mod clear;
mod end;
mod load_many;

pub use load_many::{Answers, Missing, OwnLoads, Unasked, keys_of, polled};
mod ranking;
mod retain;
mod walk;
