//! What saving and restoring take, and what a restored cache is worth: its hit ratio over the
//! requests that follow, beside that of a cache that was never stopped, and of an empty one.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use cortado::{Cache, Snapshot};
use cortado_benches::figure::{Figure, grouped, short};
use cortado_benches::machine::description;
use rand::{Rng, SeedableRng, rngs::SmallRng};
use rand_distr::Zipf;
use std::time::{Duration, Instant};

/// Saves and restores a full cache.
#[derive(Debug, Parser)]
struct Options {
    /// Entries of the cache.
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Different keys that are asked for, for each entry.
    #[arg(long, default_value_t = 10)]
    keys: u64,
    /// How often each is done.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

type Values = Cache<u64, String>;

fn main() -> Result<(), cortado::SnapshotError> {
    let options = Options::parse();
    println!("{}\n", description());
    let mut figures: [Vec<f64>; 3] = Default::default();
    let mut ratios: [Vec<f64>; 4] = Default::default();
    let mut size = 0;
    for round in 0..options.rounds {
        let requests = &mut Requests::new(&options, round as u64);
        let running = cache(&options);
        requests.serve(&running, 10 * options.entries);
        let mut bytes = Vec::new();
        figures[0].push(seconds(|| running.save(&mut bytes))?);
        size = bytes.len();
        let mut snapshot = None;
        figures[1].push(seconds(|| Snapshot::read(&*bytes).map(|read| snapshot = Some(read)))?);
        let mut snapshot = snapshot.expect("it was read");
        let restored = cache(&options);
        figures[2].push(seconds(|| Ok(restored.restore(&mut snapshot, usize::MAX)))?);
        let half = cache(&options);
        half.restore(&mut Snapshot::read(&*bytes)?, options.entries as usize / 2);
        for (ratio, cache) in ratios.iter_mut().zip([&running, &restored, &half, &cache(&options)])
        {
            ratio.push(requests.clone().serve(cache, options.entries));
        }
    }
    let entries = options.entries;
    println!("{} entries, {} bytes each in the stream", grouped(entries), size as u64 / entries);
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["what", "median, s", "ns an entry"]);
    for (what, readings) in ["save", "read", "restore"].iter().zip(&figures) {
        let median = Figure::of(readings).median;
        table.add_row([what.to_string(), short(median), short(median * 1e9 / entries as f64)]);
    }
    println!("{table}\n");
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["cache", "hit ratio of what follows, %"]);
    for (what, readings) in
        ["never stopped", "restored", "half of it restored", "empty"].iter().zip(&ratios)
    {
        table.add_row([what.to_string(), format!("{:.2}", 100.0 * Figure::of(readings).median)]);
    }
    println!("{table}");
    Ok(())
}

fn cache(options: &Options) -> Values {
    let hour = Duration::from_secs(3600);
    Cache::builder().max_capacity(options.entries).time_to_live(hour).build()
}

fn seconds<T>(
    run: impl FnOnce() -> Result<T, cortado::SnapshotError>,
) -> Result<f64, cortado::SnapshotError> {
    let begun = Instant::now();
    run().map(|_| begun.elapsed().as_secs_f64())
}

/// Requests for keys, some of them much more often than others.
#[derive(Clone)]
struct Requests {
    random: SmallRng,
    keys: Zipf<f64>,
    value: String,
}

impl Requests {
    fn new(options: &Options, seed: u64) -> Self {
        let keys = Zipf::new((options.entries * options.keys) as f64, 0.9).expect("of some keys");
        let value = "v".repeat(options.bytes);
        Self { random: SmallRng::seed_from_u64(seed), keys, value }
    }

    /// Reads, and inserts what is not there. Returns the share of hits.
    fn serve(&mut self, cache: &Values, requests: u64) -> f64 {
        let mut hits = 0;
        for _ in 0..requests {
            let key = self.random.sample(self.keys) as u64;
            if cache.get_entry(&key).is_some() {
                hits += 1;
            } else {
                cache.insert(key, self.value.clone());
            }
        }
        hits as f64 / requests as f64
    }
}
