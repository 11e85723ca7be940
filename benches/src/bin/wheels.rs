//! cortado's timer wheel and its `DelayQueue` against other structures that order ids by deadline:
//! nanoseconds per entry, with so many entries in it. Lifetimes are spread evenly over an hour; ids
//! are cancelled and rescheduled in random order; time moves in steps of ten seconds.
//!
//! *Idle timeouts* is what a server does with its connections: in two minutes of steps of a second,
//! each extends a twentieth of the timeouts of a minute, and cancels and replaces a hundredth; few
//! expire. *Memory* is what the structure allocates, without the keys that its user keeps.

use clap::Parser;
use cortado_benches::figure::Figure;
use cortado_benches::heap::{Count, Heap};
use cortado_benches::machine::{description, version_of};
use cortado_benches::report::{Record, compare, curves, file_name, table, write_csv};
use cortado_benches::timers::{self, Delayed, Driver, Queue, Rounds, Timers, Tree, Wheel, each};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

#[global_allocator]
static HEAP: Heap = Heap;

const SECOND: u64 = 1_000_000_000;
const HOUR: u64 = 3600 * SECOND;
const STEP: u64 = 10 * SECOND;
/// So many entries are measured in each round, by and by if need be.
const ENOUGH: u32 = 500_000;

/// Compares timer structures.
#[derive(Debug, Parser)]
struct Options {
    /// Interleaved rounds; figures are their medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many entries there are; 10,000,000 is worth a try where there is memory.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    sizes: Vec<u32>,
    /// A first look, in little time and with figures to match.
    #[arg(long)]
    quick: bool,
    /// Where to write all figures.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The folder for plots.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// What is measured, and in this order below.
const CASES: [&str; 8] = [
    "schedule + cancel",
    "schedule + expire",
    "reschedule",
    "schedule",
    "cancel",
    "expire",
    "idle timeouts",
    "memory",
];

/// What 1,000,000 entries of cortado's `DelayQueue` may take, as a share of what a rival takes.
const BARS: [(&str, &str, f64); 7] = [
    ("schedule + cancel", Queue::NAME, 0.3),
    ("schedule + cancel", Tree::NAME, 0.3),
    ("schedule + cancel", timers::Heap::NAME, 0.9),
    ("schedule + expire", Queue::NAME, 0.5),
    ("schedule + expire", Tree::NAME, 0.5),
    ("schedule + expire", timers::Heap::NAME, 0.5),
    ("schedule + expire", Rounds::NAME, 1.0),
];

/// Bytes that an entry of the `DelayQueue` may take beyond its item.
const MEMORY: f64 = 48.0;

/// One round of one size: what there is to do, the same for each structure.
struct Round {
    deadlines: Vec<u64>,
    later: Vec<u64>,
    order: Vec<u32>,
}

impl Round {
    fn new(ids: u32, seed: u64) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut instants = |from: u64| (0..=ids).map(|_| rng.random_range(from..HOUR)).collect();
        let (deadlines, later) = (instants(2 * SECOND), instants(2 * SECOND));
        let mut order: Vec<u32> = (1..=ids).collect();
        order.shuffle(&mut rng);
        Self { deadlines, later, order }
    }

    fn ids(&self) -> u32 {
        self.order.len() as u32
    }

    fn filled<T: Timers>(&self) -> (T, f64) {
        let mut timers = T::new(self.ids());
        let start = Instant::now();
        for id in 1..=self.ids() {
            timers.schedule(id, self.deadlines[id as usize]);
        }
        (timers, self.per_entry(start))
    }

    fn per_entry(&self, start: Instant) -> f64 {
        start.elapsed().as_nanos() as f64 / f64::from(self.ids())
    }

    fn cancel<T: Timers>(&self, mut timers: T) -> f64 {
        let start = Instant::now();
        self.order.iter().for_each(|&id| timers.cancel(id));
        self.per_entry(start)
    }

    fn expire<T: Timers>(&self, mut timers: T) -> f64 {
        let (mut now, mut expired) = (0, 0);
        let start = Instant::now();
        while now < HOUR + STEP {
            now += STEP;
            timers.expire(now, &mut |id| {
                black_box(id);
                expired += 1;
            });
        }
        let time = self.per_entry(start);
        assert_eq!(expired, self.ids(), "{} lost some", T::NAME);
        time
    }

    fn reschedule<T: Timers>(&self, mut timers: T) -> f64 {
        let start = Instant::now();
        for &id in &self.order {
            timers.reschedule(id, self.later[id as usize]);
        }
        self.per_entry(start)
    }
}

