//! Many small caches in one process, one per tenant: the heap that each takes, the time to build
//! it, and what the process does while nobody uses them. Linux only, for the wake-ups.

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use cortado_benches::cpu::wake_ups;
use cortado_benches::heap::{Count, Heap};
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: Heap = Heap;

/// Builds many caches with a lifetime of ten minutes per entry.
#[derive(Debug, Parser)]
struct Options {
    /// Caches.
    #[arg(long, default_value_t = 10_000)]
    caches: u64,
    /// Entries that each of them gets.
    #[arg(long, default_value_t = 10)]
    entries: u64,
    /// The largest number of entries of each.
    #[arg(long, default_value_t = 1_000)]
    capacity: u64,
    /// Seconds for which nobody uses them.
    #[arg(long, default_value_t = 3)]
    idle: u64,
}

const LIFETIME: Duration = Duration::from_secs(600);

/// What one kind of cache came to, in a row of the table.
fn measure<C>(
    options: &Options,
    name: &str,
    build: impl Fn() -> C,
    insert: impl Fn(&C, u64),
    settle: impl Fn(&C),
) -> Vec<String> {
    // What a process makes once is not counted.
    let first = build();
    insert(&first, 1);
    settle(&first);
    let per_cache =
        |bytes: i64| format!("{:.1} KiB", bytes as f64 / options.caches as f64 / 1024.0);
    let count = Count::start();
    let mut caches = Vec::with_capacity(options.caches as usize);
    let room = count.bytes();
    let start = Instant::now();
    caches.extend((0..options.caches).map(|_| build()));
    let built = start.elapsed();
    let empty = count.bytes() - room;
    for cache in &caches {
        (0..options.entries).for_each(|key| insert(cache, key));
    }
    caches.iter().for_each(&settle);
    let used = count.bytes() - room;
    drop(count);
    let before = wake_ups();
    std::thread::sleep(Duration::from_secs(options.idle));
    // This thread's own sleep is one.
    let woken = wake_ups().saturating_sub(before + 1) as f64 / options.idle as f64;
    let start = Instant::now();
    drop((caches, first));
    let dropped = start.elapsed();
    let each =
        |time: Duration| format!("{:.1} µs", time.as_secs_f64() * 1e6 / options.caches as f64);
    vec![
        name.to_owned(),
        per_cache(empty),
        per_cache(used),
        each(built),
        each(dropped),
        format!("{woken:.1}"),
    ]
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let options = Options::parse();
    let Options { caches, entries, capacity, idle } = options;
    println!("{}\n", cortado_benches::machine::description());
    println!(
        "{caches} caches of u64 → u64, at most {capacity} entries each, {entries} entries in each; \
         {idle} s idle\n"
    );
    let used = format!("heap with {entries} entries");
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header([
        "per cache",
        "heap, empty",
        &used,
        "time to build",
        "time to drop",
        "wake-ups of the process, a second",
    ]);
    let cortado = || cortado::Cache::<u64, u64>::builder().max_capacity(capacity);
    let insert = |cache: &cortado::Cache<u64, u64>, key| cache.insert(key, key);
    let settle = |cache: &cortado::Cache<u64, u64>| cache.run_pending_tasks();
    let lasting = || cortado().time_to_live(LIFETIME);
    table.add_row(measure(&options, "cortado", || lasting().build(), insert, settle));
    let scheduled = || lasting().scheduler(true).build();
    table.add_row(measure(&options, "cortado, scheduled", scheduled, insert, settle));
    let moka = || {
        moka::sync::Cache::<u64, u64>::builder()
            .max_capacity(capacity)
            .time_to_live(LIFETIME)
            .build()
    };
    let settle = |cache: &moka::sync::Cache<u64, u64>| cache.run_pending_tasks();
    table.add_row(measure(&options, "moka", moka, |cache, key| cache.insert(key, key), settle));
    let quick = || quick_cache::sync::Cache::<u64, u64>::new(capacity as usize);
    let insert = |cache: &quick_cache::sync::Cache<u64, u64>, key| cache.insert(key, key);
    table.add_row(measure(&options, "quick_cache", quick, insert, |_| ()));
    println!("{table}");
}
