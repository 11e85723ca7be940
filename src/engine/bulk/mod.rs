//! Operations on all entries.

mod all;
mod load_many;

pub use load_many::{BulkValues, FirstError, Missing, OwnLoads, Unasked, Wanted, keys_of, polled};
