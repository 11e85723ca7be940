//! moka in front of redis-rs, put together by hand: a limit for the age of copies, and one load at
//! a time in the process.

use super::{CAPACITY, Loader, Origin, Plain, Reader, Writer, connect};
use moka::future::Cache;
use std::time::Duration;

#[derive(Clone)]
pub struct ByHand {
    local: Cache<u64, u64>,
    server: Plain,
}

impl ByHand {
    pub async fn connect(port: u16) -> Self {
        let local =
            Cache::builder().max_capacity(CAPACITY).time_to_live(Duration::from_secs(1)).build();
        Self { local, server: Plain(connect(port).await) }
    }
}

impl Reader for ByHand {
    async fn read(&self, key: u64) -> Option<u64> {
        self.local.optionally_get_with(key, self.server.read(key)).await
    }
}

impl Loader for ByHand {
    async fn load(&self, key: u64, origin: Origin) -> u64 {
        let load = async {
            if let Some(value) = self.server.read(key).await {
                return value;
            }
            let value = origin.ask().await;
            self.server.write(key, value).await;
            value
        };
        self.local.get_with(key, load).await
    }
}
