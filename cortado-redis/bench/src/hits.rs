//! What a hit in the process costs.
//!
//! Each round measures all subjects, and another one goes first in each, so that a disturbance of
//! the machine does not meet one of them alone. The ratios are of the best rounds.

use crate::numbers::{Numbers, Sorted};
use crate::server::RedisServer;
use crate::subject::{Amalgam, CAPACITY, caching, connect, for_each, server_at};
use crate::table::{Table, rounded};
use crate::{Options, runtime};
use cortado_redis::{Bytes, TieredCache};
use redis::aio::MultiplexedConnection;
use std::hint::black_box;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

const HOT: u64 = 1_000;
const BYTES: usize = 100;
/// Of all entries: what looks whether an entry has ended does so in each cache.
const LIFE: Duration = Duration::from_secs(3_600);

/// The same type in all caches: a hit clones the `Arc`. `cache-aio` copies the bytes.
type Value = Arc<[u8]>;

/// Nanoseconds per read of a loop in a task of the caller's thread.
macro_rules! timed {
    ($handle:expr, $keys:expr, $reads:expr, $key:ident => $read:expr) => {
        $handle.block_on(async {
            let begun = Instant::now();
            for $key in $keys.iter().cycle().take($reads) {
                black_box($read.expect("a copy"));
            }
            begun.elapsed().as_nanos() as f64 / $reads as f64
        })
    };
}

/// A read that is measured, and how many of them make a round.
struct Subject<'c> {
    name: &'static str,
    threads: usize,
    reads: usize,
    run: Box<dyn Fn(usize) -> f64 + Sync + 'c>,
    rounds: Vec<f64>,
}

impl<'c> Subject<'c> {
    fn new(name: &'static str, reads: u64, run: impl Fn(usize) -> f64 + Sync + 'c) -> Self {
        Self { name, threads: 1, reads: reads as usize, run: Box::new(run), rounds: Vec::new() }
    }

    fn on_two_threads(self) -> Self {
        Self { threads: 2, ..self }
    }

    fn round(&self) -> f64 {
        on_threads(self.threads, || (self.run)(self.reads))
    }
}

/// The mean of so many threads that read at once. They are new ones in each round, so that no round
/// depends on what the threads before have left to the allocator.
fn on_threads(threads: usize, read: impl Fn() -> f64 + Sync) -> f64 {
    let start = Barrier::new(threads);
    std::thread::scope(|scope| {
        let run = || {
            start.wait();
            read()
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let times = running.into_iter().map(|thread| thread.join().expect("no thread panics"));
        times.sum::<f64>() / threads as f64
    })
}

/// A value of its own for each entry: threads that read different keys share no reference count.
fn value() -> Value {
    vec![b'x'; BYTES].into()
}

async fn get(connection: &mut MultiplexedConnection, key: u64) -> Option<Value> {
    redis::cmd("GET").arg(key).query_async(connection).await.expect("the server answers")
}

/// All caches, with the same entries.
struct Caches {
    sync: cortado::Cache<u64, Value>,
    future: cortado::future::Cache<u64, Value>,
    moka: moka::future::Cache<u64, Value>,
    tier: TieredCache<u64, Value>,
    amalgam: Amalgam<Value>,
    client: MultiplexedConnection,
}

impl Caches {
    async fn filled(port: u16, keys: u64) -> Self {
        let sync = cortado::Cache::builder().max_capacity(CAPACITY).time_to_live(LIFE).build();
        let moka = moka::future::Cache::builder().max_capacity(CAPACITY).time_to_live(LIFE).build();
        let tier: TieredCache<u64, Value> = TieredCache::builder(server_at(port), "hits")
            .max_capacity(CAPACITY)
            .time_to_live(LIFE)
            .build_with_codec(Bytes);
        let amalgam = Amalgam::<Value>::connect(port).await;
        let (plain, client) = (connect(port).await, caching(port).await);
        // One entry after the other, all caches in turn, so that all lie in memory alike.
        let fill = {
            let (sync, moka, tier) = (sync.clone(), moka.clone(), tier.clone());
            let (amalgam, client) = (amalgam.clone(), client.clone());
            move |key: u64| {
                let (sync, moka, tier) = (sync.clone(), moka.clone(), tier.clone());
                let (amalgam, mut plain, mut client) =
                    (amalgam.clone(), plain.clone(), client.clone());
                async move {
                    sync.insert(key, value());
                    tier.insert(&key, value()).await.expect("the server answers");
                    tier.get(&key).await.expect("the server answers");
                    moka.insert(key, value()).await;
                    amalgam.0.set(key.to_string(), value()).await.expect("the server answers");
                    let mut set = redis::cmd("SET");
                    set.arg(key).arg(&value()[..]);
                    set.exec_async(&mut plain).await.expect("the server answers");
                    get(&mut client, key).await;
                }
            }
        };
        for_each(64, 0..keys, fill).await;
        Self { future: sync.clone().future(), sync, moka, tier, amalgam, client }
    }

    fn subjects<'c>(&'c self, handle: &'c Handle, hot: &'c Hot, reads: u64) -> [Subject<'c>; 9] {
        let Self { sync, future, moka, tier, amalgam, client } = self;
        let Hot { keys, names } = hot;
        let by_client = move |reads: usize| {
            let mut client = client.clone();
            timed!(handle, keys, reads, key => get(&mut client, *key).await)
        };
        let by_tier = move |reads: usize| timed!(handle, keys, reads, key => tier.get(key).await.expect("an answer"));
        // A hit of `cache-aio` takes so much longer.
        let fewer = reads / 10;
        [
            Subject::new(
                "`cortado::future::Cache::get`",
                reads,
                |reads| timed!(handle, keys, reads, key => future.get(key).await),
            ),
            Subject::new("`TieredCache::get`", reads, by_tier),
            Subject::new(
                "`cortado::Cache::get`",
                reads,
                |reads| timed!(handle, keys, reads, key => sync.get(key)),
            ),
            Subject::new(
                "`TieredCache::local().get`",
                reads,
                |reads| timed!(handle, keys, reads, key => tier.local().get(key)),
            ),
            Subject::new(
                "`moka::future::Cache::get`",
                reads,
                |reads| timed!(handle, keys, reads, key => moka.get(key).await),
            ),
            Subject::new(
                "amalgam-cache `try_get`, keys are strings",
                reads,
                |reads| timed!(handle, names, reads, key => amalgam.0.try_get(key).await.expect("an answer")),
            ),
            Subject::new("redis-rs `cache-aio` `GET`", fewer, by_client),
            Subject::new("`TieredCache::get`, 2 threads", reads, by_tier).on_two_threads(),
            Subject::new("redis-rs `cache-aio` `GET`, 2 threads", fewer, by_client)
                .on_two_threads(),
        ]
    }

    /// Reads that went to the server so far: of the tier, and of the client with a cache.
    fn misses(&self) -> (u64, usize) {
        let statistics = self.client.get_cache_statistics();
        (self.tier.stats().fetches, statistics.map_or(0, |statistics| statistics.miss))
    }
}

