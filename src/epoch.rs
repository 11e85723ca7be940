//! The crate's own collector of crossbeam-epoch.
//!
//! All users of crossbeam-epoch in a process share the default collector. Pinning and flushing run
//! functions that any of these users has deferred, on the caller's thread. Such a function may be
//! slow, panic, or use this cache. And a guard that any user holds keeps the garbage of all users.
//! With a collector of our own, only this crate's functions run there. None of them runs user code
//! or panics.
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

    /// Pins the thread: everything that is in the index from now on stays allocated as long as the
    /// guard lives.
    #[inline]
    pub fn pin() -> Guard {
        HANDLE.try_with(LocalHandle::pin).unwrap_or_else(|_| pin_without_locals())
    }

    #[cold]
    #[inline(never)]
    fn pin_without_locals() -> Guard {
        collector().register().pin()
    }

    /// Whether this thread holds a guard. While the thread destroys its locals: true.
    pub fn is_pinned() -> bool {
        HANDLE.try_with(LocalHandle::is_pinned).unwrap_or(true)
    }
}

/// A model needs a new collector for each execution. The default collector is made anew each time.
#[cfg(cortado_loom)]
mod own {
    pub use crossbeam_epoch::{default_collector as collector, is_pinned, pin};
}

pub use own::{collector, is_pinned, pin};
