//! The only access to atomics, locks, threads and queues.
//!
//! With `--cfg cortado_loom` the same names come from loom, so that the model checker sees every
//! access. loom cannot see into crossbeam's queue. It is replaced by one with the same contract,
//! built on loom's mutex.
//!
//! Locks here do not poison. No user code runs under a lock, so a panic never leaves cortado's data
//! half-changed under one. Poisoning would protect nothing.

#[cfg(cortado_loom)]
use loom::sync as base;
#[cfg(not(cortado_loom))]
use std::sync as base;
use std::sync::{PoisonError, TryLockError};

/// std's own types, under loom too. They are for handles that outlive the execution of a model, and
/// for handles that loom's types cannot express (`Weak`, unsized). They order nothing that a model
/// examines.
pub mod plain {
    pub use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
}

/// Times. Where the standard library has no clock, which is `wasm32-unknown-unknown`, the instants
/// are those of web-time, by the browser's or Node's `performance.now()`.
pub mod time {
    pub use std::time::Duration;
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub use std::time::{Instant, SystemTime};
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub use web_time::{Instant, SystemTime};
}

/// Words that are synchronised by a lock or by another word. They are std's atomics, under loom
/// too, so that they add no interleavings to a model of the engine. The models of the parts show
/// that such words *are* synchronised: they keep the data in loom's cells.
pub mod guarded {
    pub use std::sync::atomic::{
        AtomicBool as GuardedBool, AtomicU32 as GuardedU32, AtomicU64 as GuardedU64,
    };
}

/// Runs user code. Catches a panic of that code, and returns `None` then. If the destructor of the
/// panic's payload panics, the payload of that panic is leaked.
pub fn catch_user_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let drop_payload = |payload| {
        catch_unwind(AssertUnwindSafe(|| drop(payload))).unwrap_or_else(std::mem::forget);
    };
    catch_unwind(AssertUnwindSafe(run)).map_err(drop_payload).ok()
}

/// Calls its function when it is dropped, even by a panic.
pub struct OnDrop<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnDrop<F> {
    #[inline]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Runs code that may panic. Calls `give_back` if it does.
#[inline(always)]
pub fn on_unwind<T>(run: impl FnOnce() -> T, give_back: impl Fn()) -> T {
    let unwinding = OnDrop(give_back);
    let result = run();
    std::mem::forget(unwinding);
    result
}

/// `Relaxed` if the named defect is [`seeded`], else `ordering`.
#[inline(always)]
pub fn ordering_unless_seeded(bug: &str, ordering: atomic::Ordering) -> atomic::Ordering {
    if seeded(bug) { atomic::Ordering::Relaxed } else { ordering }
}

/// How to deal with another thread that holds something and may have been preempted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Wait for it, however long that takes.
    Wait,
    /// Give up after a moment: the caller can do without it for now.
    Skip,
}

/// A wait for something that takes a few instructions, unless the thread that does it was
/// preempted.
pub struct Wait {
    patience: Patience,
    hints: u32,
}

impl Wait {
    /// This many spin hints are enough for a holder that has a core. The model checker lets other
    /// threads run at each hint, so one is enough for it.
    const HINTS: u32 = if cfg!(cortado_loom) { 1 } else { 64 };

    pub fn new(patience: Patience) -> Self {
        Self { patience, hints: 0 }
    }

    /// Waits a little: first it spins, and then it yields the core each time. With
    /// [`Patience::Skip`] it never yields, and returns false once the wait has been long enough for
    /// a holder that has a core.
    pub fn pause(&mut self) -> bool {
        if self.hints < Self::HINTS {
            self.hints += 1;
            spin_hint();
            return true;
        }
        let waits = self.patience == Patience::Wait;
        if waits {
            thread::yield_now();
        }
        waits
    }
}

