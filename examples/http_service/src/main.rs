//! An HTTP service that caches a slow upstream. Each response is fresh for its own `max-age`, and
//! may be used for some time after that: while it is revalidated, and while the upstream is down.
//!
//! ```text
//! cargo run --release -p cortado-http-service
//! cargo run --release -p cortado-http-service -- --seconds 60 --clients 500
//! ```
//!
//! The program starts the upstream, the service and the service's clients, on ports of this
//! machine. In the midst of it the upstream is stopped for some seconds. Each second the program
//! prints what the clients saw, and at the end a summary. [`service`] has the cache.

mod client;
mod load;
mod screen;
mod service;
mod upstream;

use anyhow::Result;
use clap::Parser;
use load::Meters;
use screen::Screen;
use service::Service;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::interval;
use upstream::{Server, Upstream};

/// Caches a slow HTTP upstream, and shows what that brings.
#[derive(Parser)]
struct Options {
    /// How long.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Clients, each with a connection of its own.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    clients: u64,
    /// Pages that clients ask for, the first ones most often.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pages: u64,
    /// For how many seconds the upstream is stopped, after the first third.
    #[arg(long, default_value_t = 4)]
    outage: u64,
    /// Pages that the cache may hold.
    #[arg(long, default_value_t = 1000)]
    capacity: u64,
}

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse();
    let upstream = Arc::new(Upstream::new(options.pages));
    let mut server = Server::start(Arc::clone(&upstream)).await?;
    let behind = server.address();
    let service = Arc::new(Service::new(options.capacity, behind));
    let address = service::start(Arc::clone(&service)).await?;

    let meters = Arc::new(Meters::new());
    let mut clients = JoinSet::new();
    for _ in 0..options.clients {
        clients.spawn(load::ask(address, options.pages, Arc::clone(&meters)));
    }

    let mut screen = Screen::new(&options, [behind, address]);
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    let stop = begun + Duration::from_secs(options.seconds) / 3;
    let outage = stop..stop + Duration::from_secs(options.outage);
    let mut ticks = interval(Duration::from_millis(100));
    ticks.tick().await;
    while Instant::now() < end {
        match (outage.contains(&Instant::now()), server.is_stopped()) {
            (true, false) => server.stop(),
            (false, true) => server.go_on().await?,
            _ => {}
        }
        tokio::select! {
            _ = ticks.tick() => screen.tick(&meters, &service, &server),
            // Clients go on until they are stopped, unless one of them fails.
            Some(failed) = clients.join_next() => failed??,
        }
    }
    screen.finish(&meters, &service, (&server, &upstream));
    Ok(())
}
