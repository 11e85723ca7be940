//! A plain insert of another key while 10,000 loads and 10,000 computations are under way: its time
//! as a multiple of that in an idle cache.

use crate::Row;
use cortado::{Op, future::Cache};
use cortado_benches::cpu;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

pub const NAME: &str = "an insert beside 20,000 flights";
const LOADS: u64 = 10_000;
const COMPUTATIONS: u64 = 10_000;
const CAPACITY: u64 = 100_000;
/// Random keys of the inserts are below this, so that about half of them are in the cache.
const KEYS: u64 = 2 * CAPACITY;
const INSERTS: u64 = 200_000;
/// Loads are of keys from here on, which are in no cache.
const ABSENT: u64 = 1 << 40;
/// Computations are of keys from here on, which are in the cache when they begin.
const PRESENT: u64 = 1 << 41;

type Flight<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// One row for inserts of which each evicts, and one for inserts into a cache with room.
pub fn measure(rounds: usize) -> Vec<Row> {
    let row = |name: &str, capacity| Row {
        name: format!("{NAME}, {name}"),
        calls: INSERTS * rounds as u64,
        readings: ratios(capacity, rounds),
        unit: "× of an idle cache's",
        bar: Some(1.5),
    };
    vec![row("cache full", CAPACITY), row("cache with room", 10 * CAPACITY)]
}

/// The ratio of each round. The rounds of the two caches alternate.
fn ratios(capacity: u64, rounds: usize) -> Vec<f64> {
    let (idle, busy) = (cache(capacity), cache(capacity));
    let flights = take_off(&busy);
    let mut random = SmallRng::seed_from_u64(7);
    let mut time = |cache: &Cache<u64, u64>| {
        let keys: Vec<u64> = (0..INSERTS).map(|_| random.random_range(0..KEYS)).collect();
        let begun = cpu::time();
        keys.into_iter().for_each(|key| cache.sync().insert(key, key));
        (cpu::time() - begun) as f64
    };
    // The first round warms up.
    let mut ratio = |round: usize| {
        if round.is_multiple_of(2) {
            let of_idle = time(&idle);
            time(&busy) / of_idle
        } else {
            let of_busy = time(&busy);
            of_busy / time(&idle)
        }
    };
    let ratios = (0..=rounds).map(&mut ratio).skip(1).collect();
    busy.sync().run_pending_tasks();
    let entries = busy.entry_count();
    assert!(entries <= capacity, "{entries} entries in a cache for {capacity}");
    drop(flights);
    ratios
}

fn cache(capacity: u64) -> Cache<u64, u64> {
    let cache = Cache::new(capacity);
    for key in (PRESENT..).take(COMPUTATIONS as usize) {
        cache.sync().insert(key, key);
    }
    for key in 0..capacity.min(KEYS) - COMPUTATIONS {
        cache.sync().insert(key, key);
    }
    cache.sync().run_pending_tasks();
    cache
}

fn take_off(cache: &Cache<u64, u64>) -> Vec<Flight<'_>> {
    let loads = (ABSENT..).take(LOADS as usize).map(|key| -> Flight<'_> {
        Box::pin(async move {
            let _: u64 = cache.get_with(key, pending()).await;
        })
    });
    let computations = (PRESENT..).take(COMPUTATIONS as usize).map(|key| -> Flight<'_> {
        Box::pin(async move {
            drop(cache.entry(key).and_compute_with(|_| pending::<Op<u64>>()).await);
        })
    });
    let mut context = Context::from_waker(Waker::noop());
    loads
        .chain(computations)
        .map(|mut flight| {
            assert_eq!(flight.as_mut().poll(&mut context), Poll::Pending);
            flight
        })
        .collect()
}
