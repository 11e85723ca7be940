//! What bounds the queue of notifications, and whom it keeps. `docs/notifications.md` has the
//! rules.

use crate::common::audited::{Audited, audited};
use crate::common::same_hash::Same;
use crate::common::{HANG, MINUTE, kept, must_end};
use cortado::{Builder, Cache, Clock, Op, Overflow, RemovalCause, Stats};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// What the listener waits at, while it is closed.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    /// Calls of the listener that have come here, and those that have gone through.
    come: AtomicU64,
    gone: AtomicU64,
}

impl Gate {
    fn pass(&self) {
        self.come.fetch_add(1, SeqCst);
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
        self.gone.fetch_add(1, SeqCst);
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Opens it when dropped: also if the test fails, so that nobody waits for ever.
struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG / 8, "{what}: it never holds");
        std::thread::yield_now();
    }
}

/// Watches for a while.
fn always(holds: impl Fn() -> bool) {
    for _ in 0..5000 {
        assert!(holds());
        std::thread::yield_now();
    }
}

type Numbers = Audited<u64, u64>;

/// A cache whose listener goes through a gate.
fn gated(configure: impl FnOnce(Builder<u64, u64>) -> Builder<u64, u64>) -> (Numbers, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let listens = Arc::clone(&gate);
    let builder = Cache::builder().record_stats(true).removal_listener(move |_| listens.pass());
    (audited(configure(builder).build()), gate)
}

fn removed(stats: &Stats) -> u64 {
    RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum()
}

/// A removal on another thread, which is stuck in the listener when this returns.
fn get_stuck<'scope, 'a: 'scope>(
    scope: &'scope std::thread::Scope<'scope, 'a>,
    cache: &'a Numbers,
    gate: &Gate,
) {
    scope.spawn(|| {
        cache.insert(0, 0);
        cache.invalidate(&0);
    });
    eventually("the listener is called", || gate.come.load(SeqCst) == 1);
}

const LIMIT: u64 = 10;

fn waiting(builder: Builder<u64, u64>) -> Builder<u64, u64> {
    builder.notification_limit(LIMIT as usize, Overflow::Wait)
}

#[test]
fn writers_wait_while_the_queue_is_longer_than_its_limit() {
    const WRITERS: u64 = 3;
    must_end(|| {
        let (cache, gate) = gated(waiting);
        std::thread::scope(|scope| {
            let opens = Opens(&gate);
            get_stuck(scope, &cache, &gate);
            let writers = [1, 2, 3].map(|thread| {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..500 {
                        let key = thread * 1000 + n;
                        cache.insert(key, n);
                        match n % 4 {
                            0 => cache.invalidate(&key),
                            1 => cache.insert_with_ttl(key, n, MINUTE),
                            2 => _ = cache.entry(key).and_compute_with(|_| Op::Remove),
                            _ => assert!(cache.set_ttl(&key, std::time::Duration::ZERO)),
                        }
                    }
                })
            });
            let pending = || cache.stats().pending_notifications;
            eventually("the queue is full", || pending() > LIMIT);
            always(|| pending() <= LIMIT + WRITERS);
            assert!(writers.iter().all(|writer| !writer.is_finished()), "they do not wait");
            drop(opens);
        });
        cache.run_pending_tasks();
        assert_eq!(gate.gone.load(SeqCst), 1 + 3 * 500, "each of them is announced");
    });
}

#[test]
fn nobody_waits_inside_of_a_computation_a_load_or_a_callback() {
    type Act = fn(&Numbers, &dyn Fn());
    let acts: [(&str, Act); 4] = [
        ("computation", |cache, remove| {
            cache.entry(500).and_compute_with(|_| {
                remove();
                Op::Put(1)
            });
        }),
        ("load", |cache, remove| {
            cache.entry(500).or_insert_with(|| {
                remove();
                1
            });
        }),
        ("condition", |cache, remove| {
            cache.remove_if(&1000, |_, _| {
                remove();
                true
            });
        }),
        ("condition of retain", |cache, remove| {
            cache.retain(|key, _| {
                if *key == 1000 {
                    remove();
                }
                true
            });
        }),
    ];
    for (name, act) in acts {
        must_end(move || {
            let (cache, gate) = gated(waiting);
            (1..100).for_each(|key| cache.insert(key, key));
            cache.insert(1000, 0);
            let through = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let opens = Opens(&gate);
                get_stuck(scope, &cache, &gate);
                scope.spawn(|| {
                    act(&cache, &|| {
                        (1..100).for_each(|key| cache.invalidate(&key));
                        through.store(true, SeqCst);
                    });
                });
                eventually(name, || through.load(SeqCst));
                // Nor does it keep its key: what it waits for comes after the operation.
                if ["computation", "load"].contains(&name) {
                    eventually(name, || cache.get(&500) == Some(1));
                }
                drop(opens);
            });
            cache.run_pending_tasks();
            let told = gate.gone.load(SeqCst);
            assert_eq!(told, removed(&cache.stats()), "{name}");
        });
    }
}

