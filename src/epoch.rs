//! The crate's own collector of crossbeam-epoch, and the grace periods of the process.
//!
//! All users of crossbeam-epoch in a process share the default collector. Pinning and flushing run
//! functions that any of these users has deferred, on the caller's thread. Such a function may be
//! slow, panic, or use this cache. And a guard that any user holds keeps the garbage of all users.
//! With a collector of our own, only this crate's functions run there. None of them runs user code
//! or panics.
//!
//! # Grace periods
//!
//! A *grace period* ends when every guard of its beginning is gone. Caches keep their garbage
//! themselves. They defer no function for it: they note [the grace period](next_grace) that the
//! garbage has to wait for, and ask whether it [is over](Grace::is_over). This is the interface of
//! the Linux kernel's polled RCU (`get_state_synchronize_rcu`). The grace periods of the process
//! are numbered and follow each other. At most one is under way, for all caches together. Its end
//! is one deferred function. So however much garbage waits, and however long a guard is held, the
//! epoch's queue has one bag of 2 KiB. (A bag for each batch of garbage takes more memory than the
//! garbage. A queue of many bags is released at eight bags a flush, and the release defers the end
//! of the queue's own nodes.)
//!
//! | word | written by | read by | ordering, and what it carries |
//! |---|---|---|---|
//! | `periods` | [`next_grace`], which changes nothing; the thread that begins a period; the end of a period | the same, and [`Grace::is_over`] | all are read-modify-writes but the look of `is_over`. `next_grace` releases what its thread has unlinked; the beginning acquires that. The end releases what readers did under their guards; `is_over` acquires that |
//!
//! The handle of a thread lives in a thread-local. A thread that pins while its locals are being
//! destroyed gets a handle for that one guard.

use crate::primitives::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::primitives::thread::LocalKey;
use crate::primitives::{ordering_unless_seeded, seeded, thread_cells};
pub use crossbeam_epoch::Guard;
use std::cell::Cell;
use std::num::NonZero;

thread_cells! {
    /// How many deferred functions this thread has run.
    static RELEASES: Cell<u64> = Cell::new(0);
    /// How many it had run when it last deferred a function that only counts itself. Without such a
    /// function, a bag that frees nodes of the epoch's queue looks like one that is not due.
    static MARKED: Cell<u64> = Cell::new(0);
}

/// [`hasten`] gives up after this many flushes in a row that run no deferred function: a guard is
/// held. Two flushes end a grace period, if no other thread holds a guard for a moment.
const VAIN_FLUSHES: u32 = if cfg!(cortado_loom) { 3 } else { 8 };

/// The number of a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Grace(NonZero<u64>);

impl Grace {
    /// What [`to_word`](Self::to_word) was given.
    pub fn from_word(word: u64) -> Option<Self> {
        NonZero::new(word).map(Self)
    }

    /// 0 if there is none.
    pub fn to_word(grace: Option<Self>) -> u64 {
        grace.map_or(0, |grace| grace.0.get())
    }

    /// Whether it is under way or over. A hint: it may be about to begin.
    #[inline]
    pub fn has_begun(self) -> bool {
        periods().load(Relaxed).div_ceil(2) >= self.0.get()
    }

    /// Whether every guard is gone that was held when [`next_grace`] returned this. Then all that
    /// was done under those guards happens before what the caller does next.
    #[inline]
    pub fn is_over(self) -> bool {
        periods().load(Acquire) / 2 >= self.0.get()
    }
}

/// The grace period after which no thread can reach what the caller has unlinked before this call.
/// It is the next one to begin.
pub fn next_grace() -> Grace {
    // A change of the word, though it adds nothing: whoever begins the next period synchronises
    // with the last change.
    let word = periods().fetch_add(0, ordering_unless_seeded("grace-is-not-told", AcqRel));
    let is_under_way = word % 2 == 1 && !seeded("grace-joins-the-present");
    Grace(NonZero::<u64>::MIN.saturating_add(word / 2 + u64::from(is_under_way)))
}

