//! What becomes of speed, memory, expiry and the length of single calls as caches grow.

mod calls;
mod expiry;
mod speed;

use clap::Parser;
use cortado_benches::figure::Figure;
use cortado_benches::footprint::Full;
use cortado_benches::heap::Heap;
use cortado_benches::machine::{Versions, description_with_allocator};
use cortado_benches::report::{Record, compare, curves, file_name, table, write_csv};
use cortado_benches::subject::Rival;
use std::fs::File;
use std::path::PathBuf;

#[global_allocator]
static HEAP: Heap = Heap;

/// Measures caches of growing size, one thread, u64 keys.
#[derive(Debug, Parser)]
struct Options {
    /// Interleaved rounds of what is timed; figures are their medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many entries there are; 10,000,000 takes minutes.
    #[arg(long, value_delimiter = ',', default_values_t = [10_000, 100_000, 1_000_000])]
    sizes: Vec<u64>,
    /// The caches.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [
        Rival::Cortado,
        Rival::MokaExpiry,
        Rival::Moka,
        Rival::QuickCache,
        Rival::Foyer,
        Rival::Pingora,
    ])]
    subjects: Vec<Rival>,
    /// The cache whose figures the ratios refer to.
    #[arg(long, value_enum, default_value_t = Rival::Cortado)]
    relative_to: Rival,
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

/// The metrics, in the order of the tables, with their units.
const GET: (&str, &str) = ("get", "ns");
const INSERT: (&str, &str) = ("insert, from empty", "ns");
const MEMORY: (&str, &str) = ("heap per entry beyond key and value", "bytes");
const EXPIRY: (&str, &str) = ("expiry, all due at once", "ns per entry");
const FILLING: (&str, &str) = ("longest call, filling", "µs of processor time");
const FULL: (&str, &str) = ("longest call, evicting", "µs of processor time");
const EXPIRING: (&str, &str) = ("longest call, all due at once", "µs of processor time");
const METRICS: [(&str, &str); 7] = [GET, INSERT, MEMORY, EXPIRY, FILLING, FULL, EXPIRING];

fn record(
    rival: Rival,
    size: u64,
    metric: (&'static str, &'static str),
    readings: &[f64],
) -> Record {
    Record::new("growth", rival.name(), (size, "entries"), metric, Figure::of(readings))
}

/// All figures of one size.
fn measure(options: &Options, size: u64) -> Vec<Record> {
    let rivals = &options.subjects;
    // Before anything else: what a program has freed, the allocator has to zero when it is asked
    // for zeros.
    let filled: Vec<_> =
        rivals.iter().map(|rival| rival.drive::<u64, u64, _>(calls::Fill { size })).collect();
    let mut records = Vec::new();
    for (rival, rounds) in rivals.iter().zip(speed::measure(rivals, size, options.rounds)) {
        let (inserts, gets): (Vec<f64>, Vec<f64>) = rounds.into_iter().unzip();
        records.push(record(*rival, size, INSERT, &inserts));
        records.push(record(*rival, size, GET, &gets));
    }
    for (&rival, longest) in rivals.iter().zip(filled) {
        let mut add = |metric, reading: Option<f64>| {
            records.extend(reading.map(|reading| record(rival, size, metric, &[reading])));
        };
        let full = rival.drive::<u64, u64, _>(Full::of(size));
        add(MEMORY, full.map(|full| full.overhead::<u64>()));
        let card = rival.card();
        if let Some(longest) = longest {
            add(FILLING, Some(longest.filling));
            add(FULL, Some(longest.evicting).filter(|_| card.bounded));
        }
        if card.lifetimes {
            add(EXPIRY, rival.drive(expiry::AtOnce { size }).flatten());
            add(EXPIRING, rival.drive(calls::Expiring { size }));
        }
    }
    records
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() -> anyhow::Result<()> {
    let mut options = Options::parse();
    if options.quick {
        options.rounds = 1;
        options.sizes.retain(|&size| size <= 100_000);
    }
    println!("{}\nmedians of {} rounds\n", description_with_allocator(), options.rounds);
    print!("{}", Versions(&options.subjects));
    let mut records: Vec<Record> =
        options.sizes.iter().flat_map(|&size| measure(&options, size)).collect();
    compare(&mut records, &options.relative_to.name());
    for (metric, unit) in METRICS {
        let of_metric = |record: &&Record| record.metric == metric;
        let shown: Vec<Record> = records.iter().filter(of_metric).cloned().collect();
        println!("\n{}", table(metric, &shown));
        if let Some(directory) = &options.plots {
            std::fs::create_dir_all(directory)?;
            let path = directory.join(file_name(&format!("growth {metric}")));
            curves(&path, &format!("{metric}, {unit}"), &shown)?;
        }
    }
    if let Some(file) = &options.csv {
        write_csv(&records, File::create(file)?)?;
    }
    Ok(())
}
