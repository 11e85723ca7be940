//! `amalgam-cache` with its store, backplane and locker of Redis, and its defaults for all else.

use super::{CAPACITY, Loader, Origin, Reader, Writer};
use ::amalgam::provider::{
    JsonSerializer, RedisBackplane, RedisDistributedCache, RedisDistributedLocker,
};
use ::amalgam::{Cache, EntryOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone)]
pub struct Amalgam<V: Clone + Send + Sync + 'static>(pub Cache<V>);

impl<V: Serialize + DeserializeOwned + Clone + Send + Sync + 'static> Amalgam<V> {
    /// What the keys begin with on the server.
    pub const PREFIX: &str = "v2:";

    pub async fn connect(port: u16) -> Self {
        let url = format!("redis://127.0.0.1:{port}");
        let store = RedisDistributedCache::connect(url.clone()).await.expect("the server lives");
        let backplane = RedisBackplane::connect(url.clone()).await.expect("the server lives");
        let locker = RedisDistributedLocker::connect(url).await.expect("the server lives");
        let cache = Cache::builder()
            .max_capacity(CAPACITY)
            .default_options(EntryOptions::new(Duration::from_secs(3600)))
            .distributed(Arc::new(store))
            .serializer(Arc::new(JsonSerializer))
            .backplane(Arc::new(backplane))
            .distributed_locker(Arc::new(locker))
            .wait_for_initial_backplane_subscribe(true)
            .try_build_ready()
            .await;
        Self(cache.expect("the settings are valid"))
    }
}

impl Reader for Amalgam<u64> {
    async fn read(&self, key: u64) -> Option<u64> {
        self.0.try_get(key.to_string()).await.expect("the server answers")
    }
}

impl Writer for Amalgam<u64> {
    async fn write(&self, key: u64, version: u64) {
        self.0.set(key.to_string(), version).await.expect("the server answers");
    }
}

impl Loader for Amalgam<u64> {
    async fn load(&self, key: u64, origin: Origin) -> u64 {
        let factory = move |_| async move { Ok::<_, Infallible>(origin.ask().await) };
        self.0.get_or_set(key.to_string(), factory).await.expect("the server answers")
    }
}
