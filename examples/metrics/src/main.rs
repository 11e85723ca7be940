//! A cache seen from outside: a log line for each load that runs, and the page that Prometheus
//! reads.
//!
//! ```text
//! cargo run -p cortado-metrics
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::metrics::Exporter;
use cortado::{Cache, Loaded, LoadingCache};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};
use std::thread;
use std::time::Duration;
use tracing::{info_span, level_filters::LevelFilter};
use tracing_subscriber::fmt::format::FmtSpan;

/// The bounds of the histograms, in seconds.
const LOADS: [f64; 6] = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5];
const LATENESS: [f64; 4] = [0.02, 0.1, 1.0, 10.0];

fn pages() -> LoadingCache<u32, String, &'static str> {
    Cache::builder()
        .name("pages")
        .max_capacity(50)
        .time_to_live(Duration::from_millis(200))
        .record_stats(true)
        .scheduler(true)
        .build_with_loader(|page: u32| {
            thread::sleep(Duration::from_millis(2));
            if page == 13 { Err("no such page") } else { Ok(Loaded::new(format!("page {page}"))) }
        })
}

fn main() -> Result<(), BuildError> {
    // Spans: each that ends is a line, with the spans that it was in.
    tracing_subscriber::fmt()
        .with_max_level(LevelFilter::INFO)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(std::io::stdout)
        .init();
    // Metrics: a service would also listen, by the exporter's feature `http-listener`.
    let prometheus = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Full("cortado.load.duration".to_owned()), &LOADS)?
        .set_buckets_for_metric(Matcher::Full("cortado.expiry.lateness".to_owned()), &LATENESS)?
        .install_recorder()?;

    let pages = pages();
    let mut exporter = Exporter::new("pages");
    println!("The first requests, and the loads that they began:");
    for page in [1, 1, 2, 13] {
        let _request = info_span!("request", page).entered();
        let _ = pages.get(&page);
    }
    for page in (0..400).map(|number| number * number % 97) {
        let _ = pages.get(&page);
    }
    thread::sleep(Duration::from_millis(300)); // what is left expires
    exporter.publish(&pages.stats()); // a service: every few seconds
    println!("\nWhat Prometheus reads:");
    print!("{}", prometheus.render());
    Ok(())
}
