//! One thread that runs clients when their deadlines come, for all clients of a process.
//!
//! A forked child has no thread. The next registration there starts one, which serves the inherited
//! clients as well.
//!
//! A client is anything that has something to do at times ([`Scheduled`]). It registers by a weak
//! handle and arms its [`Registration`]; the thread sleeps until the earliest armed deadline, and
//! runs the clients that are due, one after the other. A thread exists only as long as there are
//! clients.
//!
//! **Limits.** There is one thread: a client whose `run` blocks or takes long delays all the
//! others. Deadlines are kept in real time; a client with a clock of its own says
//! [`wake_now`](Registration::wake_now) when that clock is moved.
//!
//! # Rules
//!
//! 1. A client is armed for at most one deadline; arming for a later one than that does nothing.
//!    When the deadline comes the client is disarmed first and *then* run, so that whoever arms it
//!    meanwhile is not overlooked. `run` answers when it wants to run next.
//! 2. `run` is called on the scheduler's thread with no lock of the scheduler held. It may arm and
//!    drop registrations, its own included, and register clients.
//! 3. The thread holds the client alive during `run` only. If that was the last handle, the client
//!    is dropped there, on the scheduler's thread, again with no lock held.
//! 4. A panic in `run`, or in the client's drop after it, is caught and counted, and the client is
//!    run again when it is armed again.
//! 5. A client is forgotten when its registration is dropped. That does not wait for a `run` that
//!    is under way. A client that is found dead is forgotten as well.
//! 6. The thread ends when the last client is forgotten. A later registration starts another one.
//!
//! # The quick no
//!
//! Most calls of [`wake_at`](Registration::wake_at) find the client armed for an earlier moment,
//! and return after one load. That load may be stale, or just about to be: what then counts is that
//! the coming `run` sees what the caller changed *before* it called. Caller and thread each write
//! one word and then read the other's; with a `SeqCst` fence between write and read on both sides,
//! at least one of them sees the other's.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `armed`, one for each client | holders of the lock: lowered by arming, `NEVER` before a run | `wake_at`, without the lock | Relaxed, with fence(SeqCst) before the load, and after the store of `NEVER` | the deadline that the client is armed for |
//!
//! All else is in one mutex, held for a few instructions and never over a client's code. It is a
//! leaf: clients may call in here under any lock of theirs, since nothing of theirs is called under
//! it.
//!
//! # Alternatives that lost
//!
//! * A thread for each client: a process may have hundreds of clients, mostly asleep.
//! * A strong handle: a client that is only reachable from its scheduler would live for ever.
//! * A binary heap with lazy deletion: entries of clients that are re-armed often pile up.

mod serve;

use std::io;
use std::time::Duration;

use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
#[cfg(not(cortado_loom))]
use crate::sync::plain::OnceLock;
use crate::sync::plain::Weak;

pub use serve::{Counts, Scheduled};
use serve::{Id, Shared};

/// See the [module](self).
#[derive(Debug)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Default for Scheduler {
    fn default() -> Self {
        Self::new()
    }
}

impl Scheduler {
    /// A scheduler of its own, without a thread as yet.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared::new()) }
    }

    /// The one of the process.
    #[cfg(not(cortado_loom))]
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Scheduler> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// Registers a client, not armed as yet, and starts the thread if there is none.
    ///
    /// # Errors
    ///
    /// If the operating system refuses the thread.
    pub fn register(&self, client: Weak<dyn Scheduled>) -> io::Result<Registration> {
        let (id, armed) = Shared::register(&self.shared, client)?;
        Ok(Registration { shared: Arc::clone(&self.shared), id, armed })
    }

    /// What is going on, for statistics and tests.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }
}

/// A client's place with the scheduler. Dropping it deregisters the client.
#[derive(Debug)]
#[must_use = "dropping a registration deregisters the client"]
pub struct Registration {
    shared: Arc<Shared>,
    id: Id,
    armed: Arc<AtomicU64>,
}

impl Registration {
    /// Runs the client `after` this time from now at the latest. The run sees whatever the caller
    /// did before.
    pub fn wake_at(&self, after: Duration) {
        self.shared.wake_at(self.id, &self.armed, after);
    }

    /// Runs the client as soon as its turn comes.
    pub fn wake_now(&self) {
        self.wake_at(Duration::ZERO);
    }
}

impl Registration {
    /// Deregisters the client now. Does not wait for a run that is under way.
    pub fn cancel(&self) {
        self.shared.deregister(self.id);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.shared.deregister(self.id);
    }
}