/// The keys that are read, in the order in which they are.
struct Hot {
    keys: Vec<u64>,
    names: Vec<String>,
}

impl Hot {
    fn of(keys: u64) -> Self {
        let mut numbers = Numbers(1);
        let keys: Vec<u64> = (0..4_096).map(|_| numbers.below(HOT) * (keys / HOT)).collect();
        Self { names: keys.iter().map(u64::to_string).collect(), keys }
    }
}

pub fn measure(options: &Options) {
    let keys = options.size(100_000, 5_000);
    let rounds = options.size(25, 3);
    let reads = options.size(100_000, 10_000);
    let server = RedisServer::start();
    // The connections' tasks have a thread; the measured reads run on others.
    let runtime = runtime(1);
    let caches = runtime.block_on(Caches::filled(server.port, keys));
    let hot = Hot::of(keys);
    let mut subjects = caches.subjects(runtime.handle(), &hot, reads);
    for subject in &subjects {
        subject.round();
    }
    let before = caches.misses();
    for round in 0..rounds as usize {
        for turn in 0..subjects.len() {
            let place = (round + turn) % subjects.len();
            let subject = &mut subjects[place];
            let nanos = subject.round();
            subject.rounds.push(nanos);
        }
    }
    let after = caches.misses();

    println!(
        "{keys} keys (`u64`), of which {HOT} are read, uniformly. Values are `Arc<[u8]>` of {BYTES} \
         bytes, with a lifetime of an hour. {rounds} rounds of {reads} reads (`cache-aio`: {}), interleaved.\n",
        reads / 10
    );
    let table = Table::new(["hit", "best, ns", "median, ns"]);
    let mut best = Vec::new();
    for subject in &subjects {
        let sorted = Sorted::new(subject.rounds.clone());
        best.push(sorted.least());
        table.row(subject.name, &[&rounded(sorted.least()), &rounded(sorted.median())]);
    }
    let [future, tier, sync, local, _, _, client, tier_on_two, client_on_two] = best[..] else {
        unreachable!("there are nine subjects")
    };
    println!();
    let table = Table::new(["ratio of the best rounds", "figure", "bar", "met"]);
    let row = |name: &str, ratio: f64, bar: &str, met: bool| {
        table.row(name, &[&rounded(ratio), &bar, &if met { "yes" } else { "NO" }]);
    };
    let at_most = |name, ratio| row(name, ratio, "≤ 1.25", ratio <= 1.25);
    let at_least = |name, ratio| row(name, ratio, "≥ 10", ratio >= 10.0);
    at_most("`TieredCache::get` to `cortado::future::Cache::get`", tier / future);
    at_most("`TieredCache::local().get` to `cortado::Cache::get`", local / sync);
    at_least("`cache-aio` to `TieredCache::get`", client / tier);
    at_least("`cache-aio` to `TieredCache::get`, 2 threads each", client_on_two / tier_on_two);
    println!(
        "\nReads that went to the server during the rounds: cortado-redis {}, `cache-aio` {}.",
        after.0 - before.0,
        after.1 - before.1
    );
}
