//! Settings that are changed while the cache is in use: bound, `time_to_live`, `time_to_idle`.

use crate::common::audited::{Audited, audited};
use crate::common::crowd::stripes;
use crate::common::{MINUTE, SECOND, TICK, tested};
use cortado::RemovalCause::{Expired, Replaced, Size};
use cortado::{Builder, Cache, Expiration, Expiry, expire};
use std::time::{Duration, Instant};

const ZERO: Duration = Duration::ZERO;

fn left(cache: &Cache<u32, u32>, key: u32) -> Expiration<Duration> {
    cache.expires_in(&key)
}

/// What the builder's documentation allows beyond the bound between passes.
fn slack(bound: u64) -> u64 {
    (bound / 16).max(stripes())
}

/// Writes so many new keys, and checks the bound and its slack after each write. Then the bound
/// holds exactly.
fn fill(cache: &Audited<u64, u64>, keys: std::ops::Range<u64>) {
    let bound = cache.policy().max_capacity().expect("the cache has a bound");
    let looks = keys.end.saturating_sub(keys.start).div_ceil(64);
    for key in keys {
        cache.insert(key, key);
        if key.is_multiple_of(looks) || bound < 100 {
            let count = cache.entries().count() as u64;
            assert!(count <= bound + slack(bound), "{count} of {bound} after a write");
        }
    }
    cache.run_pending_tasks();
    let count = cache.entries().count() as u64;
    assert!(count <= bound && cache.entry_count() == count, "{count} of {bound}");
    cache.audit();
}

#[test]
fn the_bound_moves_up_and_down_and_holds_at_every_step() {
    let cache = audited(Cache::builder().max_capacity(1_000).build());
    let mut key = 0;
    for bound in [1_000, 100, 1, 0, 16, 2_000, 10, 0, 500] {
        assert!(cache.set_max_capacity(bound));
        assert_eq!(cache.policy().max_capacity(), Some(bound));
        assert_eq!(cache.policy().max_capacity(), Some(bound));
        // Evicted at once, and not by the next writes.
        cache.run_pending_tasks();
        assert!(cache.entry_count() <= bound, "{} of {bound}", cache.entry_count());
        fill(&cache, key..key + 3 * bound + 50);
        key += 3 * bound + 50;
        // A bound that is not used would hold, too.
        assert!(cache.entry_count() >= bound - bound / 10, "{} of {bound}", cache.entry_count());
    }
}

#[test]
fn a_bound_far_beyond_the_built_one_is_used_and_holds() {
    let cache = audited(Cache::builder().max_capacity(10).build());
    assert!(cache.set_max_capacity(10_000));
    fill(&cache, 0..30_000);
    assert!(cache.entry_count() >= 9_900, "{} of 10,000", cache.entry_count());
    assert!(cache.set_max_capacity(10));
    // Writes do the work, too, if nobody else does.
    for key in 30_000.. {
        cache.insert(key, key);
        if cache.entry_count() <= 10 + slack(10) {
            break;
        }
    }
    fill(&cache, 90_000..91_000);
    assert_eq!(cache.entry_count(), 10);
}

#[test]
fn a_lower_bound_evicts_by_weight_and_refuses_what_is_heavier() {
    let tested = tested(|builder: Builder<u32, u32>| {
        builder.max_capacity(1_000).weigher(|_, &weight| weight)
    });
    (1..=10).for_each(|key| tested.insert(key, 100));
    assert!(tested.causes().is_empty());
    assert!(tested.set_max_capacity(350));
    let evicted = tested.causes();
    assert_eq!(evicted.len(), 7);
    assert!(evicted.iter().all(|(_, cause)| *cause == Size));
    assert_eq!(tested.weighted_size(), 300);
    // Heavier than the bound by now, and before.
    tested.insert(20, 400);
    assert_eq!((tested.get(&20), tested.causes()), (None, vec![(20, Size)]));
    assert!(tested.set_max_capacity(2_000));
    tested.insert(20, 400);
    assert_eq!((tested.get(&20), tested.causes()), (Some(400), vec![]));
    assert_eq!(tested.weighted_size(), 700);
}

