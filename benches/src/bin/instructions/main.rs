//! Instructions and cache misses per operation, counted by valgrind in the place of a processor:
//! the same from run to run to within a percent, on any machine, whatever else that does. The
//! workloads are those of `versus`, on one thread.

mod counted;
mod profile;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cortado_benches::machine::{Versions, description};
use cortado_benches::report::{Record, compare, table, write_csv};
use cortado_benches::subject::Rival;
use cortado_benches::workload::{Action, WORKLOADS, Workload};
use profile::{MAINTENANCE, Profile};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

/// The simulated caches, of instructions and of data: bytes, ways and bytes of a line.
const CACHES: [&str; 3] = ["--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64"];

/// Counts instructions and cache misses per operation. Needs valgrind.
#[derive(Debug, Parser)]
struct Options {
    /// Operations that are counted.
    #[arg(long, default_value_t = 200_000)]
    operations: usize,
    /// How many keys there are.
    #[arg(long, default_value_t = 200_000)]
    keys_space: u64,
    /// Only workloads that have this in their name.
    #[arg(long, default_value = "")]
    only: String,
    /// Only these caches.
    #[arg(
        long, value_enum, value_delimiter = ',',
        default_values_t = [Rival::Cortado, Rival::CortadoPin, Rival::MokaExpiry, Rival::QuickCache]
    )]
    subjects: Vec<Rival>,
    /// A first look, with fewer keys and operations.
    #[arg(long)]
    quick: bool,
    /// Where to write all figures.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Do what is to be counted, under valgrind: the workload with this number.
    #[arg(long, hide = true)]
    counted: Option<usize>,
}

impl Options {
    fn settled(self) -> Self {
        if !self.quick {
            return self;
        }
        let (operations, keys_space) = (self.operations.min(20_000), self.keys_space.min(20_000));
        Self { operations, keys_space, ..self }
    }

    /// Runs one workload with one cache under valgrind.
    fn profile(&self, number: usize, rival: Rival) -> Result<Profile> {
        let directory = tempfile::tempdir()?;
        let out = directory.path().join("callgrind.out");
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--cache-sim=yes"])
            .args(CACHES)
            .args(["--collect-atstart=no", "--toggle-collect=*counted::operations*"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(std::env::current_exe()?)
            .args(["--counted", &number.to_string(), "--subjects", &rival.name()])
            .args(["--operations", &self.operations.to_string()])
            .args(["--keys-space", &self.keys_space.to_string()])
            .output()
            .context("cannot run valgrind")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "valgrind failed with {}: {said}", rival.name());
        Profile::parse(&fs::read_to_string(out).context("valgrind has left no profile")?)
    }

    fn records(&self, number: usize, workload: &Workload, rival: Rival) -> Result<Vec<Record>> {
        let profile = self.profile(number, rival)?;
        let record = |metric, count: u64| {
            let each = count as f64 / self.operations as f64;
            let metric = (metric, "per operation");
            Record::new(workload.name, rival.name(), (0, ""), metric, each.into())
        };
        let mut records = vec![record("instructions", profile.instructions)];
        let tended = rival.card().package == "cortado" && workload.action != Action::Read;
        ensure!(profile.maintenance > 0 || !tended, "there is no function {MAINTENANCE}");
        if tended {
            records.push(record("of which maintenance", profile.maintenance));
        }
        records.push(record("misses of 32 KiB", profile.first_level_misses));
        records.push(record("misses of 1 MiB", profile.second_level_misses));
        Ok(records)
    }
}

/// Not those that run for a time: under valgrind it is another.
fn workloads(only: &str) -> impl Iterator<Item = (usize, &'static Workload)> {
    let counts = |workload: &Workload| workload.action != Action::Fleeting;
    let wanted = move |workload: &Workload| counts(workload) && workload.name.contains(only);
    WORKLOADS.iter().enumerate().filter(move |(_, workload)| wanted(workload))
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() -> Result<()> {
    let options = Options::parse().settled();
    if let Some(number) = options.counted {
        return counted::run(&WORKLOADS[number], &options);
    }
    println!("{}\n{}", description(), Versions(&options.subjects));
    println!(
        "{} keys, {} operations on one thread; misses of data in simulated caches of two sizes; maintenance is\n\
         what {MAINTENANCE} counts with all that it calls; the system's own instructions, its clock's too, are not counted\n",
        options.keys_space, options.operations,
    );
    let mut all = Vec::new();
    for (number, workload) in workloads(&options.only) {
        let mut records = Vec::new();
        for &rival in options.subjects.iter().filter(|rival| (workload.needs)(&rival.card())) {
            records.extend(options.records(number, workload, rival)?);
        }
        compare(&mut records, &Rival::Cortado.name());
        println!("{}\n", table(workload.name, &records));
        all.append(&mut records);
    }
    if let Some(file) = &options.csv {
        write_csv(&all, File::create(file)?)?;
    }
    Ok(())
}
