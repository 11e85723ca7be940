//! cortado's timer wheel and its `DelayQueue` against other structures that order ids by deadline:
//! nanoseconds per entry, with so many entries in it. Each structure has a process of its own.
//! Lifetimes are spread evenly over an hour; ids are cancelled and rescheduled in random order;
//! time moves in steps of ten seconds.
//!
//! *A life* is all of it, since what is not done by a cancellation may be done later: all are
//! scheduled; all, or nine of ten, are cancelled; the hour passes.
//!
//! *Idle timeouts* is what a server does with its connections: in two minutes of steps of a second,
//! each extends a twentieth of the timeouts of a minute, and cancels and replaces a hundredth; few
//! expire. *Memory* is what the structure allocates, without the keys that its user keeps.
//!
//! Whoever cancels or reschedules has the key at hand, as a connection has that of its timeout: the
//! bench looks up none while it measures, but among the idle timeouts.

use clap::Parser;
use cortado_benches::figure::Figure;
use cortado_benches::heap::{Count, Heap};
use cortado_benches::machine::{description_with_allocator, version_of};
use cortado_benches::report::{Record, compare, curves, file_name, table, write_csv};
use cortado_benches::timers::{
    Delayed, Driver, Lazy, Queue, Rounds, Swept, Timers, Tree, Wheel, each,
};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
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
    /// Measures one structure, once, and prints bare figures: what the program starts itself for.
    #[arg(long, value_name = "NAME", hide = true)]
    alone: Option<String>,
    /// With `--alone`: the number of the round.
    #[arg(long, default_value_t = 0, hide = true)]
    seed: u64,
    /// Where to write all figures.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// The folder for plots.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// What is measured, and in this order below.
const CASES: [&str; 10] = [
    "schedule + cancel",
    "schedule + expire",
    "a life, all cancelled",
    "a life, nine of ten cancelled",
    "reschedule",
    "schedule",
    "cancel",
    "expire",
    "idle timeouts",
    "memory",
];

/// What 1,000,000 entries of cortado's `DelayQueue` may take, as a share of what a rival takes.
///
/// A lazily cancelled entry costs at its time, so the bar of the lazy heap counts a life. The swept
/// heap's life has no bar: it takes less, and its sweeps are pauses that grow with it.
const BARS: [(&str, &str, f64); 8] = [
    ("schedule + cancel", Queue::NAME, 0.3),
    ("schedule + cancel", Tree::NAME, 0.3),
    ("a life, all cancelled", Lazy::NAME, 0.9),
    ("schedule + expire", Queue::NAME, 0.5),
    ("schedule + expire", Tree::NAME, 0.5),
    ("schedule + expire", Lazy::NAME, 0.5),
    ("schedule + expire", Swept::NAME, 0.5),
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

    /// All are scheduled. The keys are by id, and there is room for them.
    fn fill<T: Timers>(&self, keys: &mut Vec<T::Key>) -> (T, f64) {
        let mut timers = T::new(self.ids());
        let start = Instant::now();
        for id in 1..=self.ids() {
            keys.push(timers.schedule(id, self.deadlines[id as usize]));
        }
        (timers, self.per_entry(start))
    }

    /// All are scheduled. The ids and keys are in the order in which they will be used: whoever
    /// cancels has the key at hand.
    fn filled<T: Timers>(&self) -> (T, Vec<(u32, T::Key)>, f64) {
        let mut keys = Vec::with_capacity(self.order.len());
        let (timers, time) = self.fill::<T>(&mut keys);
        let order = self.order.iter().map(|&id| (id, keys[id as usize - 1])).collect();
        (timers, order, time)
    }

    fn per_entry(&self, start: Instant) -> f64 {
        start.elapsed().as_nanos() as f64 / f64::from(self.ids())
    }

    fn cancel<T: Timers>(&self, mut timers: T, order: &[(u32, T::Key)]) -> f64 {
        let start = Instant::now();
        order.iter().for_each(|&(_, key)| timers.cancel(key));
        self.per_entry(start)
    }

    fn expire<T: Timers>(&self, mut timers: T) -> f64 {
        let start = Instant::now();
        let expired = Self::pass_an_hour(&mut timers);
        let time = self.per_entry(start);
        assert_eq!(expired, self.ids(), "{} lost some", T::NAME);
        time
    }

    /// Returns how many have expired.
    fn pass_an_hour<T: Timers>(timers: &mut T) -> u32 {
        let (mut now, mut expired) = (0, 0);
        while now < HOUR + STEP {
            now += STEP;
            timers.expire(now, &mut |id| {
                black_box(id);
                expired += 1;
            });
        }
        expired
    }

    /// All are scheduled; all but one of `left` are cancelled, or all; the hour passes.
    fn life<T: Timers>(&self, left: Option<u32>) -> f64 {
        let (mut timers, order, filling) = self.filled::<T>();
        let start = Instant::now();
        let mut expected = 0;
        for (number, &(_, key)) in (0u32..).zip(&order) {
            match left.is_some_and(|left| number % left == 0) {
                true => expected += 1,
                false => timers.cancel(key),
            }
        }
        let expired = Self::pass_an_hour(&mut timers);
        let time = filling + self.per_entry(start);
        assert_eq!(expired, expected, "{} lost some", T::NAME);
        time
    }

    fn reschedule<T: Timers>(&self, mut timers: T, order: &[(u32, T::Key)]) -> f64 {
        let start = Instant::now();
        for (&key, &later) in order.iter().zip(&self.later) {
            timers.reschedule(key, later);
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
        let first = |id: u32| SECOND + self.deadlines[id as usize] % TIMEOUT;
        let mut keys: Vec<T::Key> = (1..=ids).map(|id| timers.schedule(id, first(id))).collect();
        let (mut now, mut turn, mut operations) = (0, self.order.iter().cycle(), 0);
        let mut gone = Vec::new();
        let start = Instant::now();
        for _ in 0..120 {
            now += SECOND;
            timers.expire(now, &mut |id| gone.push(id));
            operations += gone.len() as u64;
            for id in gone.drain(..) {
                keys[id as usize - 1] = timers.schedule(id, now + TIMEOUT);
            }
            for &id in turn.by_ref().take(ids as usize / 20) {
                let key = &mut keys[id as usize - 1];
                *key = timers.reschedule((id, *key), now + TIMEOUT);
            }
            for &id in turn.by_ref().take(ids as usize / 100) {
                let key = &mut keys[id as usize - 1];
                timers.cancel(*key);
                *key = timers.schedule(id, now + TIMEOUT);
            }
            operations += u64::from(ids) * 7 / 100;
        }
        start.elapsed().as_nanos() as f64 / operations as f64
    }

    /// Bytes per entry beyond the id itself.
    fn memory<T: Timers>(&self) -> f64 {
        let mut keys = Vec::with_capacity(self.order.len());
        let count = Count::start();
        let (timers, _) = self.fill::<T>(&mut keys);
        let bytes = count.bytes() as f64 / f64::from(self.ids());
        drop(timers);
        bytes - (T::USERS + size_of::<u32>()) as f64
    }
}

/// By [`CASES`].
type Figures = [f64; CASES.len()];

/// The names of all structures.
struct Names;

impl Driver for Names {
    type Output = ();

    fn drive<T: Timers>(&mut self) {}
}

/// A round with one structure.
struct Alone<'a> {
    name: &'a str,
    round: Round,
}