/// Zero turns caching off, and another bound turns it on again.
#[test]
fn a_bound_of_zero_stores_nothing_until_it_is_raised() {
    let tested = tested(|builder: Builder<u32, u32>| builder.max_capacity(10));
    tested.insert(1, 1);
    assert!(tested.set_max_capacity(0));
    assert_eq!(tested.causes(), [(1, Size)]);
    tested.insert(2, 2);
    assert_eq!(tested.get_with(3, || 3), 3);
    assert_eq!((tested.get(&2), tested.get(&3)), (None, None));
    // What a loader made, and the cache does not keep, has entered it and leaves it all the same.
    assert_eq!(tested.causes(), [(2, Size), (3, Size)]);
    assert!(tested.set_max_capacity(1));
    tested.insert(4, 4);
    assert_eq!((tested.get(&4), tested.causes()), (Some(4), vec![]));
}

#[test]
fn a_cache_without_a_bound_gets_none() {
    let cache: Audited<u32, u32> = audited(Cache::builder().build());
    assert!(!cache.set_max_capacity(1) && !cache.set_max_capacity(u64::MAX));
    assert_eq!((cache.policy().max_capacity(), cache.policy().max_capacity()), (None, None));
    (0..100).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 100);
}

/// The scheduler hears of a lower bound, though nobody uses the cache.
#[test]
fn a_lower_bound_takes_effect_in_an_idle_cache_with_a_scheduler() {
    let cache = audited(Cache::builder().max_capacity(100).scheduler(true).build());
    (0..100).for_each(|key| cache.insert(key, key));
    cache.run_pending_tasks();
    assert!(cache.set_max_capacity(5));
    crate::common::noted::eventually("5 entries", || cache.entry_count() == 5);
}

#[test]
fn a_time_to_live_holds_for_what_is_written_from_then_on() {
    for scheduler in [false, true] {
        let tested = tested(|builder: Builder<u32, u32>| builder.scheduler(scheduler));
        tested.insert(1, 1);
        tested.set_time_to_live(Some(MINUTE));
        tested.insert(2, 2);
        assert_eq!(tested.get_with(3, || 3), 3);
        tested.insert_with_ttl(4, 4, SECOND);
        tested.set_time_to_live(Some(SECOND));
        tested.insert(5, 5);
        tested.set_time_to_live(None);
        tested.insert(6, 6);
        assert_eq!(left(&tested, 1), Expiration::Never);
        assert_eq!(left(&tested, 2), Expiration::Due(MINUTE));
        assert_eq!(left(&tested, 3), Expiration::Due(MINUTE));
        assert_eq!(left(&tested, 4), Expiration::Due(SECOND));
        assert_eq!(left(&tested, 5), Expiration::Due(SECOND));
        assert_eq!(left(&tested, 6), Expiration::Never);
        assert_eq!(tested.policy().time_to_live(), None);
        tested.pass(SECOND + TICK);
        assert_eq!(tested.causes(), [(4, Expired), (5, Expired)]);
        // An update is a write.
        tested.insert(2, 20);
        assert_eq!((left(&tested, 2), tested.causes()), (Expiration::Never, vec![(2, Replaced)]));
        tested.pass(MINUTE);
        assert_eq!(tested.causes(), [(3, Expired)]);
        assert_eq!(tested.entry_count(), 3);
    }
}

#[test]
fn a_time_to_live_of_zero_at_run_time_stores_nothing() {
    let tested = tested(|builder: Builder<u32, u32>| builder.time_to_live(MINUTE));
    tested.insert(1, 1);
    tested.set_time_to_live(Some(ZERO));
    assert_eq!(tested.policy().time_to_live(), Some(ZERO));
    tested.insert(1, 10);
    tested.insert(2, 2);
    assert_eq!(tested.get_with(3, || 3), 3);
    assert_eq!(tested.iter().count(), 0);
    let told: Vec<_> = tested.told().iter().map(|told| (told.value, told.cause)).collect();
    assert_eq!(told, [(1, Replaced), (10, Expired), (2, Expired), (3, Expired)]);
    tested.set_time_to_live(Some(Duration::MAX));
    tested.insert(1, 11);
    assert_eq!(left(&tested, 1), Expiration::Never);
}

#[test]
fn the_earliest_end_wins_with_a_time_to_live_that_was_set_later() {
    let tested = tested(|builder: Builder<u32, u32>| {
        builder.expire_after(expire::on_write(|_: &u32, &life: &u32| {
            (life > 0).then(|| Duration::from_secs(life.into()))
        }))
    });
    tested.set_time_to_live(Some(10 * SECOND));
    for (life, expected) in [(0, 10), (5, 5), (20, 10)] {
        tested.insert(life, life);
        assert_eq!(left(&tested, life), Expiration::Due(expected * SECOND));
    }
}

