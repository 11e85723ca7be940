//! A concurrent in-memory cache in which every entry has a lifetime of its own.
#![allow(dead_code, missing_docs)] // skeleton

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

mod policy;

/// Doors to the mechanisms, for this repository's own tests, fuzzers and benches. Outside semver.
#[cfg(any(feature = "internals", cortado_loom))]
#[doc(hidden)]
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
    pub mod outbox {
        pub use crate::outbox::*;
    }
    pub mod policy {
        pub use crate::policy::*;
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
