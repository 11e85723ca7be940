//! The clients of the service.

use crate::client::Client;
use anyhow::Result;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Zipf};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Between an answer and the client's next request.
const PAUSE: Duration = Duration::from_millis(5);

/// The latencies that clients have seen, in microseconds.
pub type Latencies = Histogram<u64>;

/// What the clients measure.
pub struct Meters {
    latencies: Mutex<Latencies>,
    /// Requests that were not answered with a page.
    failed: AtomicU64,
}

impl Meters {
    pub fn new() -> Self {
        Self { latencies: Mutex::new(latencies()), failed: AtomicU64::new(0) }
    }

    /// The latencies since the last call.
    pub fn take(&self) -> Latencies {
        let mut measured = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut measured, latencies())
    }

    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    fn record(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let mut measured = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        measured.saturating_record(micros);
    }
}

/// An empty histogram: up to a minute, to three digits.
pub fn latencies() -> Latencies {
    Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds in order")
}

/// Asks for one page after the other, without end.
pub async fn ask(service: SocketAddr, pages: u64, meters: Arc<Meters>) -> Result<()> {
    let mut random = StdRng::from_os_rng();
    let popularity = Zipf::new(pages as f64, 1.1)?;
    let mut client = Client::connect(service).await?;
    loop {
        let page = popularity.sample(&mut random) as u64 - 1;
        let begun = Instant::now();
        let response = client.get(&format!("/pages/{page}"), None).await?;
        meters.record(begun.elapsed());
        meters.failed.fetch_add(u64::from(response.status != 200), Relaxed);
        sleep(PAUSE).await;
    }
}
