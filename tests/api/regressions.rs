//! Defects that were found by reading the code, each with the program that showed it.

use crate::common::audited::{Audited, audited};
use crate::common::effort::is_sampled;
use cortado::{Cache, Clock, CompResult, Op, RemovalCause};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Runs `program` on a thread of its own, and fails if it hangs.
fn ends(program: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        program();
        let _ = done.send(());
    });
    match ended.recv_timeout(60 * SECOND) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Waits for `holds`, with maintenance: other tests of the process may hold a guard for a moment.
fn eventually<K, V>(cache: &Cache<K, V>, holds: impl Fn() -> bool)
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
{
    for _ in 0..10_000 {
        cache.run_pending_tasks();
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not in ten seconds");
}

/// A value that counts those alive.
struct Counted {
    number: u64,
    alive: Arc<AtomicI64>,
}

impl Counted {
    fn new(number: u64, alive: &Arc<AtomicI64>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self { number, alive: Arc::clone(alive) }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.number, &self.alive)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.alive.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "dropped twice");
    }
}

/// The maintenance must not wait for a load: the load may be waiting for the maintenance, or be its
/// own caller's.
#[test]
fn a_loader_may_fill_the_cache() {
    ends(|| {
        let cache: Audited<u64, u64> = audited(Cache::new(50));
        let loaded = cache.get_with(u64::MAX, || {
            (0..20_000).for_each(|n| cache.insert(n, n));
            cache.run_pending_tasks();
            7
        });
        assert_eq!(loaded, 7);
    });
}

/// A computation keeps its entry from being evicted; that is no work that the maintenance could do.
#[test]
fn maintenance_within_a_computation_ends() {
    ends(|| {
        let cache: Audited<u64, u64> = audited(Cache::new(1));
        cache.insert(0, 0);
        cache.run_pending_tasks();
        let result = cache.entry(0).and_compute_with(|entry| {
            assert!(entry.is_some());
            (1..100).for_each(|n| cache.insert(n, n));
            cache.run_pending_tasks();
            while !cache.run_pending_tasks_up_to(100).is_blocked_or_done() {}
            Op::Put(1)
        });
        assert!(matches!(result, CompResult::ReplacedWith(_)));
    });
}

trait BlockedOrDone {
    fn is_blocked_or_done(&self) -> bool;
}

impl BlockedOrDone for cortado::Pending {
    /// What a computation in progress may leave undone.
    fn is_blocked_or_done(&self) -> bool {
        !self.expirations && self.notifications == 0
    }
}

/// The generation of a node is a byte: clearing the cache 256 times must not bring anything back,
/// even if a computation keeps an entry in its place.
#[test]
fn nothing_comes_back_after_many_clearings_within_a_computation() {
    ends(|| {
        let cache: Audited<u64, u64> = audited(Cache::new(1000));
        (0..500).for_each(|n| cache.insert(n, n));
        cache.run_pending_tasks();
        cache.entry(250).and_compute_with(|_| {
            for clearing in 0..600 {
                cache.invalidate_all();
                assert_eq!(cache.entries().count(), 0, "after {clearing} clearings");
            }
            Op::Nop
        });
        cache.audit();
        assert_eq!(cache.entry_count(), 0);
    });
}

/// A write is applied within a moment, also when only reads come after it.
#[test]
fn reads_see_to_the_last_write() {
    let (clock, hand) = Clock::manual();
    let (sender, receiver) = mpsc::channel();
    let cache: Audited<u64, u64> = audited(
        Cache::builder()
            .clock(clock)
            .removal_listener(move |removed| sender.send(removed.cause()).unwrap())
            .build(),
    );
    cache.insert_with_ttl(1, 1, SECOND);
    for _ in 0..20 {
        hand.advance(SECOND);
        assert_eq!(cache.get(&2), None);
    }
    assert_eq!(receiver.try_recv(), Ok(RemovalCause::Expired));
}

/// What a listener's own maintenance takes out is dropped before the outer call returns.
#[test]
fn maintenance_within_a_listener_leaves_nothing_undropped() {
    let alive = Arc::new(AtomicI64::new(0));
    let slot: Arc<Mutex<Option<Cache<u64, Counted>>>> = Arc::default();
    let inner = Arc::clone(&slot);
    let cache: Audited<u64, Counted> = audited(
        Cache::builder()
            .removal_listener(move |removed| {
                if *removed.key() == 1 {
                    drop(removed);
                    let cache = inner.lock().unwrap().clone().unwrap();
                    while cache.run_pending_tasks_up_to(1000).reclamations > 0 {
                        cortado::internals::epoch::pin().flush();
                        std::thread::yield_now();
                    }
                }
            })
            .build(),
    );
    *slot.lock().unwrap() = Some(cache.clone());
    cache.insert(0, Counted::new(0, &alive));
    cache.insert(1, Counted::new(1, &alive));
    cache.run_pending_tasks();
    cache.invalidate_all();
    assert_eq!(alive.load(Ordering::Relaxed), 0);
    slot.lock().unwrap().take();
}

