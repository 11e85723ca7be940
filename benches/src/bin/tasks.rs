//! The caches for tasks compared, on a runtime of tokio: awaited hits, by reads and by loads,
//! awaited loads of distinct keys, and many tasks that ask for one missing key.
//!
//! cortado and moka have an expiry policy that gives each entry an hour; quick_cache has none. Keys
//! are numbers, values documents behind an `Arc`. Rounds are interleaved, another cache goes first
//! in each, and figures are medians with the lowest and the highest of the rounds.

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use cortado_benches::figure::{Figure, short};
use cortado_benches::key::Stream;
use cortado_benches::machine;
use std::future::Future;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Barrier;

/// Compares the caches for tasks.
#[derive(Parser)]
struct Options {
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Keys that are in the cache; its capacity is as large, where it has to evict.
    #[arg(long, default_value_t = 100_000)]
    entries: u64,
    /// Operations of each task.
    #[arg(long, default_value_t = 400_000)]
    operations: usize,
    /// Worker threads of the runtime, with a task each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    workers: Vec<usize>,
    /// A first look, with fewer rounds and operations.
    #[arg(long)]
    quick: bool,
}

type Document = Arc<[u64; 8]>;

fn document(key: u64) -> Document {
    Arc::new([key; 8])
}

/// A cache for tasks.
trait Tasks: Send + Sync + Sized + 'static {
    const NAME: &'static str;

    fn new(capacity: u64) -> Self;
    fn get(&self, key: u64) -> impl Future<Output = Option<Document>> + Send;
    fn load(&self, key: u64) -> impl Future<Output = Document> + Send;

    fn hits(&self, keys: &[u64]) -> impl Future<Output = ()> + Send {
        async move {
            for &key in keys {
                black_box(self.get(key).await.expect("it is there")[0]);
            }
        }
    }

    fn loads(&self, keys: &[u64]) -> impl Future<Output = ()> + Send {
        async move {
            for &key in keys {
                black_box(self.load(key).await[0]);
            }
        }
    }
}

/// How many values were loaded of which many tasks want one.
static LOADS: AtomicUsize = AtomicUsize::new(0);
/// The key that many tasks want, whose load takes a while.
const WANTED: u64 = u64::MAX;

async fn loaded(key: u64) -> Document {
    if key == WANTED {
        LOADS.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
    }
    document(key)
}

/// An hour for each entry.
struct Lifetimes;

const HOUR: Duration = Duration::from_secs(3600);

impl cortado::Expiry<u64, Document> for Lifetimes {
    fn expire_after_create(&self, _: &u64, _: &Document, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }
}

impl moka::Expiry<u64, Document> for Lifetimes {
    fn expire_after_create(&self, _: &u64, _: &Document, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }
}

type Cortado = cortado::future::Cache<u64, Document, ahash::RandomState>;
type Moka = moka::future::Cache<u64, Document, ahash::RandomState>;
type Quick = quick_cache::sync::Cache<u64, Document, quick_cache::UnitWeighter, ahash::RandomState>;

macro_rules! tasks {
    ($library:ident, $cache:ty) => {
        impl Tasks for $cache {
            const NAME: &'static str = stringify!($library);

            fn new(capacity: u64) -> Self {
                let builder = $library::future::Cache::builder().max_capacity(capacity);
                builder.expire_after(Lifetimes).build_with_hasher(ahash::RandomState::new())
            }

            async fn get(&self, key: u64) -> Option<Document> {
                self.get(&key).await
            }

            async fn load(&self, key: u64) -> Document {
                self.get_with(key, loaded(key)).await
            }
        }
    };
}

tasks!(cortado, Cortado);
tasks!(moka, Moka);

/// Its reads do not await.
impl Tasks for Quick {
    const NAME: &'static str = "quick_cache";

    fn new(capacity: u64) -> Self {
        let lifecycle = quick_cache::sync::DefaultLifecycle::default();
        let hasher = ahash::RandomState::new();
        Self::with(capacity as usize, capacity, quick_cache::UnitWeighter, hasher, lifecycle)
    }

    async fn get(&self, key: u64) -> Option<Document> {
        self.get(&key)
    }

