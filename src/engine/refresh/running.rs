//! A reload that runs, and how it ends. Nothing here knows keys or values.

use crate::engine::core::Core;
use crate::engine::reloads::{Reloading, Reloads};
use crate::loaded::NoValue;
use crate::node::GONE;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedBool;
use crate::primitives::{catch_user_panic, seeded};

/// What keeps a reload from its key.
#[derive(Debug)]
pub enum Hindered {
    /// A computation; a load that has begun, or has not looked at the cache yet.
    ByAnother,
    /// A load that waits in the executor. It has found that the key has no entry, and nothing has
    /// been written since. So the reload's entry has ended.
    ByQueued,
}

/// How a reload has ended.
pub enum Ended {
    /// The entry has a new value or a new life, or was removed. This is also the end if the loader
    /// made a value but another write took the old node out first.
    Done,
    /// The loader did not run: before it began, the entry was replaced, was removed or expired.
    Nothing,
    /// Another operation overtook the reload and left the old node in the index; or the loader made
    /// no value, and the reload was overtaken or the entry ended first.
    Overtaken,
    /// The loader failed, or panicked. The reason is `None` if it panicked.
    Failed(Option<NoValue>),
}

/// A reload whose loader runs. If the loader panics and nobody catches it, the drop of this counts
/// a failure.
pub struct Running<'e> {
    core: &'e Core,
    reloads: &'e Reloads,
    /// `None` once the reload has ended.
    reloading: Option<Box<Reloading>>,
    is_in_user_code: bool,
    /// Whether a future of the user's is being polled that this waits for, and does not run.
    is_polling: Option<&'e GuardedBool>,
}

impl<'e> Running<'e> {
    pub fn new(core: &'e Core, reloads: &'e Reloads, reloading: Box<Reloading>) -> Self {
        let reloading = Some(reloading);
        Self { core, reloads, reloading, is_in_user_code: false, is_polling: None }
    }

    pub fn reloading(&self) -> &Reloading {
        self.reloading.as_ref().expect("the reload has not ended")
    }

    /// Runs the user's code, or a part of it.
    pub fn run<T>(&mut self, run: impl FnOnce(&Reloading) -> T) -> T {
        self.is_in_user_code = true;
        let result = run(self.reloading());
        self.is_in_user_code = false;
        result
    }

    /// Waits for a future of the user's that is polled elsewhere. `is_polling` says when: if this
    /// is dropped then, that future has panicked.
    pub fn watch(&mut self, is_polling: &'e GuardedBool) {
        self.is_polling = Some(is_polling);
    }

    /// Ends a reload without a flight. If the key has another load or a computation, this leaves
    /// the trigger to a later read, after the retry delay.
    pub fn end_hindered(mut self, by: Hindered) {
        match (by, self.reloading.take()) {
            (_, Some(reloading)) if seeded("reloads-end-in-taken-triggers") => reloading.succeed(),
            (Hindered::ByAnother, Some(reloading)) => reloading.postpone(),
            (Hindered::ByQueued, Some(reloading)) => self.end_by(*reloading, Ended::Nothing),
            (_, None) => {}
        }
    }

    /// Ends the reload.
    pub(super) fn end(mut self, ended: Ended) {
        if let Some(reloading) = self.reloading.take() {
            self.end_by(*reloading, ended);
        }
    }

    /// Counts the outcome, and decides when a read may trigger the next reload of the entry.
    fn end_by(&self, reloading: Reloading, ended: Ended) {
        let id = reloading.node().id();
        match ended {
            Ended::Done => {
                self.reloads.failures.forget(id);
                reloading.succeed();
            }
            Ended::Nothing => {
                self.reloads.failures.forget(id);
                reloading.come_to_nothing();
            }
            Ended::Overtaken => reloading.give_up(),
            Ended::Failed(reason) => self.fail(reloading, reason),
        }
    }

    fn fail(&self, reloading: Reloading, reason: Option<NoValue>) {
        // The clock may be the user's, and may be what has panicked.
        let now = catch_user_panic(|| self.core.ticker.now());
        let now = now.unwrap_or_else(|| reloading.taken_from());
        let is_there = |id| self.core.pool.meta(id).deadline() != GONE;
        self.reloads.failures.note(reloading.node().id(), (reason, now), &is_there);
        reloading.fail();
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let is_polling = self.is_polling.is_some_and(|is_polling| is_polling.load(Relaxed));
        if (self.is_in_user_code || is_polling)
            && let Some(reloading) = self.reloading.take()
        {
            self.fail(*reloading, None);
        }
    }
}
