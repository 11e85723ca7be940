//! The crate's own collector of crossbeam-epoch.
//!
//! All users of crossbeam-epoch in a process share the default collector. Pinning and flushing run
//! functions that any of these users has deferred, on the caller's thread. Such a function may be
//! slow, panic, or use this cache. And a guard that any user holds keeps the garbage of all users.
//! With a collector of our own, only this crate's functions run there. None of them runs user code
//! or panics.
//!
//! All caches share one queue of garbage, first in, first out. A [`flush`] frees at most eight bags
//! of it. So a cache whose garbage is further back flushes until what is in front is gone, although
//! that may belong to caches that no longer exist.
//!
//! The handle of a thread lives in a thread-local. A thread that pins while its locals are being
//! destroyed gets a handle for that one guard.

use crate::primitives::{seeded, thread_cells};
pub use crossbeam_epoch::Guard;
use std::cell::Cell;

thread_cells! {
    /// How many deferred functions this thread has run.
    static RELEASES: Cell<u64> = Cell::new(0);
}

/// Each deferred function calls this. (A model needs no haste, and ends before its last functions.)
pub fn note_release() {
    if cfg!(cortado_loom) {
        return;
    }
    let _ = RELEASES.try_with(|releases| releases.set(releases.get() + 1));
}

/// Moves this thread's garbage to the queue, advances the epoch if no guard prevents it, and runs a
/// few of the deferred functions whose grace period is over. Returns whether it has run any. A
/// guard of the caller's only holds the epoch back.
pub fn flush() -> bool {
    let releases = || RELEASES.try_with(Cell::get).ok();
    let before = releases();
    pin().flush();
    releases() != before && !seeded("others-garbage-is-no-progress")
}

#[cfg(not(cortado_loom))]
mod own {
    use crate::primitives::delay_point;
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
        delay_point();
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
