//! Operations on all entries.

mod clear;
mod end;
mod load_many;
mod made;

pub use load_many::{Answers, Missing, OwnLoads, Wanted, keys_of, polled};
pub use made::{FirstError, Unasked};
mod ranking;
mod retain;
mod walk;
