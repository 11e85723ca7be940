//! The only door to atomics, locks, threads and queues.
//!
//! With `--cfg cortado_loom` the same names come from loom, so that the model checker sees every
//! access; crossbeam's queues, which loom cannot see into, are swapped for queues of the same
//! contract built on loom's mutex.
//!
//! Locks here do not poison: a panic never leaves cortado's data half-changed under a lock (no user
//! code runs under one), so there is nothing that poisoning would protect.

/// std's own, under loom too: for handles that outlive a model's execution or that loom's cannot
/// express (`Weak`, unsized). Nothing that a model examines is ordered by them.
pub mod plain {
    pub use std::sync::{Arc, OnceLock, Weak};
}

/// Words that a lock or another word carries from thread to thread: std's, under loom too, so that
/// they add no interleavings to a model of the engine. Whether they *are* carried is for the models
/// of the parts to show, which keep what has to be seen in cells of loom's.
pub mod carried {
    pub use std::sync::atomic::{
        AtomicU8 as CarriedU8, AtomicU32 as CarriedU32, AtomicU64 as CarriedU64,
    };
}

/// Runs code of the user's. A panic of it is caught, and `None` the result.
pub fn catch_user_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    ran.map_err(discard).ok()
}

/// Drops what a panic threw. Its destructor may panic, and what that throws may as well: a chain
/// that is longer than anybody's is leaked from there on.
fn discard(mut payload: Box<dyn std::any::Any + Send>) {
    for _ in 0..4 {
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return,
            Err(thrown) => payload = thrown,
        }
    }
    std::mem::forget(payload);
}

/// Waits a little longer each time: what is waited for takes a few instructions, unless the thread
/// that is at it was preempted.
#[derive(Default)]
pub struct Spin(u32);

impl Spin {
    /// Longer than any thread that runs needs.
    const HINTS: u32 = 64;

    pub fn pause(&mut self) {
        if self.0 < Self::HINTS {
            self.0 += 1;
            spin_hint();
        } else {
            thread::yield_now();
        }
    }
}

/// What to do about another thread that holds something and may have lost its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Wait for it, however long that takes.
    Wait,
    /// Give up after a moment: the caller can do without for now.
    Skip,
}

/// A wait that ends: long enough for a holder that runs, and without giving up the core.
#[derive(Default)]
pub struct ShortWait(u32);

impl ShortWait {
    /// The model checker has other threads run at each hint, so one is enough for it.
    const HINTS: u32 = if cfg!(cortado_loom) { 1 } else { 64 };

    /// Waits a little; false if it has been long enough.
    pub fn pause(&mut self) -> bool {
        let goes_on = self.0 < Self::HINTS;
        if goes_on {
            self.0 += 1;
            spin_hint();
        }
        goes_on
    }
}

