//! What each operation of a cache costs beside the same one of moka, on one thread.
//!
//! Keys are numbers, values documents behind an `Arc`. Both caches have the policy of the
//! documentation, which gives each entry an hour, and the same hasher. By the system's clock. Each
//! reading has a cache of its own, filled, updated once and read once before. Rounds are
//! interleaved, another case goes first in each, and figures are medians with the lowest and the
//! highest of the rounds.

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use cortado_benches::figure::{Figure, short};
use cortado_benches::key::Stream;
use cortado_benches::machine;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Measures what each operation costs.
#[derive(Parser)]
struct Options {
    /// Rounds of each measurement.
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Entries, and operations of each round.
    #[arg(long, default_value_t = 100_000)]
    entries: u64,
    /// Only operations that have this in their name.
    #[arg(long, default_value = "")]
    only: String,
    /// A first look, with fewer rounds and entries.
    #[arg(long)]
    quick: bool,
}

type Document = Arc<[u64; 8]>;
type Cortado = cortado::Cache<u64, Document, ahash::RandomState>;
type Moka = moka::sync::Cache<u64, Document, ahash::RandomState>;

fn document(key: u64) -> Document {
    Arc::new([key; 8])
}

/// An hour for each entry, from the create hook; the other hooks are the traits' own.
struct AnHour;

const HOUR: Duration = Duration::from_secs(3600);

impl cortado::Expiry<u64, Document> for AnHour {
    fn expire_after_create(&self, _: &u64, _: &Document, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }
}

impl moka::Expiry<u64, Document> for AnHour {
    fn expire_after_create(&self, _: &u64, _: &Document, _: Instant) -> Option<Duration> {
        Some(HOUR)
    }
}

/// How a cache is set up: for so many entries, or as many as come.
#[derive(Clone, Copy)]
enum Setup {
    Unbounded,
    Bounded(u64),
    Listener(u64),
    Idle(u64),
}

fn cortado(setup: Setup) -> Cortado {
    let builder = cortado::Cache::builder().expire_after(AnHour);
    let builder = match setup {
        Setup::Unbounded => builder,
        Setup::Bounded(most) => builder.max_capacity(most),
        Setup::Listener(most) => builder.max_capacity(most).removal_listener(|removed| {
            black_box(removed.cause());
        }),
        Setup::Idle(most) => builder.max_capacity(most).time_to_idle(HOUR),
    };
    builder.build_with_hasher(ahash::RandomState::new())
}

fn moka(setup: Setup) -> Moka {
    let builder = moka::sync::Cache::builder().expire_after(AnHour);
    let builder = match setup {
        Setup::Unbounded => builder,
        Setup::Bounded(most) => builder.max_capacity(most),
        Setup::Listener(most) => builder.max_capacity(most).eviction_listener(|_, _, cause| {
            black_box(cause);
        }),
        Setup::Idle(most) => builder.max_capacity(most).time_to_idle(HOUR),
    };
    builder.build_with_hasher(ahash::RandomState::new())
}

/// One operation with one of the caches: nanoseconds of each, in a cache with so many entries, for
/// these keys of theirs.
type Run = Box<dyn Fn(u64, &[u64]) -> f64>;

struct Case {
    name: &'static str,
    cortado: Run,
    moka: Run,
}

/// The same source for both caches: their surfaces agree.
macro_rules! case {
    ($name:literal, $setup:expr, |$cache:ident, $keys:ident, $entries:ident| $body:expr) => {
        Case {
            name: $name,
            cortado: case!(cortado, $setup, |$cache, $keys, $entries| $body),
            moka: case!(moka, $setup, |$cache, $keys, $entries| $body),
        }
    };
    ($subject:ident, $setup:expr, |$cache:ident, $keys:ident, $entries:ident| $body:expr) => {
        Box::new(|$entries: u64, $keys: &[u64]| {
            let setup: fn(u64) -> Setup = $setup;
            let $cache = $subject(setup($entries));
            for key in (0..=$entries).chain([$entries]) {
                $cache.insert(key, document(key));
                if key.is_multiple_of(256) {
                    $cache.run_pending_tasks();
                }
            }
            black_box($cache.get(&$entries));
            $cache.run_pending_tasks();
            let begun = Instant::now();
            $body;
            begun.elapsed().as_nanos() as f64 / $keys.len() as f64
        })
    };
}

fn room(entries: u64) -> Setup {
    Setup::Bounded(4 * entries)
}

fn full(entries: u64) -> Setup {
    Setup::Bounded(entries / 2)
}

