//! Loads by call, past the soft deadline: inline, or in the background if the loader may go there.

use super::bench::{Jobs, SOFT};
use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND};
use cortado::{Builder, Cache, Clock, GuardResult, Loaded, ManualClock};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A cache without a stored loader, with the value 1 of "k", stale.
fn stale(
    configure: impl FnOnce(Builder<&'static str, u32>) -> Builder<&'static str, u32>,
) -> (Audited<&'static str, u32>, ManualClock) {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().time_to_live(MINUTE).refresh_after_write(SOFT).clock(clock);
    let cache = audited(configure(builder).build());
    cache.insert("k", 1);
    hand.advance(SOFT);
    (cache, hand)
}

type Load = fn(&Cache<&'static str, u32>) -> u32;

const LOADS: [(&str, Load); 8] = [
    ("get_with", |cache| cache.get_with("k", || 2)),
    ("get_with_by_ref", |cache| cache.get_with_by_ref(&"k", || 2)),
    ("try_get_with", |cache| cache.try_get_with("k", || Ok::<_, ()>(2)).unwrap()),
    ("optionally_get_with", |cache| cache.optionally_get_with("k", || Some(2)).unwrap()),
    ("load", |cache| cache.load("k", || Loaded::new(2))),
    ("load_by_ref", |cache| cache.load_by_ref(&"k", || Loaded::new(2))),
    ("or_insert_with", |cache| *cache.entry("k").or_insert_with(|| 2)),
    ("load_refreshing", |cache| cache.load_refreshing("k", || Loaded::new(2))),
];

#[test]
fn inline_a_load_makes_a_stale_value_anew() {
    for (name, load) in LOADS {
        let (cache, hand) = stale(|builder| builder.refresh_inline(true));
        assert_eq!((load(&cache), cache.get("k")), (2, Some(2)), "{name}");
        assert_eq!(cache.stats().reloads, 1);
        // It is fresh now.
        assert_eq!(cache.get_with("k", || unreachable!("{name}: it is fresh")), 2);
        // And ends when its own lifetime is over.
        hand.advance(MINUTE);
        assert_eq!(cache.get("k"), None);
    }
}

#[test]
fn otherwise_a_load_returns_the_stale_value() {
    for (name, load) in LOADS {
        let jobs = Jobs::default();
        let queue = jobs.clone();
        let (cache, _hand) = stale(|builder| builder.executor(move |job| queue.push(job)));
        assert_eq!((load(&cache), cache.get("k")), (1, Some(1)), "{name}");
        let is_background = name == "load_refreshing";
        assert_eq!(cache.stats().reloads_under_way, u64::from(is_background), "{name}");
        // Others find it under way.
        assert_eq!(cache.load_refreshing("k", || Loaded::new(3)), 1);
        jobs.run();
        assert_eq!(cache.get("k"), Some(if is_background { 2 } else { 3 }), "{name}");
    }
}

#[test]
fn what_is_no_load_of_a_fresh_value_returns_the_stale_one() {
    let (cache, _hand) = stale(|builder| builder.refresh_inline(true));
    assert_eq!(*cache.entry("k").or_insert(9), 1);
    assert_eq!(*cache.entry("k").or_default(), 1);
    assert_eq!(cache.get_many_with(["k"], |_| [("k", 9)]), [Some(1)]);
    assert!(matches!(cache.get_value_or_guard(&"k", None), GuardResult::Value(1)));
    assert_eq!(cache.get_with_if("k", || 9, |value| *value > 1), 1);
    assert_eq!(cache.get_with_if("k", || 9, |value| *value == 1), 9);
}

#[test]
fn a_loader_without_a_value_leaves_the_stale_one() {
    let (cache, hand) = stale(|builder| builder.refresh_inline(true).refresh_retry(SOFT / 2));
    assert_eq!(cache.try_get_with("k", || Err("down")), Ok(1));
    assert_eq!((cache.stats().reload_failures, cache.get("k")), (1, Some(1)));
    // Until the delay is over no loader is asked.
    assert_eq!(cache.try_get_with("k", || -> Result<u32, ()> { unreachable!() }), Ok(1));
    hand.advance(SOFT / 2);
    assert_eq!(cache.optionally_get_with("k", || None), Some(1));
    hand.advance(SOFT / 2);
    assert_eq!(cache.get_with("k", || 2), 2);
}

#[test]
fn a_panic_of_a_callers_own_loader_reaches_it() {
    let (cache, hand) = stale(|builder| builder.refresh_inline(true));
    let load = || cache.get_with("k", || panic!("planned"));
    assert!(catch_unwind(AssertUnwindSafe(load)).is_err());
    let stats = cache.stats();
    assert_eq!((stats.reload_failures, stats.reloads_under_way), (1, 0));
    // As after any failure, no loader is asked until the delay is over.
    assert_eq!(cache.get_with("k", || unreachable!()), 1);
    hand.advance(SECOND);
    assert_eq!(cache.get_with("k", || 2), 2);
}

#[test]
fn a_value_that_is_not_to_be_kept_is_the_callers() {
    let (cache, _hand) = stale(|builder| builder.refresh_inline(true));
    let zero = std::time::Duration::ZERO;
    assert_eq!(cache.load("k", || Loaded::with_ttl(2, zero)), 2);
    assert_eq!(cache.get("k"), None);
}

#[test]
fn a_write_amid_an_inline_reload_overtakes_it() {
    let (cache, _hand) = stale(|builder| builder.refresh_inline(true));
    let loaded = cache.get_with("k", || {
        cache.insert("k", 50);
        2
    });
    // Its caller gets what is there, as that of any load that was overtaken by an insert.
    assert_eq!((loaded, cache.get("k")), (50, Some(50)));
}
