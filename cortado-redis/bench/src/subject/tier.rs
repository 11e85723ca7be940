//! `cortado-redis`.

use super::{CAPACITY, Loader, Origin, Reader, Writer};
use cortado_redis::{Server, TieredCache};
use std::convert::Infallible;

pub fn server_at(port: u16) -> Server {
    Server::at(&format!("redis://127.0.0.1:{port}")).expect("it is an address")
}

#[derive(Clone)]
pub struct Tier(pub TieredCache<u64, u64>);

impl Tier {
    /// What the keys begin with on the server.
    pub const PREFIX: &str = "tier:";

    pub async fn connect(port: u16) -> Self {
        let cache = TieredCache::builder(server_at(port), "tier").max_capacity(CAPACITY).build();
        cache.ready().await.expect("the server lives");
        Self(cache)
    }
}

impl Reader for Tier {
    async fn read(&self, key: u64) -> Option<u64> {
        self.0.get(&key).await.expect("the server answers")
    }
}

impl Writer for Tier {
    async fn write(&self, key: u64, version: u64) {
        self.0.insert(&key, version).await.expect("the server answers");
    }
}

impl Loader for Tier {
    async fn load(&self, key: u64, origin: Origin) -> u64 {
        let loader = async { Ok::<u64, Infallible>(origin.ask().await) };
        self.0.load(&key, loader).await.expect("the server answers")
    }
}
