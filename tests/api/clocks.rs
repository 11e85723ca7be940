//! Clocks that stand still, jump and go back.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND, TICK, Tested, must_end, tested};
use cortado::RemovalCause::Expired;
use cortado::{Builder, Cache, Clock, Op, RemovalCause};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86400);
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86400);
/// The latest that a clock reads.
const END: Duration = Duration::from_nanos((1 << 63) - 3);

type Numbers = Tested<u64, u64>;

fn configurations() -> [Numbers; 4] {
    let idle = |builder: Builder<u64, u64>| builder.time_to_idle(HOUR);
    [
        tested(|builder| builder),
        tested(idle),
        tested(|builder| builder.max_capacity(50)),
        tested(|builder| {
            idle(builder).max_capacity(50).expiry_resolution(Duration::from_millis(1))
        }),
    ]
}

/// Every kind of operation once.
fn use_it(cache: &Numbers) {
    for key in 0..20 {
        cache.insert_with_ttl(key, key, MINUTE + key as u32 * SECOND);
        assert_eq!(cache.peek(&key).as_deref(), Some(&key));
        assert!(cache.get(&key).is_some());
    }
    cache.set_ttl(&0, HOUR);
    cache.set_ttl(&1, SECOND);
    cache.persist(&2);
    cache.touch(&3);
    cache.remove(&4);
    cache.get_with(5, || 5);
    cache.entry(6).and_compute_with(|_| Op::Put(6));
    cache.settle();
}

#[test]
fn a_clock_that_stands_still_is_no_obstacle() {
    must_end(|| {
        for cache in configurations() {
            for _ in 0..50 {
                use_it(&cache);
            }
            assert_eq!(cache.expires_in(&7).into_options(), Some(Some(67 * SECOND)));
            cache.audit();
        }
    });
}

#[test]
fn jumps_forward_expire_what_they_pass_and_nothing_else() {
    must_end(|| {
        for jump in [Duration::from_nanos(1), SECOND, HOUR, 7 * DAY, 5 * CENTURY] {
            for cache in configurations() {
                use_it(&cache);
                let living: Vec<u64> = (0..20)
                    .filter(|key| {
                        cache
                            .expires_in(key)
                            .into_options()
                            .is_some_and(|left| left.is_none_or(|l| l > jump))
                    })
                    .collect();
                cache.told();
                cache.hand.advance(jump);
                let mut inside: Vec<_> = cache.keys().collect();
                inside.sort();
                assert_eq!(inside, living, "after {jump:?}");
                cache.pass(if jump > TICK { TICK } else { Duration::ZERO });
                assert!(cache.told().iter().all(|told| told.cause == Expired));
                // Their memory is released, too, by the end of the tick.
                let (count, living) = (cache.entry_count(), living.len() as u64);
                assert!(count == living || jump < TICK && count > living, "{count}, {living}");
                cache.audit();
                use_it(&cache);
                cache.audit();
            }
        }
    });
}

#[test]
fn a_clock_at_its_end_stops_nothing() {
    must_end(|| {
        for cache in configurations() {
            use_it(&cache);
            cache.hand.set(Duration::MAX);
            cache.settle();
            // What had an end has come to it.
            let eternal = cache.entries().all(|entry| entry.expires_in().is_none());
            assert!(eternal, "{:?}", cache.entries().map(|e| e.expires_in()).collect::<Vec<_>>());
            for key in 100..120 {
                cache.insert(key, key);
                // There is no later instant: for ever.
                cache.insert_with_ttl(key, key, SECOND);
                assert_eq!(cache.expires_in(&key).into_options(), Some(None));
            }
            cache.hand.advance(Duration::MAX);
            cache.audit();
            cache.invalidate_all();
            cache.audit();
            assert_eq!(cache.entry_count(), 0);
        }
    });
}

#[test]
fn just_before_its_end_lifetimes_are_still_counted() {
    let cache: Numbers = tested(|builder| builder);
    cache.hand.set(END - HOUR);
    cache.insert_with_ttl(1, 1, MINUTE);
    cache.insert_with_ttl(2, 2, 2 * HOUR);
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(MINUTE)));
    assert_eq!(cache.expires_in(&2).into_options(), Some(None));
    cache.audit();
    cache.pass(MINUTE + TICK);
    assert_eq!(cache.causes(), [(1, Expired)]);
    cache.audit();
}

