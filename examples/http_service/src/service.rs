//! The service: it answers from the cache, and asks the upstream for what is missing or stale.
//!
//! | `Cache-Control` | here |
//! |---|---|
//! | `max-age` | the entry is stale after that |
//! | `stale-while-revalidate` | for so long after that, a request gets the stale page at once |
//! | `stale-if-error` | for so long, a request that waited for a reload which failed gets it |
//! | the longer of the two | the entry ends then |
//! | `304 Not Modified` | the page gets a new life |
//! | `no-store`, `no-cache`, `private` | each request asks for itself |

use crate::client::{self, Response, Terms};
use anyhow::{Context, Error, Result, ensure};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use cortado::future::{Cache, LoadingCache};
use cortado::{AsyncLoader, Loaded, Reloaded};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

/// How long the upstream may take.
const LIMIT: Duration = Duration::from_secs(2);

/// A response in the cache.
pub struct Page {
    body: Vec<u8>,
    etag: Option<String>,
    validity: Mutex<Validity>,
}

/// What the upstream said of a response when it sent it, or when it last said that it is the same.
#[derive(Clone, Copy)]
struct Validity {
    received: Instant,
    terms: Terms,
}

impl Validity {
    fn of(terms: Terms) -> Self {
        Self { received: Instant::now(), terms }
    }

    fn is_stale(self, now: Instant) -> bool {
        now >= self.received + self.terms.max_age
    }

    /// Whether it may be used although no reload has confirmed it.
    fn is_usable_at_once(self, now: Instant) -> bool {
        now < self.received + self.terms.max_age + self.terms.while_revalidate
    }

    /// Whether it may be used if the upstream fails.
    fn is_usable_on_error(self, now: Instant) -> bool {
        now < self.received + self.terms.max_age + self.terms.if_error
    }
}

impl Page {
    fn validity(&self) -> Validity {
        *self.validity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn confirm(&self, terms: Terms) {
        *self.validity.lock().unwrap_or_else(PoisonError::into_inner) = Validity::of(terms);
    }
}

/// Asks the upstream.
#[derive(Clone, Copy)]
struct Upstream(SocketAddr);

impl Upstream {
    async fn ask(&self, page: u64, known: Option<&str>) -> Result<Response> {
        let path = format!("/pages/{page}");
        // The limit is that of the call, not that of a request.
        let response = timeout(LIMIT, client::get(self.0, &path, known));
        let response = response.await.context("the upstream is too slow")??;
        let is_answer = [200, 304, 404, 410].contains(&response.status);
        ensure!(is_answer, Status(response.status));
        Ok(response)
    }

    /// Asks for a page, whatever is known of it.
    async fn fetch(&self, page: u64) -> Result<Arc<Page>> {
        let response = self.ask(page, None).await?;
        ensure!(response.status == 200, Status(response.status));
        Ok(page_of(response))
    }
}

/// The upstream answered with this status.
#[derive(Debug)]
struct Status(u16);

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the upstream says {}", self.0)
    }
}

impl std::error::Error for Status {}

/// How long a response is kept: while it may be used, whatever the reason.
fn kept(terms: Terms) -> Duration {
    terms.max_age + terms.while_revalidate.max(terms.if_error)
}

fn page_of(Response { terms, etag, body, .. }: Response) -> Arc<Page> {
    Arc::new(Page { body, etag, validity: Mutex::new(Validity::of(terms.unwrap_or_default())) })
}

fn loaded(page: Arc<Page>) -> Loaded<Arc<Page>> {
    let terms = page.validity().terms;
    Loaded::with_ttl(page, kept(terms)).refresh_after(terms.max_age)
}

impl AsyncLoader<u64, Arc<Page>> for Upstream {
    type Error = Error;

    async fn load(&self, page: &u64) -> Result<Loaded<Arc<Page>>> {
        self.fetch(*page).await.map(loaded)
    }

