//! Whether a cache has the new value 100 ms after the write of it was acknowledged, while tasks of
//! its process read the keys all the time.
//!
//! A single write meets copies. In a row of writes to one key, each but the first meets reads of
//! the server that the one before has caused.

use crate::server::RedisServer;
use crate::subject::{Amalgam, ByHand, Copying, Plain, Reader, Tier, Writer, caching, connect};
use crate::table::{Table, rounded};
use crate::{Options, machine, runtime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: u64 = 4;
const READERS: usize = 2;
const SETTLED: Duration = Duration::from_millis(100);
/// A reader lets other tasks run after so many reads.
const READS: u64 = 64;

async fn spin(reader: impl Reader, stopped: Arc<AtomicBool>, reads: Arc<AtomicU64>) {
    while !stopped.load(Ordering::Relaxed) {
        for number in 0..READS {
            reader.read(number % KEYS).await;
        }
        reads.fetch_add(READS, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
}

/// Writes in a row.
const ROW: u64 = 5;

/// What a cache has returned.
struct Outcome {
    /// Checks after a single write, and after a row of them.
    stale: [u64; 2],
    /// Of the tasks that read all the time, in microseconds.
    read: f64,
}

/// The cache is connected and read on a runtime of two threads. The writer has a runtime of its
/// own, so readers do not delay it.
fn run<R: Reader, W: Writer>(
    checks: u64,
    connect: impl AsyncFn(u16) -> R,
    connect_writer: impl AsyncFn(u16) -> W,
) -> Outcome {
    let server = RedisServer::start();
    let (readers, writers) = (runtime(2), runtime(1));
    let reader = readers.block_on(connect(server.port));
    let (stopped, reads) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
    let outcome = writers.block_on(async {
        let writer = connect_writer(server.port).await;
        for key in 0..KEYS {
            writer.write(key, 0).await;
        }
        let begun = Instant::now();
        for _ in 0..READERS {
            readers.spawn(spin(reader.clone(), Arc::clone(&stopped), Arc::clone(&reads)));
        }
        let (mut stale, mut version) = ([0; 2], 0);
        for (writes, stale) in [1, ROW].into_iter().zip(&mut stale) {
            for check in 0..checks {
                let key = check % KEYS;
                for _ in 0..writes {
                    version += 1;
                    writer.write(key, version).await;
                }
                tokio::time::sleep(SETTLED).await;
                let reader = reader.clone();
                let check = readers.spawn(async move { reader.read(key).await });
                *stale += u64::from(check.await.expect("no task panics") != Some(version));
            }
        }
        let time = begun.elapsed().as_secs_f64() * READERS as f64;
        stopped.store(true, Ordering::Relaxed);
        Outcome { stale, read: time * 1e6 / reads.load(Ordering::Relaxed) as f64 }
    });
    readers.block_on(async { drop(reader) });
    outcome
}

pub fn measure(options: &Options) {
    let checks = options.size(200, 20);
    println!(
        "{READERS} tasks read {KEYS} keys all the time. {checks} checks come {} ms after a single \
         write, and {checks} as long after {ROW} writes to the key in a row.\n",
        SETTLED.as_millis()
    );
    let (single, row) =
        (format!("stale after one write, of {checks}"), format!("after {ROW}, of {checks}"));
    let table = Table::new(["cache", "written by", &single, &row, "a read of the tasks, µs"]);
    let row = |cache: &str, writer: &str, outcome: Outcome| {
        let [single, row] = outcome.stale;
        table.row(cache, &[&writer, &single, &row, &rounded(outcome.read)]);
    };
    let plain = async |port| Plain(connect(port).await);
    let with_cache = async |port| Plain(caching(port).await);

    row("cortado-redis", "another one", run(checks, Tier::connect, Tier::connect));
    let copying = async |port| Copying {
        maker: Tier::connect(port).await,
        server: plain(port).await,
        prefix: Tier::PREFIX,
    };
    row("cortado-redis", "a plain `COPY`", run(checks, Tier::connect, copying));
    row("redis-rs `cache-aio`", "a plain `SET`", run(checks, with_cache, plain));
    let amalgam = Amalgam::<u64>::connect;
    row("amalgam-cache", "another one", run(checks, amalgam, amalgam));
    let copying = async |port| Copying {
        maker: Amalgam::<u64>::connect(port).await,
        server: plain(port).await,
        prefix: Amalgam::<u64>::PREFIX,
    };
    row("amalgam-cache", "a plain `COPY`", run(checks, amalgam, copying));
    row("moka by hand, 1 s", "a plain `SET`", run(checks, ByHand::connect, plain));
    println!("\nLoad average at the end: {}.", machine::load());
}
