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
//! assert!(dns.expires_in("example.org").has_entry());
//! ```
//!
//! # Which method do I want?
//!
//! | I want to | method |
//! |---|---|
//! | read a value | [`get`](Cache::get); a handle, without `Clone`: [`get_entry`](Cache::get_entry); a reference: [`pin`](Cache::pin) |
//! | read without prolonging the entry's life | [`peek`](Cache::peek), [`contains_key`](Cache::contains_key) |
//! | write a value | [`insert`](Cache::insert), [`insert_with_ttl`](Cache::insert_with_ttl), [`insert_until`](Cache::insert_until) |
//! | read a value, or make it once for all callers | [`get_with`](Cache::get_with); if making it may fail, or says how long it lives: [`load`](Cache::load) |
//! | the same for many keys | [`get_many_with`](Cache::get_many_with) |
//! | always the same way of making values | [`build_with_loader`](Builder::build_with_loader), which also reloads stale ones |
//! | look, decide and write as one step | [`entry`](Cache::entry) and [`and_compute_with`](KeyEntry::and_compute_with) |
//! | know or change how long an entry lives | [`expires_in`](Cache::expires_in), [`set_ttl`](Cache::set_ttl), [`touch`](Cache::touch), [`persist`](Cache::persist) |
//! | set lifetimes by a rule | [`time_to_live`](Builder::time_to_live), [`time_to_idle`](Builder::time_to_idle), [`expire_after`](Builder::expire_after) |
//! | remove | [`remove`](Cache::remove), [`invalidate`](Cache::invalidate), [`retain`](Cache::retain), [`invalidate_all`](Cache::invalidate_all) |
//! | hear of removals | [`removal_listener`](Builder::removal_listener), [`removals`](Builder::removals) |
//! | expire on time in an idle process | [`scheduler`](Builder::scheduler) |
//! | any of these in async code | [`future::Cache`], which awaits what may wait; the rest, such as `peek`, `expires_in`, `make_stale` and `save`, is on its [`sync`](future::Cache::sync) handle |
//!
//! The [guide] has a page for each subject, from [tokens](guide::tokens) and
//! [sessions](guide::sessions) to [changing over from moka](guide::changing_over). The page
//! [stability](guide::stability) has the minimum Rust (1.88), what a version may change, and how to
//! report a vulnerability.
//!
//! # Trade-offs
//!
//! * **No background thread unless you ask for one.** The cache never *returns* an expired entry.
//!   It *removes* expired entries piece by piece, in the course of other operations; a
//!   [`scheduler`](Builder::scheduler) removes them on time. So an idle cache without a scheduler
//!   keeps what it holds.
//! * **Sizes are eventually exact.** [`Cache::entry_count`] and [`Cache::weighted_size`] are those
//!   of the last maintenance pass. [`Cache::run_pending_tasks`] brings them up to date.
//! * **Some memory for nodes is kept.** The cache drops a key and its value when no thread can see
//!   them any more. It reuses the memory of their node (48 bytes and the pair itself). Free nodes
//!   up to an eighth of all, or up to 256 KiB, are kept for that; the memory of further ones goes
//!   back to the system, in blocks of 16 to 32 KiB. Maintenance passes do this: the scheduler's,
//!   those that other operations run, and those of [`Cache::run_pending_tasks`]. It is so on Linux,
//!   with pages of less than 64 KiB; elsewhere node memory goes back when the cache is dropped.
//! * **A held view holds back memory.** A *view* is what [`Cache::pin`] returns. While a thread
//!   holds one, no cache of the process releases the entries that were removed since. The same
//!   holds while a read, or a load that finds the value, runs a slow `Clone`, a slow read hook or a
//!   slow condition of [`Cache::get_if`].
//! * **New entries may be refused.** The default [`EvictionPolicy`] may prefer an old, often used
//!   entry to a new one. The new entry then leaves as [`RemovalCause::Size`]. The other policies
//!   refuse none.
//!
//! # Guarantees
//!
//! 1. No lookup, iteration or [`Cache::contains_key`] finds an entry at or after its deadline, by
//!    the cache's [`Clock`]. Deadlines may be early: [precision](#precision-of-the-clock). A call
//!    may do other work after its lookup ([waiting](#waiting)), and returns what it found before. A
//!    call whose own loader reloads the entry looks again after that.
//! 2. Every value given to the cache leaves it **exactly once**, with exactly one [`RemovalCause`].
//!    The listener sees the values of a key in the order of their removals. The exceptions:
//!    [`Builder::removal_listener`].
//! 3. Operations on a key, computations too ([terms](KeyEntry::and_compute_with)), are
//!    *linearizable*. An entry that one operation found expired stays expired for all. Iteration is
//!    weakly consistent: [`Cache::iter`].
//! 4. No call does unbounded maintenance: a million entries that end at once stall no caller. The
//!    exceptions: `run_pending_tasks`, `close`, calls that go through all entries, and the insert
//!    of an entry that is as heavy as thousands of others
//!    ([`max_capacity`](Builder::max_capacity)). See [`Cache::invalidate_all`].
//! 5. Size or weight stays within [`max_capacity`](Builder::max_capacity), except for writes not
//!    yet applied: at most 1/16 of the capacity or, if that is more, an entry per hardware thread
//!    ([terms](Builder::max_capacity)); and one entry per writing thread.
//! 6. A lifetime of zero means not stored (the listener sees `Expired`). A lifetime of more than
//!    the clock can hold (some 250 years) means never. Nothing overflows.
//! 7. The key and value of a removed entry are dropped soon, unless a handle or view protects them.
//!    [`scheduler`](Builder::scheduler) states how soon, with a scheduler and without.
//!
//! # Tasks
//!
//! [`future::Cache`] is the same cache for `async` code: [`Cache::future`] and
//! [`future::Cache::sync`] turn one handle into the other. Its operations await what those of
//! [`Cache`] block for, by wakers, on any runtime. Operations that it does not have, such as
//! [`Cache::peek`] and [`Cache::expires_in`], are on the other handle. Threads and tasks share
//! loads. A future that is dropped cancels its operation. The page [tasks](guide::tasks) has a
//! program for each point.
//!
//! This program needs `tokio = { version = "1", features = ["macros", "rt-multi-thread"] }`, or
//! another runtime in its place:
//!
//! ```
//! use cortado::{Loaded, future::Cache};
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() {
//!     let pages: Cache<String, String> = Cache::new(10_000);
//!     let fetch = async { Loaded::with_ttl("hello".to_owned(), Duration::from_secs(60)) };
//!     assert_eq!(pages.load("/".to_owned(), fetch).await, "hello");
//!     println!("{:?}", pages.sync().expires_in("/"));
//! }
//! ```
//!
//! # Waiting
//!
//! A read waits for no lock and for no other thread. It may run a piece of maintenance in passing.
//! That maintenance skips a bucket or a buffer that another thread holds, since that thread may
//! have been preempted. A read may also run the listener and the destructors of removed values,
//! unless an [`executor`](Builder::executor) runs them. A read that triggers a reload notes
//! it under a short lock, and hands it to the executor.
//!
//! A write waits for another write to the same bucket of the index, and for a computation of its
//! key. If the write buffer has no room left, the write also waits for the thread that runs the
//! maintenance. If the notifications are too many, it may wait for their delivery
//! ([`Builder::notification_limit`]). With more threads than cores, a write that has run
//! maintenance may yield its core to threads that have lost theirs in the middle of an operation.
//!
//! A task is pending where a thread would sleep for a load, a computation or a delivery. Only the
//! waits for a bucket and for the maintenance, which are short, block its thread. A synchronous
//! call in a task blocks the runtime's thread: [`future`](future#waiting).
//!
//! # Time limits
//!
//! A task drops the future of the operation. A thread uses [`Cache::within`]. In a cache with a
//! stored loader, [`get_within`](LoadingCache::get_within) also returns a stale value when its
//! reload takes too long.
//!
//! # Code that breaks
//!
//! A panic of hash, equality, weigher, hook, condition, loader or computation reaches its caller,
//! and the cache is as before; of a reload it is counted, and
//! [`last_failure`](LoadingCache::last_failure) shows it. A panic of a listener or job is caught
//! and counted. A panic of a destructor, waker or clock is memory-safe and deadlocks nothing; it
//! may leak values or stop one delivery; a second one while one unwinds may abort.
//!
//! Inside a listener, an operation on another cache delivers that cache's notifications before
//! it returns, as anywhere; deliveries of one cache do not nest. Inside a hook, load or computation
//! nothing is delivered, and no reload begins: the next operation on the cache concerned does that,
//! or its scheduler.
//!
//! # Time
//!
//! An entry has one deadline. The earliest of these sets it:
//!
//! * [`time_to_live`](Builder::time_to_live),
//! * [`time_to_idle`](Builder::time_to_idle),
//! * an [`Expiry`] policy ([`expire_after`](Builder::expire_after)).
//!
//! A call can set the lifetime itself, in place of all of these but the idle time:
//! [`Cache::insert_with_ttl`], [`Cache::insert_until`], [`Cache::set_ttl`], [`Cache::persist`].
//!
//! With [`refresh_after_write`](Builder::refresh_after_write) an entry has a *soft* deadline, too.
//! Past it the entry is stale: it is still a living entry for every operation, and one of its
//! readers has it reloaded by a [`Loader`]. [`Cache::make_stale`] makes an entry stale by hand.
//! The page [refresh](guide::refresh) has a program for each point.
//!
//! In tests use [`Clock::manual`] and never sleep.
//!
//! ## Precision of the clock
//!
//! The system clock has a cheap, coarse form. The cache reads that form where it settles whether a
//! deadline has come. The cache relies on a lag of no more than 134 ms; see the measurements in
//! `docs/performance.md`. By the system clock:
//!
//! * A lifetime of 4.3 s or more counts from a coarse reading. Its deadline is then early by the
//!   lag of that reading, 1 to 10 ms as a rule, and never late.
//! * An idle time of 4.3 s or more may also end early, by 1/1024 of the idle time.
//! * Shorter lifetimes are exact.
//!
//! Here and elsewhere, 4.3 s stands for 2^32 ns, which is 4.294967296 s.
//!
//! By any other clock, all lifetimes are exact.
//!
//! # Features
//!
//! No feature is on by default. A feature that is off costs nothing: no code, no memory, no
//! dependency. What a feature costs in packages, cortado and all that it needs included, on Linux:
//!
//! | features | packages |
//! |---|---|
//! | none; `timer`; `web-time` | 14 |
//! | `stream` | 15 |
//! | `tokio` | 16 |
//! | `metrics`; `tracing` | 17 |
//! | `serde` | 21 |
//!
//! What each one adds:
//!
//! * `serde` gives [`Stats`] and [`Durations`] serde's `Serialize`, and adds `Snapshot`,
//!   `SnapshotError`, `Cache::save` and `Cache::restore`.
//! * `metrics` adds `metrics::Exporter`, which publishes [`Stats`] through the crate metrics.
//! * `tracing` gives each load and reload that runs a span of the crate tracing: `cache.load`,
//!   `cache.load_many` or `cache.reload`, with the field `cache.name`, and `outcome` when the
//!   loader has returned. It is a child of the span in which the value was asked for. Hits and
//!   calls that wait for another one's load have none.
//! * `web-time` gives the cache the clock and the randomness of the host on
//!   `wasm32-unknown-unknown`, which needs it. It does nothing elsewhere. The page
//!   [wasm](guide::wasm) says what else differs there.
//! * `stream` makes [`Removals`] a `futures_core::Stream`.
//! * `timer` adds the module `timer`: delayed items, jobs and operations, on the wheel that the
//!   cache has.
//! * `tokio` adds `Clock::tokio`, the clock of a tokio runtime, and a scheduler on it. With `timer`
//!   it also adds `timer::delay_queue::DelayQueue` and `timer::Builder::on_tokio`.
//!
//! The features `sync` and `future` do nothing: they are names of moka's. The features `internals`
//! and `loom-models` serve this crate's own tests and are outside semver.
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
//! `docs/architecture.md` is the guided tour. The documentation of each module states its protocol.
// Audits, recounts and doors for tests, fuzzers and benches are there with the feature `internals`,
// and in models. What only they name is imported and re-exported in any case.
#![cfg_attr(not(feature = "internals"), allow(unused_imports, unused_macros))]
// On docs.rs each item names its feature.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(cortado_loom, allow(dead_code, unused_imports))]
#![cfg_attr(any(feature = "internals", cortado_loom), allow(missing_docs))]

#[cfg(all(target_family = "wasm", target_os = "unknown", not(feature = "web-time")))]
compile_error!("on this target cortado needs its feature `web-time`: the clock of the host");

mod clock;
mod epoch;
mod hash;
mod key_source;
mod macros;
mod prefetch;
mod primitives;
mod span;
mod system;
mod to_key;

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
mod waiters;
mod wakers;
mod wheel;

mod config;
mod error;
mod expiry;
mod removal;
mod removals;
mod stats;

mod eviction;
mod expiration;
mod loaded;
mod loader;
mod node;
mod pool;

mod async_listener;
mod compute;
mod engine;
mod entry;

mod builder;
mod cache;
mod iter;
mod pinned;

pub mod future;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "serde")]
mod snapshot;
pub mod sync;
#[cfg(feature = "timer")]
pub mod timer;

