//! A concurrent in-memory cache in which every entry has a lifetime of its own.
// What the mechanisms offer to tests, fuzzers and benches only is not compiled in otherwise.
#![cfg_attr(any(not(feature = "internals"), cortado_loom), allow(dead_code, unused_imports))]
#![cfg_attr(any(feature = "internals", cortado_loom), allow(missing_docs))]

mod clock;
mod hash;
mod sync;

mod buffer;
mod drain;
mod flight;
mod index;
mod links;
mod list;
mod outbox;
mod scheduler;
mod sketch;
mod wheel;

mod config;
mod error;
mod expiry;
mod removal;
mod stats;

mod expiration;
mod node;
mod policy;
mod pool;

mod compute;
mod engine;
mod entry;

mod builder;
mod cache;
mod iter;
mod pinned;

pub use builder::Builder;
pub use cache::{Cache, KeyEntry};
pub use clock::{Clock, ManualClock, TimeSource};
pub use compute::{CompResult, Op};
pub use engine::Pending;
pub use entry::{Entry, Removed};
pub use equivalent::Equivalent;
pub use error::BuildError;
pub use expiry::{Expiry, expire};
pub use iter::{Iter, Keys, Values};
pub use pinned::Pinned;
pub use removal::RemovalCause;
pub use stats::{Lateness, Stats};

/// Doors to the mechanisms, for this repository's own tests, fuzzers and benches. Outside semver.
#[cfg(any(feature = "internals", cortado_loom))]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod internals {
    pub mod buffer {
        pub use crate::buffer::*;
    }
    pub mod drain {
        pub use crate::drain::*;
    }
    pub mod flight {
        pub use crate::flight::*;
    }
    pub mod index {
        pub use crate::index::*;
    }
    pub mod links {
        pub use crate::links::*;
    }
    pub mod list {
        pub use crate::list::*;
    }
    pub mod node {
        pub use crate::node::*;
    }
    pub mod outbox {
        pub use crate::outbox::*;
    }
    pub mod policy {
        pub use crate::policy::*;
    }
    pub mod pool {
        pub use crate::pool::*;
    }
    pub mod scheduler {
        pub use crate::scheduler::*;
    }
    pub mod sketch {
        pub use crate::sketch::*;
    }
    pub mod sync {
        pub use crate::sync::*;
    }
    pub mod wheel {
        pub use crate::wheel::*;
    }
}
