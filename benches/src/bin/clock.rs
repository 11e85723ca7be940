//! What the clocks cost, and how far the coarse one lags behind the precise one when there are more
//! busy threads than cores: the figures behind `src/clock.rs`. Linux only.

use clap::Parser;

/// Measures CLOCK_MONOTONIC and CLOCK_MONOTONIC_COARSE.
#[derive(Debug, Parser)]
struct Options {
    /// Busy threads.
    #[arg(long, default_value_t = 3)]
    threads: usize,
    /// Samples per thread.
    #[arg(long, default_value_t = 20_000_000)]
    samples: u64,
}

#[cfg(target_os = "linux")]
#[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
fn main() {
    use comfy_table::{Table, presets::ASCII_MARKDOWN};
    use rustix::time::{ClockId, clock_gettime};
    use std::hint::black_box;
    use std::time::Instant;

    let read = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    };
    let options = Options::parse();
    let cost = |clock: &dyn Fn() -> u64| {
        const CALLS: u32 = 10_000_000;
        let start = Instant::now();
        for _ in 0..CALLS {
            black_box(clock());
        }
        format!("{:.1}", start.elapsed().as_nanos() as f64 / f64::from(CALLS))
    };
    let origin = Instant::now();
    let precise = cost(&|| origin.elapsed().as_nanos() as u64);
    let coarse = cost(&|| read(ClockId::MonotonicCoarse));

    let sample = || {
        let (mut total, mut worst) = (0u64, 0u64);
        for _ in 0..options.samples {
            let coarse = read(ClockId::MonotonicCoarse);
            let lag = read(ClockId::Monotonic) - coarse;
            total += lag;
            worst = worst.max(lag);
        }
        (total / options.samples, worst)
    };
    let lags: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(sample)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let mean = lags.iter().map(|lag| lag.0).sum::<u64>() / lags.len().max(1) as u64;
    let worst = lags.iter().map(|lag| lag.1).max().unwrap_or(0);
    let ms = |nanos: u64| format!("{:.1}", nanos as f64 / 1e6);
    println!("{}\n", cortado_benches::machine::description());
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["clock", "a reading, ns", "behind on average, ms", "at worst, ms"]);
    table.add_row(["precise".to_owned(), precise, "–".into(), "–".into()]);
    table.add_row(["coarse".to_owned(), coarse, ms(mean), ms(worst)]);
    println!("{table}");
}

#[cfg(not(target_os = "linux"))]
fn main() {
    let _ = Options::parse();
}
