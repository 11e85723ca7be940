//! What reloads bring, what overtakes them, when they come.

use super::bench::{Bench, HARD, SOFT, bench, bench_without_listener};
use crate::common::audited::loading_audited;
use crate::common::{MINUTE, SECOND};
use cortado::{
    Cache, Clock, EvictionPolicy, Expiration, Loaded, Loader, Op, RandomState, Reloaded,
    RemovalCause,
};
use std::time::Duration;

fn left(b: &Bench) -> Option<Duration> {
    b.cache.cache().expires_in(&7).due()
}

#[test]
fn a_new_value_takes_the_old_ones_place() {
    let b = bench(|builder| builder);
    b.trigger();
    assert_eq!(b.pending(), 1);
    b.jobs.run();
    assert_eq!(b.asked(), [(7, Some(1))]);
    assert_eq!(b.cache.get(&7), Ok(2));
    assert_eq!((b.told(), left(&b)), (vec![(7, 1, RemovalCause::Replaced)], Some(HARD)));
    let stats = b.cache.stats();
    assert_eq!((stats.reloads, stats.reload_failures, stats.reloads_skipped), (1, 0, 0));
    assert_eq!((stats.loads, stats.insertions), (2, 2));
    // And so on, from the new value's time.
    b.advance(9);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(2), 0));
    b.advance(1);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(2), 1));
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(3));
}

#[test]
fn one_of_many_readers_triggers_one_reload() {
    let b = bench(|builder| builder);
    b.trigger();
    for _ in 0..100 {
        assert_eq!(b.cache.get(&7), Ok(1));
        b.advance(0);
    }
    assert_eq!(b.pending(), 1);
    b.jobs.run();
    assert_eq!(b.asked(), [(7, Some(1))]);
}

#[test]
fn not_modified_prolongs_and_tells_nobody() {
    for ttl in [None, Some(30 * SECOND), Some(300 * SECOND)] {
        let b = bench(|builder| builder);
        b.trigger();
        b.plan(Ok(ttl.map_or(Reloaded::not_modified(), Reloaded::not_modified_with_ttl)));
        b.jobs.run();
        assert_eq!((b.told(), left(&b)), (vec![], Some(ttl.unwrap_or(HARD))));
        // The same value, fresh from now on.
        b.advance(9);
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 0));
        b.advance(1);
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 1));
        b.jobs.drop_all();
        b.advance(ttl.unwrap_or(HARD).as_secs() - 10);
        assert_eq!(b.told(), [(7, 1, RemovalCause::Expired)]);
    }
}

#[test]
fn not_modified_for_no_time_ends_the_entry() {
    let b = bench(|builder| builder);
    b.trigger();
    b.plan(Ok(Reloaded::not_modified_with_ttl(Duration::ZERO)));
    b.jobs.run();
    assert!(!b.cache.contains_key(&7));
    assert_eq!(b.told(), [(7, 1, RemovalCause::Expired)]);
}

#[test]
fn gone_removes() {
    let b = bench(|builder| builder);
    b.trigger();
    b.plan(Ok(Reloaded::gone()));
    b.jobs.run();
    assert!(!b.cache.contains_key(&7));
    assert_eq!(b.told(), [(7, 1, RemovalCause::Explicit)]);
}

#[test]
fn a_loader_may_say_when_its_value_is_stale_and_when_it_ends() {
    let b = bench(|builder| builder);
    b.trigger();
    b.plan(Ok(Loaded::with_ttl(5, 60 * SECOND).refresh_after(20 * SECOND).into()));
    b.jobs.run();
    assert_eq!((b.cache.get(&7), left(&b)), (Ok(5), Some(60 * SECOND)));
    b.advance(19);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(5), 0));
    b.advance(1);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(5), 1));
    b.plan(Ok(Reloaded::not_modified().refresh_after(50 * SECOND)));
    b.jobs.run();
    b.advance(49);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(5), 0));
    b.advance(1);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(5), 1));
}