impl Driver for Alone<'_> {
    type Output = Option<Figures>;

    fn drive<T: Timers>(&mut self) -> Self::Output {
        (T::NAME == self.name).then(|| self.round.mean::<T>())
    }
}

impl Round {
    fn mean<T: Timers>(&self) -> Figures {
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
    fn once<T: Timers>(&self) -> Figures {
        let (timers, order, first) = self.filled::<T>();
        let cancel = self.cancel(timers, &order);
        let (timers, _, second) = self.filled::<T>();
        let expire = self.expire(timers);
        let (timers, order, third) = self.filled::<T>();
        let reschedule = self.reschedule(timers, &order);
        let schedule = (first + second + third) / 3.0;
        let (all, most) = (self.life::<T>(None), self.life::<T>(Some(10)));
        let (mixed, memory) = (self.idle_timeouts::<T>(), self.memory::<T>());
        let (cancelled, expired) = (first + cancel, second + expire);
        [cancelled, expired, all, most, reschedule, schedule, cancel, expire, mixed, memory]
    }
}

/// One structure in a process of its own. In a heap that others have used, its memory would lie
/// where theirs was, and it would be slower or faster by half, by its place in the list.
fn apart(name: &str, ids: u32, seed: usize) -> anyhow::Result<Figures> {
    let mut program = Command::new(std::env::current_exe()?);
    program.args(["--alone", name, "--sizes", &ids.to_string(), "--seed", &seed.to_string()]);
    let printed = program.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(printed.status.success(), "{name}: {}", printed.status);
    let figures = String::from_utf8(printed.stdout)?;
    let figures: Vec<f64> = figures.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    figures.try_into().map_err(|_| anyhow::anyhow!("{name}: not {} figures", CASES.len()))
}

/// The records of one size, of all cases. In each round, all structures take their turn.
fn measure(ids: u32, rounds: usize) -> anyhow::Result<Vec<Record>> {
    let names: Vec<_> = each(&mut Names).into_iter().map(|(name, ())| name).collect();
    let round = |seed| {
        let one = |&name| Ok((name, apart(name, ids, seed)?));
        names.iter().map(one).collect::<anyhow::Result<Vec<_>>>()
    };
    let rounds = (0..rounds).map(round).collect::<anyhow::Result<Vec<_>>>()?;
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
    Ok(records)
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
    if let (Some(name), [ids]) = (&options.alone, &options.sizes[..]) {
        let found = each(&mut Alone { name, round: Round::new(*ids, options.seed) });
        found.into_iter().filter_map(|it| it.1).flatten().for_each(|figure| println!("{figure}"));
        return Ok(());
    }
    if options.quick {
        options.rounds = 1;
        options.sizes.retain(|&size| size <= 100_000);
    }
    println!("{}\nmedians of {} rounds\n", description_with_allocator(), options.rounds);
    for package in ["cortado", "tokio-util", "hierarchical_hash_wheel_timer"] {
        println!("* {package} {}", version_of(package));
    }
    let mut records = Vec::new();
    for &size in &options.sizes {
        records.extend(measure(size, options.rounds)?);
    }
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
