//! Stale on error: the old value stays until its hard deadline, and reloads are tried again.

use super::bench::{Bench, HARD, Jobs, SOFT, bench};
use crate::common::SECOND;
use crate::common::audited::loading_audited;
use cortado::{Cache, Clock, Job, Loaded, Op, Reloaded, RemovalCause};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Error and number of the last failure of the key 7.
fn failure(b: &Bench) -> Option<(Option<&'static str>, u32)> {
    let failure = b.cache.last_failure(&7)?;
    Some((failure.error.as_deref().copied(), failure.in_a_row))
}

#[test]
fn the_old_value_stays_until_its_hard_deadline() {
    let b = bench(|builder| builder.refresh_retry(20 * SECOND));
    b.trigger();
    assert_eq!(failure(&b), None);
    for (n, error) in ["first", "second", "third", "panic"].into_iter().enumerate() {
        b.plan(Err(error));
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 1));
        b.jobs.run();
        let expected = (error != "panic").then_some(error);
        assert_eq!(failure(&b), Some((expected, n as u32 + 1)));
        // Read as if it were not stale, until the delay is over.
        b.advance(19);
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 0));
        b.advance(1);
    }
    let stats = b.cache.stats();
    assert_eq!((stats.reloads, stats.reload_failures, stats.load_failures), (0, 4, 4));
    assert_eq!(b.cache.cache().expires_in(&7).due(), Some(HARD - SOFT - 80 * SECOND));
    b.advance(9);
    assert_eq!(b.cache.get(&7), Ok(1));
    b.jobs.drop_all();
    b.advance(1);
    assert_eq!(failure(&b), None);
    assert_eq!(b.told(), [(7, 1, RemovalCause::Expired)]);
    assert_eq!(b.cache.get(&7), Ok(2));
}

#[test]
fn a_success_forgets_the_failures() {
    for brought in [Reloaded::new(2), Reloaded::not_modified()] {
        let b = bench(|builder| builder);
        b.trigger();
        b.plan(Err("down"));
        b.jobs.run();
        assert_eq!(failure(&b), Some((Some("down"), 1)));
        b.advance(1);
        assert!(b.cache.get(&7).is_ok());
        b.plan(Ok(brought));
        b.jobs.run();
        assert_eq!(failure(&b), None);
        assert_eq!((b.cache.stats().reloads, b.cache.stats().reload_failures), (1, 1));
    }
}

/// Also while the records of entries that have left are thrown away.
#[test]
fn failures_of_entries_that_stay_are_kept() {
    let b = bench(|builder| builder.refresh_retry(SECOND));
    let keys = 0..200;
    for key in keys.clone() {
        assert!(b.cache.get(&key).is_ok());
    }
    b.advance(SOFT.as_secs());
    for times in 1..=2 {
        for key in keys.clone() {
            b.plan(Err("down"));
            assert!(b.cache.get(&key).is_ok());
            b.jobs.run();
        }
        let failed = |key: u32| b.cache.last_failure(&key).map(|failure| failure.in_a_row);
        for key in keys.clone() {
            assert_eq!(failed(key), Some(times), "of {key}");
        }
        b.advance(1);
    }
}

#[test]
fn a_write_forgets_the_failures() {
    let b = bench(|builder| builder);
    b.trigger();
    b.plan(Err("down"));
    b.jobs.run();
    b.cache.insert(7, 50);
    assert_eq!(failure(&b), None);
    b.cache.invalidate(&7);
    assert_eq!(failure(&b), None);
}

#[test]
fn inline_failures_and_panics_reach_no_reader() {
    for error in ["down", "panic"] {
        let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
        assert_eq!(b.cache.get(&7), Ok(1));
        b.advance(SOFT.as_secs());
        b.plan(Err(error));
        assert_eq!(b.cache.get(&7), Ok(1));
        assert_eq!((b.cache.get(&7), b.cache.stats().reload_failures), (Ok(1), 1));
        b.advance(1);
        assert_eq!(b.cache.get(&7), Ok(2));
    }
}

/// A panic of a hook about the new value is a failure, too.
#[test]
fn a_panic_of_the_weigher_or_of_a_policy_is_a_failure() {
    fn fatal(value: u32) {
        assert!(value != 66, "planned");
    }
    let b = bench(|builder| {
        builder.weigher(|_, value| {
            fatal(*value);
            1
        })
    });
    let c = bench(|builder| {
        builder.refresh_after(|_, value, _| {
            fatal(*value);
            Some(SOFT)
        })
    });
    for b in [b, c] {
        b.trigger();
        b.plan(Ok(Reloaded::new(66)));
        b.jobs.run();
        assert_eq!(failure(&b), Some((None, 1)));
        b.advance(1);
        assert_eq!(b.cache.get(&7), Ok(1));
        b.jobs.run();
        assert_eq!(b.cache.get(&7), Ok(2));
    }
}

