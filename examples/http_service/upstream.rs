//! A slow server, whose responses say how long they may be kept.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::routing::get;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// What `Cache-Control` says, by page.
const TERMS: [&str; 8] = [
    "max-age=10",
    "public, max-age=60",
    "max-age=5",
    "max-age=2",
    "max-age=30",
    "no-store",
    "max-age=1",
    "public, max-age=20",
];

/// What the server counts.
pub struct Upstream {
    calls: AtomicU64,
    /// Calls that are being answered, by page.
    under_way: Vec<AtomicU64>,
    most_at_once: AtomicU64,
}

impl Upstream {
    pub fn new(pages: u64) -> Self {
        let under_way = (0..pages).map(|_| AtomicU64::new(0)).collect();
        Self { calls: AtomicU64::new(0), under_way, most_at_once: AtomicU64::new(0) }
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }

    /// How many calls for one page were under way at the same time, at most.
    pub fn most_at_once(&self) -> u64 {
        self.most_at_once.load(Relaxed)
    }
}

/// Starts the server. It ends with the runtime.
pub async fn start(upstream: Arc<Upstream>) -> anyhow::Result<SocketAddr> {
    let router = Router::new().route("/pages/{page}", get(page)).with_state(upstream);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(address)
}

async fn page(
    State(upstream): State<Arc<Upstream>>,
    Path(page): Path<usize>,
) -> Result<([(HeaderName, &'static str); 1], String), StatusCode> {
    let under_way = UnderWay(upstream.under_way.get(page).ok_or(StatusCode::NOT_FOUND)?);
    let call = upstream.calls.fetch_add(1, Relaxed);
    upstream.most_at_once.fetch_max(under_way.0.fetch_add(1, Relaxed) + 1, Relaxed);
    sleep(Duration::from_millis(rand::random_range(50..=200))).await;
    let terms = [(CACHE_CONTROL, TERMS[page % TERMS.len()])];
    Ok((terms, format!("page {page}, as of call {call}\n")))
}

/// A call, until it is answered or its client has gone away.
struct UnderWay<'a>(&'a AtomicU64);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}
