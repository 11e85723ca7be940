//! Every key and every value is dropped once, and by the time the cache is gone all of them are.
//!
//! `CORTADO_DROP_OPS` sets the number of operations per thread.

use crate::common::audited::{audited, loading_audited, tasks_audited};
use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use crate::common::{must_end, panic_of};
use cortado::{Cache, Clock, Loaded, ManualClock, Op, Removed, future};
use std::cell::Cell;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

const THREADS: u64 = 3;
const KEYS: u64 = 100;

fn operations() -> u64 {
    scale("CORTADO_DROP_OPS", 60_000)
}

/// Has all that died given up, however long the readers of other tests hold it back.
fn reclaim<K: Hash + Eq, V>(cache: &Cache<K, V>) {
    while cache.run_pending_tasks_up_to(64).reclamations > 0 {
        std::thread::yield_now();
    }
}

/// How often each thing was dropped.
struct Register {
    drops: Box<[AtomicU8]>,
    made: AtomicUsize,
}

impl Register {
    fn new() -> Arc<Self> {
        // A key and two values an operation at most.
        let most = 3 * (THREADS * operations()) as usize + 1000;
        Arc::new(Self {
            drops: (0..most).map(|_| AtomicU8::new(0)).collect(),
            made: AtomicUsize::new(0),
        })
    }

    fn token(self: &Arc<Self>) -> Token {
        Token { number: self.made.fetch_add(1, SeqCst), register: Arc::clone(self) }
    }

    fn key(self: &Arc<Self>, name: u64) -> Key {
        Key { name, _token: self.token() }
    }

    /// How many things of those made have not been dropped.
    fn left(&self) -> usize {
        let made = self.made.load(SeqCst);
        self.drops[..made].iter().filter(|drops| drops.load(SeqCst) == 0).count()
    }
}

struct Token {
    number: usize,
    register: Arc<Register>,
}

impl Drop for Token {
    fn drop(&mut self) {
        let before = self.register.drops[self.number].fetch_add(1, SeqCst);
        assert_eq!(before, 0, "dropped twice");
    }
}

struct Key {
    name: u64,
    _token: Token,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

#[derive(Hash)]
struct By(u64);

impl cortado::Equivalent<Key> for By {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.name
    }
}

type Subject = Cache<Key, Token>;

fn step(cache: &Subject, hand: &ManualClock, register: &Arc<Register>, random: u64) {
    let name = (random >> 8) % KEYS;
    let (key, token) = (|| register.key(name), || register.token());
    let life = Duration::from_millis((random >> 40) % 20);
    match random % 32 {
        0..8 => cache.insert(key(), token()),
        8..12 => cache.insert_with_ttl(key(), token(), life),
        12..15 => cache.invalidate(&By(name)),
        15 => drop(cache.remove_entry(&By(name))),
        16..20 => drop(cache.entry(key()).and_compute_with(|_| Op::Put(token()))),
        20 => drop(cache.entry(key()).and_compute_with(|_| Op::Remove)),
        21 => drop(cache.entry(key()).and_compute_with(|_| Op::Nop)),
        22..26 => drop(cache.entry(key()).or_insert_with(token)),
        26 => drop(cache.set_ttl(&By(name), life)),
        27 => drop(cache.get_entry(&By(name))),
        28 => hand.advance(Duration::from_millis(1)),
        29 => drop(cache.pin().get(&By(name)).map(|token| token.number)),
        30 => cache.retain(|key, _| key.name % 8 != random >> 56 & 7),
        _ if random >> 32 & 0xff == 0 => cache.invalidate_all(),
        _ => drop(cache.entries().take(3).count()),
    }
}

/// Runs threads on a cache and drops it; returns the number of things that are left right after.
fn left_after(bounded: bool, listens: bool, scheduled: bool) -> (Arc<Register>, usize) {
    let (clock, hand) = Clock::manual();
    let mut builder = Cache::builder()
        .clock(clock)
        .record_stats(true)
        .scheduler(scheduled)
        .expiry_resolution(Duration::from_millis(1));
    if bounded {
        builder = builder.max_capacity(KEYS / 3).time_to_idle(Duration::from_millis(30));
    }
    let kept = Arc::new(Mutex::new(Vec::new()));
    if listens {
        let keep = Arc::clone(&kept);
        builder = builder.removal_listener(move |removed: Removed<Key, Token>| {
            // Some are kept for a while.
            let mut kept = keep.lock().unwrap();
            if kept.len() < 50 {
                kept.push(removed);
            } else if removed.key().name.is_multiple_of(10) {
                kept.clear();
            }
        });
    }
    let cache = audited(builder.build());
    let register = Register::new();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (cache, hand, register) = (&cache, &hand, &register);
            scope.spawn(move || {
                let mut state = seed(thread);
                for _ in 0..operations() {
                    step(cache, hand, register, draw(&mut state));
                }
            });
        }
    });
    cache.audit();
    counted(cache.stats().insertions, "inserts");
    drop(cache);
    kept.lock().unwrap().clear();
    let left = register.left();
    (register, left)
}

