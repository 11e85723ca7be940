//! cortado against its rivals, in one run: the same keys, the same hasher, the same values,
//! interleaved rounds, medians. Read the figures as ratios: they depend on the machine and on what
//! else it does.

mod mass;
mod memory;
mod options;
mod plots;
mod speed;

use clap::Parser;
use cortado_benches::heap::Heap;
use cortado_benches::key::Key;
use cortado_benches::machine::{Versions, description_with_allocator};
use cortado_benches::report::{Record, by_row, compare, table, write_csv};
use cortado_benches::value::{Inline, Page, Shared};
use options::{Keys, Options, Values};
use std::fs::File;

#[global_allocator]
static HEAP: Heap = Heap;

/// The records of a run; each case is printed as soon as it is complete.
pub struct Report<'o> {
    options: &'o Options,
    records: Vec<Record>,
}

impl Report<'_> {
    /// Takes the records of one case and prints them.
    #[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
    fn add(&mut self, title: &str, mut records: Vec<Record>) {
        if !records.is_empty() {
            compare(&mut records, &self.options.relative_to.name());
            println!("{}\n", table(title, &records));
            self.records.append(&mut records);
        }
    }
}

fn run<K: Key>(options: &Options, report: &mut Report<'_>) {
    memory::run::<K>(options, report);
    match options.values {
        Values::U64 => speed::run::<K, u64>(options, report),
        Values::Arc => speed::run::<K, Shared>(options, report),
        Values::Inline => speed::run::<K, Inline>(options, report),
        Values::Page => speed::run::<K, Page>(options, report),
    }
    mass::run::<K>(options, report);
}

#[expect(clippy::print_stdout, reason = "the tables are what this program is for")]
fn main() -> anyhow::Result<()> {
    let options = Options::parse().settled();
    println!(
        "{}\n{}\n\n{}",
        description_with_allocator(),
        options.description(),
        Versions(&options.subjects)
    );
    let mut report = Report { options: &options, records: Vec::new() };
    match options.keys {
        Keys::U64 => run::<u64>(&options, &mut report),
        Keys::String => run::<String>(&options, &mut report),
    }
    if options.scale {
        println!("{}\n\n{}", description_with_allocator(), by_row(&report.records));
    }
    if let Some(directory) = &options.plots {
        plots::draw(directory, &report.records)?;
    }
    if let Some(file) = &options.csv {
        write_csv(&report.records, File::create(file)?)?;
    }
    Ok(())
}
