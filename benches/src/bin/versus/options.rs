//! The command line.

use clap::{Parser, ValueEnum};
use cortado_benches::machine::cores;
use cortado_benches::subject::Rival;
use std::path::PathBuf;
use std::time::Duration;

/// What `--scale` runs.
const SCALING: [&str; 5] = [
    "zipf reads, all resident",
    "90 % reads, 10 % updates",
    "updates",
    "unique inserts, full",
    "mass expiry",
];

/// Compares cortado with other caches, and with maps as floors.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// Interleaved rounds; figures are their medians.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Operations per thread and round.
    #[arg(long, default_value_t = 1_000_000)]
    pub operations: usize,
    /// How many keys there are.
    #[arg(long, default_value_t = 200_000)]
    pub keys_space: u64,
    /// How many entries fill a cache, or expire at once, where memory and mass expiry are
    /// measured.
    #[arg(long, default_value_t = 1_000_000)]
    pub entries: u64,
    /// The type of the keys.
    #[arg(long, value_enum, default_value_t = Keys::U64)]
    pub keys: Keys,
    /// The type of the values, where speed is measured.
    #[arg(long, value_enum, default_value_t = Values::U64)]
    pub values: Values,
    /// Numbers of threads to run each workload with.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Only what has this in its name, or one of several.
    #[arg(long)]
    pub only: Vec<String>,
    /// Only these caches.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = Rival::usual())]
    pub subjects: Vec<Rival>,
    /// The cache whose figures the ratios refer to.
    #[arg(long, value_enum, default_value_t = Rival::Cortado)]
    pub relative_to: Rival,
    /// How the caches scale: from one thread to two for each core, in reads, 90 % reads, updates,
    /// unique inserts and mass expiry, all in one table at the end. For the table of your machine.
    #[arg(long, conflicts_with_all = ["threads", "only"])]
    pub scale: bool,
    /// A first look, in little time and with figures to match.
    #[arg(long)]
    pub quick: bool,
    /// Where to write all figures.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The folder for plots, one for each workload.
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// How long the workloads with expiring entries run, per cache and round, before and while
    /// they are timed, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    pub expiring_for: u64,
}

/// A type of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Keys {
    /// 8 bytes.
    U64,
    /// 16 to 64 bytes on the heap.
    String,
}

/// A type of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Values {
    /// 8 bytes.
    U64,
    /// A shared document of 64 bytes on the heap.
    Arc,
    /// 200 bytes in place.
    Inline,
    /// A shared page of 4 KB on the heap.
    Page,
}

impl Options {
    /// With what `--quick` changes.
    pub fn settled(mut self) -> Self {
        if self.scale {
            let most = 2 * cores();
            self.threads = (0..).map(|bits| 1 << bits).take_while(|it| *it < most).collect();
            self.threads.push(most);
            if self.subjects == Rival::usual() {
                self.subjects = vec![Rival::Cortado, Rival::MokaExpiry, Rival::QuickCache];
            }
        }
        if !self.quick {
            return self;
        }
        Self {
            rounds: self.rounds.min(2),
            operations: self.operations.min(50_000),
            keys_space: self.keys_space.min(20_000),
            entries: self.entries.min(100_000),
            expiring_for: self.expiring_for.min(200),
            ..self
        }
    }

    /// What the figures depend on, on one line.
    pub fn description(&self) -> String {
        format!(
            "{} {:?} keys, {:?} values, {} operations per thread and round, medians of {} rounds",
            self.keys_space, self.keys, self.values, self.operations, self.rounds,
        )
    }

    /// Whether what has this name is to be run.
    pub fn wants(&self, name: &str) -> bool {
        if self.scale {
            SCALING.contains(&name)
        } else {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
        }
    }

    /// The caches that are asked for and can do what is needed.
    pub fn able(&self, can: impl Fn(Rival) -> bool) -> Vec<Rival> {
        self.subjects.iter().copied().filter(|&rival| can(rival)).collect()
    }

    /// [`expiring_for`](Self::expiring_for) as a duration.
    pub fn expiring_for(&self) -> Duration {
        Duration::from_millis(self.expiring_for)
    }
}
