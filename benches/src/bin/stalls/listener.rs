//! A listener that does not return for seconds: what the others wait for it.
//!
//! A call that is held up by it would sleep, which the system counts apart from being pushed off
//! its core, or spin, which is processor time of its thread. So the delay of a call is the longer
//! of its processor time and, if its thread slept meanwhile, of the time that it took.

use crate::Row;
use cortado::Cache;
use cortado_benches::cpu;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

pub const NAME: &str = "while the listener is stuck";
const THREADS: u64 = 2;
const CAPACITY: u64 = 10_000;
/// Calls between pauses: what is removed waits for the listener, in memory.
const BATCH: u64 = 200;

/// How often this thread went to sleep, if the system says.
fn sleeps() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// The longest delay of each round, and how many calls there were.
struct Delays {
    calls: u64,
    longest: Vec<f64>,
}

/// Calls for so many rounds; each batch is followed by a pause.
fn call(cache: &Cache<u64, u64>, thread: u64, rounds: usize, round: Duration) -> Delays {
    let mut delays = Delays { calls: 0, longest: vec![0.0; rounds] };
    let mut key = thread << 40;
    let begun = Instant::now();
    let number = || (begun.elapsed().as_nanos() / round.as_nanos()) as usize;
    while number() < rounds {
        let (mut slept, first) = (sleeps(), number());
        for _ in 0..BATCH {
            key += 1;
            let (real, own) = (Instant::now(), cpu::time());
            if key.is_multiple_of(4) {
                black_box(cache.get(&(key - 3)));
            } else {
                cache.insert(key, key);
            }
            let (real, own) = (real.elapsed().as_nanos() as f64, (cpu::time() - own) as f64);
            let mut delay = own;
            if real > 200_000.0 {
                // Where the system does not say, everything counts.
                let now = sleeps();
                if now.is_none() || now != slept {
                    delay = real;
                }
                slept = now;
            }
            // A long one belongs to each of the rounds that it lasts.
            let last = if delay > 1e6 { number() } else { first };
            for longest in delays.longest.iter_mut().take(last + 1).skip(first) {
                *longest = longest.max(delay / 1000.0);
            }
            delays.calls += 1;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    delays
}

pub fn measure(stuck: Duration, rounds: usize) -> Row {
    let (entered, entrance) = mpsc::channel();
    let gate = Mutex::new((entered, false));
    let released = Arc::new(AtomicBool::new(false));
    let release = Arc::clone(&released);
    let cache: Cache<u64, u64> = Cache::builder()
        .max_capacity(CAPACITY)
        .removal_listener(move |_| {
            let mut gate = gate.lock().expect("nobody panics");
            if !gate.1 {
                gate.1 = true;
                gate.0.send(()).expect("somebody waits");
                // Not for ever: if the others wait for it, they must be able to say so.
                let end = Instant::now() + stuck + Duration::from_secs(2);
                while !release.load(SeqCst) && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        })
        .build();
    (0..CAPACITY).for_each(|key| cache.insert(key, key));
    let delays: Vec<Delays> = std::thread::scope(|scope| {
        let (cache, round) = (&cache, stuck / rounds as u32);
        scope.spawn(move || cache.invalidate(&1));
        entrance.recv().expect("it is entered");
        let threads: Vec<_> = (1..=THREADS)
            .map(|thread| scope.spawn(move || call(cache, thread, rounds, round)))
            .collect();
        let delays = threads.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        released.store(true, SeqCst);
        delays
    });
    cache.audit();
    Row {
        name: NAME.to_owned(),
        calls: delays.iter().map(|delays| delays.calls).sum(),
        readings: (0..rounds)
            .map(|round| delays.iter().map(|delays| delays.longest[round]).fold(0.0, f64::max))
            .collect(),
        unit: "µs, longest delay",
        bar: Some(1000.0),
    }
}