#[test]
fn what_a_view_holds_back_has_its_weight() {
    let cache = audited(Cache::builder().weigher(|key, _| *key).build());
    (1..=100).for_each(|key| cache.insert(key, 0));
    let view = cache.pin();
    for key in 1..=100 {
        if key % 2 == 0 { cache.invalidate(&key) } else { cache.insert(key, 1) }
    }
    cache.run_pending_tasks();
    let stats = cache.stats();
    assert_eq!((stats.pending_drops, stats.pending_drop_weight), (100, 5_050));
    drop(view);
    reclaim(&cache);
    cache.run_pending_tasks();
    let stats = cache.stats();
    assert_eq!((stats.pending_drops, stats.pending_drop_weight), (0, 0));
}

#[test]
fn when_the_last_handle_is_gone_so_is_everything() {
    for (bounded, listens) in [(false, false), (true, false), (true, true)] {
        let (register, left) = left_after(bounded, listens, false);
        let made = register.made.load(SeqCst);
        assert!(made as u64 > operations() && left == 0, "{left} of {made} were not dropped");
    }
}

/// The scheduler's thread may be at it a little longer.
#[test]
fn with_a_scheduler_too() {
    let (register, _) = left_after(true, true, true);
    let begun = Instant::now();
    while register.left() > 0 {
        assert!(begun.elapsed() < crate::common::HANG, "{} were not dropped", register.left());
        std::thread::yield_now();
    }
}

/// Removals that nobody received are dropped with the cache, and so is everything else: also if a
/// destructor panics.
#[test]
fn a_receiver_that_nobody_took_leaks_nothing() {
    struct Fragile(bool, Arc<AtomicUsize>);
    impl Drop for Fragile {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
            assert!(!self.0, "planned");
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let cache = audited(Cache::builder().removals(true).build());
    for key in 0..3 {
        cache.insert(key, Fragile(key == 0, Arc::clone(&drops)));
    }
    (0..2).for_each(|key| cache.invalidate(&key));
    cache.run_pending_tasks();
    drop(cache);
    assert_eq!(drops.load(SeqCst), 3);
}

/// The same for those that a listener that awaits was not told.
#[test]
fn removals_that_were_not_told_leak_nothing() {
    struct Fragile(bool, Arc<AtomicUsize>);
    impl Clone for Fragile {
        fn clone(&self) -> Self {
            Self(false, Arc::clone(&self.1))
        }
    }
    impl Drop for Fragile {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
            assert!(!self.0, "planned");
        }
    }
    let drops = Arc::new(AtomicUsize::new(0));
    let builder = cortado::future::Cache::builder();
    let cache =
        tasks_audited(builder.async_eviction_listener(|_, _, _| Box::pin(async {})).build());
    for key in 0..3 {
        cache.sync().insert(key, Fragile(key == 0, Arc::clone(&drops)));
    }
    (0..2).for_each(|key| cache.sync().invalidate(&key));
    drop(cache);
    assert_eq!(drops.load(SeqCst), 3);
}

