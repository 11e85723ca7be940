//! A slow server, whose responses say how long they may be kept.

use anyhow::Result;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, ETAG, HeaderName, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What `Cache-Control` says, by page. Most pages may be used while they are revalidated, and while
/// the server is down.
const TERMS: [&str; 8] = [
    "max-age=3, stale-while-revalidate=10, stale-if-error=60",
    "public, max-age=60",
    "max-age=2, stale-if-error=60",
    "max-age=1, stale-while-revalidate=5, stale-if-error=60",
    "max-age=30",
    "no-store",
    "max-age=1, stale-while-revalidate=5",
    "public, max-age=5, stale-if-error=60",
];

/// How long a version of a page lives, in seconds.
const VERSION: u64 = 5;

/// What the server counts.
pub struct Upstream {
    begun: Instant,
    calls: AtomicU64,
    /// Calls that were answered by "not modified".
    not_modified: AtomicU64,
    /// Calls that are being answered, by page.
    under_way: Vec<AtomicU64>,
    most_at_once: AtomicU64,
}

impl Upstream {
    pub fn new(pages: u64) -> Self {
        let under_way = (0..pages).map(|_| AtomicU64::new(0)).collect();
        let [calls, not_modified, most_at_once] = [0; 3].map(AtomicU64::new);
        Self { begun: Instant::now(), calls, not_modified, under_way, most_at_once }
    }

    pub fn not_modified(&self) -> u64 {
        self.not_modified.load(Relaxed)
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// How many calls for one page were under way at the same time, at most.
    pub fn most_at_once(&self) -> u64 {
        self.most_at_once.load(Relaxed)
    }
}

/// A server that can be stopped, and started again at the same address.
pub struct Server {
    upstream: Arc<Upstream>,
    address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the server. It ends with the runtime.
    pub async fn start(upstream: Arc<Upstream>) -> Result<Self> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { upstream, address: any, serving: None };
        server.go_on().await?;
        Ok(server)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.upstream.calls()
    }

    pub fn is_stopped(&self) -> bool {
        self.serving.is_none()
    }

    /// Refuses connections from now on.
    pub fn stop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    /// Accepts connections.
    pub async fn go_on(&mut self) -> Result<()> {
        let upstream = Arc::clone(&self.upstream);
        let router = Router::new().route("/pages/{page}", get(page)).with_state(upstream);
        let listener = TcpListener::bind(self.address).await?;
        self.address = listener.local_addr()?;
        let serving = async move { drop(axum::serve(listener, router).await) };
        self.serving = Some(tokio::spawn(serving));
        Ok(())
    }
}

type Headers = [(HeaderName, String); 2];

async fn page(
    State(upstream): State<Arc<Upstream>>,
    Path(page): Path<usize>,
    asked: HeaderMap,
) -> Result<(StatusCode, Headers, String), StatusCode> {
    let under_way = UnderWay(upstream.under_way.get(page).ok_or(StatusCode::NOT_FOUND)?);
    let call = upstream.calls.fetch_add(1, Relaxed);
    upstream.most_at_once.fetch_max(under_way.0.fetch_add(1, Relaxed) + 1, Relaxed);
    sleep(Duration::from_millis(rand::random_range(50..=200))).await;
    let version = (upstream.begun.elapsed().as_secs() / VERSION).to_string();
    let headers = [(CACHE_CONTROL, TERMS[page % TERMS.len()].to_owned()), (ETAG, version.clone())];
    if asked.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == version.as_bytes()) {
        upstream.not_modified.fetch_add(1, Relaxed);
        return Ok((StatusCode::NOT_MODIFIED, headers, String::new()));
    }
    Ok((StatusCode::OK, headers, format!("page {page}, version {version}, as of call {call}\n")))
}

/// A call, until it is answered or its client has gone away.
struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