/// Thread-locals whose initial values are constants and that have no destructors: an access is one
/// instruction, also while the thread's other locals are being destroyed. (loom's know no
/// constants.)
macro_rules! thread_cells {
    ($($(#[$doc:meta])* static $name:ident: $type:ty = $init:expr;)*) => {
        #[cfg(not(cortado_loom))]
        std::thread_local! { $($(#[$doc])* static $name: $type = const { $init };)* }
        #[cfg(cortado_loom)]
        $crate::sync::thread_local! { $($(#[$doc])* static $name: $type = $init;)* }
    };
}
pub(crate) use thread_cells;

#[cfg(not(cortado_loom))]
mod real {
    pub use std::sync::Arc;
    pub use std::sync::atomic;
    pub use std::{thread, thread_local};

    pub mod queue {
        pub use crossbeam_queue::{ArrayQueue, SegQueue};
    }

    use std::sync::PoisonError;

    /// `std::sync::Mutex` without poisoning.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(std::sync::Mutex<T>);
    pub type MutexGuard<'a, T> = std::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        pub const fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        #[inline]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        #[inline]
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(guard),
                Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(std::sync::TryLockError::WouldBlock) => None,
            }
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// `std::sync::Condvar` without poisoning.
    #[derive(Debug, Default)]
    pub struct Condvar(std::sync::Condvar);

    impl Condvar {
        pub const fn new() -> Self {
            Self(std::sync::Condvar::new())
        }

        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }

        /// Waits at most `timeout`; may wake early.
        pub fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            timeout: std::time::Duration,
        ) -> MutexGuard<'a, T> {
            self.0.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    /// Hints that a spinning thread may let another run.
    #[inline]
    pub fn spin_hint() {
        std::hint::spin_loop();
    }

    /// A small number that differs between threads that run at the same time, for choosing a
    /// stripe.
    #[inline]
    pub fn thread_stripe() -> usize {
        use std::cell::Cell;
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
        }
        STRIPE
            .try_with(|stripe| {
                let known = stripe.get();
                if known != usize::MAX {
                    return known;
                }
                let new = NEXT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1);
                stripe.set(new);
                new
            })
            .unwrap_or(0)
    }

    /// Whether the named defect is seeded; always false outside of model checking and of builds
    /// with `--cfg cortado_seeded`.
    #[cfg(not(cortado_seeded))]
    #[inline(always)]
    pub const fn seeded(_bug: &str) -> bool {
        false
    }

    /// Whether the named defect is seeded: `CORTADO_SEEDED_BUG=name` proves that the suite that
    /// guards against it fails (`.ci/seeds`).
    #[cfg(cortado_seeded)]
    pub fn seeded(bug: &str) -> bool {
        static NAME: std::sync::OnceLock<Option<std::ffi::OsString>> = std::sync::OnceLock::new();
        let name = NAME.get_or_init(|| std::env::var_os("CORTADO_SEEDED_BUG"));
        name.as_deref().is_some_and(|name| name == bug)
    }
}

#[cfg(cortado_loom)]
mod model {
    pub use loom::sync::{Arc, atomic};
    pub use loom::{thread, thread_local};

    pub mod queue {
        use std::collections::VecDeque;

        /// Bounded queue with the contract of crossbeam's `ArrayQueue`.
        #[derive(Debug)]
        pub struct ArrayQueue<T> {
            items: super::Mutex<VecDeque<T>>,
            capacity: usize,
        }

        impl<T> ArrayQueue<T> {
            pub fn new(capacity: usize) -> Self {
                assert!(capacity > 0, "capacity must be non-zero");
                Self { items: super::Mutex::new(VecDeque::new()), capacity }
            }

            pub fn push(&self, item: T) -> Result<(), T> {
                let mut items = self.items.lock();
                if items.len() == self.capacity {
                    return Err(item);
                }
                items.push_back(item);
                Ok(())
            }

            pub fn pop(&self) -> Option<T> {
                self.items.lock().pop_front()
            }

            pub fn len(&self) -> usize {
                self.items.lock().len()
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            pub fn capacity(&self) -> usize {
                self.capacity
            }
        }

        /// Unbounded queue with the contract of crossbeam's `SegQueue`.
        #[derive(Debug)]
        pub struct SegQueue<T> {
            items: super::Mutex<VecDeque<T>>,
        }

        impl<T> SegQueue<T> {
            pub fn new() -> Self {
                Self { items: super::Mutex::new(VecDeque::new()) }
            }

            pub fn push(&self, item: T) {
                self.items.lock().push_back(item);
            }

            pub fn pop(&self) -> Option<T> {
                self.items.lock().pop_front()
            }

            pub fn len(&self) -> usize {
                self.items.lock().len()
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    }

    #[derive(Debug)]
    pub struct Mutex<T>(loom::sync::Mutex<T>);
    pub type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    #[derive(Debug)]
    pub struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub fn new() -> Self {
            Self(loom::sync::Condvar::new())
        }

        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        /// loom knows no time: waits without a limit.
        pub fn wait_timeout<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _timeout: std::time::Duration,
        ) -> MutexGuard<'a, T> {
            self.wait(guard)
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    pub fn spin_hint() {
        thread::yield_now();
    }

    thread_local! {
        static STRIPE: std::cell::Cell<usize> = std::cell::Cell::new(0);
    }

    /// The stripe that the model gave this thread with [`set_thread_stripe`], else 0.
    pub fn thread_stripe() -> usize {
        STRIPE.with(std::cell::Cell::get)
    }

    /// Chooses this thread's stripe.
    pub fn set_thread_stripe(stripe: usize) {
        STRIPE.with(|cell| cell.set(stripe));
    }

    /// Whether the named defect is seeded: `CORTADO_SEEDED_BUG=name` proves that the model that
    /// guards against it fails.
    pub fn seeded(bug: &str) -> bool {
        std::env::var_os("CORTADO_SEEDED_BUG").is_some_and(|name| name == bug)
    }
}

#[cfg(cortado_loom)]
pub use model::*;
#[cfg(not(cortado_loom))]
pub use real::*;
