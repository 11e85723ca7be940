//! cortado's `Timer` beside tokio's own timers: how late jobs begin, what an idle timer costs, and
//! what a million jobs that are due at one instant do to a caller.

use clap::Parser;
use cortado::timer::{Stop, Timer};
use cortado_benches::figure::Figure;
use cortado_benches::heap::{Count, Heap};
use cortado_benches::machine::{description_with_allocator, version_of};
use cortado_benches::report::{Record, table, write_csv};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: Heap = Heap;

/// Compares timers that run jobs.
#[derive(Debug, Parser)]
struct Options {
    /// Rounds; figures are their medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many jobs are spread over the time of a round.
    #[arg(long, default_value_t = 10_000)]
    jobs: u64,
    /// How long a round lasts, in seconds.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// How many jobs are due at one instant.
    #[arg(long, default_value_t = 1_000_000)]
    burst: u64,
    /// A first look, in little time and with figures to match.
    #[arg(long)]
    quick: bool,
    /// Where to write all figures.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

const HERE: &str = "cortado's Timer, run_here";
const WORKERS: &str = "cortado's Timer";
const TOKIO: &str = "tokio::time::sleep";

/// Notes how late jobs are.
#[derive(Clone, Default)]
struct Lateness(Arc<Mutex<Vec<f64>>>);

impl Lateness {
    fn note(&self, planned: Instant) {
        let late = planned.elapsed().as_nanos() as f64 / 1000.0;
        self.0.lock().expect("no job panics").push(late);
    }

    /// p50, p99 and maximum, in microseconds.
    fn figures(self) -> [f64; 3] {
        let mut all = std::mem::take(&mut *self.0.lock().expect("no job panics"));
        all.sort_by(f64::total_cmp);
        let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
        [at(0.5), at(0.99), at(1.0)]
    }
}

fn delays(options: &Options, seed: u64) -> Vec<Duration> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let longest = options.seconds * 1_000_000;
    (0..options.jobs).map(|_| Duration::from_micros(rng.random_range(0..longest))).collect()
}

fn of_timer(timer: &Timer, delays: &[Duration]) -> [f64; 3] {
    let noted = Lateness::default();
    for &delay in delays {
        let (noted, planned) = (noted.clone(), Instant::now() + delay);
        timer.after(delay, move |_| noted.note(planned)).expect("it runs").detach();
    }
    timer.shutdown(Stop::Drain(Duration::from_secs(3600)));
    noted.figures()
}

fn of_tokio(delays: &[Duration]) -> [f64; 3] {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()
        .expect("a runtime");
    let noted = Lateness::default();
    runtime.block_on(async {
        let mut tasks = Vec::new();
        for &delay in delays {
            let noted = noted.clone();
            let planned = Instant::now() + delay;
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep_until(planned.into()).await;
                noted.note(planned);
            }));
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
    });
    noted.figures()
}

fn lateness(options: &Options) -> Vec<Record> {
    let mut found: [Vec<[f64; 3]>; 3] = Default::default();
    for round in 0..options.rounds as u64 {
        let delays = delays(options, round);
        let here = Timer::builder().run_here().start().expect("a thread");
        found[0].push(of_timer(&here, &delays));
        found[1].push(of_timer(&Timer::new(), &delays));
        found[2].push(of_tokio(&delays));
    }
    let mut records = Vec::new();
    for (subject, rounds) in [HERE, WORKERS, TOKIO].into_iter().zip(found) {
        for (at, metric) in ["p50", "p99", "max"].into_iter().enumerate() {
            let readings: Vec<f64> = rounds.iter().map(|round| round[at]).collect();
            let figure = Figure::of(&readings);
            let jobs = (options.jobs, "jobs");
            records.push(Record::new("lateness", subject, jobs, (metric, "µs"), figure));
        }
    }
    records
}

/// Seconds of processor time that this process has used.
#[cfg(target_os = "linux")]
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(not(target_os = "linux"))]
fn processor_time() -> f64 {
    0.0
}

/// An idle minute, or a part of one, with `jobs` jobs that wait for an hour.
fn idle(options: &Options, jobs: u64) -> Vec<Record> {
    let timer = Timer::new();
    for _ in 0..jobs {
        timer.after(Duration::from_secs(3600), |_| ()).expect("it runs").detach();
    }
    std::thread::sleep(Duration::from_millis(50));
    let (wakes, time, start) = (timer.stats().wake_ups, processor_time(), Instant::now());
    std::thread::sleep(Duration::from_secs(options.seconds));
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let wakes = (timer.stats().wake_ups - wakes) as f64 / minutes;
    let time = (processor_time() - time) * 1e6 / minutes;
    let record = |metric, figure: f64| {
        Record::new("idle", WORKERS, (jobs, "jobs"), metric, Figure::from(figure))
    };
    vec![record(("wake-ups", "a minute"), wakes), record(("processor time", "µs a minute"), time)]
}

/// All jobs are due at one instant. Meanwhile a caller inserts and cancels.
fn burst(options: &Options) -> Vec<Record> {
    let (mut longest, mut all, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let timer = Timer::builder().run_here().start().expect("a thread");
        let fired = Arc::new(AtomicU64::new(0));
        let due = Instant::now() + Duration::from_secs(1 + options.burst / 500_000);
        let count = Count::start();
        for _ in 0..options.burst {
            let fired = Arc::clone(&fired);
            let job = timer.at(due, move |_| _ = fired.fetch_add(1, Relaxed));
            job.expect("it runs").detach();
        }
        bytes.push(count.bytes() as f64 / options.burst as f64);
        drop(count);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut most = Duration::ZERO;
        while fired.load(Relaxed) < options.burst {
            let start = Instant::now();
            drop(timer.after(Duration::from_secs(3600), |_| ()));
            most = most.max(start.elapsed());
        }
        all.push(due.elapsed().as_secs_f64() * 1e3);
        longest.push(most.as_secs_f64() * 1e6);
    }
    let record = |metric, readings: &[f64]| {
        let jobs = (options.burst, "jobs");
        Record::new("due at one instant", HERE, jobs, metric, Figure::of(readings))
    };
    vec![
        record(("longest insert and cancel", "µs"), &longest),
        record(("until all have run", "ms"), &all),
        record(("memory per job, with its closure", "B"), &bytes),
    ]
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() -> anyhow::Result<()> {
    let mut options = Options::parse();
    if options.quick {
        options.rounds = 1;
        (options.seconds, options.burst) = (1, options.burst.min(100_000));
    }
    println!("{}\nmedians of {} rounds\n", description_with_allocator(), options.rounds);
    for package in ["cortado", "tokio"] {
        println!("* {package} {}", version_of(package));
    }
    let mut records = lateness(&options);
    println!("\n{}", table("lateness", &records));
    let p99 = |subject: &str| {
        records.iter().find(|it| it.subject == subject && it.metric == "p99").map(|it| it.median)
    };
    if let (Some(own), Some(other)) = (p99(HERE), p99(TOKIO)) {
        let said = if own <= other { "kept" } else { "MISSED" };
        println!("* p99: {own:.0} µs, at most {other:.0} of {TOKIO}: {said}");
    }
    for (title, more) in [
        ("idle, empty", idle(&options, 0)),
        ("idle", idle(&options, 1_000_000)),
        ("due at one instant", burst(&options)),
    ] {
        println!("\n{}", table(title, &more));
        records.extend(more);
    }
    if let Some(file) = &options.csv {
        write_csv(&records, File::create(file)?)?;
    }
    Ok(())
}
