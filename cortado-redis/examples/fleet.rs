//! Three processes share a cache, and show each second what they see: hits, loads, how long an old
//! value was seen after it was replaced, and outages. A fourth one, the parent, writes, and stops
//! the server for two seconds.
//!
//! ```sh
//! cargo run --release --example fleet        # ten seconds
//! ```
//!
//! Needs `redis-server` (Debian, Ubuntu: apt install redis-server). Dependencies: cortado-redis;
//! tokio with the features `full`; tempfile.

use cortado_redis::{Outage, Server, TieredCache};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

const PROCESSES: usize = 3;
const KEYS: u64 = 100;
const SECONDS: u64 = 10;
const CHILD: &str = "FLEET_PORT";

type Prices = TieredCache<u64, u64>;

fn prices(port: u16) -> Prices {
    let server = Server::at(&format!("redis://127.0.0.1:{port}")).expect("an address");
    TieredCache::builder(server, "prices")
        .time_to_live(Duration::from_secs(60))
        .outage(Outage::ServeStale { at_most: Duration::from_secs(5) })
        .build()
}

/// Microseconds since 1970: a price is the time at which it was set.
fn now() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    u64::try_from(time.as_micros()).expect("for 500,000 years")
}

/// What a process has seen in this second.
#[derive(Default)]
struct Seen {
    reads: AtomicU64,
    failures: AtomicU64,
    /// The longest time for which an old price was returned.
    staleness: AtomicU64,
}

/// A reader.
async fn read(port: u16) {
    let (prices, seen) = (prices(port), Arc::<Seen>::default());
    for task in 0..4 {
        let (prices, seen) = (prices.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            let mut last = HashMap::new();
            for number in task.. {
                let key = number % KEYS;
                match prices.load(&key, async { Ok::<_, std::io::Error>(now()) }).await {
                    Ok(price) => {
                        seen.reads.fetch_add(1, Relaxed);
                        if last.insert(key, price).is_some_and(|before| before != price) {
                            // So long ago the new price was set, and until now the old one seen.
                            seen.staleness.fetch_max(now().saturating_sub(price), Relaxed);
                        }
                    }
                    Err(_) => _ = seen.failures.fetch_add(1, Relaxed),
                }
                if number % 64 == 0 {
                    sleep(Duration::from_micros(200)).await;
                }
            }
        });
    }
    let mut before = prices.stats();
    loop {
        sleep(Duration::from_secs(1)).await;
        let stats = prices.stats();
        let fetches = stats.fetches - before.fetches;
        println!(
            "{:>7} hits, {fetches:>4} reads of the server, {:>3} loads, {:>4} pushes, {:>6} served stale, {:>5} failed, \
             stale for {:>5.1} ms, {:?}",
            seen.reads.swap(0, Relaxed).saturating_sub(fetches),
            stats.loads - before.loads,
            stats.pushes - before.pushes,
            stats.stale_served - before.stale_served,
            seen.failures.swap(0, Relaxed),
            seen.staleness.swap(0, Relaxed) as f64 / 1_000.0,
            prices.state(),
        );
        before = stats;
    }
}

/// The server, ended with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(port: u16, folder: &std::path::Path) -> Option<Running> {
    let mut command = Command::new("redis-server");
    command.args([
        "--port",
        &port.to_string(),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--appendonly",
        "no",
    ]);
    command.arg("--dir").arg(folder).stdout(Stdio::null()).spawn().ok().map(Running)
}

fn start_reader(port: u16, number: usize) -> Running {
    let program = std::env::current_exe().expect("this program has a file");
    let mut child = Command::new(program)
        .env(CHILD, port.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let lines = BufReader::new(child.stdout.take().expect("it is piped"));
    std::thread::spawn(move || {
        for line in lines.lines().map_while(Result::ok) {
            println!("process {number}: {line}");
        }
    });
    Running(child)
}

#[tokio::main]
async fn main() {
    if let Ok(port) = std::env::var(CHILD) {
        return read(port.parse().expect("a port")).await;
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let (port, folder) =
        (free.expect("a free port").port(), tempfile::tempdir().expect("a folder"));
    let Some(mut running) = server(port, folder.path()) else {
        println!("there is no redis-server here; Debian and Ubuntu: apt install redis-server");
        return;
    };
    sleep(Duration::from_millis(300)).await;
    let readers: Vec<_> = (1..=PROCESSES).map(|number| start_reader(port, number)).collect();
    let (prices, begun) = (prices(port), Instant::now());
    let (mut stopped, mut number) = (false, 0);
    while begun.elapsed() < Duration::from_secs(SECONDS) {
        if !stopped && begun.elapsed() > Duration::from_secs(SECONDS / 2) {
            stopped = true;
            println!("the server stops");
            drop(running);
            sleep(Duration::from_secs(2)).await;
            running = server(port, folder.path()).expect("it has run before");
            println!("the server is back, and empty");
        }
        number += 1;
        let (key, price) = (number % KEYS, now());
        let _ = prices.insert(&key, price).await;
        sleep(Duration::from_millis(10)).await;
    }
    drop((readers, running));
}
