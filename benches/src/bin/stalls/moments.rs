//! The longest single call, in processor time of its thread, while there is much to do for the
//! whole cache.

use crate::Row;
use cortado::{Cache, Clock, ManualClock, Op};
use cortado_benches::cpu::Longest;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Subject = Cache<u64, u64>;

const THREADS: u64 = 2;
/// Calls of each thread, at the least.
const LEAST: u64 = 100_000;
/// Keys that the calls are about, beyond those that are there at first.
const OTHERS: u64 = 1000;
/// No call may take longer, in microseconds.
const BAR: f64 = 1000.0;
const HOUR: Duration = Duration::from_secs(3600);
const YEAR: Duration = Duration::from_secs(365 * 86_400);
/// Nanoseconds between the buckets of the wheel's level of 1.63 days.
const COARSE: u64 = 1 << 47;

/// So much to do, from one moment to the next.
pub struct Moment {
    pub name: &'static str,
    /// The lifetime of the n-th of so many entries.
    life: fn(u64, u64) -> Option<Duration>,
    happens: fn(&Subject, &ManualClock),
    /// Whether all is done.
    over: fn(&Subject) -> bool,
}

fn at_once(_: u64, _: u64) -> Option<Duration> {
    Some(Duration::from_secs(100))
}

/// All within one bucket, at different instants.
fn coarse(n: u64, of: u64) -> Option<Duration> {
    Some(Duration::from_nanos(3 * COARSE + COARSE / 10 * 9 / of * n))
}

/// From a second to a year, a tenth of them for ever.
fn mixed(n: u64, _: u64) -> Option<Duration> {
    let spread = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let magnitude = spread >> 59;
    (!n.is_multiple_of(10))
        .then(|| Duration::from_nanos(1_000_000_000 + (spread << 8 >> 8 >> magnitude)).min(YEAR))
}

fn is_gone(cache: &Subject) -> bool {
    cache.entry_count() <= THREADS * OTHERS
}

/// Nothing is due.
fn is_settled(cache: &Subject) -> bool {
    cache.next_expiration() != Some(Duration::ZERO)
}

pub const ALL: [Moment; 7] = [
    Moment {
        name: "all come due at one instant",
        life: at_once,
        happens: |_, hand| hand.advance(Duration::from_secs(102)),
        over: is_gone,
    },
    Moment {
        name: "all in one coarse bucket cascade",
        life: coarse,
        happens: |_, hand| hand.set(Duration::from_nanos(3 * COARSE) + Duration::from_secs(2)),
        over: is_settled,
    },
    Moment {
        name: "invalidate_all, and after it",
        life: |_, _| None,
        happens: |cache, _| cache.invalidate_all(),
        over: is_gone,
    },
    Moment {
        name: "the clock jumps an hour ahead",
        life: mixed,
        happens: |_, hand| hand.advance(HOUR),
        over: is_settled,
    },
    Moment {
        name: "the clock jumps a century ahead",
        life: mixed,
        happens: |_, hand| hand.advance(100 * YEAR),
        over: is_settled,
    },
    Moment {
        name: "the clock jumps an hour back",
        life: mixed,
        happens: |_, hand| hand.set(HOUR),
        over: is_settled,
    },
    Moment { name: "nothing happens", life: mixed, happens: |_, _| (), over: is_settled },
];

/// The longest of the calls that are made while the moment passes.
pub fn measure(moment: &Moment, entries: u64, rounds: usize) -> Row {
    let mut calls = 0;
    let longest = |_| {
        let (longest, made) = once(moment, entries);
        calls += made;
        longest
    };
    let readings = (0..rounds).map(longest).collect();
    Row {
        name: moment.name.to_owned(),
        calls,
        readings,
        unit: "µs of processor time",
        bar: Some(BAR),
    }
}

fn once(moment: &Moment, entries: u64) -> (f64, u64) {
    let (clock, hand) = Clock::manual();
    let cache: Subject = Cache::builder().clock(clock).max_capacity(2 * entries).build();
    hand.set(2 * HOUR);
    for key in 0..entries {
        match (moment.life)(key, entries) {
            Some(life) => cache.insert_with_ttl(key, key, life),
            None => cache.insert(key, key),
        }
    }
    cache.run_pending_tasks();
    let mut longest = Longest::default();
    longest.call(|| (moment.happens)(&cache, &hand));
    let over = AtomicBool::new(false);
    let threads = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let (cache, over) = (&cache, &over);
            move || call(cache, moment, entries, thread, over)
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
    });
    let worst = threads.iter().map(|thread| thread.0).fold(longest.micros(), f64::max);
    (worst, threads.iter().map(|thread| thread.1).sum())
}

/// Calls until the moment is over; the longest, and how many.
fn call(
    cache: &Subject,
    moment: &Moment,
    entries: u64,
    thread: u64,
    over: &AtomicBool,
) -> (f64, u64) {
    let mut longest = Longest::default();
    let patience = Instant::now() + Duration::from_secs(60);
    for step in 0.. {
        let key = entries + thread * OTHERS + step % OTHERS;
        let old = step.wrapping_mul(0x9E37_79B9) % entries;
        match step % 8 {
            0..3 => drop(longest.call(|| cache.get(&old))),
            3..5 => longest.call(|| cache.insert_with_ttl(key, step, 5 * HOUR)),
            5 => drop(longest.call(|| cache.remove(&key))),
            6 => drop(longest.call(|| cache.pin().get(&key).copied())),
            _ => drop(longest.call(|| cache.entry(key).and_compute_with(|_| Op::Put(step)))),
        }
        if step % 64 == 0 && (moment.over)(cache) {
            over.store(true, Relaxed);
        }
        if step >= LEAST && over.load(Relaxed) {
            return (longest.micros(), step);
        }
        assert!(step % 1024 > 0 || Instant::now() < patience, "{} does not end", moment.name);
    }
    unreachable!("the steps do not end")
}
