//! The clock of a tokio runtime.

use super::time::{Nanos, nanos};
use crate::macros::debug_fields;
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use crate::primitives::time::{Duration, Instant};
use crate::primitives::{Arc, thread_local};
use tokio::runtime::Handle;
use tokio::time::Instant as TokioInstant;

/// By so much `RuntimeTime::latest` lags behind the latest reading: all threads read that word, and
/// it is written only once in this time.
const LAG: u64 = 1_000_000;

thread_local! {
    /// Tells when the thread's thread-locals are being destroyed.
    static LIVES: Lives = Lives::begin();
}

/// Thread-locals are destroyed in the reverse order of their first use. Tokio's is used before this
/// one, so it is still there while this one is: unless this one is first used when tokio's is gone.
struct Lives(bool);

impl Lives {
    fn begin() -> Self {
        Self(!is_context_destroyed())
    }
}

impl Drop for Lives {
    fn drop(&mut self) {}
}

/// Whether tokio's thread-local is gone, so that this thread can enter no runtime any more.
#[cold]
fn is_context_destroyed() -> bool {
    Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
}

/// A runtime, and the instant from which its time counts.
#[derive(Clone)]
pub struct RuntimeTime {
    runtime: Handle,
    start: TokioInstant,
    /// The latest reading of any thread, in nanoseconds, or one up to [`LAG`] before it. Relaxed:
    /// it is a reading, and orders nothing.
    latest: Arc<AtomicU64>,
}

impl RuntimeTime {
    /// # Panics
    /// Outside of a runtime, and in one whose time is not enabled.
    #[track_caller]
    pub fn of_current() -> Self {
        let runtime = Handle::current();
        // Panics at once, and not later in a task that nobody looks at.
        drop(tokio::time::sleep(Duration::ZERO));
        Self { runtime, start: TokioInstant::now(), latest: Arc::new(AtomicU64::new(0)) }
    }

    pub fn runtime(&self) -> &Handle {
        &self.runtime
    }

    /// The runtime's present. Off its threads tokio would give the real time, even while the
    /// runtime's is paused. So each reading enters the runtime. A thread that cannot enter it any
    /// more (a destructor of another thread-local) gets an earlier reading.
    pub fn present(&self) -> TokioInstant {
        if !LIVES.try_with(|lives| lives.0).unwrap_or(false) && is_context_destroyed() {
            return self.start + Nanos::from_raw(self.latest.load(Relaxed)).to_duration();
        }
        let _entered = self.runtime.enter();
        let present = TokioInstant::now();
        self.note(present);
        present
    }

    #[inline]
    fn note(&self, present: TokioInstant) {
        let reading = nanos(present.saturating_duration_since(self.start)).raw();
        if reading.saturating_sub(self.latest.load(Relaxed)) >= LAG {
            self.latest.fetch_max(reading, Relaxed);
        }
    }

    pub fn reading(&self) -> Duration {
        self.present().saturating_duration_since(self.start)
    }

    /// The present as an `Instant`, on the scale of `tokio::time::Instant::into_std`.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    pub fn instant(&self) -> Instant {
        self.present().into_std()
    }

    /// The present. (A runtime has no clock on this target.)
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    pub fn instant(&self) -> Instant {
        Instant::now()
    }
}

debug_fields!(impl RuntimeTime, |it| reading: it.reading());
