//! A concurrent in-memory cache in which **every entry has a lifetime of its own**: tokens that
//! live as long as the issuer said, DNS answers with their TTLs, HTTP responses with their max-age,
//! sessions, leases, idempotency keys.
//!
//! ```
//! use cortado::{Cache, expire};
//! use std::time::Duration;
//!
//! #[derive(Clone)]
//! struct Answer { address: [u8; 4], ttl: Duration }
//!
//! let dns: Cache<String, Answer> = Cache::builder()
//!     .max_capacity(10_000)
//!     .expire_after(expire::on_write(|_name: &String, answer: &Answer| Some(answer.ttl)))
//!     .removal_listener(|removed| println!("{} left: {:?}", removed.key(), removed.cause()))
//!     .build();
//!
//! let resolve = || Answer { address: [192, 0, 2, 7], ttl: Duration::from_secs(300) };
//! let answer = dns.get_with("example.org".to_owned(), resolve);
//! assert_eq!(answer.address, [192, 0, 2, 7]);
//! assert!(dns.expires_in("example.org").is_some());
//! ```
//!
//! # Trade-offs
//!
//! * **No background thread unless you ask for one.** Expired entries are never *returned*; they
//!   are *removed* in the course of other operations, piece by piece, or on time by the
//!   [`scheduler`](Builder::scheduler). So without it an idle cache keeps what it holds.
//! * **Sizes are eventually exact.** [`Cache::entry_count`] and [`Cache::weighted_size`] are those
//!   of the last maintenance pass; [`Cache::run_pending_tasks`] brings them up to date.
//! * **Memory for nodes is kept for a while.** Keys and values are dropped when nobody can see them
//!   any more; the memory of their nodes (48 bytes and the pair itself) is reused. What has not
//!   been needed for a quarter of a second is given back to the system in blocks of 16 to 32 KiB,
//!   in the course of other operations (on Linux with pages of 4 KiB; elsewhere when the cache is
//!   dropped).
//! * **A held guard holds back memory.** While a thread holds a [`Cache::pin`] view, nothing that
//!   was removed since is released, in any cache of the process. So it is while a read runs a slow
//!   `Clone` or read hook.
//! * **New entries may be refused.** The eviction policy (W-TinyLFU) may prefer an old, often used
//!   entry to a newcomer; the newcomer then leaves as [`RemovalCause::Size`].
//!
//! # Guarantees
//!
//! 1. An entry is never returned, iterated, or counted as present by [`Cache::contains_key`] at or
//!    after its deadline, by the cache's [`Clock`]. (The system clock is read in a cheap, coarse
//!    form where that settles the question. This relies on the kernel's tick not lagging by more
//!    than 134 ms; see the measurements in `docs/performance.md`. A lifetime of 4.3 s or more is
//!    counted from a coarse reading: the deadline is then early by that lag, 1 to 10 ms as a rule,
//!    and never late. An idle time that long may also be early by 1/1024 of it. Shorter lifetimes,
//!    and other clocks, are exact. A view made by [`pin`](Cache::pin) reads the system clock at
//!    least every 64 lookups; between two readings it takes entries that had more than 68.7 s to
//!    live by the first to be alive, unless reads prolong lives. So it returns one after its
//!    deadline only if fewer than 64 of its lookups take longer than that.)
//! 2. Every value that is given to the cache leaves it **exactly once**, with exactly one
//!    [`RemovalCause`], and the listener sees each of them, per key in the order of removals. There
//!    are four exceptions, each of which is counted or asked for: values that are still inside when
//!    the last handle is dropped ([`Cache::close`] announces them); a value that a loader made and
//!    that was not kept ([`Cache::get_with`]), which was never inside; notifications beyond a limit
//!    of your choice ([`Overflow::Discard`]); values that the listener puts back into its own
//!    closed cache.
//! 3. Per key, operations are *linearizable*: a computation ([`KeyEntry::and_compute_with`]) also
//!    against plain inserts and removals. An entry that any operation has found expired stays
//!    expired for all. Iteration is *weakly consistent*: a key that is there throughout is seen
//!    exactly once. Of views 1 says how far a clock may be behind.
//! 4. No call does unbounded maintenance: a million entries that expire at one instant, or an
//!    [`invalidate_all`](Cache::invalidate_all) of them, stall nobody. (Calls that are asked for
//!    all of it are the exception: `run_pending_tasks`, `retain`, iteration, `close`. And if more
//!    than 4,080 clearings, with inserts between them, come faster than passes sweep, each further
//!    one sweeps 1/4,080 of the cache.)
//! 5. Size or weight stays within [`max_capacity`](Builder::max_capacity), but for the writes that
//!    are not yet applied: at most 1/16 of it (at least one entry per stripe of the write buffer)
//!    and one entry per writing thread. An entry that is heavier than many others together makes
//!    room over several passes.
//! 6. Lifetimes: zero means not stored (the listener sees `Expired`); more than the clock can hold
//!    (292 years) means never; nothing overflows.
//! 7. The key and value of a removed entry are dropped, if no handle or guard protects them: with a
//!    scheduler, within the [`expiry_resolution`](Builder::expiry_resolution) and a few
//!    milliseconds, also in an idle cache. Without it, by the operations that follow, reads among
//!    them, 16 ms of the cache's time apart: a write buffer's worth of removed entries at most (256
//!    per hardware thread; more after a pass was held up, as its thread may lose its core) waits to
//!    be noticed by one of them, and 1/64 of the entries, 255 at most, to be let go by another.
//!    [`Cache::run_pending_tasks`] releases all of it.
//!
//! # Waiting
//!
//! A read waits for no lock, and for no other thread: the maintenance that it may run in passing
//! skips a bucket or a buffer that another thread holds, which may have lost its core. It may run
//! the listener and destructors of removed values, unless they are elsewhere
//! ([`Builder::executor`]). A write waits for another write to the same bucket of the index, and
//! for a computation of its key. If the write buffer is full it also waits for the thread that runs
//! the maintenance.
//!
//! # Time
//!
//! An entry has one deadline. What sets it, the earliest winning:
//! [`time_to_live`](Builder::time_to_live), [`time_to_idle`](Builder::time_to_idle), an [`Expiry`]
//! policy ([`expire_after`](Builder::expire_after)), or in place of all but the idle time the call
//! itself: [`Cache::insert_with_ttl`], [`Cache::insert_until`], [`Cache::set_ttl`],
//! [`Cache::persist`]. In tests use [`Clock::manual`] and never sleep.
//!
//! # Inside
//!
//! ```text
//!  get ──► index ──► node ──► value                   insert / remove
//!            │         │ deadline, touches                   │
//!            │         ▼                                     ▼
//!            │   read buffer (lossy)        index (one bucket's lock) ──► write buffer (lossless)
//!            │         │                                     │
//!            │         ▼                                     ▼
//!            │   ┌──── maintenance pass: one at a time, bounded, any caller or the scheduler ────┐
//!            │   │  drain · wheel.advance(now) · expire · evict · grow · sweep · reclaim         │
//!            │   └───────┬─────────────────────┬─────────────────────────┬───────────────────────┘
//!            ▼           ▼                     ▼                         ▼
//!     epoch reclamation  timer wheel           eviction policy           notifications
//! ```
//!
//! `docs/architecture.md` is the guided tour; each module's documentation is its protocol.
// What the mechanisms offer to tests, fuzzers and benches only is not compiled in otherwise.
#![cfg_attr(any(not(feature = "internals"), cortado_loom), allow(dead_code, unused_imports))]
#![cfg_attr(any(feature = "internals", cortado_loom), allow(missing_docs))]

