//! Random faults under writers and readers. `.ci/deep/redis SECONDS` runs it, for each way to be
//! told of changes.

use crate::support::*;
use cortado_redis::{Coherence, TieredCache};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::time::sleep;

type Versions = TieredCache<u64, u64>;

const KEYS: u64 = 40;
/// The staleness bound of a second, and what two threads on a busy machine may be late.
const BOUND: Duration = Duration::from_millis(1_100);

/// When each version of a key was acknowledged. Only one task writes a key, so versions grow. The
/// origin has a version before the cache does.
#[derive(Default)]
struct History {
    acknowledged: Mutex<Vec<(Instant, u64)>>,
    origin: AtomicU64,
}

impl History {
    fn acknowledged(&self, version: u64) {
        self.acknowledged.lock().unwrap().push((Instant::now(), version));
    }

    /// The newest version that a read that begins now must see.
    fn least(&self, begins: Instant) -> u64 {
        let known = self.acknowledged.lock().unwrap();
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
        let history = &running.histories[key as usize];
        history.origin.store(version, Ordering::SeqCst);
        if cache.insert(&key, version).await.is_ok() {
            history.acknowledged(version);
            if let Ok(Some(seen)) = cache.get(&key).await {
                assert!(seen >= version, "own write {version} of {key}, seen {seen}");
            }
        }
        sleep(ms(rand::random_range(0..20))).await;
    }
}

/// Returns how many reads found a value.
async fn read(cache: Versions, running: Arc<Running>) -> u64 {
    let (mut reads, mut asked) = (0, 0);
    while !running.ends.load(Ordering::Relaxed) {
        let key = rand::random_range(0..KEYS);
        // What is flushed, or lost with the server, is loaded again. (The callers of a load get
        // what its loader has made, old or new; what it stores is checked.)
        if asked % 64 == 0 {
            let running = Arc::clone(&running);
            let loader = async move {
                Ok::<_, String>(running.histories[key as usize].origin.load(Ordering::SeqCst))
            };
            let _ = cache.load(&key, loader).await;
        }
        let least = running.histories[key as usize].least(Instant::now());
        if let Ok(Some(seen)) = cache.get(&key).await {
            assert!(seen >= least, "{key}: {least} was acknowledged long ago, seen {seen}");
            reads += 1;
        }
        asked += 1;
        if asked % 16 == 0 {
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
        assert!(reads > 10_000 * seconds, "{reads}");
    });
}

#[test]
#[ignore = "searches by chance, for as long as one likes"]
fn no_value_is_older_than_the_bound() {
    chaos(Coherence::PerKey);
    chaos(Coherence::Prefix);
}
