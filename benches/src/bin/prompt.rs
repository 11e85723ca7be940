//! What a fine tick costs, and what it brings. Linux only, for the wake-ups.
//!
//! *Idle*: a cache with a scheduler that nobody uses, with lifetimes spread evenly over an hour:
//! wake-ups and processor time of the process.
//!
//! *Cascade*: a cache full of entries that live for 30 days, all of which cascade when the clock
//! enters a tick of the wheel's last level, and beside them entries that live for a second. How
//! late these are told, before and during the cascade. A clock of the bench's brings it near.

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use cortado::{Cache, Clock, RemovalCause};
use cortado_benches::cpu::{of_process, wake_ups};
use cortado_benches::figure::short;
use cortado_benches::machine;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Measures the ticks of the timer wheel.
#[derive(Debug, Parser)]
struct Options {
    /// Entries of the idle cache.
    #[arg(long, default_value_t = 1_000_000)]
    idle: u64,
    /// Seconds for which nobody uses it.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Entries that cascade.
    #[arg(long, default_value_t = 10_000_000)]
    cascade: u64,
    /// Entries a second that live for a second.
    #[arg(long, default_value_t = 20_000)]
    rate: u64,
    /// A first look, with fewer entries and in less time.
    #[arg(long)]
    quick: bool,
}

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
const SECOND: Duration = Duration::from_secs(1);
/// The default resolution.
const DEFAULT: Duration = Duration::from_nanos(1 << 24);
/// A tick of the last level at that resolution. A clock of the user's enters the second one then.
const LAST_TICK: Duration = Duration::from_nanos(1 << 43);

/// A second of an idle cache, as a row of the table.
fn idle(options: &Options, resolution: Duration) -> [String; 4] {
    let cache: Cache<u64, u64> =
        Cache::builder().expiry_resolution(resolution).scheduler(true).record_stats(true).build();
    for key in 0..options.idle {
        // Keys in no order, so that neighbours on the wheel are no neighbours in memory.
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) % options.idle;
        let part = mixed as f64 / options.idle as f64;
        cache.insert_with_ttl(key, key, SECOND + HOUR.mul_f64(part));
    }
    cache.run_pending_tasks();
    sleep(2 * SECOND);
    let expired = |cache: &Cache<u64, u64>| cache.stats().removed(RemovalCause::Expired);
    let (woken, time, removed) = (wake_ups(), of_process(), expired(&cache));
    sleep(Duration::from_secs(options.seconds));
    let seconds = options.seconds as f64;
    // This thread's own sleep is one.
    let woken = wake_ups().saturating_sub(woken + 1) as f64 / seconds;
    let time = (of_process() - time).as_secs_f64() / seconds;
    let removed = (expired(&cache) - removed) as f64 / seconds;
    let tick = format!("{:.3?}", Duration::from_nanos(1 << resolution.as_nanos().ilog2()));
    [tick, short(removed), short(woken), format!("{:.3} %", 100.0 * time)]
}

/// How late entries were told in a part of the run, in microseconds, and the calls that inserted
/// them, in nanoseconds.
struct Part {
    late: Histogram<u64>,
    calls: Histogram<u64>,
}

impl Part {
    fn new() -> Self {
        let histogram = || Histogram::new(3).expect("three digits are allowed");
        Self { late: histogram(), calls: histogram() }
    }

    fn row(&self, name: &str) -> Vec<String> {
        let ms = |q| format!("{:.1}", self.late.value_at_quantile(q) as f64 / 1000.0);
        let mut row = vec![name.to_owned(), self.late.len().to_string()];
        row.extend([0.5, 0.99, 0.999, 1.0].map(ms));
        row.extend([0.999, 1.0].map(|q| short(self.calls.value_at_quantile(q) as f64 / 1000.0)));
        row
    }
}

/// Through a cascade: the rows of the ten seconds before it, and of the ten seconds from it on.
fn cascade(options: &Options) -> [Vec<String>; 2] {
    const SPAN: Duration = Duration::from_secs(10);
    let (begun, ahead) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let offset = Arc::clone(&ahead);
    let now = move || begun.elapsed() + Duration::from_nanos(offset.load(Relaxed));
    let reading = now.clone();
    let parts = Arc::new(Mutex::new([Part::new(), Part::new()]));
    let told = Arc::clone(&parts);
    let cache: Cache<u64, u64> = Cache::builder()
        .expiry_resolution(DEFAULT)
        .scheduler(true)
        .clock(Clock::custom(now))
        .removal_listener(move |removed| {
            let Some(late) = removed.late_by() else { return };
            let part = usize::from(reading() >= LAST_TICK);
            let mut parts = told.lock().expect("no listener panics");
            parts[part].late += late.as_micros() as u64;
        })
        .build();
    (0..options.cascade).for_each(|key| cache.insert_with_ttl(key, key, 30 * DAY));
    cache.run_pending_tasks();
    let at = |time: Duration| time.as_nanos() as u64;
    ahead.store(at(LAST_TICK - SPAN - 2 * SECOND) - at(begun.elapsed()), Relaxed);
    let (start, pause) = (Instant::now(), Duration::from_secs(1) / options.rate as u32);
    for number in 0.. {
        let due = pause * number;
        if due > 2 * (SPAN + SECOND) {
            break;
        }
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        let key = options.cascade + u64::from(number);
        let call = Instant::now();
        cache.insert_with_ttl(key, key, SECOND);
        let part = usize::from(start.elapsed() >= SPAN + 2 * SECOND);
        let took = call.elapsed().as_nanos() as u64;
        parts.lock().expect("no listener panics")[part].calls += took;
    }
    let parts = parts.lock().expect("no listener panics");
    [parts[0].row("before"), parts[1].row("from the cascade on")]
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() {
    let mut options = Options::parse();
    if options.quick {
        options = Options { idle: 100_000, seconds: 3, cascade: 1_000_000, ..options };
    }
    println!("{}\n", machine::description());
    println!("{} entries over an hour, nobody uses the cache; per second\n", options.idle);
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["tick", "expired", "wake-ups", "processor"]);
    for resolution in [Duration::from_millis(1), DEFAULT, SECOND / 5, HOUR] {
        let resolution = resolution.min(Duration::from_nanos(1 << 30));
        table.add_row(idle(&options, resolution));
    }
    println!("{table}\n");
    println!(
        "{} entries of 30 days cascade; {} entries a second of one second: how late they are told, \
         in ms, and the calls of insert, in µs\n",
        options.cascade, options.rate
    );
    let mut table = Table::new();
    let header = ["ten seconds", "told", "p50", "p99", "p99.9", "max", "insert p99.9", "max"];
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    cascade(&options).into_iter().for_each(|row| _ = table.add_row(row));
    println!("{table}");
}