mod clock;
mod epoch;
mod hash;
mod prefetch;
mod sync;
#[cfg_attr(cortado_loom, allow(dead_code))]
mod system;

mod buffer;
mod drain;
mod executor;
mod flight;
mod index;
mod links;
mod list;
mod outbox;
mod scheduler;
mod sketch;
mod wheel;

mod config;
mod error;
mod expiry;
mod removal;
mod stats;

mod expiration;
mod node;
mod policy;
mod pool;

mod compute;
mod engine;
mod entry;

mod builder;
mod cache;
mod iter;
mod pinned;

/// The README's programs, compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use builder::Builder;
pub use cache::{Cache, KeyEntry};
pub use clock::{Clock, ManualClock, TimeSource};
pub use compute::{CompResult, Op};
pub use config::Overflow;
pub use engine::Pending;
pub use entry::{Entry, Removed};
pub use equivalent::Equivalent;
pub use error::BuildError;
pub use executor::{Execute, Job};
pub use expiry::{Expiry, expire};
pub use iter::{Iter, Keys, Values};
pub use pinned::Pinned;
pub use removal::RemovalCause;
pub use stats::{Lateness, Stats};

/// Doors to the mechanisms, for this repository's own tests, fuzzers and benches. Outside semver.
#[cfg(any(feature = "internals", cortado_loom))]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod internals {
    pub mod buffer {
        pub use crate::buffer::*;
    }
    pub mod drain {
        pub use crate::drain::*;
    }
    pub mod epoch {
        pub use crate::epoch::*;
    }
    pub mod executor {
        pub use crate::executor::*;
    }
    pub mod flight {
        pub use crate::flight::*;
    }
    pub mod index {
        pub use crate::index::*;
    }
    pub mod links {
        pub use crate::links::*;
    }
    pub mod list {
        pub use crate::list::*;
    }
    pub mod node {
        pub use crate::node::*;
    }
    pub mod outbox {
        pub use crate::outbox::*;
    }
    pub mod policy {
        pub use crate::policy::*;
    }
    pub mod pool {
        pub use crate::pool::*;
    }
    pub mod scheduler {
        pub use crate::scheduler::*;
    }
    pub mod sketch {
        pub use crate::sketch::*;
    }
    pub mod sync {
        pub use crate::sync::*;
    }
    pub mod wheel {
        pub use crate::wheel::*;
    }
}
