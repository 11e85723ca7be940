//! Random faults under writers and readers. `.ci/deep/redis SECONDS` runs it, for each way to be
//! told of changes.

use crate::support::*;
use cortado_redis::{Coherence, TieredCache};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::sleep;

type Versions = TieredCache<u64, u64>;

const KEYS: u64 = 40;
/// The staleness bound, and what two threads on a busy machine may be late.
const BOUND: Duration = Duration::from_millis(1_100);

/// When each version of a key was acknowledged. Only one task writes a key, so versions grow.
#[derive(Default)]
struct History(Mutex<Vec<(Instant, u64)>>);

impl History {
    fn acknowledged(&self, version: u64) {
        self.0.lock().unwrap().push((Instant::now(), version));
    }

    /// The newest version that a read that begins now must see.
    fn least(&self, begins: Instant) -> u64 {
        let known = self.0.lock().unwrap();
        let old = known.partition_point(|(at, _)| *at + BOUND < begins);
        known[..old].last().map_or(0, |(_, version)| *version)
    }
}

struct Running {
    ends: AtomicBool,
    histories: Vec<History>,
}

fn versions(port: u16, coherence: Coherence) -> Versions {
    TieredCache::builder(at(port), "c").coherence(coherence).lease(ms(500)).build()
}

async fn write(cache: Versions, running: Arc<Running>, own: u64) {
    for version in 1.. {
        if running.ends.load(Ordering::Relaxed) {
            return;
        }
        let key = own + 2 * (rand::random_range(0..KEYS / 2));
        if cache.insert(&key, version).await.is_ok() {
            running.histories[key as usize].acknowledged(version);
            if let Ok(Some(seen)) = cache.get(&key).await {
                assert!(seen >= version, "own write {version} of {key}, seen {seen}");
            }
        }
        sleep(ms(rand::random_range(0..20))).await;
    }
}

/// Returns how many reads there were.
async fn read(cache: Versions, running: Arc<Running>) -> u64 {
    let mut reads = 0;
    while !running.ends.load(Ordering::Relaxed) {
        let key = rand::random_range(0..KEYS);
        let begins = Instant::now();
        let least = running.histories[key as usize].least(begins);
        // Without a value: flushed, or lost with the server.
        if let Ok(Some(seen)) = cache.get(&key).await {
            assert!(seen >= least, "{key}: {least} was acknowledged long ago, seen {seen}");
        }
        reads += 1;
        if reads % 16 == 0 {
            tokio::task::yield_now().await;
        }
    }
    reads
}

fn fault(server: &mut RedisServer) {
    match rand::random_range(0..8) {
        0..3 => {
            let mut kill = redis::cmd("CLIENT");
            let _ = kill.arg("KILL").arg("TYPE").arg("normal").exec(&mut server.raw());
        }
        3 => redis::cmd("FLUSHALL").exec(&mut server.raw()).unwrap(),
        4..7 => {
            server.signal("STOP");
            std::thread::sleep(ms(rand::random_range(100..3_000)));
            server.signal("CONT");
        }
        _ => server.restart(),
    }
}

fn chaos(coherence: Coherence) {
    let seconds = std::env::var("CORTADO_REDIS_SECONDS").map_or(20, |it| it.parse().unwrap());
    let Some(mut server) = RedisServer::start() else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let histories = (0..KEYS).map(|_| History::default()).collect();
    let running = Arc::new(Running { ends: AtomicBool::new(false), histories });
    let port = server.port;
    let writers: Vec<_> = (0..2)
        .map(|own| runtime.spawn(write(versions(port, coherence), Arc::clone(&running), own)))
        .collect();
    let readers: Vec<_> = (0..3)
        .map(|_| runtime.spawn(read(versions(port, coherence), Arc::clone(&running))))
        .collect();
    let (begun, mut faults) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(seconds) {
        std::thread::sleep(ms(rand::random_range(50..1_500)));
        fault(&mut server);
        faults += 1;
    }
    running.ends.store(true, Ordering::Relaxed);
    runtime.block_on(async {
        for writer in writers {
            writer.await.unwrap();
        }
        let mut reads = 0;
        for reader in readers {
            reads += reader.await.unwrap();
        }
        println!("{coherence:?}: {reads} reads under {faults} faults");
        assert!(reads > 0);
    });
}

#[test]
#[ignore = "searches by chance, for as long as one likes"]
fn no_value_is_older_than_the_bound() {
    chaos(Coherence::PerKey);
    chaos(Coherence::Prefix);
}