#[test]
fn a_clock_that_goes_back_makes_entries_late_and_never_early_or_immortal() {
    must_end(|| {
        for back in [Duration::from_nanos(1), SECOND, MINUTE, HOUR] {
            for cache in configurations() {
                cache.hand.set(2 * HOUR);
                cache.insert_with_ttl(1, 1, 10 * SECOND);
                cache.settle();
                cache.hand.set(2 * HOUR - back);
                cache.settle();
                cache.insert_with_ttl(2, 2, 10 * SECOND);
                assert_eq!(cache.expires_in(&2).into_options(), Some(Some(10 * SECOND)));
                cache.settle();
                assert!(cache.contains_key(&1) && cache.contains_key(&2));
                cache.pass(10 * SECOND - Duration::from_nanos(1));
                assert!(cache.contains_key(&2), "early, after {back:?} back");
                cache.hand.advance(Duration::from_nanos(1));
                assert!(!cache.contains_key(&2));
                let mut causes = Vec::new();
                if back >= MINUTE {
                    // Removed long before the clock is where it was, also by ordinary passes, which
                    // go by the wheel's ticks.
                    cache.hand.advance(2 * TICK);
                    (0..10).for_each(|_| _ = cache.run_pending_tasks_up_to(100));
                    assert_eq!(cache.entry_count(), 1, "late, after {back:?} back");
                    causes = cache.causes();
                    assert_eq!(causes, [(2, Expired)], "late, after {back:?} back");
                }
                // By the time the clock is where it was, all is in order again.
                cache.hand.set(2 * HOUR + 10 * SECOND);
                assert!(!cache.contains_key(&1));
                cache.pass(TICK);
                cache.pass(TICK);
                causes.extend(cache.causes());
                causes.sort_by_key(|cause| cause.0);
                assert_eq!(causes, [(1, Expired), (2, Expired)]);
                cache.audit();
            }
        }
    });
}

#[test]
fn a_clock_set_back_for_good_lets_entries_expire_all_the_same() {
    must_end(|| {
        for cache in configurations() {
            cache.hand.set(10 * HOUR);
            use_it(&cache);
            cache.hand.set(SECOND);
            for round in 0..5 {
                (100..110).for_each(|key| cache.insert_with_ttl(key, round, 10 * SECOND));
                cache.settle();
                cache.pass(10 * SECOND + TICK);
                assert!((100..110).all(|key| !cache.contains_key(&key)));
                cache.audit();
            }
            // Nobody waits for ten hours: the memory of what ended is released.
            cache.pass(MINUTE);
            assert!(cache.causes().iter().filter(|(key, _)| *key >= 100).count() == 50);
        }
    });
}

#[test]
fn a_clock_that_jumps_to_and_fro_loses_nothing() {
    must_end(|| {
        let mut random = 0x2545_F491_4F6C_DD1D_u64;
        for cache in configurations() {
            for step in 0..2000 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                cache.hand.set(Duration::from_nanos(random >> (random % 40 + 8)));
                cache.insert_with_ttl(random % 64, step, Duration::from_nanos(random >> 20));
                cache.get(&(random % 37));
                if step % 64 == 0 {
                    cache.audit();
                }
            }
            cache.audit();
            let told = cache.told().len() as u64;
            assert_eq!(told + cache.entry_count(), 2000);
            assert!(cache.entries().all(|entry| entry.expires_in().is_some()));
            cache.hand.set(END - DAY);
            cache.pass(TICK);
            assert_eq!(cache.entry_count(), 0);
        }
    });
}

#[test]
fn a_source_of_ones_own_is_asked_and_may_go_beyond_the_end() {
    let seconds = Arc::new(AtomicU64::new(5));
    let reading = Arc::clone(&seconds);
    let clock = Clock::custom(move || Duration::from_secs(reading.load(SeqCst)));
    let cache: Audited<u32, u32> =
        audited(Cache::builder().clock(clock).time_to_live(MINUTE).build());
    cache.insert(1, 1);
    seconds.store(64, SeqCst);
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(SECOND)));
    seconds.store(65, SeqCst);
    assert_eq!(cache.get(&1), None);
    seconds.store(u64::MAX, SeqCst);
    cache.insert(2, 2);
    assert_eq!(cache.expires_in(&2).into_options(), Some(None));
    cache.audit();
    assert_eq!(cache.entry_count(), 1);
}