#[test]
fn an_idle_time_is_followed_by_the_next_read_or_write() {
    let tested = tested(|builder: Builder<u32, u32>| builder.time_to_idle(10 * SECOND));
    (1..=3).for_each(|key| tested.insert(key, key));
    assert!(tested.set_time_to_idle(MINUTE));
    assert_eq!(tested.policy().time_to_idle(), Some(MINUTE));
    assert_eq!(left(&tested, 1), Expiration::Due(10 * SECOND));
    tested.get(&1);
    tested.insert(2, 20);
    assert_eq!(left(&tested, 1), Expiration::Due(MINUTE));
    assert_eq!(left(&tested, 2), Expiration::Due(MINUTE));
    assert_eq!(tested.causes(), [(2, Replaced)]);
    tested.pass(10 * SECOND + TICK);
    assert_eq!(tested.causes(), [(3, Expired)]);
    tested.pass(MINUTE);
    assert_eq!(tested.causes(), [(1, Expired), (2, Expired)]);
}

/// So it is documented, by whatever clock.
#[test]
fn a_shorter_idle_time_does_not_shorten_a_life_by_a_read() {
    let tested = tested(|builder: Builder<u32, u32>| builder.time_to_idle(MINUTE));
    tested.insert(1, 1);
    assert!(tested.set_time_to_idle(SECOND));
    assert_eq!(tested.get(&1), Some(1));
    assert_eq!(left(&tested, 1), Expiration::Due(MINUTE));
    tested.hand.advance(MINUTE - SECOND / 2);
    assert_eq!(tested.get(&1), Some(1));
    assert_eq!(left(&tested, 1), Expiration::Due(SECOND));

    let cache = audited(Cache::builder().time_to_idle(60 * MINUTE).build());
    cache.insert(1, 1);
    for idle in [30 * MINUTE, MINUTE, SECOND] {
        assert!(cache.set_time_to_idle(idle));
        assert_eq!(cache.get(&1), Some(1));
        let rest = cache.expires_in(&1).due().expect("it has a deadline");
        assert!(rest > 59 * MINUTE, "{rest:?} after a read with {idle:?}");
    }
}

#[test]
fn an_idle_time_of_zero_at_run_time_stores_nothing_new() {
    let tested = tested(|builder: Builder<u32, u32>| builder.time_to_idle(MINUTE));
    tested.insert(1, 1);
    assert!(tested.set_time_to_idle(ZERO));
    tested.insert(2, 2);
    assert_eq!((tested.get(&1), tested.get(&2)), (Some(1), None));
    assert_eq!(tested.causes(), [(2, Expired)]);
    assert!(tested.set_time_to_idle(Duration::MAX));
    tested.get(&1);
    assert_eq!(left(&tested, 1), Expiration::Never);
    assert_eq!(tested.policy().time_to_idle(), None);
    // It can be changed again.
    assert!(tested.set_time_to_idle(SECOND));
    tested.insert(2, 2);
    assert_eq!(left(&tested, 2), Expiration::Due(SECOND));
}

#[test]
fn a_cache_without_an_idle_time_gets_none() {
    let tested = tested(|builder: Builder<u32, u32>| builder.time_to_live(MINUTE));
    assert!(!tested.set_time_to_idle(SECOND));
    tested.insert(1, 1);
    tested.get(&1);
    assert_eq!(left(&tested, 1), Expiration::Due(MINUTE));
    assert_eq!(tested.policy().time_to_idle(), None);
}

/// A read hook may give more life, but no more than the present `time_to_live` counted from the
/// write.
struct Generous;

impl Expiry<u32, u32> for Generous {
    fn expire_after_read(
        &self,
        _: &u32,
        _: &u32,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(100 * MINUTE)
    }
}

#[test]
fn what_reads_may_give_follows_the_time_to_live() {
    let tested =
        tested(|builder: Builder<u32, u32>| builder.time_to_live(MINUTE).expire_after(Generous));
    tested.insert(1, 1);
    tested.get(&1);
    assert_eq!(left(&tested, 1), Expiration::Due(MINUTE));
    tested.set_time_to_live(Some(3 * MINUTE));
    tested.get(&1);
    assert_eq!(left(&tested, 1), Expiration::Due(3 * MINUTE));
    tested.set_time_to_live(Some(SECOND));
    tested.get(&1);
    assert_eq!(left(&tested, 1), Expiration::Due(3 * MINUTE), "no life is taken back");
}
