//! Readers that prolong lives race the end of these lives: nothing is found when its life is over,
//! and nothing is taken away before.
//!
//! `CORTADO_RACE_OPS` sets the number of operations per thread.

use crate::common::audited::audited;
use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use cortado::{Cache, Clock, Expiry, RemovalCause, Removed};
use std::iter::Sum;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const THREADS: u64 = 4;
const KEYS: u64 = 24;
/// How long an entry lives after it was written or read.
const LIFE: Duration = Duration::from_millis(20);

fn operations() -> u64 {
    scale("CORTADO_RACE_OPS", 100_000)
}

/// A value that knows to what age somebody was told that it would live.
#[derive(Clone, Debug, Default)]
struct Promised(Arc<AtomicU64>);

impl Promised {
    /// Somebody was told so.
    fn until(&self, age: Duration) {
        self.0.fetch_max(age.as_nanos() as u64, SeqCst);
    }

    fn age(&self) -> Duration {
        Duration::from_nanos(self.0.load(SeqCst))
    }
}

type Subject = Cache<u64, Promised>;

struct Hooks;

impl Expiry<u64, Promised> for Hooks {
    fn expire_after_create(&self, _: &u64, _: &Promised, _: Instant) -> Option<Duration> {
        Some(LIFE)
    }

    fn expire_after_read(
        &self,
        _: &u64,
        _: &Promised,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(LIFE)
    }
}

#[derive(Clone, Copy, Debug)]
enum Prolongs {
    Idle,
    Hook,
}

/// How many there were.
#[derive(Default)]
struct Reads {
    all: u64,
    prolonged: u64,
}

impl Sum for Reads {
    fn sum<I: Iterator<Item = Self>>(reads: I) -> Self {
        reads.fold(Self::default(), |sum, more| Self {
            all: sum.all + more.all,
            prolonged: sum.prolonged + more.prolonged,
        })
    }
}

/// Steps of the race on one thread: time goes on by steps of any size, also to the very moment at
/// which something ends.
fn race(cache: &Subject, time: &AtomicU64, thread: u64) -> Reads {
    let mut state = seed(thread);
    let mut reads = Reads::default();
    for _ in 0..operations() {
        let random = draw(&mut state);
        let key = (random >> 8) % KEYS;
        match random % 32 {
            0..3 => cache.insert_with_ttl(key, Promised::default(), LIFE),
            3 => {
                let ends = cache.expires_in(&key).into_options().flatten();
                let step = ends.map_or(1, |left| left.as_nanos() as u64);
                time.fetch_add(step.saturating_sub(random >> 16 & 1), SeqCst);
            }
            4..6 => drop(time.fetch_add((random >> 16) % 2_000_000, SeqCst)),
            6 => cache.run_pending_tasks(),
            7..10 => {
                reads.all += 1;
                let before = time.load(SeqCst);
                let left = cache.peek(&key).map(|entry| entry.expires_in());
                // If the clock stood still meanwhile, what is shown was judged by the same reading.
                let over = left == Some(Some(Duration::ZERO));
                assert!(!over || time.load(SeqCst) != before, "found when it was over");
            }
            _ => {
                reads.all += 1;
                if let Some(entry) = cache.get_entry(&key) {
                    let left = entry.expires_in().expect("all have an end");
                    // Or else the clock has moved on meanwhile, past the end.
                    if left > Duration::ZERO {
                        entry.until(entry.age() + left);
                        reads.prolonged += 1;
                    }
                }
            }
        }
    }
    reads
}

fn check(prolongs: Prolongs) {
    let time = Arc::new(AtomicU64::new(0));
    let reading = Arc::clone(&time);
    let clock = Clock::custom(move || {
        let now = Duration::from_nanos(reading.load(SeqCst));
        stall();
        now
    });
    let mut builder = Cache::builder()
        .clock(clock)
        .expiry_resolution(Duration::from_millis(1))
        .removal_listener(move |removed: Removed<u64, Promised>| {
            if removed.cause() != RemovalCause::Expired {
                return;
            }
            // The age at which it was to end, as it was at the end.
            let late = removed.late_by().expect("it expired");
            let ended = removed.age() - late;
            let promised = removed.value().age();
            assert!(promised <= ended, "ended at {ended:?}, promised until {promised:?}");
        });
    builder = match prolongs {
        Prolongs::Idle => builder.time_to_idle(LIFE),
        Prolongs::Hook => builder.expire_after(Hooks),
    };
    let cache = audited(builder.record_stats(true).build());
    let reads: Reads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (cache, time) = (&cache, &*time);
                scope.spawn(move || race(cache, time, thread))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    cache.audit();
    let stats = cache.stats();
    assert_eq!(stats.listener_panics, 0, "some ended before their time");
    assert!(reads.prolonged > operations() / 10 && stats.removed(RemovalCause::Expired) > 100);
    counted(reads.all, "reads");
}

std::thread_local! {
    static STALLS: std::cell::Cell<u64> = const { std::cell::Cell::new(1) };
}

/// Holds its thread up now and then: between a reading of the clock and what is done by it.
fn stall() {
    let mut state = STALLS.get();
    let random = draw(&mut state);
    STALLS.set(state);
    if random.is_multiple_of(16) {
        (0..random >> 55).for_each(|_| std::hint::spin_loop());
    }
}

#[test]
fn of_an_idle_time() {
    check(Prolongs::Idle);
}

#[test]
fn of_a_read_hook() {
    check(Prolongs::Hook);
}
