//! Threads insert, update, replace, remove, drain, expire, evict, compute, load (by closures, by
//! guards, several keys at once), reload and clear tagged values: each value leaves once, with one
//! cause, and is dropped once.
//!
//! `CORTADO_ONCE_OPS` scales the number of operations per thread.

use crate::common::audited::{Audited, LoadingAudited, audited, loading_audited};
use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use cortado::{Cache, Clock, Job, Loaded, Loader, ManualClock, Op, Reloaded, RemovalCause};
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
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
    register: Option<Arc<Register>>,
}

impl Clone for Tagged {
    fn clone(&self) -> Self {
        Self { register: None, ..*self }
    }
}

impl Tagged {
    fn new(register: &Arc<Register>, key: u64) -> Self {
        let tag = register.next.fetch_add(1, Relaxed);
        Self { tag, key, register: Some(Arc::clone(register)) }
    }
}

impl Drop for Tagged {
    fn drop(&mut self) {
        if let Some(register) = &self.register {
            *register.dropped.lock().unwrap().entry(self.tag).or_default() += 1;
        }
    }
}

/// Every removal that was announced: tag and cause, in the order of announcement per key.
type Log = Arc<Mutex<Vec<(u64, u64, RemovalCause)>>>;

/// Reloads make values, or say that the old one is right, or gone, or that they have failed.
struct Reloads {
    register: Arc<Register>,
    /// What they made, which is perhaps not kept.
    made: Arc<Mutex<Vec<u64>>>,
}

impl Loader<u64, Tagged> for Reloads {
    type Error = ();

    fn load(&self, key: &u64) -> Result<Loaded<Tagged>, ()> {
        let value = Tagged::new(&self.register, *key);
        self.made.lock().unwrap().push(value.tag);
        Ok(Loaded::new(value))
    }

    fn reload(&self, key: &u64, old: &Tagged) -> Result<Reloaded<Tagged>, ()> {
        assert_eq!(*key, old.key);
        match old.tag % 8 {
            0 => Ok(Reloaded::not_modified()),
            1 => Ok(Reloaded::gone()),
            2 => Err(()),
            3 => Ok(Reloaded::not_modified_with_ttl(Duration::from_millis(old.tag % 3))),
            _ => self.load(key).map(Reloaded::from),
        }
    }
}

enum Subject {
    Plain(Audited<u64, Tagged>),
    Refreshing(LoadingAudited<u64, Tagged, ()>),
}

impl Deref for Subject {
    type Target = Cache<u64, Tagged>;

    fn deref(&self) -> &Cache<u64, Tagged> {
        match self {
            Self::Plain(cache) => cache,
            Self::Refreshing(cache) => cache.cache(),
        }
    }
}

/// Where the reloads of a run are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Nowhere,
    /// In the operations that cause them.
    AtOnce,
    Threads,
}

struct Bench {
    cache: Subject,
    /// The values of reloads.
    reloaded: Arc<Mutex<Vec<u64>>>,
    workers: Vec<JoinHandle<()>>,
    register: Arc<Register>,
    hand: ManualClock,
    log: Log,
}

/// Two threads that run jobs.
fn workers() -> (Sender<Job>, Vec<JoinHandle<()>>) {
    let (jobs, queue) = channel::<Job>();
    let queue = Arc::new(Mutex::new(queue));
    let work = |queue: Arc<Mutex<Receiver<Job>>>| {
        move || {
            let next = || queue.lock().unwrap().recv().ok();
            std::iter::from_fn(next).for_each(|job| job());
        }
    };
    let workers = (0..2).map(|_| std::thread::spawn(work(Arc::clone(&queue)))).collect();
    (jobs, workers)
}

fn bench(bounded: bool, scheduled: bool, place: Place) -> Bench {
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
    let (register, reloaded) = (Arc::<Register>::default(), Arc::default());
    let mut threads = Vec::new();
    if place == Place::Threads {
        let (jobs, workers) = workers();
        builder = builder.executor(move |job| drop(jobs.send(job)));
        threads = workers;
    }
    if place == Place::AtOnce {
        builder = builder.executor(|job: Job| job());
    }
    let cache = if place == Place::Nowhere {
        Subject::Plain(audited(builder.build()))
    } else {
        let reloads = Reloads { register: Arc::clone(&register), made: Arc::clone(&reloaded) };
        let builder = builder
            .refresh_after_write(Duration::from_millis(2))
            .refresh_retry(Duration::from_millis(1));
        Subject::Refreshing(loading_audited(builder.build_with_loader(reloads)))
    };
    Bench { cache, reloaded, workers: threads, register, hand, log }
}