/// It would wait for itself.
#[test]
fn a_listener_that_removes_more_than_the_limit_does_not_wait() {
    must_end(|| {
        let slot: &'static OnceLock<Cache<u64, u64>> = kept(OnceLock::new());
        let told = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&told);
        let cache: Numbers = audited(
            Cache::builder()
                .notification_limit(5, Overflow::Wait)
                .removal_listener(move |removed| {
                    counts.fetch_add(1, SeqCst);
                    let cache = slot.get().expect("set before the first use");
                    if *removed.key() == 0 {
                        (1..100).for_each(|key| cache.invalidate(&key));
                    }
                })
                .build(),
        );
        assert!(slot.set((*cache).clone()).is_ok());
        (0..100).for_each(|key| cache.insert(key, key));
        cache.invalidate(&0);
        assert_eq!(told.load(SeqCst), 100);
    });
}

#[test]
fn what_is_discarded_is_counted_and_nobody_waits() {
    for limit in [0, 1, LIMIT] {
        must_end(move || {
            let (cache, gate) =
                gated(|builder| builder.notification_limit(limit as usize, Overflow::Discard));
            std::thread::scope(|scope| {
                let opens = Opens(&gate);
                if limit > 0 {
                    get_stuck(scope, &cache, &gate);
                }
                for key in 1..1000 {
                    cache.insert(key, key);
                    cache.invalidate(&key);
                    assert!(cache.stats().pending_notifications <= limit);
                }
                let stats = cache.stats();
                assert_eq!(stats.discarded_notifications, 999 - limit);
                drop(opens);
            });
            cache.close();
            let stats = cache.stats();
            let told = gate.gone.load(SeqCst);
            assert_eq!(told + stats.discarded_notifications, removed(&stats));
            assert_eq!((told > 0, stats.pending_notifications), (limit > 0, 0));
        });
    }
}

#[test]
fn by_default_the_queue_grows_and_is_shown() {
    must_end(|| {
        let (cache, gate) = gated(|builder| builder);
        std::thread::scope(|scope| {
            let opens = Opens(&gate);
            get_stuck(scope, &cache, &gate);
            for key in 1..=5000 {
                cache.insert(key, key);
                cache.invalidate(&key);
                assert_eq!(cache.stats().pending_notifications, key);
            }
            drop(opens);
        });
        cache.run_pending_tasks();
        assert_eq!((cache.stats().pending_notifications, gate.gone.load(SeqCst)), (0, 5001));
    });
}

#[test]
fn close_waits_for_a_stuck_listener_and_returns_when_all_is_told() {
    must_end(|| {
        let (cache, gate) = gated(|builder| builder);
        std::thread::scope(|scope| {
            let opens = Opens(&gate);
            get_stuck(scope, &cache, &gate);
            (1..100).for_each(|key| cache.insert(key, key));
            let closer = scope.spawn(|| {
                cache.close();
                gate.gone.load(SeqCst)
            });
            eventually("it is closed", || cache.entries().count() == 0);
            always(|| !closer.is_finished());
            drop(opens);
            assert_eq!(closer.join().unwrap(), 100);
        });
    });
}

/// What the calling thread has used of the processors' time, in the system's ticks of 10 ms, and
/// how often it has gone to sleep.
#[cfg(target_os = "linux")]
fn used_by_this_thread() -> (u64, u64) {
    let read = |file| std::fs::read_to_string(format!("/proc/thread-self/{file}")).unwrap();
    let stat = read("stat");
    // After the name, which may contain anything, the first field is the third.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |field: usize| fields[field - 3].parse::<u64>().unwrap();
    let status = read("status");
    let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
    (ticks(14) + ticks(15), line.unwrap().trim().parse().unwrap())
}