/// A reload that a call asked for says nothing about when the entry is stale.
#[test]
fn a_failed_refresh_pulls_no_reload_forward() {
    for stale_after in [None, Some(SOFT)] {
        for outcome in ["down", "dropped", "overtaken"] {
            let b = bench(|builder| {
                builder.refresh_retry(Duration::ZERO).refresh_after(move |_, _, _| stale_after)
            });
            assert_eq!(b.cache.get(&7), Ok(1));
            assert!(b.cache.refresh(&7));
            match outcome {
                "down" => b.plan(Err("down")),
                "dropped" => b.jobs.drop_all(),
                _ => {
                    // A computation that leaves the entry alone overtakes the reload.
                    let cache = b.cache.cache().clone();
                    let compute = move || drop(cache.entry(7).and_compute_with(|_| Op::Nop));
                    *b.upstream.1.lock().unwrap() =
                        Some(Box::new(move || thread::spawn(compute).join().unwrap()));
                }
            }
            b.jobs.run();
            b.advance(9);
            assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 0), "{outcome}");
            b.advance(1);
            let reloads = u64::from(stale_after.is_some());
            assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), reloads), "{outcome}");
            b.jobs.drop_all();
        }
    }
}

/// A job that the executor drops sets the trigger again, even if the clock fails at that moment.
#[test]
fn a_clock_that_panics_keeps_no_trigger() {
    let (seconds, fails) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let (reading, broken) = (Arc::clone(&seconds), Arc::clone(&fails));
    let clock = Clock::custom(move || {
        assert!(!broken.load(SeqCst), "the clock is broken");
        Duration::from_secs(reading.load(SeqCst))
    });
    let jobs = Arc::<Mutex<Vec<Job>>>::default();
    let queue = Arc::clone(&jobs);
    let cache = loading_audited(
        Cache::<u32, u32>::builder()
            .clock(clock)
            .time_to_live(Duration::from_secs(1000))
            .refresh_after_write(Duration::from_secs(50))
            .executor(move |job: Job| queue.lock().unwrap().push(job))
            .build_with_loader(|_: u32| Ok::<_, ()>(Loaded::new(2))),
    );
    cache.insert(7, 1);
    seconds.store(60, SeqCst);
    assert_eq!(cache.get(&7), Ok(1));
    let job = jobs.lock().unwrap().pop().expect("a reload");
    fails.store(true, SeqCst);
    drop(job);
    fails.store(false, SeqCst);
    assert_eq!(cache.get(&7), Ok(1));
    let job = jobs.lock().unwrap().pop().expect("another reload");
    job();
    assert_eq!((cache.get(&7), cache.stats().reloads_under_way), (Ok(2), 0));
}

/// The reader of a later reload has nothing to do with it.
#[test]
fn the_destructor_of_an_earlier_error_may_panic() {
    #[derive(Debug)]
    struct Fragile(Arc<AtomicU64>);
    impl Drop for Fragile {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
            if self.0.load(SeqCst) < 3 {
                panic!("planned");
            }
        }
    }
    let drops = Arc::new(AtomicU64::new(0));
    let (dropped, asked) = (Arc::clone(&drops), AtomicU64::new(0));
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().refresh_after_write(SOFT).refresh_retry(SECOND).clock(clock);
    let load = move |_: u32| match asked.fetch_add(1, SeqCst) {
        1 | 2 => Err(Fragile(Arc::clone(&dropped))),
        _ => Ok(Loaded::new(1)),
    };
    let cache =
        loading_audited(builder.executor(|job: cortado::Job| job()).build_with_loader(load));
    cache.get(&1).unwrap();
    hand.advance(SOFT);
    // Fails; fails again, which drops the first error; succeeds, which drops the second one.
    for (failures, reloads) in [(1, 0), (2, 0), (2, 1)] {
        assert_eq!(cache.get(&1).ok(), Some(1));
        let stats = cache.stats();
        assert_eq!((stats.reload_failures, stats.reloads), (failures, reloads));
        hand.advance(SECOND);
    }
    assert_eq!(drops.load(SeqCst), 2);
}

/// Keys with the same hash, whose comparison panics while the flag is up.
#[derive(Clone, Debug)]
struct Brittle(u32);

static BREAKS: AtomicBool = AtomicBool::new(false);

impl Hash for Brittle {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

impl PartialEq for Brittle {
    fn eq(&self, other: &Self) -> bool {
        assert!(!BREAKS.load(SeqCst), "no comparison");
        self.0 == other.0
    }
}

impl Eq for Brittle {}

/// The reload compares its key with that of a load that is under way.
#[test]
fn a_reload_whose_key_cannot_be_compared_has_failed() {
    let (clock, hand) = Clock::manual();
    let jobs = Jobs::default();
    let queue = jobs.clone();
    let builder = Cache::builder().refresh_after_write(SOFT).executor(move |job| queue.push(job));
    let loads = |_: Brittle| Ok::<_, ()>(Loaded::new(2));
    let cache = loading_audited(builder.clock(clock).build_with_loader(loads));
    cache.insert(Brittle(1), 1);
    hand.advance(SOFT);
    assert!(cache.cache().touch(&Brittle(1)));
    let got = cache.cache().get_with(Brittle(2), || {
        BREAKS.store(true, SeqCst);
        let ran = catch_unwind(AssertUnwindSafe(|| jobs.run_one()));
        BREAKS.store(false, SeqCst);
        assert!(ran.is_ok(), "the panic reaches the executor");
        3
    });
    assert_eq!((got, cache.stats().reload_failures), (3, 1));
}