fn cases() -> Vec<Case> {
    vec![
        case!("get, found", room, |cache, keys, _n| {
            for key in keys {
                black_box(cache.get(key));
            }
        }),
        case!("get, found, with an idle time", |n| Setup::Idle(4 * n), |cache, keys, _n| {
            for key in keys {
                black_box(cache.get(key));
            }
        }),
        case!("get, not found", room, |cache, keys, n| {
            for key in keys {
                black_box(cache.get(&(key + 2 * n)));
            }
        }),
        case!("contains_key", room, |cache, keys, _n| {
            for key in keys {
                black_box(cache.contains_key(key));
            }
        }),
        case!("insert of a new key, unbounded", |_| Setup::Unbounded, |cache, keys, n| {
            for number in 0..keys.len() as u64 {
                cache.insert(2 * n + number, document(number));
            }
        }),
        case!("insert of a new key, full", full, |cache, keys, n| {
            for number in 0..keys.len() as u64 {
                cache.insert(2 * n + number, document(number));
            }
        }),
        case!("the same with a listener", |n| Setup::Listener(n / 2), |cache, keys, n| {
            for number in 0..keys.len() as u64 {
                cache.insert(2 * n + number, document(number));
            }
        }),
        case!("insert of a present key", room, |cache, keys, _n| {
            for key in keys {
                cache.insert(*key, document(*key));
            }
        }),
        case!("the same key again and again", room, |cache, keys, _n| {
            for key in keys {
                cache.insert(7, document(*key));
            }
        }),
        case!("remove", room, |cache, keys, _n| {
            for key in keys {
                black_box(cache.remove(key));
            }
        }),
        case!("insert and invalidate", room, |cache, keys, n| {
            for key in keys {
                cache.insert(key + 2 * n, document(*key));
                cache.invalidate(&(key + 2 * n));
            }
        }),
        case!("get_with, found", room, |cache, keys, _n| {
            for key in keys {
                black_box(cache.get_with(*key, || document(*key)));
            }
        }),
        case!("get_with, not found", room, |cache, keys, n| {
            for number in 0..keys.len() as u64 {
                black_box(cache.get_with(2 * n + number, || document(number)));
            }
        }),
        case!("entry().or_insert_with, found", room, |cache, keys, _n| {
            for key in keys {
                black_box(cache.entry(*key).or_insert_with(|| document(*key)));
            }
        }),
        case!("entry().and_upsert_with", room, |cache, keys, _n| {
            for key in keys {
                black_box(cache.entry(*key).and_upsert_with(|_| document(*key)));
            }
        }),
        case!("iter, each entry", room, |cache, keys, _n| {
            cache.iter().take(keys.len()).for_each(|pair| drop(black_box(pair)));
        }),
        case!("invalidate_all to its end, each entry", room, |cache, _keys, _n| {
            cache.invalidate_all();
            cache.run_pending_tasks();
        }),
        case!("drop of the cache, each entry", room, |cache, _keys, _n| drop(cache)),
    ]
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn main() {
    let mut options = Options::parse();
    if options.quick {
        (options.rounds, options.entries) = (3, 20_000);
    }
    println!("{}\n", machine::description());
    let cases = cases();
    let cases: Vec<_> = cases.iter().filter(|case| case.name.contains(&options.only)).collect();
    let mut readings = vec![[Vec::new(), Vec::new()]; cases.len()];
    // The first round warms up.
    for round in 0..=options.rounds {
        let keys = Stream::Even.keys::<u64>(options.entries, options.entries as usize, 0, round);
        for turn in 0..cases.len() {
            let number = (round + turn) % cases.len();
            for turn in 0..2 {
                let subject = (round + turn) % 2;
                let run = [&cases[number].cortado, &cases[number].moka][subject];
                let reading = run(options.entries, &keys);
                if round > 0 {
                    readings[number][subject].push(reading);
                }
            }
        }
    }
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["ns", "cortado", "moka", "moka / cortado"]);
    for (case, readings) in cases.iter().zip(&readings) {
        let [cortado, moka] = [0, 1].map(|subject| Figure::of(&readings[subject]));
        let cell = |Figure { median, low, high }: Figure| {
            let [median, low, high] = [median, low, high].map(short);
            format!("{median} ({low} to {high})")
        };
        let ratio = format!("{} ×", short(moka.median / cortado.median));
        table.add_row([case.name.to_owned(), cell(cortado), cell(moka), ratio]);
    }
    println!("{table}");
}
