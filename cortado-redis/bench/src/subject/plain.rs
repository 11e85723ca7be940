//! redis-rs alone: without copies, and with its own client-side cache.

use super::{CAPACITY, Reader, Writer};
use redis::aio::MultiplexedConnection;
use redis::caching::CacheConfig;
use redis::io::tcp::TcpSettings;
use redis::{AsyncConnectionConfig, Client, IntoConnectionInfo, ProtocolVersion};
use std::num::NonZeroUsize;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

async fn connect_with(port: u16, cache: Option<CacheConfig>) -> MultiplexedConnection {
    let url = format!("redis://127.0.0.1:{port}");
    let info = url.into_connection_info().expect("it is an address");
    let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    // The default delays small requests. All compared clients but amalgam's have it off.
    let tcp = TcpSettings::default().set_nodelay(true);
    let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
    let mut config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(PATIENCE));
    if let Some(cache) = cache {
        config = config.set_cache_config(cache);
    }
    let client = Client::open(info).expect("it is an address");
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    connection.expect("the server lives")
}

/// A connection without a cache.
pub async fn connect(port: u16) -> MultiplexedConnection {
    connect_with(port, None).await
}

/// A connection with the client's own cache (`cache-aio`).
pub async fn caching(port: u16) -> MultiplexedConnection {
    let capacity = NonZeroUsize::new(CAPACITY as usize).expect("it is more than zero");
    connect_with(port, Some(CacheConfig::new().set_size(capacity))).await
}

/// `GET` and `SET` by either kind of connection.
#[derive(Clone)]
pub struct Plain(pub MultiplexedConnection);

impl Reader for Plain {
    async fn read(&self, key: u64) -> Option<u64> {
        let mut connection = self.0.clone();
        let reply = redis::cmd("GET").arg(key).query_async(&mut connection).await;
        reply.expect("the server answers")
    }
}

impl Writer for Plain {
    async fn write(&self, key: u64, version: u64) {
        let mut connection = self.0.clone();
        let reply = redis::cmd("SET").arg(key).arg(version).exec_async(&mut connection).await;
        reply.expect("the server answers");
    }
}
