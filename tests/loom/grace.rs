//! Models of the grace periods of the process: what a thread has unlinked is not freed until every
//! reader is gone that may have found it, whoever begins and ends the grace period.
//!
//! Run with `RUSTFLAGS="--cfg cortado_loom --cfg crossbeam_loom --cfg crossbeam_sanitize"`. Each
//! model names the seeded bugs (`CORTADO_SEEDED_BUG`) that it has been seen to catch.

use crate::support::index_world::model;
use cortado::internals::epoch::{Grace, advance, next_grace, pin};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use loom::thread;

/// A node that a link leads to. All accesses are relaxed: only grace periods order them.
struct Linked {
    link: AtomicBool,
    is_freed: AtomicBool,
    /// The grace period that the node waits for.
    grace: AtomicU64,
}

impl Linked {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            link: AtomicBool::new(true),
            is_freed: AtomicBool::new(false),
            grace: AtomicU64::new(Grace::to_word(None)),
        })
    }

    fn read(&self) {
        let _guard = pin();
        if self.link.load(Relaxed) {
            assert!(!self.is_freed.load(Relaxed), "the reader is still there");
        }
    }

    fn unlink(&self) {
        self.link.store(false, Relaxed);
        self.grace.store(Grace::to_word(Some(next_grace())), Relaxed);
    }

    fn free_if_over(&self) {
        if Grace::from_word(self.grace.load(Relaxed)).is_some_and(Grace::is_over) {
            self.is_freed.store(true, Relaxed);
        }
    }
}

/// The thread that begins the grace period has nothing to do with the one that has unlinked the
/// node. It may have begun one before: readers may have come since, so that one does not count.
/// `grace-joins-the-present`, `grace-is-not-told`.
#[test]
fn a_grace_period_comes_after_what_it_is_for() {
    model(|| {
        let linked = Linked::new();
        let [retired, read] = [Arc::clone(&linked), Arc::clone(&linked)];
        drop(pin());
        let retires = thread::spawn(move || retired.unlink());
        let reads = thread::spawn(move || read.read());
        // The first begins a grace period, the second ends it, unless a guard prevents that.
        advance(&pin());
        advance(&pin());
        linked.free_if_over();
        retires.join().unwrap();
        reads.join().unwrap();
    });
}
