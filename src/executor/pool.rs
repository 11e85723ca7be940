//! Workers: those of the process, and those of one client.

use super::job::{Execute, Job};
use super::workers::{Counts, Limits, Shared};
use crate::macros::debug_fields;
use crate::primitives::Arc;
#[cfg(not(cortado_loom))]
use crate::primitives::plain::OnceLock;
#[cfg(not(cortado_loom))]
use std::time::Duration;

/// Threads that start when there are jobs, and end when there are none. See the [module](super).
///
/// If the operating system refuses the first thread, the waiting jobs are dropped without running.
/// If it refuses another one, the jobs stay in the queue for the existing threads. The next job
/// tries again.
///
/// # Fork
///
/// A child made by `fork` has none of its parent's threads. The first job that is submitted in the
/// child starts new ones, which also run the jobs that waited at the fork.
///
/// A job that was running at the fork is not run in the child. The cache that submitted it gets no
/// other job there, and delivers nothing through these workers.
///
/// If another thread holds the lock of the workers at the very moment of the fork, the lock stays
/// locked in the child. The child's next job then waits for it forever. So start another program
/// after a fork (`exec`), or fork before the process builds its first cache.
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// Creates separate workers, which have no thread yet.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates separate workers with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        Self { shared: Arc::new(Shared::new(limits)) }
    }

    /// The workers of the process.
    #[cfg(not(cortado_loom))]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Workers> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// The workers of the process for reloads, which may wait for an upstream for long. They have
    /// threads of their own, so that all other jobs find theirs. Jobs beyond [`RELOADS`] wait.
    ///
    /// [`RELOADS`]: Self::RELOADS
    #[cfg(not(cortado_loom))]
    pub fn for_reloads() -> &'static Self {
        static RELOADS: OnceLock<Workers> = OnceLock::new();
        RELOADS.get_or_init(|| {
            // A reload is expected to wait. So the next one does not wait for it for long.
            let patience = Duration::from_millis(1);
            Self::with_limits(Limits { threads: Self::RELOADS, patience, ..Limits::default() })
        })
    }

    /// So many reloads of all caches run on workers at once.
    pub const RELOADS: usize = 64;

    /// Counters for statistics and tests.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

impl Execute for Workers {
    fn execute(&self, job: Job) {
        Shared::submit(&self.shared, job);
    }
}

debug_fields!(impl Workers, |it| counts: it.counts());

/// The waiting jobs still run. Then the threads end without lingering.
impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.close();
    }
}
