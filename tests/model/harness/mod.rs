//! A sequential model of the whole cache, and a driver that holds a real one against it.
//!
//! A [`Case`] is a configuration and a program of operations, decoded from bytes, so that property
//! tests and fuzzers share it. [`run`] executes it on a cache with a manual clock and on the
//! [`oracle`](oracle::Oracle), a plain map with the documented semantics, and compares after every
//! operation: answers, handles, hook calls, notifications, counters. What the documents leave to
//! the cache (which entries are evicted, when an expired one is removed) is learnt from the
//! notifications and checked for legality; everything else is exact.

mod case;
mod decode;
mod driver;
mod face;
mod loading;
mod oracle;
mod subject;

pub use case::Case;
pub use driver::run;
#[allow(unused_imports, reason = "the fuzzer counts nothing")]
pub use oracle::Counts;