/// One random operation. The values of loads, which are perhaps not kept, are noted.
fn step(bench: &Bench, random: u64, loaded: &mut Vec<u64>) {
    let Bench { cache, register, hand, .. } = bench;
    let key = (random >> 8) % KEYS;
    let value = || Tagged::new(register, key);
    let ttl = Duration::from_millis((random >> 40) % 20);
    match random % 96 {
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
        63 if random >> 32 & 0xff == 0 => cache.invalidate_all(),
        63 => cache.retain(|key, _| key % 16 != random >> 8 & 15),
        64..80 => load(bench, (key, ttl), random, loaded),
        80..84 => {
            let entry = cache.entry(key);
            assert_eq!(entry.and_upsert_with(|_| value()).key(), &key);
        }
        84..88 => match cache.replace(key, value()) {
            Ok(old) => assert_eq!((old.key(), old.key), (&key, key)),
            // It was never inside.
            Err(value) => loaded.push(value.tag),
        },
        88 => {
            let taken = cache.entries().filter_map(|entry| cache.remove_entry(entry.key()));
            for entry in taken.take((random >> 32) as usize % 4) {
                assert_eq!(*entry.key(), entry.key);
            }
        }
        89 => {
            let pair = |key| (key % KEYS, Tagged::new(register, key % KEYS));
            cache.insert_many([pair(key), pair(key + 1), pair(key)]);
        }
        90 => cache.invalidate_many(&[key, key + 1]),
        91 => drop(cache.set_max_capacity(KEYS / 4 + (random >> 32) % 16)),
        _ => cache.insert(key, value()),
    }
}

/// One random load, which may come to nothing, or be given up.
fn load(bench: &Bench, (key, ttl): (u64, Duration), random: u64, loaded: &mut Vec<u64>) {
    let Bench { cache, register, .. } = bench;
    let mut made = |key| {
        let value = Tagged::new(register, key);
        loaded.push(value.tag);
        value
    };
    let makes = random >> 33 & 3 != 0;
    match random >> 36 & 7 {
        0 => drop(cache.entry(key).or_try_insert_with(|| makes.then(|| made(key)).ok_or(1_u8))),
        1 => drop(cache.try_get_with(key, || makes.then(|| made(key)).ok_or("an error"))),
        2 => drop(cache.optionally_get_with(key, || makes.then(|| made(key)))),
        3 => {
            let loader = || makes.then(|| Loaded::with_ttl(made(key), ttl));
            drop(cache.entry(key).or_load_with(loader));
        }
        4 => {
            let parity = random >> 34 & 1;
            let entry = cache.entry(key);
            drop(entry.or_insert_with_if(|| made(key), |value| value.tag & 1 == parity));
        }
        5 => {
            let keys = [key, (key + 7) % KEYS, key, (key + 14) % KEYS];
            // In another order, perhaps without the last one, and with one that nobody asked for.
            let values = cache.get_many_with(keys, |keys| {
                let wanted = keys.iter().rev().skip(usize::from(!makes));
                let mut pairs: Vec<_> = wanted.map(|&&key| (key, made(key))).collect();
                let extra = (key + 21) % KEYS;
                pairs.push((extra, made(extra)));
                pairs
            });
            let pairs = values.iter().zip(keys);
            assert!(pairs.into_iter().all(|(it, key)| it.as_ref().is_none_or(|it| it.key == key)));
        }
        _ => {
            let Err(guard) = cache.get_value_or_guard(&key) else { return };
            match random >> 40 & 7 {
                0 => return,
                1 => cache.invalidate(&key),
                2 => cache.insert(key, Tagged::new(register, key)),
                _ => {}
            }
            let entry = if makes {
                guard.insert(made(key))
            } else {
                guard.insert(Loaded::with_ttl(made(key), ttl))
            };
            assert_eq!((entry.key(), entry.key), (&key, key));
        }
    }
}

fn run(bounded: bool, scheduled: bool) {
    run_reloading(bounded, scheduled, Place::Nowhere);
}

fn run_reloading(bounded: bool, scheduled: bool, place: Place) {
    let bench = bench(bounded, scheduled, place);
    let mut loaded: Vec<u64> = std::thread::scope(|scope| {
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
    let Bench { cache, reloaded, workers, register, log, .. } = bench;
    let begun = Instant::now();
    while cache.stats().reloads_under_way > 0 {
        assert!(begun.elapsed() < PATIENCE, "reloads that never end");
        std::thread::yield_now();
    }
    if place == Place::Threads {
        // A job may be telling the last removals. This waits for it, and an audit does not.
        cache.close();
    }
    cache.audit();
    cache.close();
    let stats = cache.stats();
    drop(cache);
    // They end with the cache, which has their queue.
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    loaded.append(&mut reloaded.lock().unwrap());
    let loaded: HashSet<u64> = loaded.into_iter().collect();
    let (reloads, failures) = (stats.reloads, stats.reload_failures);
    assert_eq!((reloads > 0, failures > 0), (place != Place::Nowhere, place != Place::Nowhere));

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

#[test]
fn with_reloads() {
    for place in [Place::AtOnce, Place::Threads] {
        run_reloading(false, false, place);
    }
}

#[test]
fn with_reloads_bounded_and_scheduled() {
    for place in [Place::AtOnce, Place::Threads] {
        run_reloading(true, true, place);
    }
}

/// Writers and readers race on a few keys; what replaces a value is younger than it.
#[test]
fn per_key_the_announcements_follow_the_removals() {
    let bench = bench(false, false, Place::Nowhere);
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