    async fn load(&self, key: u64) -> Document {
        let loader = async { Ok::<_, std::convert::Infallible>(loaded(key).await) };
        match self.get_or_insert_async(&key, loader).await {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }
}

/// What the tasks do.
#[derive(Clone, Copy, PartialEq)]
enum Workload {
    Hits,
    HitsOfLoads,
    LoadsWithRoom,
    LoadsThatEvict,
    OneMissingKey,
}

const WORKLOADS: [(Workload, &str); 5] = [
    (Workload::Hits, "hits, zipf"),
    (Workload::HitsOfLoads, "loads of keys that are there, zipf"),
    (Workload::LoadsWithRoom, "loads of distinct keys, with room"),
    (Workload::LoadsThatEvict, "loads of distinct keys, each evicts one"),
    (Workload::OneMissingKey, "1,000 tasks, one missing key (ns in all)"),
];

const TASKS: usize = 1000;

/// Nanoseconds per operation of a task, or of all together for the one key.
fn run<C: Tasks>(workload: Workload, options: &Options, runtime: &Runtime, round: usize) -> f64 {
    let workers = runtime.metrics().num_workers();
    let Options { entries, operations, .. } = *options;
    let cache = Arc::new(match workload {
        Workload::Hits | Workload::HitsOfLoads => C::new(2 * entries),
        Workload::LoadsWithRoom => C::new(2 * (workers * operations) as u64),
        Workload::LoadsThatEvict | Workload::OneMissingKey => C::new(entries),
    });
    if workload != Workload::LoadsWithRoom {
        let all: Vec<u64> = (1..=entries).collect();
        runtime.block_on(cache.loads(&all));
    }
    match workload {
        Workload::OneMissingKey => one_missing_key(&cache, runtime),
        Workload::Hits | Workload::HitsOfLoads => {
            each(&cache, runtime, options, (workload, Stream::Zipf, round))
        }
        _ => each(&cache, runtime, options, (workload, Stream::Unique, round)),
    }
}

/// Lets a task per worker go through its keys.
fn each<C: Tasks>(
    cache: &Arc<C>,
    runtime: &Runtime,
    options: &Options,
    (workload, stream, round): (Workload, Stream, usize),
) -> f64 {
    let workers = runtime.metrics().num_workers();
    let barrier = Arc::new(Barrier::new(workers));
    let task = |worker| {
        let keys = stream.keys::<u64>(options.entries, options.operations, worker, round);
        let (cache, barrier) = (Arc::clone(cache), Arc::clone(&barrier));
        runtime.spawn(async move {
            barrier.wait().await;
            let begun = Instant::now();
            match workload {
                Workload::Hits => cache.hits(&keys).await,
                _ => cache.loads(&keys).await,
            }
            begun.elapsed().as_nanos() as f64 / keys.len() as f64
        })
    };
    let tasks: Vec<_> = (0..workers).map(task).collect();
    let times = tasks.into_iter().map(|task| runtime.block_on(task).expect("no task panics"));
    times.sum::<f64>() / workers as f64
}

/// Lets many tasks ask for a key whose load takes a turn of the runtime.
fn one_missing_key<C: Tasks>(cache: &Arc<C>, runtime: &Runtime) -> f64 {
    LOADS.store(0, Ordering::Relaxed);
    let begun = Instant::now();
    let task = |_| {
        let cache = Arc::clone(cache);
        runtime.spawn(async move { black_box(cache.load(WANTED).await[0]) })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        runtime.block_on(task).expect("no task panics");
    }
    let time = begun.elapsed().as_nanos() as f64;
    assert_eq!(LOADS.load(Ordering::Relaxed), 1, "{} loads more than once", C::NAME);
    time
}

type Run = fn(Workload, &Options, &Runtime, usize) -> f64;

const CACHES: [(&str, Run); 3] =
    [(Cortado::NAME, run::<Cortado>), (Moka::NAME, run::<Moka>), (Quick::NAME, run::<Quick>)];

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() -> anyhow::Result<()> {
    let mut options = Options::parse();
    if options.quick {
        (options.rounds, options.operations) = (3, 50_000);
    }
    println!("{}\n", machine::description());
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let names = CACHES.map(|(name, _)| format!("{name}, ns"));
    let heads = ["workload", "workers"].map(String::from).into_iter().chain(names);
    table.set_header(heads.chain(["moka / cortado".into(), "quick_cache / cortado".into()]));
    for (workload, name) in WORKLOADS {
        for &workers in &options.workers {
            let runtime = Builder::new_multi_thread().worker_threads(workers).build()?;
            let figures = measure(workload, &options, &runtime);
            let ratio =
                |other: usize| format!("{}×", short(figures[other].median / figures[0].median));
            let show = |figure: &Figure| {
                let [median, low, high] = [figure.median, figure.low, figure.high].map(short);
                format!("{median} ({low} to {high})")
            };
            let row =
                [name.into(), workers.to_string()].into_iter().chain(figures.iter().map(show));
            table.add_row(row.chain([ratio(1), ratio(2)]));
        }
    }
    println!("{table}");
    Ok(())
}

/// The figure of each cache. The first round warms up.
fn measure(workload: Workload, options: &Options, runtime: &Runtime) -> Vec<Figure> {
    let mut readings = vec![Vec::new(); CACHES.len()];
    for round in 0..=options.rounds {
        for turn in 0..CACHES.len() {
            let number = (round + turn) % CACHES.len();
            let reading = CACHES[number].1(workload, options, runtime, round);
            if round > 0 {
                readings[number].push(reading);
            }
        }
    }
    readings.iter().map(|readings| Figure::of(readings)).collect()
}
