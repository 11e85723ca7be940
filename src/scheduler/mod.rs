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

mod client;
mod graces;
mod serve;
#[cfg(feature = "tokio")]
mod tokio;

pub use client::{Alarm, Scheduled};
pub use serve::{Counts, Registration, Scheduler};
#[cfg(feature = "tokio")]
pub use tokio::TaskRegistration;