#[cfg(all(test, feature = "internals", not(cortado_loom)))]
mod whitebox;

// Only in the documentation.
#[cfg(doc)]
pub mod guide;

/// Compiles the programs of the README.
#[cfg(doctest)]
#[path = "whitebox/documents.rs"]
mod documents;

pub use builder::{BuildTarget, Builder};
pub use cache::{Cache, KeyEntry, LoadGuard, LoadLimits, LoadingCache};
pub use clock::{Clock, ClockTime, ManualClock, ReadTimes, TimeSource};
pub use compute::{CompResult, Op};
pub use config::{EvictionPolicy, Overflow, Policy};
pub use engine::Pending;
pub use entry::{Entry, Key, Removed};
pub use equivalent::Equivalent;
pub use error::{BuildError, LoadError, PredicateError, PredicateId, TimedOut};
pub use executor::{Execute, Job};
pub use expiration::Expiration;
pub use expiry::{Expiry, expire};
pub use iter::{Entries, Iter};
pub use key_source::{KeySource, OwnedKey};
pub use loaded::{Loaded, LoaderOutcome, LoaderResult};
pub use loader::{AsyncLoader, Loader, ReloadFailure, Reloaded};
pub use pinned::Pinned;
pub use removal::RemovalCause;
pub use removals::{Removals, RemovalsIter};
#[cfg(feature = "serde")]
pub use snapshot::{Snapshot, SnapshotError};
pub use stats::{Durations, Stats};
pub use sync::CacheBuilder;
pub use to_key::ToKey;

/// The names that programs know from moka's `notification`.
pub mod notification {
    pub use crate::async_listener::ListenerFuture;
    pub use crate::removal::RemovalCause;
}

/// The names that programs know from moka's `policy`.
pub mod policy {
    pub use crate::config::{EvictionPolicy, Policy};
    pub use crate::expiry::Expiry;
}

/// The names that programs know from moka's `ops`.
pub mod ops {
    /// The decisions and results of computations.
    pub mod compute {
        pub use crate::compute::{CompResult, Op};
    }
}

/// The instants that the cache takes and gives: the standard library's; on
/// `wasm32-unknown-unknown`, which has no clock of its own, those of the crate [web-time](https://docs.rs/web-time).
pub use primitives::time::Instant;

/// The default hasher of a [`Cache`]: aHash with random keys, which resists attacks by
/// colliding keys. (On `wasm32-unknown-unknown`, those that caches make for themselves have
/// random keys, and `RandomState::new` has none.)
pub use ahash::RandomState;

/// Access to the mechanisms for this repository's own tests, fuzzers and benches. Outside semver.
#[cfg(any(feature = "internals", cortado_loom))]
#[doc(hidden)]
#[path = "whitebox/internals.rs"]
pub mod internals;
