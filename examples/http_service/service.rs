//! The service: it answers from the cache, and asks the upstream for what is missing.

use crate::client;
use anyhow::{Context, Error};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use cortado::Loaded;
use cortado::future::Cache;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::timeout;

/// How long the upstream may take.
const LIMIT: Duration = Duration::from_secs(2);

/// What the handlers share.
pub struct Service {
    pages: Cache<u64, Arc<[u8]>>,
    upstream: SocketAddr,
}

impl Service {
    pub fn new(capacity: u64, upstream: SocketAddr) -> Self {
        let pages = Cache::builder()
            .name("pages")
            .max_capacity(capacity)
            .scheduler(true) // removes on time what nobody asks for again
            .record_stats(true)
            .build();
        Self { pages, upstream }
    }

    pub fn pages(&self) -> &Cache<u64, Arc<[u8]>> {
        &self.pages
    }

    /// The page, from the cache or from the upstream. All requests that miss the same page share
    /// one call. If the client of the request that makes the call goes away, its future is
    /// dropped, and another request calls in its place.
    async fn page(&self, page: u64) -> Result<Arc<[u8]>, Arc<Error>> {
        let fetch = async {
            let path = format!("/pages/{page}");
            // The limit is that of the call, not that of a request.
            let response = timeout(LIMIT, client::get(self.upstream, &path));
            let response = response.await.context("the upstream is too slow")??;
            Ok::<_, Error>(Loaded::with_ttl(response.body.into(), response.max_age))
        };
        self.pages.load(page, fetch).await
    }
}

/// Starts the service. It ends with the runtime.
pub async fn start(service: Arc<Service>) -> anyhow::Result<SocketAddr> {
    let router = Router::new().route("/pages/{page}", get(answer)).with_state(service);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn answer(
    State(service): State<Arc<Service>>,
    Path(page): Path<u64>,
) -> Result<Vec<u8>, (StatusCode, String)> {
    match service.page(page).await {
        Ok(body) => Ok(body.to_vec()),
        Err(error) => Err((StatusCode::BAD_GATEWAY, format!("{error:#}\n"))),
    }
}