impl Round {
    /// Per operation: extensions, cancellations, insertions and expirations.
    fn idle_timeouts<T: Timers>(&self) -> f64 {
        const TIMEOUT: u64 = 60 * SECOND;
        let ids = self.ids();
        let mut timers = T::new(ids);
        for id in 1..=ids {
            timers.schedule(id, SECOND + self.deadlines[id as usize] % TIMEOUT);
        }
        let (mut now, mut turn, mut operations) = (0, self.order.iter().cycle(), 0);
        let mut gone = Vec::new();
        let start = Instant::now();
        for _ in 0..120 {
            now += SECOND;
            timers.expire(now, &mut |id| gone.push(id));
            operations += gone.len() as u64;
            gone.drain(..).for_each(|id| timers.schedule(id, now + TIMEOUT));
            for &id in turn.by_ref().take(ids as usize / 20) {
                timers.reschedule(id, now + TIMEOUT);
            }
            for &id in turn.by_ref().take(ids as usize / 100) {
                timers.cancel(id);
                timers.schedule(id, now + TIMEOUT);
            }
            operations += u64::from(ids) * 7 / 100;
        }
        start.elapsed().as_nanos() as f64 / operations as f64
    }

    /// Bytes per entry beyond the id itself.
    fn memory<T: Timers>(&self) -> f64 {
        let count = Count::start();
        let (timers, _) = self.filled::<T>();
        let bytes = count.bytes() as f64 / f64::from(self.ids());
        drop(timers);
        bytes - (T::KEY + size_of::<u32>()) as f64
    }
}

impl Driver for Round {
    /// By [`CASES`].
    type Output = [f64; CASES.len()];

    fn drive<T: Timers>(&mut self) -> Self::Output {
        // What takes microseconds is done more often.
        let times = (ENOUGH / self.ids()).clamp(1, 50);
        let mut mean = [0.0; CASES.len()];
        for _ in 0..times {
            for (sum, figure) in mean.iter_mut().zip(self.once::<T>()) {
                *sum += figure / f64::from(times);
            }
        }
        mean
    }
}

impl Round {
    fn once<T: Timers>(&self) -> [f64; CASES.len()] {
        let (timers, first) = self.filled::<T>();
        let cancel = self.cancel(timers);
        let (timers, second) = self.filled::<T>();
        let expire = self.expire(timers);
        let (timers, third) = self.filled::<T>();
        let reschedule = self.reschedule(timers);
        let schedule = (first + second + third) / 3.0;
        let (mixed, memory) = (self.idle_timeouts::<T>(), self.memory::<T>());
        [first + cancel, second + expire, reschedule, schedule, cancel, expire, mixed, memory]
    }
}

/// The records of one size, of all cases.
fn measure(ids: u32, rounds: usize) -> Vec<Record> {
    let rounds: Vec<_> = (0..rounds).map(|seed| each(&mut Round::new(ids, seed as u64))).collect();
    let mut records = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        for structure in 0..rounds[0].len() {
            let readings: Vec<f64> =
                rounds.iter().map(|round| round[structure].1[number]).collect();
            records.push(Record::new(
                *case,
                rounds[0][structure].0,
                (u64::from(ids), "entries"),
                if *case == "memory" {
                    ("memory per entry", "B")
                } else {
                    ("time per entry", "ns")
                },
                Figure::of(&readings),
            ));
        }
    }
    records
}

/// Says for each bar whether it is kept.
#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn judge(records: &[Record]) {
    let median = |case: &str, subject: &str| {
        let found = records
            .iter()
            .find(|it| it.case == case && it.subject == subject && it.at == 1_000_000);
        found.map(|record| record.median)
    };
    let said = |is_kept: bool| if is_kept { "kept" } else { "MISSED" };
    println!("\nbars of {} at 1,000,000 entries", Delayed::NAME);
    for (case, rival, bar) in BARS {
        let (Some(own), Some(other)) = (median(case, Delayed::NAME), median(case, rival)) else {
            continue;
        };
        let ratio = own / other;
        println!("* {case}: {ratio:.2} of {rival}, at most {bar}: {}", said(ratio <= bar));
    }
    if let Some(bytes) = median("memory", Delayed::NAME) {
        println!("* memory: {bytes:.1} bytes, at most {MEMORY}: {}", said(bytes <= MEMORY));
    }
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() -> anyhow::Result<()> {
    let mut options = Options::parse();
    if options.quick {
        options.rounds = 1;
        options.sizes.retain(|&size| size <= 100_000);
    }
    println!("{}\nmedians of {} rounds\n", description(), options.rounds);
    for package in ["cortado", "tokio-util", "hierarchical_hash_wheel_timer"] {
        println!("* {package} {}", version_of(package));
    }
    let mut records: Vec<Record> =
        options.sizes.iter().flat_map(|&size| measure(size, options.rounds)).collect();
    compare(&mut records, Wheel::NAME);
    for case in CASES {
        let of_case = |record: &&Record| record.case == case;
        let shown: Vec<Record> = records.iter().filter(of_case).cloned().collect();
        println!("\n{}", table(case, &shown));
        if let Some(directory) = &options.plots {
            std::fs::create_dir_all(directory)?;
            let path = directory.join(file_name(&format!("wheels {case}")));
            let unit = if case == "memory" { "bytes" } else { "time, ns" };
            curves(&path, &format!("{case}: {unit} per entry"), &shown)?;
        }
    }
    judge(&records);
    if let Some(file) = &options.csv {
        write_csv(&records, File::create(file)?)?;
    }
    Ok(())
}
