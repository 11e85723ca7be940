//! The crate's own collector of crossbeam-epoch.
//!
//! The default collector is shared by all users of crossbeam-epoch in a process. Pinning and
//! flushing run what any of them has deferred, on the caller's thread: it may be slow, panic, or
//! use this cache, and a guard that anybody holds keeps everybody's garbage. With a collector of
//! our own only this crate's functions run there, and none of them runs user code or panics.
//!
//! The handle of a thread lives in a thread-local. A thread that pins while its locals are being
//! destroyed gets a handle for that one guard.

pub use crossbeam_epoch::Guard;

#[cfg(not(cortado_loom))]
mod own {
    use crossbeam_epoch::{Collector, Guard, LocalHandle};
    use std::sync::OnceLock;

    /// The collector of all caches of the process.
    pub fn collector() -> &'static Collector {
        static COLLECTOR: OnceLock<Collector> = OnceLock::new();
        COLLECTOR.get_or_init(Collector::new)
    }

    thread_local! {
        static HANDLE: LocalHandle = collector().register();
    }

    /// Pins the thread: what is in the index from now on stays allocated as long as the guard.
    #[inline]
    pub fn pin() -> Guard {
        HANDLE.try_with(LocalHandle::pin).unwrap_or_else(|_| collector().register().pin())
    }
}

/// A model's collector has to be made anew for each execution, which the default one is.
#[cfg(cortado_loom)]
mod own {
    pub use crossbeam_epoch::{default_collector as collector, pin};
}

pub use own::{collector, pin};