#[test]
fn a_policy_says_per_entry_when_it_is_stale() {
    let b = bench(|builder| {
        builder.refresh_retry(Duration::ZERO).refresh_after(|key, value, _| {
            (*key != 9).then(|| Duration::from_secs(u64::from(*value)))
        })
    });
    for (key, value) in [(1, 30), (2, 60), (9, 1)] {
        b.cache.insert(key, value);
    }
    let read_all = || (1..=9).for_each(|key| _ = b.cache.cache().get(&key));
    for (at, stale) in [(29, vec![]), (1, vec![1]), (29, vec![1]), (1, vec![1, 2])] {
        b.advance(at);
        read_all();
        b.jobs.drop_all();
        let stale: Vec<u32> = stale;
        read_all();
        assert_eq!(b.pending(), stale.len() as u64);
        b.jobs.drop_all();
    }
}

/// What happens to the key while the loader works, and what it finds afterwards.
#[test]
fn writes_removals_and_clearings_overtake_a_reload() {
    type Meddle = fn(&Cache<u32, u32>);
    let writes: [(&str, Meddle, Option<u32>); 9] = [
        ("set_ttl of zero", |cache| _ = cache.set_ttl(&7, Duration::ZERO), None),
        ("insert", |cache| cache.insert(7, 50), Some(50)),
        ("remove", |cache| _ = cache.remove(&7), None),
        ("invalidate", |cache| cache.invalidate(&7), None),
        ("remove_if", |cache| _ = cache.remove_if(&7, |_, _| true), None),
        ("retain", |cache| cache.retain(|_, _| false), None),
        ("invalidate_all", |cache| cache.invalidate_all(), None),
        ("compute", |cache| drop(cache.entry(7).and_compute_with(|_| Op::Put(50))), Some(50)),
        (
            "remove and insert",
            |cache| {
                cache.invalidate(&7);
                cache.insert(7, 51);
            },
            Some(51),
        ),
    ];
    for brought in [Reloaded::new(2), Reloaded::not_modified(), Reloaded::gone()] {
        for (name, write, expected) in writes {
            let slot = std::sync::Arc::new(std::sync::OnceLock::<Cache<u32, u32>>::new());
            let amid = std::sync::Arc::clone(&slot);
            let b = bench(|builder| {
                // The policy is asked about what the reload brings, in the midst of it.
                builder.expire_after(cortado::expire::on_write(|_, _| None))
            });
            slot.set(b.cache.cache().clone()).unwrap();
            b.trigger();
            *b.upstream.1.lock().unwrap() = Some(Box::new(move || write(amid.get().unwrap())));
            b.plan(Ok(brought));
            b.jobs.run();
            assert_eq!(b.cache.cache().peek(&7).map(|it| *it), expected, "{name} {brought:?}");
            assert!(b.told().iter().all(|it| it.1 != 2), "{name} {brought:?}");
        }
    }
}

#[test]
fn a_change_of_the_lifetime_overtakes_no_reload() {
    let b = bench(|builder| builder);
    b.trigger();
    let cache = b.cache.cache().clone();
    *b.upstream.1.lock().unwrap() = Some(Box::new(move || {
        assert!(cache.set_ttl(&7, 20 * SECOND));
    }));
    b.jobs.run();
    assert_eq!((b.cache.get(&7), left(&b)), (Ok(2), Some(HARD)));
}

#[test]
fn a_reload_outlives_the_entrys_hard_deadline() {
    let b = bench(|builder| builder);
    b.trigger();
    let hand = b.hand.clone();
    *b.upstream.1.lock().unwrap() = Some(Box::new(move || hand.advance(HARD)));
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(2));
    assert_eq!(b.told(), [(7, 1, RemovalCause::Expired)]);
}

#[test]
fn an_entry_that_was_written_before_its_reload_began_is_left_alone() {
    let b = bench(|builder| builder);
    b.trigger();
    b.cache.insert(7, 50);
    b.jobs.run();
    assert_eq!((b.asked(), b.cache.get(&7)), (vec![], Ok(50)));
    b.advance(SOFT.as_secs());
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(50), 1));
}

#[test]
fn a_dropped_job_leaves_the_reload_to_a_later_read() {
    let b = bench(|builder| builder.refresh_limit(1));
    b.trigger();
    for _ in 0..3 {
        assert_eq!(b.pending(), 1);
        b.jobs.drop_all();
        // An executor that drops jobs gets one each retry delay.
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 0));
        b.advance(1);
        assert_eq!(b.cache.get(&7), Ok(1));
    }
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(2));
    let stats = b.cache.stats();
    assert_eq!((stats.reloads_skipped, stats.reload_failures), (0, 0));
}