/// Another user of crossbeam-epoch has deferred functions that panic. No operation of a cache runs
/// them: one that unwound between the commit of a write and its event would leave an entry of which
/// the maintenance never hears.
#[test]
fn functions_that_others_have_deferred_do_not_run_on_a_caches_threads() {
    ends(|| {
        let cache: Audited<u64, u64> = audited(Cache::new(50));
        let ran = Arc::new(AtomicUsize::new(0));
        for n in 0..2_000 {
            if n % 10 == 0 {
                let runs = Arc::clone(&ran);
                // By another thread: this one would run its own when it pins there.
                let deferring = std::thread::spawn(move || {
                    let guard = crossbeam_epoch::pin();
                    guard.defer(move || {
                        runs.fetch_add(1, Ordering::Relaxed);
                        panic!("of somebody else");
                    });
                    guard.flush();
                });
                // Threads that end may collect.
                let _ = deferring.join();
                ran.store(0, Ordering::Relaxed);
            }
            cache.insert(n, n);
            if n % 16 == 0 {
                cache.remove(&n);
                cache.run_pending_tasks();
            }
            assert_eq!(ran.load(Ordering::Relaxed), 0);
        }
    });
}

/// What a listener throws stays in its place, whatever happens when that is dropped.
fn throws<T: Send + 'static>(payload: fn() -> T) {
    let heard = Arc::new(AtomicUsize::new(0));
    let hears = Arc::clone(&heard);
    let cache: Audited<u64, u64> = audited(
        Cache::builder()
            .record_stats(true)
            .removal_listener(move |_| {
                hears.fetch_add(1, Ordering::Relaxed);
                std::panic::panic_any(payload());
            })
            .build(),
    );
    (0..10).for_each(|n| cache.insert(n, n));
    cache.retain(|_, _| false);
    cache.run_pending_tasks();
    assert_eq!(heard.load(Ordering::Relaxed), 10);
    assert_eq!(cache.stats().listener_panics, 10);
}

/// A payload whose destructor panics.
#[test]
fn a_listener_may_throw_a_bomb() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the payload");
        }
    }
    throws(|| Bomb);
}

/// A payload whose destructor throws another of its kind. There is nothing in it that could leak.
#[test]
fn a_listener_may_throw_bombs_without_end() {
    struct Bombs;
    impl Drop for Bombs {
        fn drop(&mut self) {
            std::panic::panic_any(Bombs);
        }
    }
    throws(|| Bombs);
}

/// A clock that panics when it is told to.
#[derive(Clone, Default)]
struct Trap {
    /// Readings until it snaps; none if not positive.
    readings: Arc<AtomicI64>,
}

impl Trap {
    fn clock(&self) -> Clock {
        let trap = self.clone();
        Clock::custom(move || {
            if trap.readings.fetch_sub(1, Ordering::Relaxed) == 1 {
                panic!("the clock");
            }
            SECOND
        })
    }

    /// Lets the clock panic at its reading number `at` while `run` runs.
    fn snaps(&self, at: i64, run: impl FnOnce()) {
        self.readings.store(at, Ordering::Relaxed);
        let _ = catch_unwind(AssertUnwindSafe(run));
        self.readings.store(0, Ordering::Relaxed);
    }
}

/// Wherever the clock panics in an operation: no value is dropped twice or lost, and all that is
/// counted adds up.
#[test]
fn a_panicking_clock_breaks_nothing() {
    type Operation = fn(&Cache<u64, Counted>, &Arc<AtomicI64>, u64);
    let operations: &[(&str, Operation)] = &[
        ("insert", |cache, alive, n| cache.insert(n, Counted::new(n, alive))),
        ("insert_with_ttl", |cache, alive, n| {
            cache.insert_with_ttl(n, Counted::new(n, alive), SECOND);
        }),
        ("remove", |cache, _, n| drop(cache.remove(&n))),
        ("get", |cache, _, n| drop(cache.get(&n))),
        ("get_entry", |cache, _, n| drop(cache.get_entry(&n))),
        ("get_with", |cache, alive, n| drop(cache.get_with(n, || Counted::new(n, alive)))),
        ("put", |cache, alive, n| {
            cache.entry(n).and_compute_with(|_| Op::Put(Counted::new(n, alive)));
        }),
        ("take", |cache, _, n| drop(cache.entry(n).and_compute_with(|_| Op::Remove))),
        ("set_ttl", |cache, _, n| _ = cache.set_ttl(&n, SECOND)),
        ("end", |cache, _, n| _ = cache.set_ttl(&n, Duration::ZERO)),
        ("touch", |cache, _, n| _ = cache.touch(&n)),
        ("retain", |cache, _, n| cache.retain(|&key, _| key != n)),
        ("invalidate_all", |cache, _, _| cache.invalidate_all()),
        ("iter", |cache, _, _| _ = cache.entries().count()),
        ("run_pending_tasks", |cache, _, _| cache.run_pending_tasks()),
    ];
    for idle in [false, true] {
        for &(name, operation) in operations {
            for at in (1..8).filter(|at| *at == 1 || is_sampled((name, at, idle))) {
                let (trap, alive) = (Trap::default(), Arc::new(AtomicI64::new(0)));
                let mut builder = Cache::builder().max_capacity(20).clock(trap.clock());
                if idle {
                    builder = builder.time_to_idle(10 * SECOND);
                }
                let cache: Audited<u64, Counted> = audited(builder.build());
                for n in 0..300 {
                    let key = n % 40;
                    trap.snaps(at, || operation(&cache, &alive, key));
                    cache.insert((n + 7) % 40, Counted::new(n, &alive));
                    // Memory that was freed too early is used again here.
                    cache.insert((n + 9) % 40, Counted::new(n, &alive));
                    if let Some(value) = cache.get(&key) {
                        assert!(value.number < 300);
                    }
                }
                cache.audit();
                let entries = cache.entry_count() as i64;
                eventually(&cache, || alive.load(Ordering::Relaxed) == entries);
                drop(cache);
                assert_eq!(alive.load(Ordering::Relaxed), 0, "{name} at {at}");
            }
        }
    }
}
