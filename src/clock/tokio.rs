//! The clock of a tokio runtime.

use std::fmt;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::time::Instant as TokioInstant;

/// A runtime, and the instant from which its time counts.
#[derive(Clone)]
pub struct RuntimeTime {
    runtime: Handle,
    start: TokioInstant,
}

impl RuntimeTime {
    /// # Panics
    /// Outside of a runtime, and in one whose time is not enabled.
    pub fn of_current() -> Self {
        let runtime = Handle::current();
        // Panics at once, and not later in a task that nobody looks at.
        drop(tokio::time::sleep(Duration::ZERO));
        Self { runtime, start: TokioInstant::now() }
    }

    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The runtime's present. Off its threads tokio would give the real time, even while the
    /// runtime's is paused. So each reading enters the runtime.
    pub fn present(&self) -> TokioInstant {
        let _entered = self.runtime.enter();
        TokioInstant::now()
    }

    pub fn reading(&self) -> Duration {
        self.present().saturating_duration_since(self.start)
    }

    /// The present as an `Instant`, on the scale of `tokio::time::Instant::into_std`.
    pub fn instant(&self) -> Instant {
        self.present().into_std()
    }
}

impl fmt::Debug for RuntimeTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeTime").field("reading", &self.reading()).finish_non_exhaustive()
    }
}
