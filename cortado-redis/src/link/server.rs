//! Where the server is.

use super::reply::error_of;
use crate::error::Error;
use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, IntoConnectionInfo,
    ProtocolVersion, RedisResult,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// A server of Redis 7 or Valkey, or one that Sentinels name.
#[derive(Clone)]
pub struct Server {
    place: Place,
}

#[derive(Clone)]
enum Place {
    Single(ConnectionInfo),
    Sentinels {
        sentinels: Vec<ConnectionInfo>,
        /// Which is asked first: another one for each connection, since one that is cut off names
        /// the primary of before.
        first: Arc<AtomicUsize>,
        name: String,
        primary: ConnectionInfo,
    },
}

impl Server {
    /// The server at this address: `redis://user:password@host:port/database`, all but the host
    /// optional. With the feature `tls`, `rediss://` stands for TLS; the server's certificate is
    /// checked by the system's roots. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Address`] if it is none.
    ///
    /// ```
    /// use cortado_redis::Server;
    ///
    /// assert!(Server::at("redis://127.0.0.1:6379/0").is_ok());
    /// assert!(Server::at("an address").is_err());
    /// ```
    pub fn at(url: &str) -> Result<Self, Error> {
        Ok(Self { place: Place::Single(parse(url)?) })
    }

    /// The primary that these Sentinels name so. They are asked, in turn, whenever a connection is
    /// made. `primary` is an address whose host and port are replaced by those that they say: it
    /// has the primary's user, password and database.
    ///
    /// # Errors
    /// [`Error::Address`] if one of the addresses is none, or if there are no Sentinels.
    pub fn by_sentinels<'s>(
        sentinels: impl IntoIterator<Item = &'s str>,
        name: &str,
        primary: &str,
    ) -> Result<Self, Error> {
        let sentinels = sentinels.into_iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        if sentinels.is_empty() {
            return Err(Error::Address("no Sentinel is named".into()));
        }
        let primary = parse(primary)?;
        let (first, name) = (Arc::default(), name.to_owned());
        Ok(Self { place: Place::Sentinels { sentinels, first, name, primary } })
    }

    /// A client of the server, which of Sentinels is the one that they name now.
    pub(super) async fn client(
        &self,
        protocol: ProtocolVersion,
        within: Duration,
    ) -> Result<Client, Error> {
        let info = match &self.place {
            Place::Single(info) => info.clone(),
            Place::Sentinels { sentinels, first, name, primary } => {
                let mut last = Error::Unavailable("no Sentinel answers".into());
                let mut found = None;
                let first = first.fetch_add(1, Ordering::Relaxed) % sentinels.len();
                let (before, from_first) = sentinels.split_at(first);
                for sentinel in from_first.iter().chain(before) {
                    match asked(sentinel, name, within).await {
                        Ok(address) => {
                            found = Some(address);
                            break;
                        }
                        Err(error) => last = error,
                    }
                }
                let (host, port) = found.ok_or(last)?;
                let address = match primary.addr().clone() {
                    ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                        ConnectionAddr::TcpTls { host, port, insecure, tls_params }
                    }
                    _ => ConnectionAddr::Tcp(host, port),
                };
                primary.clone().set_addr(address)
            }
        };
        let settings = info.redis_settings().clone().set_protocol(protocol);
        let tcp = TcpSettings::default().set_nodelay(true);
        let info = info.set_redis_settings(settings).set_tcp_settings(tcp);
        open(info).map_err(|error| Error::Address(error.to_string().into()))
    }
}

fn open(info: ConnectionInfo) -> RedisResult<Client> {
    // Where a program has two providers of cryptography, rustls panics unless one was chosen.
    #[cfg(feature = "tls")]
    if matches!(info.addr(), ConnectionAddr::TcpTls { .. })
        && rustls::crypto::CryptoProvider::get_default().is_none()
    {
        let _ = rustls::crypto::ring::default_provider().install_default();
    }
    Client::open(info)
}

fn parse(url: &str) -> Result<ConnectionInfo, Error> {
    let address = |error: redis::RedisError| Error::Address(error.to_string().into());
    url.into_connection_info().map_err(address)
}

/// Asks a Sentinel where the primary is.
async fn asked(
    sentinel: &ConnectionInfo,
    name: &str,
    within: Duration,
) -> Result<(String, u16), Error> {
    let client = open(sentinel.clone()).map_err(|error| error_of(&error))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(within))
        .set_response_timeout(Some(within));
    let connection = client.get_multiplexed_async_connection_with_config(&config).await;
    let mut connection: MultiplexedConnection = connection.map_err(|error| error_of(&error))?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    let address: Option<(String, u16)> =
        question.query_async(&mut connection).await.map_err(|error| error_of(&error))?;
    address.ok_or_else(|| Error::Unavailable(format!("Sentinel does not know {name}").into()))
}

impl fmt::Debug for Server {
    /// Without user and password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Single(info) => write!(f, "Server({})", info.addr()),
            Place::Sentinels { name, .. } => write!(f, "Server({name}, by Sentinels)"),
        }
    }
}
