//! The scheduler: one thread that runs all clients of a process when their deadlines come.
//!
//! A forked child does not have the thread. The next registration in the child starts one, which
//! also serves the inherited clients.
//!
//! A client is anything that has work to do at certain times ([`Scheduled`]). It registers by a
//! weak handle and arms its [`Registration`]. The thread sleeps until the earliest armed deadline,
//! then runs the due clients one after the other. The thread exists only while there are clients.
//!
//! **Limits.** There is one thread: a client whose `run` blocks or takes long delays all the
//! others. Deadlines are kept in real time. A client with its own clock calls
//! `Registration::wake_now` when that clock is moved.
//!
//! # Rules
//!
//! 1. A client is armed for at most one deadline. Arming it for a later one does nothing. When the
//!    deadline comes, the thread first disarms the client and *then* runs it, so that it does not
//!    overlook an arming during the run. `run` returns when the client wants to run next.
//! 2. `run` is called on the scheduler's thread with no lock of the scheduler held. It may arm and
//!    drop registrations, including its own, and register clients.
//! 3. The thread holds the client alive only during `run`. If that was the last handle, the client
//!    is dropped there, on the scheduler's thread, again with no lock held.
//! 4. A panic in `run`, or in the client's drop after it, is caught and counted. The client runs
//!    again when it is armed again.
//! 5. The scheduler forgets a client when its registration is dropped. The drop does not wait for a
//!    `run` that is in progress. The scheduler also forgets a client whose handle turns out to be
//!    dead.
//! 6. The thread ends when the last client is forgotten. A later registration starts another one.
//! 7. A client may also wait for one grace period of the epoch. The thread looks for all such
//!    clients at once (`graces`), and arms those whose grace period is over.
//!
//! # The quick no
//!
//! Most calls of [`wake_within`](Registration::wake_within) find the client armed for an earlier
//! deadline, and return after one load. That load may be stale, or become stale at once. The coming
//! `run` must then see the changes that the caller made *before* the call. Caller and thread each
//! write one word and then read the other's word. Both sides have a `SeqCst` fence between write
//! and read, so at least one of them sees the other's write.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `armed`, one for each client | holders of the lock: arming lowers it, and the thread stores `NEVER` before a run | `wake_within`, without the lock | Relaxed, with fence(SeqCst) before the load, and after the store of `NEVER` | the deadline that the client is armed for |
//!
//! All other state is in one mutex, which is held for a few instructions and never while client
//! code runs. The mutex is a leaf lock: no client code is called under it, so clients may call the
//! scheduler under any lock of their own.
//!
//! # Alternatives that lost
//!
//! * A thread for each client: a process may have hundreds of clients, most of them asleep.
//! * A strong handle: a client that is only reachable from its scheduler would live forever.
//! * A binary heap with lazy deletion: entries of clients that are re-armed often pile up.

mod graces;
mod serve;
#[cfg(all(feature = "tokio", not(cortado_loom)))]
mod tokio;

pub use serve::{Counts, Registration, Scheduler};
#[cfg(all(feature = "tokio", not(cortado_loom)))]
pub use tokio::TaskRegistration;

use crate::clock::{NEVER, Timestamp};
use crate::epoch::Grace;
use crate::primitives::atomic::{AtomicU64, Ordering::Relaxed};
use crate::primitives::guarded::GuardedU64;
use std::time::Duration;

/// A client of the scheduler: anything that has work to do at certain times.
pub trait Scheduled: Send + Sync {
    /// Does the work that is due. Returns the delay after which the client wants to run again;
    /// `None` means when it is armed again.
    fn run(&self) -> Option<Duration>;
}

/// What runs a client when its time comes. Dropping it deregisters the client.
pub trait Alarm: Send + Sync {
    /// Runs the client when `after` has elapsed, at the latest. The run sees everything that the
    /// caller did before this call.
    fn wake_within(&self, after: Duration);

    /// Runs the client when `after` has elapsed in real time, at the latest. A client that is
    /// inside its `run` has to return the delay that this returns: its deadlines are in real time
    /// anyway.
    fn come_back_in_real_time(&self, after: Duration) -> Option<Duration>;

    /// Runs the client when a grace period is over. One thread looks after the grace periods of all
    /// clients. A client waits for one grace period at a time: while it waits for one, this does
    /// nothing.
    fn wake_after(&self, grace: Grace);

    /// Deregisters the client now. Does not wait for a run that is in progress.
    fn cancel(&self);
}

/// The number of a client, in the order of registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClientId(u64);

/// What one client waits for.
struct Armed {
    id: ClientId,
    /// The deadline, as other threads may read it without the lock.
    at: AtomicU64,
    /// The grace period that it waits for, if it does. Under the lock.
    grace: GuardedU64,
}

impl Armed {
    fn new(id: ClientId) -> Self {
        let (at, grace) = (AtomicU64::new(NEVER.raw()), GuardedU64::new(Grace::to_word(None)));
        Self { id, at, grace }
    }

    fn get(&self) -> Timestamp {
        Timestamp::from_raw(self.at.load(Relaxed))
    }

    fn set(&self, at: Timestamp) {
        self.at.store(at.raw(), Relaxed);
    }

    fn grace(&self) -> Option<Grace> {
        Grace::from_word(self.grace.load(Relaxed))
    }

    fn set_grace(&self, grace: Option<Grace>) {
        self.grace.store(Grace::to_word(grace), Relaxed);
    }
}