/// Thread-locals with constant initial values and without destructors. An access is one
/// instruction, even while other thread-locals of the thread are being destroyed. (loom's
/// thread-locals support no constants.)
macro_rules! thread_cells {
    ($($(#[$doc:meta])* static $name:ident: $type:ty = $init:expr;)*) => {
        #[cfg(not(cortado_loom))]
        std::thread_local! { $($(#[$doc])* static $name: $type = const { $init };)* }
        #[cfg(cortado_loom)]
        $crate::primitives::thread_local! { $($(#[$doc])* static $name: $type = $init;)* }
    };
}
pub(crate) use thread_cells;

/// A `Mutex` without poisoning.
#[derive(Debug, Default)]
pub struct Mutex<T>(base::Mutex<T>);
pub use base::MutexGuard;

impl<T> Mutex<T> {
    #[inline]
    pub fn new(value: T) -> Self {
        Self(base::Mutex::new(value))
    }

    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        delay_point();
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// [`lock`](Self::lock), or with [`Patience::Skip`] [`try_lock`](Self::try_lock).
    pub fn lock_with(&self, patience: Patience) -> Option<MutexGuard<'_, T>> {
        match patience {
            Patience::Wait => Some(self.lock()),
            Patience::Skip => self.try_lock(),
        }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A `Condvar` without poisoning.
#[derive(Debug, Default)]
pub struct Condvar(base::Condvar);

impl Condvar {
    #[inline]
    pub fn new() -> Self {
        Self(base::Condvar::new())
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits at most `timeout`; may wake up early. loom has no time, so there it waits without a
    /// limit.
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

#[cfg(not(cortado_loom))]
mod real {
    pub use std::sync::Arc;
    pub use std::sync::atomic;
    pub use std::{thread, thread_local};

    pub mod queue {
        use std::sync::OnceLock;

        type Unbounded<T> = crossbeam_queue::SegQueue<T>;

        /// crossbeam's unbounded queue, made by the first push. It takes 256 bytes before it has an
        /// item, and most queues of a cache never have one.
        #[derive(Debug)]
        pub struct SegQueue<T>(OnceLock<Box<Unbounded<T>>>);

        impl<T> SegQueue<T> {
            pub const fn new() -> Self {
                Self(OnceLock::new())
            }

            #[inline]
            pub fn push(&self, item: T) {
                self.0.get_or_init(Self::make).push(item);
            }

            #[cold]
            fn make() -> Box<Unbounded<T>> {
                Box::new(Unbounded::new())
            }

            #[inline]
            pub fn pop(&self) -> Option<T> {
                self.0.get()?.pop()
            }

            #[inline]
            pub fn len(&self) -> usize {
                self.0.get().map_or(0, |queue| queue.len())
            }

            #[inline]
            pub fn is_empty(&self) -> bool {
                self.0.get().is_none_or(|queue| queue.is_empty())
            }
        }
    }

    /// Tells the processor that this thread is spinning, so that it may let another thread run.
    #[inline]
    pub fn spin_hint() {
        std::hint::spin_loop();
    }

    /// A small number for choosing a stripe. It differs between threads that run at the same time.
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

    /// Whether the named defect is seeded. Always false outside of model checking and of builds
    /// with `--cfg cortado_seeded`.
    #[cfg(not(cortado_seeded))]
    #[inline(always)]
    pub const fn seeded(_bug: &str) -> bool {
        false
    }

    /// A step of a protocol, at which `.ci/deep/delays` holds threads up now and then, so that they
    /// meet where they seldom would.
    #[cfg(not(cortado_seeded))]
    #[inline(always)]
    pub const fn delay_point() {}

    /// With `CORTADO_DELAYS=n`, one in `n` steps sleeps for less than 0.3 ms.
    #[cfg(cortado_seeded)]
    pub fn delay_point() {
        static ONE_IN: std::sync::OnceLock<Option<u64>> = std::sync::OnceLock::new();
        thread_local! {
            static DRAWS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
        }
        let one_in = ONE_IN.get_or_init(|| std::env::var("CORTADO_DELAYS").ok()?.parse().ok());
        let Some(one_in) = *one_in else { return };
        // Knuth's linear congruential generator (MMIX), another sequence for each stripe.
        let draw = DRAWS.get().wrapping_mul(6_364_136_223_846_793_005);
        DRAWS.set(draw.wrapping_add(1_442_695_040_888_963_407 ^ (2 * thread_stripe() as u64)));
        if (draw >> 33) % one_in == 0 {
            std::thread::sleep(std::time::Duration::from_micros((draw >> 50) % 300));
        }
    }

    /// Whether the named defect is seeded by `CORTADO_SEEDED_BUG=name`. Seeding proves that the
    /// suite that guards against the defect fails (`.ci/deep/seeds`). It is a [`delay_point`], too.
    #[cfg(cortado_seeded)]
    pub fn seeded(bug: &str) -> bool {
        delay_point();
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
        use crate::primitives::Mutex;
        use std::collections::VecDeque;

        /// Unbounded queue with the contract of crossbeam's `SegQueue`.
        #[derive(Debug)]
        pub struct SegQueue<T>(Mutex<VecDeque<T>>);

        impl<T> SegQueue<T> {
            pub fn new() -> Self {
                Self(Mutex::new(VecDeque::new()))
            }

            pub fn push(&self, item: T) {
                self.0.lock().push_back(item);
            }

            pub fn pop(&self) -> Option<T> {
                self.0.lock().pop_front()
            }

            pub fn len(&self) -> usize {
                self.0.lock().len()
            }

            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    }

    pub fn spin_hint() {
        thread::yield_now();
    }

    thread_local! {
        static STRIPE: std::cell::Cell<usize> = std::cell::Cell::new(0);
    }

    /// The stripe that the model chose for this thread by [`set_thread_stripe`], else 0.
    pub fn thread_stripe() -> usize {
        STRIPE.with(std::cell::Cell::get)
    }

    /// Chooses the stripe of this thread.
    pub fn set_thread_stripe(stripe: usize) {
        STRIPE.with(|cell| cell.set(stripe));
    }

    /// The model checker switches threads by itself.
    pub const fn delay_point() {}

    /// Whether the named defect is seeded by `CORTADO_SEEDED_BUG=name`. Seeding proves that the
    /// model that guards against the defect fails.
    pub fn seeded(bug: &str) -> bool {
        std::env::var_os("CORTADO_SEEDED_BUG").is_some_and(|name| name == bug)
    }
}

#[cfg(cortado_loom)]
pub use model::*;
#[cfg(not(cortado_loom))]
pub use real::*;
