//! cortado as the local level of [cachet](https://docs.rs/cachet): a tier in which each entry has the
//! lifetime that cachet gives it. The entry leaves, and its memory is free, when that is over; a
//! promoted entry has the rest of its lifetime.
//!
//! ```sh
//! cargo run --release -p cortado-redis-bench --example cachet_tier
//! ```
//!
//! Dependencies: cortado; cachet; tick with the feature `tokio`; tokio with `macros`, `rt`, `time`.

use cachet::{Cache, CacheEntry, CacheTier, Error, InsertOutcome, SizeError};
use std::hash::Hash;
use std::time::Duration;
use tick::Clock;

/// A tier of cachet.
#[derive(Clone)]
struct CortadoTier<K, V> {
    cache: cortado::future::Cache<K, CacheEntry<V>>,
    clock: Clock,
}

impl<K, V> CortadoTier<K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    fn new(max_capacity: u64, clock: Clock) -> Self {
        let cache = cortado::future::Cache::builder().max_capacity(max_capacity).build();
        Self { cache, clock }
    }

    /// The rest of the entry's lifetime: an entry that comes from another tier has an age.
    fn left(&self, entry: &CacheEntry<V>) -> Option<Duration> {
        let age = |cached_at| self.clock.system_time().duration_since(cached_at).ok();
        let age = entry.cached_at().and_then(age).unwrap_or_default();
        entry.ttl().map(|ttl| ttl.saturating_sub(age))
    }
}

impl<K, V> CacheTier<K, V> for CortadoTier<K, V>
where
    K: Eq + Hash + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    async fn get(&self, key: &K) -> Result<Option<CacheEntry<V>>, Error> {
        Ok(self.cache.get(key).await)
    }

    async fn insert(&self, key: K, entry: CacheEntry<V>) -> Result<InsertOutcome, Error> {
        match self.left(&entry) {
            Some(left) => self.cache.insert_with_ttl(key, entry, left).await,
            None => self.cache.insert(key, entry).await,
        }
        Ok(InsertOutcome::Accepted)
    }

    async fn invalidate(&self, key: &K) -> Result<(), Error> {
        self.cache.invalidate(key).await;
        Ok(())
    }

    async fn clear(&self) -> Result<(), Error> {
        self.cache.invalidate_all();
        Ok(())
    }

    async fn len(&self) -> Result<u64, SizeError> {
        self.cache.run_pending_tasks().await;
        Ok(self.cache.entry_count())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let clock = Clock::new_tokio();
    let local = CortadoTier::new(10_000, clock.clone());
    // Stands for a remote level, such as a tier over Redis.
    let remote = Cache::builder::<String, String>(clock.clone()).memory();
    let tokens = Cache::builder::<String, String>(clock)
        .storage(local.clone())
        .fallback(remote)
        .stampede_protection()
        .build();

    let short = CacheEntry::expires_after("for 50 ms".to_owned(), Duration::from_millis(50));
    let long = CacheEntry::expires_after("for an hour".to_owned(), Duration::from_secs(3_600));
    tokens.insert("short".to_owned(), short).await?;
    tokens.insert("long".to_owned(), long).await?;
    println!("at first: {} entries in cortado", tokens.len().await.expect("it is known"));

    tokio::time::sleep(Duration::from_millis(100)).await;
    println!("100 ms later: {} in cortado", tokens.len().await.expect("it is known"));
    assert!(tokens.get("short").await?.is_none());

    // A miss of the local level is a read of the remote one, and the copy has the rest of the life.
    local.clear().await?;
    let entry = tokens.get("long").await?.expect("the remote level has it");
    let copy = local.cache.get_entry("long").await.expect("it was promoted");
    println!("promoted: {:?}, {:?} left", entry.value(), copy.expires_in().expect("it ends"));
    Ok(())
}
