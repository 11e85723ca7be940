//! A near cache over Redis or Valkey: [cortado](https://docs.rs/cortado) in each process, the server
//! between them. A read that the process has made before takes tens of nanoseconds; when anybody
//! writes the key, by whatever client, the server says so and the copy goes.
//!
//! ```no_run
//! use cortado_redis::{Loaded, Server, TieredCache};
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = Server::at("redis://127.0.0.1:6379")?;
//!     let users: TieredCache<u64, String> = TieredCache::builder(server, "users")
//!         .max_capacity(100_000)
//!         .time_to_live(Duration::from_secs(600))
//!         .build();
//!
//!     // Loaded by one of all processes, and stored on the server.
//!     let name = users.load(&7, async { fetch(7).await }).await?;
//!     assert_eq!(users.get(&7).await?, Some(name)); // from the server, and kept here
//!
//!     users.insert(&8, Loaded::with_ttl("Ada".to_owned(), Duration::from_secs(60))).await?;
//!     assert!(users.remove(&8).await?); // gone in all processes
//!     Ok(())
//! }
//!
//! async fn fetch(id: u64) -> Result<String, std::io::Error> {
//!     Ok(format!("user {id}"))
//! }
//! ```
//!
//! # Guarantees
//!
//! 1. **Coherence.** After any client's write is acknowledged, a process may return the old value
//!    until the server's *invalidation* arrives. That takes milliseconds, and never longer than the
//!    [staleness bound](Builder::staleness_bound) (1 second by default), also if the connection
//!    dies unnoticed, the server is demoted, or the process is paused. (The clock of a suspended
//!    machine is paused, too.) Copies from before a reconnection are not trusted. Exceptions:
//!    [`Coherence::Ttl`] has a limit of its own; [`Outage::ServeStale`] and
//!    [`stale_on_error`](Builder::stale_on_error) return old values as long as they say; a primary
//!    that is cut off and does not know that it was replaced is trusted.
//! 2. **Own writes are seen.** After a write returns `Ok`, this process reads that value or a later
//!    one, unless the server loses it (a failover before replication).
//! 3. **A copy never outlives its original.** Its life is counted from before the server was asked.
//! 4. **One load** of a key at a time, among all processes that share the cache
//!    ([`load`](TieredCache::load)). The lease for it lives in the key itself: any write or removal
//!    breaks it, so a value that was loaded before is never stored after it. A dead process's lease
//!    ends within [`Builder::lease`]. Two loaders run at once only if the key is removed, evicted
//!    or lost in a failover during the load, if the loading process is paused or cut off for as
//!    long as the lease, or if a [refresh](Builder::refresh_ahead) takes longer than the lease or
//!    than what is left of the value's life.
//! 5. **An error is an error.** A write that the server does not acknowledge, a value that is none
//!    of this cache's, a server that cannot be asked: each has a name in [`Error`].
//!
//! # In an outage
//!
//! * Once the connection is lost, or silent for the staleness bound, local copies are not used,
//!   unless the [`Outage`] allows it. With [`Coherence::Ttl`] they are used until they expire.
//! * A request waits for at most [`reply_within`](Builder::reply_within) (500 ms), and for a
//!   connection [`connect_within`](Builder::connect_within) more (1 s). After a failed attempt to
//!   connect, operations fail at once.
//! * Attempts go on in the background, at most 500 ms apart; up to 5 s after [`Error::NoTracking`].
//! * No loader starts. One that runs ends; its callers get the value, and nobody keeps it.
//! * Writes are not queued.
//! * After a loss each process reads its keys anew; after mere silence it goes on with its copies.
//!
//! # What is on the server
//!
//! Keys `name:key`, strings with a header of 32 bytes and the encoded value. Other programs may
//! delete or expire keys; what they `SET` is [`Error::Foreign`], and another codec's value is
//! [`Error::UnknownFormat`]. Loads do not replace such values: remove them, or choose another name
//! for the cache. Each cache on a server needs a name of its own, which must not begin with another
//! cache's name and a colon.
//!
//! Set a [`time_to_live`](Builder::time_to_live), or an eviction policy on the server: a full
//! server that evicts nothing refuses leases, so loads fail.
//!
//! A key that was read costs the server about 100 bytes for tracking, and 72 for each further
//! process: 100 processes that read the same million keys take 7 GB there.
//! [`Coherence::Prefix`] takes none, and sends each change, leases included, to all processes.
//! Beyond `tracking-table-max-keys` (1,000,000 by default) the server invalidates keys that have
//! not changed, and copies go early; likewise when it evicts keys at `maxmemory`.
//!
//! The user needs these permissions, `scan` for [`clear`](TieredCache::clear) alone and `select`
//! for databases other than 0:
//!
//! ```sh
//! redis-cli ACL SETUSER app on '>secret' '~users:*' +eval +evalsha +get +getrange +type +pttl \
//!   +set +del +unlink +pexpire +persist +time +touch +scan +role '+client|tracking' \
//!   '+client|trackinginfo' +select
//! ```
//!
//! # What it does not do
//!
//! One server, or the primary that Sentinels name: no cluster, no reads of replicas. It does not
//! see `SWAPDB`, or a database that is replaced under it. It is no lock and no transaction: of two
//! processes that write at once, the server keeps the last one's value.
//!
//! # Seen from outside
//!
//! [`TieredCache::stats`] has counts of both levels. With the feature `metrics`,
//! `metrics::Exporter` publishes them through the crate metrics. With the feature `tracing`, each
//! loader that runs has a span `cache.load`, `cache.load_many` or `cache.reload`, with the field
//! `cache.name`, in the span of the call that asked for the value; and each exchange with the
//! server a span `cache.exchange` of the level debug. Hits have none.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// Its program is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod builder;
mod bulk;
mod codec;
mod error;
mod fallback;
mod key;
mod lease;
mod link;
mod load;
mod loaded;
mod read;
mod refresh;
mod script;
mod slot;
mod span;
mod stats;
mod store;
mod task;
mod tier;
mod turn;
mod wake;
mod wire;
mod write;

pub use builder::{Builder, Outage};
#[cfg(feature = "json")]
pub use codec::Json;
#[cfg(feature = "postcard")]
pub use codec::Postcard;
pub use codec::{Bytes, Codec, CodecError};
pub use error::{Error, LoadError};
pub use key::RedisKey;
pub use link::{Coherence, LinkState, Server};
pub use loaded::Loaded;
pub use stats::Stats;
pub use tier::{Local, TieredCache};

#[cfg(feature = "metrics")]
pub mod metrics;
