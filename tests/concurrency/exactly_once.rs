//! Threads insert, update, remove, expire, evict, compute, load and clear tagged values: each value
//! leaves once, with one cause, and is dropped once.
//!
//! `CORTADO_ONCE_OPS` scales the number of operations per thread.

use crate::common::audited::{Audited, audited};
use crate::common::crowd::{counted, draw, scale, seed};
use cortado::{Cache, Clock, ManualClock, Op, RemovalCause};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const THREADS: u64 = 3;
const KEYS: u64 = 200;
/// How long to wait for what must come. Only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn operations() -> u64 {
    scale("CORTADO_ONCE_OPS", 150_000)
}

/// What was made, and what was dropped, by tag.
#[derive(Default)]
struct Register {
    next: AtomicU64,
    dropped: Mutex<HashMap<u64, u64>>,
}

/// A value that is one of its kind. Clones share the tag, and are not counted.
struct Tagged {
    tag: u64,
    key: u64,
    register: Arc<Register>,
}

impl Tagged {
    fn new(register: &Arc<Register>, key: u64) -> Self {
        Self { tag: register.next.fetch_add(1, Relaxed), key, register: Arc::clone(register) }
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        *self.register.dropped.lock().unwrap().entry(self.tag).or_default() += 1;
    }
}

/// Every removal that was announced: tag and cause, in the order of announcement per key.
type Log = Arc<Mutex<Vec<(u64, u64, RemovalCause)>>>;

struct Bench {
    cache: Audited<u64, Tagged>,
    register: Arc<Register>,
    hand: ManualClock,
    log: Log,
}

fn bench(bounded: bool, scheduled: bool) -> Bench {
    let (clock, hand) = Clock::manual();
    let log = Log::default();
    let seen = Arc::clone(&log);
    let mut builder = Cache::builder()
        .clock(clock)
        .scheduler(scheduled)
        .record_stats(true)
        .expiry_resolution(Duration::from_millis(1))
        .removal_listener(move |removed: cortado::Removed<u64, Tagged>| {
            let value = removed.value();
            assert_eq!(*removed.key(), value.key);
            seen.lock().unwrap().push((value.key, value.tag, removed.cause()));
        });
    if bounded {
        builder = builder.max_capacity(KEYS / 4);
    }
    Bench { cache: audited(builder.build()), register: Arc::default(), hand, log }
}

/// One random operation. The values of loads, which are perhaps not kept, are noted.
fn step(bench: &Bench, random: u64, loaded: &mut Vec<u64>) {
    let Bench { cache, register, hand, .. } = bench;
    let key = (random >> 8) % KEYS;
    let value = || Tagged::new(register, key);
    let ttl = Duration::from_millis((random >> 40) % 20);
    match random % 64 {
        0..16 => cache.insert(key, value()),
        16..28 => cache.insert_with_ttl(key, value(), ttl),
        28..34 => cache.invalidate(&key),
        34..38 => drop(cache.remove_entry(&key)),
        38..42 => drop(cache.entry(key).and_compute_with(|_| Op::Put(value()))),
        42..44 => drop(cache.entry(key).and_compute_with(|_| Op::Remove)),
        44..48 => {
            cache.entry(key).or_insert_with(|| {
                let value = value();
                loaded.push(value.tag);
                value
            });
        }
        48..52 => {
            cache.set_ttl(&key, ttl);
        }
        52..58 => {
            if let Some(entry) = cache.get_entry(&key) {
                assert_eq!((entry.key(), entry.key), (&key, key));
            }
        }
        58..62 => hand.advance(Duration::from_millis(1)),
        62 => cache.run_pending_tasks(),
        _ if random >> 32 & 0xff == 0 => cache.invalidate_all(),
        _ => cache.retain(|key, _| key % 16 != random % 16),
    }
}

fn run(bounded: bool, scheduled: bool) {
    let bench = bench(bounded, scheduled);
    let loaded: Vec<u64> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let bench = &bench;
            move || {
                let mut state = seed(thread + u64::from(bounded) * 10);
                let mut loaded = Vec::new();
                (0..operations()).for_each(|_| step(bench, draw(&mut state), &mut loaded));
                loaded
            }
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let Bench { cache, register, log, .. } = bench;
    cache.audit();
    cache.close();
    let stats = cache.stats();
    drop(cache);

    let log = log.lock().unwrap();
    let mut causes: HashMap<u64, RemovalCause> = HashMap::new();
    for &(_, tag, cause) in log.iter() {
        assert_eq!(causes.insert(tag, cause), None, "value {tag} left twice");
    }
    let made = register.next.load(Relaxed);
    for tag in (0..made).filter(|tag| !causes.contains_key(tag)) {
        // Only the value of a load that was overtaken, or too late, stays out of the cache.
        assert!(loaded.contains(&tag), "value {tag} was never announced");
    }
    assert_eq!(stats.insertions, causes.len() as u64);
    for cause in RemovalCause::ALL {
        let announced = causes.values().filter(|seen| **seen == cause).count() as u64;
        assert_eq!(stats.removed(cause), announced, "{cause:?}");
        let expected = bounded || cause != RemovalCause::Size;
        assert_eq!(announced > 0, expected, "{cause:?}: {announced}");
    }
    // The scheduler's thread may hold the cache a little longer.
    let begun = Instant::now();
    while register.dropped.lock().unwrap().len() as u64 != made {
        assert!(begun.elapsed() < PATIENCE, "values that were never dropped");
        std::thread::yield_now();
    }
    let dropped = register.dropped.lock().unwrap();
    assert!(dropped.values().all(|&times| times == 1), "a value was dropped twice");
    counted(THREADS * operations(), "operations");
}

#[test]
fn unbounded() {
    run(false, false);
}

#[test]
fn bounded() {
    run(true, false);
}

#[test]
fn unbounded_and_scheduled() {
    run(false, true);
}

#[test]
fn bounded_and_scheduled() {
    run(true, true);
}

/// Writers and readers race on a few keys; what replaces a value is younger than it.
#[test]
fn per_key_the_announcements_follow_the_removals() {
    let bench = bench(false, false);
    std::thread::scope(|scope| {
        // One writer per key, so that the order of its values is known.
        for key in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || {
                for n in 0..operations() {
                    bench.cache.insert(key, Tagged::new(&bench.register, key));
                    if n % 7 == 0 {
                        bench.cache.invalidate(&key);
                    }
                    if n % 11 == 0 {
                        bench.cache.get_entry(&((key + 1) % THREADS));
                    }
                }
            });
        }
    });
    bench.cache.audit();
    bench.cache.close();
    let log = bench.log.lock().unwrap();
    let mut last: HashMap<u64, u64> = HashMap::new();
    for &(key, tag, _) in log.iter() {
        if let Some(before) = last.insert(key, tag) {
            assert!(before < tag, "key {key}: {tag} was announced after {before}");
        }
    }
    assert_eq!(log.len() as u64, THREADS * operations());
    counted(THREADS * operations(), "operations");
}