/// Begins a grace period, unless one is under way, and moves the one that is under way on: hands
/// this thread's bag over, advances the epoch if no guard prevents it, and runs some of the
/// deferred functions that are due. Returns whether it has run any. The caller's own guard prevents
/// the second advance.
pub fn advance(guard: &Guard) -> bool {
    let periods = periods();
    let word = periods.load(Relaxed);
    if word.is_multiple_of(2) && periods.compare_exchange(word, word + 1, AcqRel, Relaxed).is_ok() {
        guard.defer(move || {
            periods.fetch_add(1, Release);
            note_release();
        });
    }
    let releases = count(&RELEASES);
    if releases != count(&MARKED) {
        // This thread has taken bags out of the queue. Its next bag frees the queue's nodes.
        let _ = MARKED.try_with(|marked| marked.set(releases));
        guard.defer(note_release);
    }
    guard.flush();
    count(&RELEASES) != releases
}

/// Advances the epoch until `grace` is over, by at most so many flushes. Gives up when a guard
/// prevents it. Returns whether `grace` is over. A guard of the caller's only holds the epoch back.
pub fn hasten(grace: Grace, most_flushes: u32) -> bool {
    let (mut vain, mut flushes) = (0, 0);
    while !grace.is_over() && vain < VAIN_FLUSHES && flushes < most_flushes {
        vain = if advance(&pin()) { 0 } else { vain + 1 };
        flushes += 1;
    }
    grace.is_over()
}

/// Each deferred function calls this. So a thread knows whether a flush has got anywhere. (A model
/// needs no haste, and its thread-locals end before its last functions.)
fn note_release() {
    if cfg!(cortado_loom) {
        return;
    }
    let _ = RELEASES.try_with(|releases| releases.set(releases.get() + 1));
}

fn count(counter: &'static LocalKey<Cell<u64>>) -> u64 {
    counter.try_with(Cell::get).unwrap_or(0)
}

#[cfg(not(cortado_loom))]
mod own {
    use crate::primitives::atomic::AtomicU64;
    use crate::primitives::delay_point;
    use crossbeam_epoch::{Collector, Guard, LocalHandle};
    use crossbeam_utils::CachePadded;
    use std::sync::OnceLock;

    /// The collector of all caches of the process.
    pub fn collector() -> &'static Collector {
        static COLLECTOR: OnceLock<Collector> = OnceLock::new();
        COLLECTOR.get_or_init(Collector::new)
    }

    /// Twice the number of grace periods that are over, and 1 more while one is under way.
    #[inline]
    pub fn periods() -> &'static AtomicU64 {
        // Passes change it often, so no other static shares its cache lines.
        static PERIODS: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
        &PERIODS
    }

    /// The handle of a thread. Its end leaves a bag in the queue, even one without functions. So
    /// [`hasten`](super::hasten) must know when it got past that bag: many threads may have ended
    /// under a guard.
    struct ThreadHandle(LocalHandle);

    impl Drop for ThreadHandle {
        fn drop(&mut self) {
            self.0.pin().defer(super::note_release);
        }
    }

    thread_local! {
        static HANDLE: ThreadHandle = ThreadHandle(collector().register());
    }

    /// Pins the thread: everything that is in the index from now on stays allocated as long as the
    /// guard lives.
    #[inline(never)]
    pub fn pin() -> Guard {
        pin_inline()
    }

    /// [`pin`] for reads and inserts, into which it is compiled.
    #[inline(always)]
    pub fn pin_inline() -> Guard {
        delay_point();
        HANDLE.try_with(|handle| handle.0.pin()).unwrap_or_else(|_| pin_without_locals())
    }

    #[cold]
    #[inline(never)]
    fn pin_without_locals() -> Guard {
        ThreadHandle(collector().register()).0.pin()
    }

    /// Whether this thread holds a guard. While the thread destroys its locals: true.
    pub fn is_pinned() -> bool {
        HANDLE.try_with(|handle| handle.0.is_pinned()).unwrap_or(true)
    }
}

/// A model needs a new collector, and new periods, for each execution. The default collector is
/// made anew each time. Its last functions run after the execution, so they own what they touch.
#[cfg(cortado_loom)]
mod own {
    use crate::primitives::Arc;
    use crate::primitives::atomic::AtomicU64;
    pub use crossbeam_epoch::{default_collector as collector, is_pinned, pin, pin as pin_inline};

    loom::lazy_static! {
        static ref PERIODS: Arc<AtomicU64> = Arc::new(AtomicU64::new(0));
    }

    pub fn periods() -> Arc<AtomicU64> {
        Arc::clone(&PERIODS)
    }
}

use own::periods;
pub use own::{collector, is_pinned, pin, pin_inline};
