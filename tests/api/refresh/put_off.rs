//! Reloads that an operation leaves to later ones: none is lost, and a chain of them is bounded.

use super::bench::SOFT;
use super::inline::counting;
use crate::common::audited::{LoadingAudited, audited, loading_audited};
use crate::common::{must_end, panic_of, watched};
use cortado::{Cache, Clock, Job, LoadLimits, Loaded, LoadingCache};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

type Pages = LoadingAudited<u32, u32, ()>;

/// A cache whose loader reads another key first.
fn reading(
    next: fn(u32) -> u32,
    clock: Clock,
    loads: impl Fn() + Send + Sync + 'static,
) -> Arc<Pages> {
    let itself = Arc::new(OnceLock::<Weak<Pages>>::new());
    let of_loader = Arc::clone(&itself);
    let builder =
        Cache::builder().refresh_after_write(SOFT).executor(|job: cortado::Job| job()).clock(clock);
    let cache = Arc::new(loading_audited(builder.build_with_loader(move |key: u32| {
        loads();
        if let Some(cache) = of_loader.get().and_then(Weak::upgrade) {
            cache.cache().get(&next(key));
        }
        Ok::<_, ()>(Loaded::new(key))
    })));
    itself.set(Arc::downgrade(&cache)).unwrap();
    cache
}

/// Each loader reads the next stale key.
#[test]
fn a_chain_does_not_grow_the_stack_and_ends_at_the_limit() {
    let (clock, hand) = Clock::manual();
    let cache = reading(|key| key + 1, clock, || ());
    cache.cache().insert_many((0..50_000).map(|key| (key, 0)));
    hand.advance(SOFT);
    cache.get(&0).unwrap();
    // As many as may be under way at once.
    assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (64, 1));
    // The rest goes on by later reads.
    cache.get(&65).unwrap();
    assert_eq!((cache.stats().reloads, cache.stats().reloads_under_way), (128, 1));
}

/// They read each other's keys, and take so long that the other value is stale again.
#[test]
fn two_slow_loaders_end() {
    let (clock, hand) = Clock::manual();
    let advances = hand.clone();
    let cache = reading(|key| 1 - key, clock, move || advances.advance(SOFT));
    cache.cache().insert_many([(0, 7), (1, 7)]);
    hand.advance(SOFT);
    assert_eq!(cache.get(&0), Ok(0));
    assert!(cache.stats().reloads < 100);
}

/// Its clones read a stale key, under the guard of another read.
struct Reads(LoadingCache<u32, u32, ()>);

impl Clone for Reads {
    fn clone(&self) -> Self {
        self.0.cache().get(&1);
        Self(self.0.clone())
    }
}

#[test]
fn what_a_thread_has_put_off_does_not_end_with_it() {
    let (clock, hand) = Clock::manual();
    let pages = counting(clock, 64);
    pages.get(&1).unwrap();
    hand.advance(SOFT);
    let plain = audited(Cache::new(10));
    plain.insert(1, Reads((*pages).clone()));
    plain.run_pending_tasks();
    thread::scope(|scope| scope.spawn(|| drop(plain.get(&1))).join().unwrap());
    assert_eq!(pages.stats().reloads_under_way, 1);
    assert_eq!(pages.get(&1), Ok(1));
}

#[test]
fn a_wait_does_what_its_thread_has_put_off() {
    watched(|watch| {
        watch.begin("a wait for a reload of its own".to_owned());
        let (clock, hand) = Clock::manual();
        let pages = counting(clock, 64);
        pages.get(&1).unwrap();
        hand.advance(SOFT);
        let plain = audited(Cache::new(10));
        plain.insert(1, Reads((*pages).clone()));
        plain.run_pending_tasks();
        drop(plain.get(&1));
        let limits = LoadLimits { soft: crate::common::HANG, hard: crate::common::HANG };
        assert_eq!(pages.get_within(&1, limits), Ok(1));
    });
}

static CLONES_PANIC: AtomicBool = AtomicBool::new(false);

/// Its clones panic while the test says so.
struct Fragile(u32);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(!CLONES_PANIC.load(SeqCst), "the clone");
        Self(self.0)
    }
}

