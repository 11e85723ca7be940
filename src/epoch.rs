//! The crate's own collector of crossbeam-epoch.
//!
//! All users of crossbeam-epoch in a process share the default collector. Pinning and flushing run
//! functions that any of these users has deferred, on the caller's thread. Such a function may be
//! slow, panic, or use this cache. And a guard that any user holds keeps the garbage of all users.
//! With a collector of our own, only this crate's functions run there. None of them runs user code
//! or panics.
//!
//! The garbage of all caches is in one queue, and comes out in order. So each cache that waits for
//! its own has to help with what other caches, which may be gone, have left in front of it: a
//! [`flush`] brings back eight bags at most.
//!
//! The handle of a thread lives in a thread-local. A thread that pins while its locals are being
//! destroyed gets a handle for that one guard.

use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedU64;
use crate::primitives::seeded;
pub use crossbeam_epoch::Guard;

/// How many deferred functions have run, of whatever cache.
static RELEASES: GuardedU64 = GuardedU64::new(0);

/// Each deferred function calls this.
pub fn note_release() {
    RELEASES.fetch_add(1, Relaxed);
}

/// Moves this thread's garbage to the queue, advances the epoch if no guard prevents it, and runs a
/// few of the deferred functions whose grace period is over. Returns whether any function has run
/// meanwhile. The caller holds no guard.
pub fn flush() -> bool {
    let before = RELEASES.load(Relaxed);
    pin().flush();
    // Models know nothing of each other, though they may run side by side.
    let is_known = !cfg!(cortado_loom) && !seeded("others-garbage-is-no-progress");
    is_known && RELEASES.load(Relaxed) != before
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
