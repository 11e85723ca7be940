//! The scheduler's handle, and that of a client.

use super::alarm::Alarm;
use super::client::{Armed, ClientId, Scheduled};
use super::serve::{Counts, Shared};
use crate::epoch::Grace;
use crate::primitives::Arc;
#[cfg(not(cortado_loom))]
use crate::primitives::plain::OnceLock;
use crate::primitives::plain::Weak;
use std::io;
use std::time::Duration;

/// See the [module](super).
#[derive(Debug)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    /// Creates a separate scheduler, which has no thread yet.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared::new()) }
    }

    /// The scheduler of the process.
    #[cfg(not(cortado_loom))]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Scheduler> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// Registers a client, which is not armed yet. Starts the thread if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses to start the thread.
    pub fn register(&self, client: Weak<dyn Scheduled>) -> io::Result<Registration> {
        let (id, armed) = Shared::register(&self.shared, client)?;
        Ok(Registration { shared: Arc::clone(&self.shared), id, armed })
    }

    /// Counters for statistics and tests.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

/// A client's registration with the scheduler. Dropping it deregisters the client.
#[derive(Debug)]
#[must_use = "dropping a registration deregisters the client"]
pub struct Registration {
    shared: Arc<Shared>,
    id: ClientId,
    armed: Arc<Armed>,
}

impl Registration {
    /// Runs the client as soon as its turn comes.
    pub fn wake_now(&self) {
        self.wake_within(Duration::ZERO);
    }
}

impl Alarm for Registration {
    fn wake_within(&self, after: Duration) {
        self.shared.wake_within(self.id, &self.armed, after);
    }

    fn come_back_in_real_time(&self, after: Duration) -> Option<Duration> {
        Some(after)
    }

    fn wake_after(&self, grace: Grace) {
        self.shared.wake_after(self.id, &self.armed, grace);
    }

    fn cancel(&self) {
        self.shared.deregister(self.id, &self.armed);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cancel();
    }
}
