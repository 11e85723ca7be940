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
//! 1. **Coherence.** After a write was acknowledged, by any client, a process returns the old value
//!    until the server's message has come, which takes milliseconds; and in no case longer than the
//!    [staleness bound](Builder::staleness_bound) (1 second by default), also if the connection
//!    dies unnoticed, the server is demoted, or the process stands still. After a reconnection
//!    nothing of before is trusted. ([`Coherence::Ttl`], for servers that tell of nothing, has its
//!    own limit. A primary that is cut off and does not know yet that it is none any more is asked
//!    like one.)
//! 2. **Own writes are seen.** When a write has returned, this process reads its value or a later
//!    one.
//! 3. **A copy never outlives its original.** Its life is counted from before the server was asked.
//! 4. **One load** of a key at a time, of all processes that share the cache
//!    ([`load`](TieredCache::load); of a [refresh](Builder::refresh_ahead), as long as it takes
//!    less than the [lease](Builder::lease)). The lease for it lives in the key itself: it ends
//!    with its holder, and any write or removal of the key breaks it, so no value that was loaded
//!    before is stored after it.
//! 5. **An error is an error.** A write that the server does not acknowledge, a value that is none
//!    of this cache's, a server that cannot be asked: each has a name in [`Error`]. What may be
//!    served all the same is a setting ([`Outage`], [`stale_on_error`](Builder::stale_on_error)).
//!
//! # What it does not do
//!
//! One server, or the primary that Sentinels name: no cluster, no reads of replicas, no TLS. It
//! does not see `SWAPDB`, or a database that is replaced under it. It is no lock and no
//! transaction: of two processes that write at once, the server keeps the last one's value.
//!
//! # What a tracked key costs the server
//!
//! About 100 bytes, and 72 for each further process that has read it. A million keys in each of 100
//! processes are 7 GB there: use [`Coherence::Prefix`] then, which costs the server nothing, and
//! sends each change of the cache to all. With `maxmemory` or a small
//! `tracking-table-max-keys` the server tells of changes that are none, and copies go early.

#![cfg_attr(docsrs, feature(doc_cfg))]

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
mod stats;
mod tier;
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
