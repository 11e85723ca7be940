//! The service: it answers from the cache, and asks the upstream for what is missing or stale.
//!
//! | `Cache-Control` | in the cache |
//! |---|---|
//! | `max-age` | the entry is stale after that |
//! | `stale-while-revalidate`, `stale-if-error` | it ends when the longer of the two is over, too |
//! | `304 Not Modified` | the old body gets a new life |

use crate::client::{self, Response, Terms};
use anyhow::{Context, Error, Result, ensure};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use cortado::future::{Cache, LoadingCache};
use cortado::{AsyncLoader, Job, Loaded, Reloaded};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long the upstream may take.
const LIMIT: Duration = Duration::from_secs(2);

/// A response in the cache.
pub struct Page {
    body: Vec<u8>,
    etag: Option<String>,
    /// When it is stale, unless the upstream says that it is still the same.
    stale_from: Instant,
}

/// Asks the upstream.
struct Upstream(SocketAddr);

impl Upstream {
    async fn ask(&self, page: u64, known: Option<&str>) -> Result<Response> {
        let path = format!("/pages/{page}");
        // The limit is that of the call, not that of a request.
        let response = timeout(LIMIT, client::get(self.0, &path, known));
        let response = response.await.context("the upstream is too slow")??;
        ensure!([200, 304].contains(&response.status), "the upstream says {}", response.status);
        Ok(response)
    }
}

/// How long a response is kept: while it may be used, whatever the reason.
fn kept(terms: Terms) -> Duration {
    terms.max_age + terms.while_revalidate.max(terms.if_error)
}

fn loaded(Response { terms, etag, body, .. }: Response) -> Loaded<Arc<Page>> {
    let stale_from = Instant::now() + terms.max_age;
    let page = Arc::new(Page { body, etag, stale_from });
    Loaded::with_ttl(page, kept(terms)).refresh_after(terms.max_age)
}

impl AsyncLoader<u64, Arc<Page>> for Upstream {
    type Error = Error;

    async fn load(&self, page: &u64) -> Result<Loaded<Arc<Page>>> {
        self.ask(*page, None).await.map(loaded)
    }

    async fn reload(&self, page: &u64, old: &Arc<Page>) -> Result<Reloaded<Arc<Page>>> {
        let response = self.ask(*page, old.etag.as_deref()).await?;
        if response.status != 304 {
            return Ok(loaded(response).into());
        }
        let terms = response.terms;
        let same = Reloaded::not_modified_with_ttl(kept(terms));
        Ok(same.refresh_after(terms.max_age))
    }
}

/// What the handlers share.
pub struct Service {
    pages: LoadingCache<u64, Arc<Page>, Error>,
    /// Requests that were answered while the last reload of their page had failed.
    despite_errors: AtomicU64,
}

impl Service {
    pub fn new(capacity: u64, upstream: SocketAddr) -> Self {
        let runtime = Handle::current();
        let pages = Cache::builder()
            .name("pages")
            .max_capacity(capacity)
            .scheduler(true) // removes on time what nobody asks for again
            .executor(move |job: Job| drop(runtime.spawn(async { job() })))
            .refresh_after(|_, _, _| None) // the responses say so
            .refresh_retry(Duration::from_millis(500))
            .record_stats(true)
            .build_with_loader(Upstream(upstream));
        Self { pages, despite_errors: AtomicU64::new(0) }
    }

    pub fn pages(&self) -> &Cache<u64, Arc<Page>> {
        self.pages.cache()
    }

    pub fn despite_errors(&self) -> u64 {
        self.despite_errors.load(Relaxed)
    }

    /// The page, from the cache or from the upstream. All requests that miss the same page share
    /// one call. If the client of the request that makes the call goes away, its future is
    /// dropped, and another request calls in its place. A page that is stale is answered at once,
    /// and asked for in the background.
    async fn page(&self, page: u64) -> Result<Arc<Page>, Arc<Error>> {
        let found = self.pages.get(&page).await?;
        if found.stale_from <= Instant::now() && self.pages.last_failure(&page).is_some() {
            self.despite_errors.fetch_add(1, Relaxed);
        }
        Ok(found)
    }
}

/// Starts the service. It ends with the runtime.
pub async fn start(service: Arc<Service>) -> Result<SocketAddr> {
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
        Ok(page) => Ok(page.body.clone()),
        Err(error) => Err((StatusCode::BAD_GATEWAY, format!("{error:#}\n"))),
    }
}