#[test]
fn caches_may_share_a_clock() {
    let (clock, hand) = Clock::manual();
    let build = || -> Audited<u32, u32> {
        audited(Cache::builder().clock(clock.clone()).time_to_live(MINUTE).build())
    };
    let first = build();
    hand.advance(30 * SECOND);
    let second = build();
    first.insert(1, 1);
    second.insert(1, 1);
    // The same instant is the same to both.
    let at = first.expires_at(&1).into_options().unwrap().unwrap();
    let other = second.expires_at(&1).into_options().unwrap().unwrap();
    assert!(at.max(other) - at.min(other) < HOUR);
    hand.advance(MINUTE);
    assert!(first.get(&1).is_none() && second.get(&1).is_none());
    assert_eq!(hand.now(), 90 * SECOND);
}

/// Each thread's clock is another one: ahead, behind, standing still, or back and forth.
#[test]
fn clocks_that_differ_by_thread_find_nothing_over_by_their_own_reading() {
    std::thread_local! {
        static NOW: std::cell::Cell<Duration> = const { std::cell::Cell::new(HOUR) };
    }
    must_end(|| {
        for idles in [false, true] {
            let mut builder = Cache::builder()
                .clock(Clock::custom(|| NOW.get()))
                .max_capacity(500)
                .expiry_resolution(Duration::from_millis(1))
                .record_stats(true);
            if idles {
                builder = builder.time_to_idle(MINUTE);
            }
            // The value is when it ends, by the clock of whoever wrote it.
            let cache: Audited<u64, Duration> = audited(builder.build());
            let taken: u64 = std::thread::scope(|scope| {
                let work = |thread: u64| {
                    let cache = &cache;
                    move || {
                        let mut random = 0x9E37_79B9_7F4A_7C15 ^ thread << 20 | 1;
                        let mut taken = 0;
                        for step in 0..20_000 {
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            NOW.set(match thread {
                                0 => HOUR,
                                1 => HOUR + step * Duration::from_millis(1),
                                2 => HOUR + HOUR + step * Duration::from_millis(3),
                                _ => Duration::from_millis(random >> 40),
                            });
                            let (key, life) = (random % 1000, Duration::from_millis(random >> 54));
                            if random >> 32 & 3 == 0 {
                                cache.insert_with_ttl(key, NOW.get() + life, life);
                                taken += 1;
                            } else if let Some(ends) = cache.get(&key) {
                                assert!(ends > NOW.get(), "found {:?} late", NOW.get() - ends);
                            }
                        }
                        taken
                    }
                };
                let threads: Vec<_> = (0..4).map(|thread| scope.spawn(work(thread))).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum()
            });
            NOW.set(DAY);
            cache.audit();
            NOW.set(DAY + SECOND);
            cache.audit();
            assert_eq!(cache.entry_count(), 0, "immortal");
            let stats = cache.stats();
            let removed: u64 = RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum();
            assert_eq!((stats.insertions, removed), (taken, taken));
        }
    });
}

/// A clock that reads the entry while it is read, after it has made up its mind what time it is.
#[test]
fn a_term_that_counts_from_an_earlier_reading_takes_back_nothing_that_a_read_has_given() {
    type Errand = Box<dyn FnOnce() + Send>;
    let seconds = Arc::new(AtomicU64::new(0));
    let errand: Arc<Mutex<Option<Errand>>> = Arc::default();
    let (now, sent) = (Arc::clone(&seconds), Arc::clone(&errand));
    let clock = Clock::custom(move || {
        let reading = Duration::from_secs(now.load(SeqCst));
        let errand = sent.lock().unwrap().take();
        errand.into_iter().for_each(|errand| errand());
        reading
    });
    let cache = audited(Cache::builder().time_to_idle(MINUTE).clock(clock).build());
    cache.insert(1, 1);
    let (reader, now) = (Cache::clone(&cache), Arc::clone(&seconds));
    *errand.lock().unwrap() = Some(Box::new(move || {
        now.store(10, SeqCst);
        assert_eq!(reader.get(&1), Some(1));
    }));
    assert!(cache.set_ttl(&1, 60 * MINUTE));
    assert!(errand.lock().unwrap().is_none());
    assert_eq!(cache.expires_in(&1).into_options(), Some(Some(MINUTE)), "a minute after the read");
}