    async fn reload(&self, page: &u64, old: &Arc<Page>) -> Result<Reloaded<Arc<Page>>> {
        let response = self.ask(*page, old.etag.as_deref()).await?;
        match response.status {
            304 => {}
            200 => return Ok(loaded(page_of(response)).into()),
            // Not an error: there is no such page any more.
            _ => return Ok(Reloaded::gone()),
        }
        let terms = response.terms.unwrap_or(old.validity().terms);
        old.confirm(terms);
        let same = Reloaded::not_modified_with_ttl(kept(terms));
        Ok(same.refresh_after(terms.max_age))
    }
}

/// What the handlers share.
pub struct Service {
    pages: LoadingCache<u64, Arc<Page>, Error>,
    upstream: Upstream,
    /// Requests that were answered while the last reload of their page had failed.
    despite_errors: AtomicU64,
}

impl Service {
    pub fn new(capacity: u64, upstream: SocketAddr) -> Self {
        let upstream = Upstream(upstream);
        let pages = Cache::builder()
            .name("pages")
            .max_capacity(capacity)
            .scheduler(true) // removes on time what nobody asks for again
            .on_tokio()
            .refresh_after(|_, _, _| None) // the responses say so
            .refresh_limit(1000) // beyond that, a stale page is refused as if the upstream failed
            .refresh_retry(Duration::from_millis(500))
            .record_stats(true)
            .build_with_loader(upstream);
        Self { pages, upstream, despite_errors: AtomicU64::new(0) }
    }

    pub fn pages(&self) -> &Cache<u64, Arc<Page>> {
        self.pages.cache()
    }

    pub fn despite_errors(&self) -> u64 {
        self.despite_errors.load(Relaxed)
    }

    /// The page, from the cache or from the upstream. All requests that miss the same page share
    /// one call, which goes on if their clients go away. The first request that finds a page stale
    /// has it asked for in the background.
    async fn page(&self, page: u64) -> Result<Arc<Page>, Refused> {
        let begun = Instant::now();
        let entry = self.pages.get_entry(&page).await.map_err(Refused::Failed)?;
        let (is_own, found) = (entry.is_fresh(), entry.into_value());
        let known = found.validity();
        if known.terms.is_for_one && !is_own {
            return self.own_page(page).await;
        }
        // A response that came during this request is for it, even if it is not to be kept.
        if known.received >= begun || known.is_usable_at_once(begun) {
            self.count_stale(page, known);
            return Ok(found);
        }
        let reloaded = self.pages.get_within(&page, sleep(LIMIT)).await;
        let found = reloaded.map_err(Refused::Failed)?;
        let validity = found.validity();
        if validity.terms.is_for_one {
            return self.own_page(page).await;
        }
        if validity.received > known.received {
            return Ok(found);
        }
        let has_failed = self.pages.last_failure(&page).is_some();
        if has_failed && validity.is_usable_on_error(Instant::now()) {
            self.count_stale(page, validity);
            return Ok(found);
        }
        Err(Refused::Unconfirmed)
    }

    /// The page, fetched for this request alone: another request has asked for the one at hand.
    async fn own_page(&self, page: u64) -> Result<Arc<Page>, Refused> {
        self.upstream.fetch(page).await.map_err(|error| Refused::Failed(Arc::new(error)))
    }

    /// Counts a request whose page is stale because the upstream fails.
    fn count_stale(&self, page: u64, validity: Validity) {
        if validity.is_stale(Instant::now()) && self.pages.last_failure(&page).is_some() {
            self.despite_errors.fetch_add(1, Relaxed);
        }
    }
}

/// Why a request gets no page.
enum Refused {
    /// There is none, and the upstream has failed.
    Failed(Arc<Error>),
    /// There is one, and it may not be used without the upstream, which has failed.
    Unconfirmed,
}

impl Refused {
    /// That there is no such page is the upstream's answer, not its failure.
    fn status(&self) -> StatusCode {
        match self {
            Self::Failed(error) if matches!(error.downcast_ref(), Some(Status(404 | 410))) => {
                StatusCode::NOT_FOUND
            }
            _ => StatusCode::BAD_GATEWAY,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(f, "{error:#}"),
            Self::Unconfirmed => f.write_str("the upstream fails, and the page may not be used"),
        }
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
        Err(refused) => Err((refused.status(), format!("{refused}\n"))),
    }
}
