//! How lives go on after a time without a process, and what a stream is made of.

use super::format::checksum;
use super::*;
use crate::{Clock, Expiration};
use proptest::prelude::*;

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

/// A snapshot of two entries that was saved a second after 1970 began, as version 1 writes it.
const VERSION_1: &[u8] = b"\
    cortado\x1a\x01\0\0\0\
    \x04\0\0\0\xc3\x82\xc8\xc6\0\x92\x01\0\
    \x15\0\0\0\x8d\xe5\x8c\xa7\x01\x95\x01\xa3one\xc0\xc0\xc0\x95\x02\xa3two\xcd\x03\xe8\x03\xc0\
    \x01\0\0\0\xd9\xfd\xa2\xaf\x02\
";

#[test]
fn version_1_is_as_it_was() {
    let mut bytes = Vec::new();
    let saved_at = SystemTime::UNIX_EPOCH + SECOND;
    let mut sink = Sink::open(&mut bytes, Head { saved_at }).unwrap();
    let rest = |life, idle| Rest { life, idle, fresh: Nanos::FOREVER };
    sink.push(&1_u32, &"one", rest(Nanos::FOREVER, Nanos::FOREVER)).unwrap();
    sink.push(&2_u32, &"two", rest(Nanos::from_raw(1_000), Nanos::from_raw(3))).unwrap();
    assert_eq!(sink.close().unwrap(), 2);
    assert_eq!(bytes, VERSION_1, "another layout is another version");
    let snapshot = Snapshot::<u32, String>::read(VERSION_1).unwrap();
    assert_eq!(snapshot.saved_at, saved_at);
    let entries: Vec<_> = snapshot
        .entries
        .iter()
        .map(|it| (it.key, it.value.as_str(), it.rest.life, it.rest.idle, it.rest.fresh))
        .collect();
    let never = Nanos::FOREVER;
    assert_eq!(
        entries,
        [
            (1, "one", never, never, never),
            (2, "two", Nanos::from_raw(1_000), Nanos::from_raw(3), never)
        ]
    );
}

/// The head of a stream, and its frames.
fn frames(bytes: &[u8]) -> (&[u8], Vec<&[u8]>) {
    let (head, mut rest) = bytes.split_at(12);
    let mut frames = Vec::new();
    while let Some(length) = rest.first_chunk() {
        let (frame, after) = rest.split_at(8 + u32::from_le_bytes(*length) as usize);
        frames.push(frame);
        rest = after;
    }
    (head, frames)
}

#[test]
fn frames_that_are_missing_doubled_or_exchanged_are_damage() {
    let cache: Cache<u32, String> = Cache::new(10_000);
    cache.insert_many((0..3_000).map(|key| (key, "x".repeat(100))));
    let mut bytes = Vec::new();
    cache.save(&mut bytes).unwrap();
    let (head, whole) = frames(&bytes);
    let last = whole.len() - 1;
    assert!(last > 4, "several frames of entries");
    let read = |frames: Vec<&[u8]>| {
        let bytes = [vec![head], frames].concat().concat();
        Snapshot::<u32, String>::read(bytes.as_slice()).map(|it| it.len())
    };
    assert!(matches!(read(whole.clone()), Ok(3_000)));
    for at in 0..last {
        let without = [&whole[..at], &whole[at + 1..]].concat();
        let doubled = [&whole[..=at], &whole[at..]].concat();
        let exchanged = [&whole[..at], &[whole[at + 1], whole[at]], &whole[at + 2..]].concat();
        let replaced = [&whole[..at], &[whole[at + 1]], &whole[at + 1..]].concat();
        for frames in [without, doubled, exchanged, replaced] {
            let read = read(frames);
            assert!(matches!(read, Err(SnapshotError::Corrupt)), "{read:?} at {at}");
        }
    }
    assert!(matches!(read(whole[..last].to_vec()), Err(SnapshotError::Truncated)));
}

proptest! {
    /// A payload of any bytes that has the right checksum: an error or entries, never a panic.
    #[test]
    fn any_payload(kind in 0_u8..4, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (head, whole) = frames(VERSION_1);
        let mut bytes = [head, whole[0]].concat();
        let before = checksum(0, &whole[0][8..]);
        let payload = [vec![kind], payload].concat();
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(checksum(before, &payload).to_le_bytes());
        bytes.extend(&payload);
        match Snapshot::<u32, u64>::salvage(bytes.as_slice()) {
            (_, None) => prop_assert_eq!(kind, 2),
            (_, Some(error)) => {
                let expected = matches!(
                    error,
                    SnapshotError::Corrupt | SnapshotError::Types(_) | SnapshotError::Truncated
                );
                prop_assert!(expected, "{}", error);
            }
        }
    }
}
