//! How lives go on after a time without a process.

use super::*;
use crate::{Clock, Expiration};

const SECOND: Duration = Duration::from_secs(1);

/// A snapshot that was saved so long ago.
fn aged<K, V>(cache: &Cache<K, V>, by: Duration) -> Snapshot<K, V>
where
    K: Hash + Eq + Serialize + DeserializeOwned,
    V: Serialize + DeserializeOwned,
{
    let mut bytes = Vec::new();
    cache.save(&mut bytes).unwrap();
    let mut snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    snapshot.saved_at -= by;
    snapshot
}

/// Lives are measured by the clock of the system here, so they may be shorter by what the test
/// takes.
fn is_about(left: Expiration<Duration>, expected: Duration) -> bool {
    left.due().is_some_and(|left| left <= expected && left > expected - 60 * SECOND)
}

#[test]
fn the_time_without_a_process_counts() {
    let cache: Cache<String, u32> = Cache::builder().clock(Clock::manual().0).build();
    cache.insert_with_ttl("hour".into(), 1, 3600 * SECOND);
    cache.insert_with_ttl("two hours".into(), 2, 7200 * SECOND);
    cache.insert("for ever".into(), 3);
    let mut snapshot = aged(&cache, 3600 * SECOND);
    let restored: Cache<String, u32> = Cache::builder().clock(Clock::manual().0).build();
    assert_eq!(restored.restore(&mut snapshot, usize::MAX), 2);
    assert_eq!(restored.get("hour"), None);
    assert!(is_about(restored.expires_in("two hours"), 3600 * SECOND));
    assert_eq!(restored.expires_in("for ever"), Expiration::Never);
}

#[test]
fn a_time_of_day_that_was_set_back_counts_as_no_time() {
    let cache: Cache<u32, u32> = Cache::builder().clock(Clock::manual().0).build();
    cache.insert_with_ttl(1, 1, 60 * SECOND);
    let mut snapshot = aged(&cache, Duration::ZERO);
    snapshot.saved_at += 3600 * SECOND;
    let restored: Cache<u32, u32> = Cache::builder().clock(Clock::manual().0).build();
    assert_eq!(restored.restore(&mut snapshot, 10), 1);
    assert_eq!(restored.expires_in(&1), Expiration::Due(60 * SECOND));
}

#[test]
fn idle_times_end_without_a_process_and_else_begin_anew() {
    let sessions = || {
        let builder = Cache::builder().time_to_idle(1800 * SECOND).clock(Clock::manual().0);
        builder.build() as Cache<u32, u32>
    };
    let cache = sessions();
    cache.insert_with_ttl(1, 1, 7200 * SECOND);
    let mut snapshot = aged(&cache, 900 * SECOND);
    let restored = sessions();
    assert_eq!(restored.restore(&mut snapshot, 10), 1);
    assert_eq!(restored.expires_in(&1), Expiration::Due(1800 * SECOND));
    for _ in 0..4 {
        restored.touch(&1);
    }
    let mut snapshot = aged(&cache, 1800 * SECOND);
    assert_eq!(sessions().restore(&mut snapshot, 10), 0);
}

#[test]
fn what_is_left_until_a_value_is_stale_holds() {
    let build = |clock| {
        Cache::builder()
            .refresh_after_write(600 * SECOND)
            .clock(clock)
            .build_with_loader(|_: u32| Ok::<_, ()>(crate::Loaded::new(2)))
    };
    let first = build(Clock::manual().0);
    first.cache().insert(1, 1);
    let read_after = |down: Duration| {
        let mut snapshot = aged(first.cache(), down);
        let (clock, hand) = Clock::manual();
        let second = build(clock);
        second.cache().restore(&mut snapshot, 10);
        (second, hand)
    };
    let (cache, hand) = read_after(300 * SECOND);
    hand.advance(200 * SECOND);
    cache.get(&1).unwrap();
    assert_eq!(cache.stats().reloads_under_way + cache.stats().reloads, 0);
    hand.advance(100 * SECOND);
    cache.get(&1).unwrap();
    assert_eq!(cache.stats().reloads_under_way + cache.stats().reloads, 1);
    let (cache, _hand) = read_after(900 * SECOND);
    cache.get(&1).unwrap();
    assert_eq!(cache.stats().reloads_under_way + cache.stats().reloads, 1);
}