/// The old value panics in its destructor, which runs as a read returns the new one: nobody else
/// has a count on it, since the listener has released it.
#[test]
fn a_value_that_a_panic_keeps_from_its_reader_is_dropped_at_most_once() {
    struct Counted(u32, Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
            assert!(self.0 > 0, "the old value");
        }
    }
    let (clock, hand) = Clock::manual();
    let (made, dropped) = (AtomicU32::new(0), Arc::new(AtomicUsize::new(0)));
    let itself: Arc<Mutex<Option<Cache<u32, Counted>>>> = Arc::default();
    let (of_listener, counts) = (Arc::clone(&itself), Arc::clone(&dropped));
    let builder = Cache::builder()
        .refresh_after_write(Duration::from_secs(1))
        .executor(|job: cortado::Job| job());
    let builder = builder.clock(clock).removal_listener(move |removed: Removed<u32, Counted>| {
        drop(removed);
        reclaim(&of_listener.lock().unwrap().clone().unwrap());
    });
    let cache = loading_audited(builder.build_with_loader(move |_: u32| {
        Ok::<_, ()>(Loaded::new(Counted(made.fetch_add(1, SeqCst), Arc::clone(&counts))))
    }));
    *itself.lock().unwrap() = Some(cache.cache().clone());
    drop(cache.get_entry(&1).unwrap());
    hand.advance(Duration::from_secs(1));
    assert_eq!(panic_of(|| cache.get_entry(&1).is_ok()), "the old value");
    cache.cache().invalidate(&1);
    reclaim(cache.cache());
    assert_eq!(cache.cache().entry_count(), 0);
    assert!((1..=2).contains(&dropped.load(SeqCst)));
    assert_eq!(cache.get_entry(&1).unwrap().0, 2);
    drop(itself.lock().unwrap().take());
}

/// The same for what a task has loaded, if the destructor of its future panics.
#[test]
fn what_a_future_has_made_does_not_leak_if_its_destructor_panics() {
    struct Made(Arc<AtomicUsize>);
    impl Drop for Made {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    struct Makes(Arc<AtomicUsize>);
    impl Future for Makes {
        type Output = Made;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Made> {
            Poll::Ready(Made(Arc::clone(&self.0)))
        }
    }
    impl Drop for Makes {
        fn drop(&mut self) {
            panic!("the future");
        }
    }
    must_end(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let cache = tasks_audited(future::Cache::<u32, Made>::new(10));
        let load = cache.entry(1).or_insert_with(Makes(Arc::clone(&dropped)));
        assert_eq!(panic_of(|| pollster::block_on(load)), "the future");
        cache.sync().invalidate(&1);
        reclaim(cache.sync());
        assert_eq!((cache.sync().entry_count(), dropped.load(SeqCst)), (0, 1));
    });
}

/// A value of which somebody keeps count. One whose destructor is to panic does so once.
struct Counted(u32, Arc<AtomicUsize>);

impl Counted {
    const PANICS: u32 = 666;

    fn new(number: u32, alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, SeqCst);
        Self(number, Arc::clone(alive))
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(self.0, &self.1)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, SeqCst);
        assert!(self.0 != Self::PANICS, "planned");
    }
}

/// A write has stored another value meanwhile. The load drops its own one, and returns that.
#[test]
fn a_value_that_a_load_finds_does_not_leak_if_its_own_one_panics() {
    must_end(|| {
        let alive = Arc::new(AtomicUsize::new(0));
        let cache = audited(Cache::<u32, Counted>::new(10));
        let load = || {
            cache.insert(1, Counted::new(1, &alive));
            Counted::new(Counted::PANICS, &alive)
        };
        assert_eq!(panic_of(|| drop(cache.get_with(1, load))), "planned");
        drop(cache);
        assert_eq!(alive.load(SeqCst), 0);
    });
}

/// The clones of a key of which a stored loader makes use, dropped one after the other.
#[test]
fn an_entry_that_a_loader_has_made_is_dropped_at_most_once_if_a_key_panics() {
    thread_local! {
        /// How many clones are dropped before one panics.
        static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
    }
    #[derive(PartialEq, Eq, Hash)]
    struct Name(bool);
    impl Clone for Name {
        fn clone(&self) -> Self {
            Self(true)
        }
    }
    impl Drop for Name {
        fn drop(&mut self) {
            let left = LEFT.get().filter(|_| self.0 && !std::thread::panicking());
            LEFT.set(left.map_or(LEFT.get(), |left| left.checked_sub(1)));
            assert_ne!(left, Some(0), "planned");
        }
    }
    must_end(|| {
        let alive = Arc::new(AtomicUsize::new(0));
        let made = Arc::clone(&alive);
        let load = move |_: Name| Ok::<_, ()>(Loaded::new(Counted::new(5, &made)));
        for drops in 0..3 {
            let cache = loading_audited(Cache::builder().build_with_loader(load.clone()));
            LEFT.set(Some(drops));
            let got = catch_unwind(AssertUnwindSafe(|| cache.get_entry(&Name(false)).map(drop)));
            LEFT.set(None);
            assert!(cache.get_entry(&Name(false)).is_ok());
            let most = usize::from(got.is_err());
            drop((got, cache));
            assert!(alive.swap(0, SeqCst) <= most, "clone {drops}");
        }
    });
}
