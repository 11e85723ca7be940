//! What is told of a remaining life is never more than the life that was given, whatever others do
//! between a reading of the clock and a look at the entry.

use crate::common::amid::{amid, clock, set_now};
use crate::common::audited::{Audited, audited, loading_audited};
use crate::common::effort::share;
use crate::common::{SECOND, must_end};
use cortado::{Cache, Loaded, expire};
use std::time::Duration;

type Numbers = Cache<u64, u64>;

/// What each says of the remaining life of key 1.
type Tell = fn(&Numbers) -> Option<Option<Duration>>;

const TELLERS: [(&str, Tell); 7] = [
    ("expires_in", |cache| cache.expires_in(&1).into_options()),
    ("peek", |cache| cache.peek(&1).map(|entry| entry.expires_in())),
    ("get_entry", |cache| cache.get_entry(&1).map(|entry| entry.expires_in())),
    ("iter", |cache| cache.entries().next().map(|entry| entry.expires_in())),
    ("load", |cache| Some(cache.entry(1).or_insert_with(|| 9).expires_in())),
    ("remove_entry", |cache| cache.remove_entry(&1).map(|entry| entry.expires_in())),
    ("computation", |cache| {
        let mut left = None;
        cache.entry(1).and_compute_with(|entry| {
            left = entry.map(|entry| entry.expires_in());
            cortado::Op::Nop
        });
        left
    }),
];

type Change = (&'static str, fn(&Numbers));

/// What others do to the key when half of its life has passed.
const CHANGES: [Change; 5] = [
    ("insert", |cache| cache.insert(1, 8)),
    ("insert_with_ttl", |cache| cache.insert_with_ttl(1, 8, SECOND)),
    ("set_ttl", |cache| _ = cache.set_ttl(&1, SECOND)),
    ("get", |cache| _ = cache.get(&1)),
    ("invalidate and insert", |cache| {
        cache.invalidate(&1);
        cache.insert(1, 8);
    }),
];

fn caches() -> [(&'static str, Audited<u64, u64>); 3] {
    let builder = || Cache::builder().clock(clock());
    let policy = expire::on_access(|_: &u64, _: &u64| Some(SECOND));
    [
        ("ttl", audited(builder().time_to_live(SECOND).build())),
        ("idle", audited(builder().time_to_idle(SECOND).build())),
        ("policy", audited(builder().expire_after(policy).build())),
    ]
}

#[test]
fn a_remaining_life_is_never_told_longer_than_it_was_given() {
    must_end(|| {
        let mut told = 0;
        for (tells, tell) in TELLERS {
            for (changes, change) in CHANGES {
                for cache in 0..caches().len() {
                    for nth in 1..20 {
                        let (life, cache) = caches().into_iter().nth(cache).unwrap();
                        set_now(Duration::ZERO);
                        cache.insert(1, 7);
                        let other = cache.clone();
                        let meanwhile = move || {
                            set_now(SECOND / 2);
                            change(&other);
                        };
                        let Some((left, _)) = amid(nth, meanwhile, || tell(&cache)) else { break };
                        let what = format!("{tells}, {changes} in reading {nth}, {life}");
                        let left = left.flatten().unwrap_or_default();
                        assert!(left <= SECOND, "{what}: {left:?}");
                        told += u64::from(left > Duration::ZERO);
                    }
                }
            }
        }
        assert!(told > 100, "{told} lives were told");
    });
}

/// The same by the system's clock, whose coarse reading is behind: two threads write what a third
/// one asks about.
#[test]
fn nor_by_the_systems_clock_while_others_write_the_key() {
    must_end(|| {
        for life in [Duration::from_millis(200), 2 * SECOND, 10 * SECOND] {
            let cache: Audited<u64, u64> = audited(Cache::builder().time_to_live(life).build());
            cache.insert(1, 7);
            std::thread::scope(|scope| {
                let writers = [0, 1].map(|n| {
                    let cache = &cache;
                    scope.spawn(move || (0..20_000).for_each(|_| cache.insert(1, n)))
                });
                while !writers.iter().all(|writer| writer.is_finished()) {
                    let left = cache.expires_in(&1).into_options().flatten();
                    assert!(left.is_none_or(|left| left <= life), "{left:?} of {life:?}");
                    let entry = cache.peek(&1).and_then(|entry| entry.expires_in());
                    assert!(entry.is_none_or(|left| left <= life), "{entry:?} of {life:?}");
                }
            });
        }
    });
}

/// Of an entry without a hard deadline, also while it is being replaced. In a cache with refresh
/// the end of a life has a word of its own, which a handle reads after the lookup.
#[test]
fn an_entry_that_is_replaced_has_no_end_if_it_had_none() {
    for counts in [false, true] {
        let cache = loading_audited(
            Cache::builder()
                .refresh_after_write(Duration::from_secs(3600))
                .record_stats(counts)
                .max_capacity(100)
                .build_with_loader(|key: u64| Ok::<_, ()>(Loaded::new(key))),
        );
        cache.insert(1, 0);
        std::thread::scope(|scope| {
            let writer =
                scope.spawn(|| (0..share(300_000)).for_each(|value| cache.insert(1, value)));
            while !writer.is_finished() {
                let entry = cache.cache().get_entry(&1).expect("it is there all the time");
                assert_eq!(entry.expires_in(), None);
            }
        });
    }
}
