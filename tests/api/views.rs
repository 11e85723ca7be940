//! Lookups through a view. They are as exact as `get`: each reads the clock.

use crate::common::audited::{Audited, audited};
use cortado::{Cache, Clock, RemovalCause};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// Keys that are read through views only.
const READ: u32 = 63;

fn cache() -> Audited<u32, u32> {
    audited(Cache::builder().time_to_live(HOUR).build())
}

/// A view that has found key 0.
macro_rules! viewed {
    ($cache:ident) => {{
        $cache.insert(0, 0);
        let view = $cache.pin();
        assert_eq!(view.get(&0), Some(&0));
        view
    }};
}

#[test]
fn lookups_see_what_was_written_since() {
    let cache = cache();
    let view = viewed!(cache);
    assert_eq!(view.get(&1), None);
    cache.insert(1, 10);
    let first = view.get(&1);
    assert_eq!(first, Some(&10));
    cache.insert(1, 11);
    assert_eq!(view.get(&1), Some(&11));
    assert_eq!(cache.remove(&1), Some(11));
    assert_eq!(view.get(&1), None);
    assert_eq!(first, Some(&10), "what was read stays");
}

/// There are so many entries that the sweep after the clearing takes a while.
#[test]
fn lookups_see_that_all_was_cleared() {
    let cache = cache();
    (1..100_000).for_each(|key| cache.insert(key, key));
    let view = viewed!(cache);
    assert_eq!(view.get(&1), Some(&1));
    cache.invalidate_all();
    let old = (0..100_000).step_by(2000).find(|key| view.get(key).is_some());
    assert_eq!(old, None, "after the clearing");
    cache.insert(1, 2);
    assert_eq!(view.get(&1), Some(&2));
}

#[test]
fn a_short_life_ends_at_its_deadline() {
    let cache = cache();
    let life = Duration::from_millis(20);
    cache.insert_with_ttl(1, 1, life);
    let end = Instant::now() + life;
    let view = viewed!(cache);
    while Instant::now() < end {
        assert_eq!(view.get(&0), Some(&0));
    }
    assert_eq!(view.get(&1), None, "after its deadline");
    assert_eq!(view.get(&0), Some(&0), "the far one lives");
    cache.insert_with_ttl(0, 1, Duration::ZERO);
    assert_eq!(view.get(&0), None, "of no life");
}

#[test]
fn a_life_cut_short_is_seen() {
    let cache = cache();
    let view = viewed!(cache);
    cache.insert(1, 1);
    assert_eq!(view.get(&1), Some(&1));
    assert!(cache.set_ttl(&1, Duration::ZERO));
    assert_eq!(view.get(&1), None);
}

/// Entries that are read through views only compete with newcomers that come once each. Entries
/// whose reads are not recorded are evicted.
#[test]
fn lookups_count_as_reads() {
    let cache: Audited<u32, u32> = audited(Cache::builder().max_capacity(1000).build());
    cache.insert(0, 0);
    (1..=READ).for_each(|key| cache.insert(key, key));
    let mut newcomer = READ;
    for _ in 0..200 {
        let view = viewed!(cache);
        (1..=READ).for_each(|key| {
            view.get(&key);
        });
        drop(view);
        for _ in 0..100 {
            newcomer += 1;
            cache.insert(newcomer, newcomer);
        }
    }
    cache.run_pending_tasks();
    let stayed = (1..=READ).filter(|key| cache.contains_key(key)).count();
    assert!(stayed > 55, "{stayed} of {READ} are left");
}

#[test]
fn a_view_outlasts_a_clock_that_ends_lives_at_once() {
    let (clock, hand) = Clock::manual();
    let ended = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&ended);
    let cache: Audited<u32, u32> = audited(
        Cache::builder()
            .clock(clock)
            .time_to_live(HOUR)
            .removal_listener(move |removed| {
                assert_eq!(removed.cause(), RemovalCause::Expired);
                count.fetch_add(1, SeqCst);
            })
            .build(),
    );
    let view = viewed!(cache);
    let value = view.get(&0);
    hand.advance(HOUR);
    assert_eq!(view.get(&0), None);
    cache.run_pending_tasks();
    assert_eq!((value, ended.load(SeqCst)), (Some(&0), 1));
}
