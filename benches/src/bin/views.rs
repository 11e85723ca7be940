//! What a view that was held for long leaves behind: when removed values are dropped, what stays in
//! memory, and what idle caches cost meanwhile. Linux only, for the memory.
//!
//! Each scenario has a process of its own. `--features mimalloc` takes that allocator, which gives
//! more back than glibc's.

use clap::{Parser, ValueEnum};
use cortado::{Builder, Cache};
use cortado_benches::cpu::of_process;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::sleep;
use std::time::{Duration, Instant};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scenario {
    /// A view is held during the writes to one cache, and dropped. Then another cache, with a
    /// scheduler, loses a value.
    Late,
    /// The same without a scheduler: calls of `run_pending_tasks`, and reads, until it is dropped.
    LateByCalls,
    /// Updates of 200 caches of 20 entries under a view.
    Small,
    /// Caches that are dropped under a view.
    Dropped,
    /// Idle caches with a scheduler under a view, each of which waits to drop values.
    Idle,
}

/// Prints what a view that was held for long leaves behind.
#[derive(Debug, Parser)]
struct Options {
    /// Only these scenarios.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Scenario>,
    /// Writes under the view of `late`.
    #[arg(long, default_value_t = 4_000_000)]
    writes: u64,
    /// Updates of each cache of `small`.
    #[arg(long, default_value_t = 1_000)]
    updates: u64,
    /// The caches of `dropped`.
    #[arg(long, default_value_t = 2_000)]
    dropped: u64,
    /// The caches of `idle`.
    #[arg(long, default_value_t = 100_000)]
    idle: u64,
}

static DROPS: AtomicU64 = AtomicU64::new(0);

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        DROPS.fetch_add(1, SeqCst);
    }
}

/// The resident memory of this process, in KiB.
fn resident() -> i64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok());
    pages.unwrap_or(0) * 4
}

/// The same when it has not fallen for three seconds: the scheduler gives memory back bit by bit.
fn resident_at_rest() -> i64 {
    let mut least = i64::MAX;
    loop {
        let now = resident();
        if now >= least {
            return now;
        }
        least = now;
        sleep(Duration::from_secs(3));
    }
}

fn small() -> Builder<u64, u64> {
    Cache::builder().max_capacity(1_000)
}

/// How often `step` is called until so many values have been dropped.
fn steps_until(drops: u64, mut step: impl FnMut()) -> u64 {
    let mut steps = 0;
    while DROPS.load(SeqCst) < drops {
        step();
        steps += 1;
    }
    steps
}

/// After the writes, nobody holds a view. Returns a cache of one value, and the KiB that stay.
fn after_a_view(writes: u64, scheduled: bool) -> (Cache<u64, Counted>, i64) {
    let before = resident();
    let busy = small().scheduler(true).build();
    let quiet = Cache::builder().max_capacity(1_000).scheduler(scheduled).build();
    let view = busy.pin();
    (0..writes).for_each(|n| busy.insert(n % 200, n));
    drop(view);
    while busy.stats().pending_drops > 0 {
        sleep(Duration::from_millis(10));
    }
    let more = resident_at_rest() - before;
    quiet.insert(1, Counted);
    (quiet, more)
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn late(writes: u64, scheduled: bool) {
    let (quiet, more) = after_a_view(writes, scheduled);
    let start = Instant::now();
    quiet.invalidate(&1);
    if scheduled {
        steps_until(1, || sleep(Duration::from_micros(100)));
        println!("after {writes} writes: dropped after {:.1?}, {more} KiB stay", start.elapsed());
        return;
    }
    let calls = steps_until(1, || quiet.run_pending_tasks());
    quiet.insert(2, Counted);
    quiet.invalidate(&2);
    let reads = steps_until(2, || {
        sleep(Duration::from_millis(17));
        drop(quiet.get_entry(&1));
    });
    println!("after {writes} writes: {calls} calls of run_pending_tasks, or {reads} reads");
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn updates(updates: u64) {
    let caches: Vec<Cache<u64, u64>> = (0..200).map(|_| Cache::new(50)).collect();
    for cache in &caches {
        (0..20).for_each(|key| cache.insert(key, key));
        cache.run_pending_tasks();
    }
    let before = resident();
    let view = caches[0].pin();
    (0..updates).for_each(|n| caches.iter().for_each(|cache| cache.insert(n % 20, n)));
    let each = (resident() - before) * 1024 / (200 * updates).max(1) as i64;
    drop(view);
    caches.iter().for_each(Cache::run_pending_tasks);
    let more = resident() - before;
    println!("200 caches, {updates} updates each: {each} bytes for each update, {more} KiB stay");
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn dropped(caches: u64) {
    let other = Cache::<u64, u64>::new(10);
    let before = resident();
    let view = other.pin();
    for _ in 0..caches {
        let cache = Cache::<u64, String>::builder().max_capacity(1_000).build();
        (0..200).for_each(|key| cache.insert(key, "value on the heap".into()));
        cache.invalidate_all();
    }
    let under = resident() - before;
    drop(view);
    (0..3_000).for_each(|n| other.insert(1, n));
    other.run_pending_tasks();
    let more = resident() - before;
    println!(
        "{caches} dropped caches: {under} KiB under the view, {more} KiB stay after 3,000 writes"
    );
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn idle(count: u64) {
    let caches: Vec<_> = (0..count).map(|_| small().scheduler(true).build()).collect();
    caches.iter().for_each(|cache| (0..10).for_each(|key| cache.insert(key, key)));
    sleep(Duration::from_secs(2));
    let own = Cache::<u64, u64>::new(10);
    let view = own.pin();
    caches.iter().for_each(|cache| (0..5).for_each(|key| cache.invalidate(&key)));
    // What the removals themselves ask of the scheduler.
    sleep(Duration::from_secs(4));
    let (before, start) = (of_process(), Instant::now());
    sleep(Duration::from_secs(8));
    let share = (of_process() - before).as_secs_f64() / start.elapsed().as_secs_f64();
    let waiting: u64 = caches.iter().map(|cache| cache.stats().pending_drops).sum();
    println!("{count} idle caches, {waiting} values wait: {share:.3} of a core");
    drop(view);
}

#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn main() -> std::io::Result<()> {
    let options = Options::parse();
    if let [scenario] = options.only[..] {
        match scenario {
            Scenario::Late => late(options.writes, true),
            Scenario::LateByCalls => late(options.writes, false),
            Scenario::Small => updates(options.updates),
            Scenario::Dropped => dropped(options.dropped),
            Scenario::Idle => idle(options.idle),
        }
        return Ok(());
    }
    let chosen = if options.only.is_empty() { Scenario::value_variants() } else { &options.only };
    for scenario in chosen.iter().filter_map(ValueEnum::to_possible_value) {
        println!("== {}", scenario.get_name());
        let mut one = Command::new(std::env::current_exe()?);
        let given = std::env::args().skip(1).filter(|_| options.only.is_empty());
        one.args(given).args(["--only", scenario.get_name()]).status()?;
    }
    Ok(())
}