/// Whoever waits for a stuck listener sleeps. While it does, this takes half a second; one that
/// spins uses tens of ticks, and one that polls sleeps hundreds of times.
#[cfg(target_os = "linux")]
#[test]
fn who_waits_for_a_stuck_listener_sleeps() {
    type Wait = fn(&Numbers);
    let close: Wait = |cache| cache.close();
    let announce: Wait = |cache| cache.run_pending_tasks();
    for (name, wait) in [("close", close), ("run_pending_tasks", announce)] {
        must_end(move || {
            let (cache, gate) = gated(|builder| builder);
            std::thread::scope(|scope| {
                let opens = Opens(&gate);
                get_stuck(scope, &cache, &gate);
                let (begun, beginning) = std::sync::mpsc::channel();
                let cache = &cache;
                let waiter = scope.spawn(move || {
                    begun.send(()).unwrap();
                    let before = used_by_this_thread();
                    wait(cache);
                    let after = used_by_this_thread();
                    (after.0 - before.0, after.1 - before.1)
                });
                beginning.recv().unwrap();
                std::thread::sleep(Duration::from_millis(500));
                drop(opens);
                let (ticks, sleeps) = waiter.join().unwrap();
                assert!(ticks <= 2 && sleeps <= 20, "{name}: {ticks} ticks, {sleeps} sleeps");
            });
        });
    }
}

/// A cache that discards what is too much for its queue discards nothing when it is closed, or
/// asked for all its maintenance, and its listener keeps up. Nor if all its entries are in one
/// bucket of the index.
#[test]
fn closing_discards_nothing_that_the_listener_has_time_for() {
    must_end(|| {
        // The call after `invalidate_all` takes out 64 entries.
        for (limit, closes) in [(64, false), (1, true), (100, true)] {
            discards_nothing(cortado::RandomState::default(), limit, closes);
            discards_nothing(Same, limit, closes);
        }
    });
}

fn discards_nothing<S: BuildHasher + Clone + Send + Sync + 'static>(
    hasher: S,
    limit: usize,
    closes: bool,
) {
    let told = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&told);
    let cache = audited(
        Cache::<u64, u64>::builder()
            .removal_listener(move |_| _ = count.fetch_add(1, SeqCst))
            .notification_limit(limit, Overflow::Discard)
            .record_stats(true)
            .build_with_hasher(hasher),
    );
    cache.insert_many((0..1000).map(|n| (n, n)));
    if closes {
        // Writes that no pass has applied yet included.
        cache.close();
    } else {
        cache.run_pending_tasks();
        cache.invalidate_all();
        cache.run_pending_tasks();
    }
    let discarded = cache.stats().discarded_notifications;
    assert_eq!((told.load(SeqCst), discarded), (1000, 0), "limit {limit}, closes: {closes}");
}

/// Nor if the maintenance has other work before it evicts, which lowers no weight: a cascade of the
/// wheel, or the expiration of entries that weigh nothing.
#[test]
fn a_lower_capacity_discards_nothing_that_the_listener_has_time_for() {
    const LEFT: u64 = 10;
    must_end(|| {
        for (limit, ttl, weightless) in [(1, 600, 0), (100, 600, 0), (100, 10_000, 1000)] {
            let told = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&told);
            let (clock, hand) = Clock::manual();
            let cache = audited(
                Cache::<u64, u64>::builder()
                    .max_capacity(10_000)
                    .weigher(move |&key, _| u32::from(key >= weightless))
                    .removal_listener(move |_| _ = count.fetch_add(1, SeqCst))
                    .notification_limit(limit, Overflow::Discard)
                    .clock(clock)
                    .record_stats(true)
                    .build(),
            );
            for key in 0..5000 {
                let ttl = if key < weightless { 1 } else { ttl };
                cache.insert_with_ttl(key, key, Duration::from_secs(ttl));
            }
            cache.run_pending_tasks();
            hand.advance(Duration::from_secs(590));
            // The passes of writes may have taken out more at once than may wait.
            let before = cache.stats().discarded_notifications;
            cache.set_max_capacity(LEFT);
            cache.run_pending_tasks();
            assert_eq!(cache.stats().discarded_notifications, before, "limit {limit}");
            assert_eq!(told.load(SeqCst) + before, 5000 - LEFT, "limit {limit}");
        }
    });
}

/// With room for one notification, a pass has one unit, and may use it up on an entry that it
/// cannot evict.
#[test]
fn maintenance_ends_beside_a_computation_whose_entry_is_to_be_evicted() {
    must_end(|| {
        let cache = audited(
            Cache::builder()
                .max_capacity(10)
                .removal_listener(|_| ())
                .notification_limit(1, Overflow::Discard)
                .build(),
        );
        (0..3).for_each(|key| cache.insert(key, key));
        cache.run_pending_tasks();
        let tasks = cache.future();
        let mut computation =
            Box::pin(tasks.entry(1).and_compute_with(|_| std::future::pending::<Op<u64>>()));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(computation.as_mut().poll(&mut context).is_pending());
        cache.set_max_capacity(0);
        cache.run_pending_tasks();
        // What is set aside is no victim. So a pass finds none, and goes on with the end.
        cache.close();
        drop(computation);
        cache.run_pending_tasks();
        assert_eq!(cache.entry_count(), 0);
    });
}