/// The cache has given up its own count on the node, so that the job has the last one.
#[test]
fn a_dropped_job_looks_at_its_node_while_it_has_a_count() {
    let b = bench_without_listener(|builder| builder);
    b.trigger();
    b.cache.invalidate(&7);
    while b.cache.cache().run_pending_tasks_up_to(64).reclamations > 0 {
        std::thread::yield_now();
    }
    b.jobs.drop_all();
}

/// The job has neither the cache nor its last handle.
#[test]
fn a_job_may_outlive_its_cache() {
    for runs in [false, true] {
        let b = bench(|builder| builder);
        b.trigger();
        let (jobs, upstream) = (b.jobs.clone(), b.upstream.clone());
        drop(b);
        if runs {
            jobs.run()
        } else {
            jobs.drop_all()
        }
        assert_eq!(upstream.0.lock().unwrap().asked, []);
    }
}

#[test]
fn a_closed_cache_keeps_nothing_that_a_reload_brings() {
    let b = bench(|builder| builder);
    b.trigger();
    let cache = b.cache.cache().clone();
    *b.upstream.1.lock().unwrap() = Some(Box::new(move || cache.close()));
    b.jobs.run();
    assert!(!b.cache.contains_key(&7));
    assert_eq!(b.told(), [(7, 1, RemovalCause::Explicit)]);
}

#[test]
fn beyond_the_limit_reloads_are_skipped_and_counted() {
    let b = bench(|builder| builder.refresh_limit(2));
    let ask = || (0..5).for_each(|key| drop(b.cache.get(&key)));
    ask();
    b.advance(SOFT.as_secs());
    ask();
    assert_eq!((b.pending(), b.cache.stats().reloads_skipped), (2, 3));
    b.jobs.run();
    ask();
    assert_eq!((b.pending(), b.cache.stats().reloads_skipped), (2, 4));
    b.jobs.run();
    ask();
    b.jobs.run();
    assert_eq!(b.cache.stats().reloads, 5);
    // Explicit ones, too.
    assert!(b.cache.refresh(&0) && b.cache.refresh(&1) && !b.cache.refresh(&2));
    b.jobs.run();
    assert!(b.cache.refresh(&2));
    b.jobs.run();
}

#[test]
fn a_call_may_ask_for_a_reload() {
    let b = bench(|builder| builder);
    // Of a key without a value it is a load.
    assert!(b.cache.refresh(&7));
    assert!(!b.cache.contains_key(&7));
    b.jobs.run();
    assert_eq!((b.asked(), b.cache.get(&7)), (vec![(7, None)], Ok(1)));
    b.advance(1);
    assert!(b.cache.refresh(&7));
    b.jobs.run();
    assert_eq!((b.asked(), b.cache.get(&7)), (vec![(7, Some(1))], Ok(2)));
    b.advance(SOFT.as_secs() - 1);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(2), 0));
}

#[test]
fn a_reload_is_no_read_for_the_idle_time() {
    for brought in [Reloaded::new(2), Reloaded::not_modified()] {
        let b = bench(|builder| builder.time_to_idle(50 * SECOND));
        b.trigger();
        b.advance(20);
        // The read that triggered it was 20 s ago.
        b.plan(Ok(brought));
        b.jobs.run();
        assert_eq!(left(&b), Some(30 * SECOND), "{brought:?}");
        // Nobody reads, and somebody asks for reloads: they keep nothing alive.
        b.advance(20);
        b.plan(Ok(brought));
        assert!(b.cache.refresh(&7));
        b.jobs.run();
        assert_eq!(left(&b), Some(10 * SECOND), "{brought:?}");
        b.advance(9);
        assert!(b.cache.cache().get(&7).is_some());
        assert_eq!(left(&b), Some(50 * SECOND), "{brought:?}");
    }
}