/// A read triggers the reload before it clones the value. If the clone panics, the next read of a
/// stale value hands the reload on, which has the only place.
#[test]
fn a_read_that_panics_keeps_no_reload_away() {
    watched(|watch| {
        for read in 1..3 {
            watch.begin(format!("{read}"));
            let (clock, hand) = Clock::manual();
            let builder = Cache::builder().refresh_after_write(SOFT).refresh_limit(1).clock(clock);
            let builder = builder.executor(|job: Job| job());
            let cache = loading_audited(
                builder.build_with_loader(|key: u32| Ok::<_, ()>(Loaded::new(Fragile(10 * key)))),
            );
            (1..3).for_each(|key| cache.insert(key, Fragile(key)));
            hand.advance(SOFT);
            CLONES_PANIC.store(true, SeqCst);
            assert_eq!(panic_of(|| cache.get(&1)), "the clone");
            CLONES_PANIC.store(false, SeqCst);
            assert_eq!(cache.stats().reloads_under_way, 1);
            (0..2).for_each(|_| _ = cache.get(&read).unwrap());
            assert_eq!(cache.get(&read).unwrap().0, 10 * read);
            assert_eq!(cache.stats().reloads_under_way, 0);
        }
    });
}

/// What a test's clock says; at its reading of this number it panics.
#[derive(Default)]
struct Fatal {
    seconds: AtomicU64,
    readings: AtomicU64,
    at: AtomicU64,
}

/// Whether the clock panicked when it was read for the `nth` time in a stale read.
fn panics_amid(read: fn(&Pages), nth: u64) -> bool {
    let fatal = Arc::new(Fatal { at: AtomicU64::new(u64::MAX), ..Fatal::default() });
    let by_clock = Arc::clone(&fatal);
    let clock = Clock::custom(move || {
        let reading = by_clock.readings.fetch_add(1, SeqCst);
        assert_ne!(reading, by_clock.at.load(SeqCst), "the clock");
        Duration::from_secs(by_clock.seconds.load(SeqCst))
    });
    let (jobs, queue) = channel::<Job>();
    let builder = Cache::builder().refresh_after_write(SOFT).refresh_limit(1).clock(clock);
    let cache = loading_audited(
        builder
            .executor(move |job: Job| drop(jobs.send(job)))
            .build_with_loader(|_: u32| Ok::<_, ()>(Loaded::new(2))),
    );
    cache.insert(1, 1);
    fatal.seconds.store(60, SeqCst);
    fatal.at.store(fatal.readings.load(SeqCst) + nth, SeqCst);
    let panics = catch_unwind(AssertUnwindSafe(|| read(&cache))).is_err();
    fatal.at.store(u64::MAX, SeqCst);
    cache.run_pending_tasks();
    queue.try_iter().for_each(|job| job());
    assert_eq!(cache.stats().reloads_under_way, 0);
    panics
}

#[test]
fn a_clock_that_panics_amid_a_read_keeps_no_reload_away() {
    const READS: [fn(&Pages); 7] = [
        |cache| drop(cache.get(&1)),
        |cache| drop(cache.get_entry(&1)),
        |cache| drop(cache.cache().get_entry(&1)),
        |cache| _ = cache.cache().get_with(1, || unreachable!("it is there")),
        |cache| drop(cache.cache().entry(1).or_insert(0)),
        |cache| assert!(cache.cache().pin().get(&1).is_some()),
        |cache| assert!(cache.cache().touch(&1)),
    ];
    watched(|watch| {
        for (case, read) in READS.iter().enumerate() {
            watch.begin(format!("{case}"));
            let panics = (0..20).take_while(|&nth| panics_amid(*read, nth)).count();
            assert!((2..20).contains(&panics), "it panics at {panics} readings");
        }
    });
}

/// A view has left the reload, and no other operation came since.
#[test]
fn a_call_that_waits_hands_on_what_a_view_has_left() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let pages = counting(clock, 64);
        pages.get(&1).unwrap();
        hand.advance(SOFT);
        let view = pages.cache().pin();
        assert!(view.get(&1).is_some());
        drop(view);
        assert_eq!(pages.stats().reloads, 0);
        assert!(pages.reload(&1).is_ok());
        assert_eq!(pages.stats().reloads, 1);
    });
}