/// The least recently used entry is reloaded and leaves first all the same, whatever the new value
/// weighs: values below 10 weigh 2, others 1.
#[test]
fn a_reload_is_no_use_for_the_policy() {
    for (brought, told) in [
        (Reloaded::new(5), vec![(1, 1, RemovalCause::Replaced), (1, 5, RemovalCause::Size)]),
        (Reloaded::new(20), vec![(1, 1, RemovalCause::Replaced), (1, 20, RemovalCause::Size)]),
        (Reloaded::not_modified(), vec![(1, 1, RemovalCause::Size)]),
    ] {
        let b = bench(|builder| {
            builder
                .max_capacity(6)
                .weigher(|_, value| if *value < 10 { 2 } else { 1 })
                .eviction_policy(EvictionPolicy::lru())
        });
        b.cache.cache().insert_many([(1, 1), (2, 2), (3, 3)]);
        b.cache.run_pending_tasks();
        assert!(b.cache.refresh(&1));
        b.plan(Ok(brought));
        b.jobs.run();
        b.cache.run_pending_tasks();
        b.cache.insert(4, 4);
        assert_eq!(b.told(), told, "{brought:?}");
    }
}

#[test]
fn the_hard_deadline_can_be_moved_while_the_entry_is_stale() {
    for has_idle in [false, true] {
        let b =
            bench(|builder| if has_idle { builder.time_to_idle(1000 * SECOND) } else { builder });
        b.trigger();
        b.jobs.drop_all();
        assert!(b.cache.cache().set_ttl(&7, 5 * SECOND));
        b.advance(4);
        assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 1));
        b.jobs.drop_all();
        assert!(b.cache.cache().set_ttl(&7, 500 * SECOND));
        b.advance(499);
        assert_eq!(b.cache.get(&7), Ok(1));
        b.jobs.drop_all();
        b.advance(1);
        assert_eq!(b.told(), [(7, 1, RemovalCause::Expired)]);
    }
}

#[test]
fn a_reload_needs_a_stored_loader() {
    let double = |n: u32| Ok::<_, ()>(Loaded::new(2 * n));
    let soft = || Cache::<u32, u32>::builder().refresh_after_write(SOFT);
    let refused = |setting, error: cortado::BuildError| assert_eq!(error.setting(), setting);
    refused("refresh_after_write", soft().try_build().map(drop).unwrap_err());
    let policy = Cache::<u32, u32>::builder().refresh_after(|_, _, _| None);
    refused("refresh_after", policy.try_build().map(drop).unwrap_err());
    let none = soft().refresh_limit(0).try_build_with_loader(double, RandomState::new());
    refused("refresh_limit", none.map(drop).unwrap_err());
}

#[test]
fn a_cache_without_a_soft_deadline_is_as_ever() {
    let b = bench(|builder| builder.refresh_after(|_, _, _| None));
    b.cache.insert(7, 1);
    assert_eq!(b.cache.cache().expires_in(&7), Expiration::Due(HARD));
    b.advance(99);
    assert_eq!((b.cache.get(&7), b.pending()), (Ok(1), 0));
    b.advance(1);
    assert_eq!(b.cache.cache().get(&7), None);
}

/// "Not modified" is a write: a read hook's lifetime is bounded from there on.
#[test]
fn a_renewed_value_may_live_as_long_as_a_new_one() {
    struct Upstream(bool);
    impl Loader<u32, u32> for Upstream {
        type Error = ();

        fn load(&self, _: &u32) -> Result<Loaded<u32>, ()> {
            Ok(Loaded::new(1))
        }

        fn reload(&self, _: &u32, _: &u32) -> Result<Reloaded<u32>, ()> {
            let made = if self.0 { Reloaded::new(1) } else { Reloaded::not_modified() };
            Ok(made.refresh_after(60 * MINUTE))
        }
    }
    for is_new in [true, false] {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder().time_to_live(60 * SECOND).refresh_after_write(35 * SECOND);
        let builder = builder.ttl_on_access(|_: &u32, _: &u32| Some(30 * SECOND)).clock(clock);
        let cache = loading_audited(
            builder.executor(|job: cortado::Job| job()).build_with_loader(Upstream(is_new)),
        );
        cache.get(&1).unwrap();
        let mut held = None;
        for seconds in [20, 20, 25] {
            hand.advance(seconds * SECOND);
            cache.get(&1).unwrap();
            held = held.or_else(|| cache.cache().peek(&1));
        }
        assert_eq!(held.map(|entry| entry.age()), Some(20 * SECOND), "as of the lookup");
        assert_eq!(cache.cache().expires_in(&1), Expiration::Due(30 * SECOND), "new: {is_new}");
        assert_eq!(cache.cache().peek(&1).map(|entry| entry.age()), Some(25 * SECOND));
    }
}
