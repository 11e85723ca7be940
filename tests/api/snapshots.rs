//! Saving and restoring: what is written, in which order, what is restored, and what damaged
//! streams give.

use crate::common::audited::{Audited, TasksAudited, audited, tasks_audited};
use cortado::{Cache, Clock, EvictionPolicy, Expiration, Op, Snapshot, SnapshotError};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::io::{self, Read};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

const MINUTE: Duration = Duration::from_secs(60);

fn saved(cache: &Cache<u32, String>) -> Vec<u8> {
    let mut bytes = Vec::new();
    cache.save(&mut bytes).unwrap();
    bytes
}

/// On a clock that stands, with values of several lengths.
fn filled(entries: u32) -> Audited<u32, String> {
    let cache: Audited<u32, String> = audited(Cache::builder().clock(Clock::manual().0).build());
    for key in 0..entries {
        cache.insert_with_ttl(key, "x".repeat(key as usize % 300), MINUTE * (key + 1));
    }
    cache
}

fn restored(bytes: &[u8]) -> Audited<u32, String> {
    let cache: Audited<u32, String> = audited(Cache::builder().clock(Clock::manual().0).build());
    cache.restore(&mut Snapshot::read(bytes).unwrap(), usize::MAX);
    cache
}

#[test]
fn what_was_saved_is_restored_with_its_lifetime() {
    let before = SystemTime::now();
    let bytes = saved(&filled(1_000));
    let snapshot = Snapshot::<u32, String>::read(bytes.as_slice()).unwrap();
    assert_eq!(snapshot.len(), 1_000);
    assert!((before..=SystemTime::now()).contains(&snapshot.saved_at()));
    let cache = restored(&bytes);
    for key in 0..1_000 {
        assert_eq!(cache.get(&key), Some("x".repeat(key as usize % 300)));
        let left = cache.expires_in(&key).due().unwrap();
        // The time of day goes on meanwhile.
        assert!(left <= MINUTE * (key + 1) && left + MINUTE > MINUTE * (key + 1), "{left:?}");
    }
}

#[test]
fn expired_and_removed_entries_are_not_saved() {
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, String> = audited(Cache::builder().clock(clock).build());
    cache.insert_with_ttl(1, "ended".into(), MINUTE);
    cache.insert(2, "removed".into());
    cache.insert(3, "there".into());
    hand.advance(MINUTE);
    cache.remove(&2);
    let mut bytes = Vec::new();
    assert_eq!(cache.save(&mut bytes).unwrap(), 1);
    assert_eq!(restored(&bytes).keys().collect::<Vec<_>>(), [3]);
}

#[test]
fn an_empty_cache_makes_an_empty_snapshot() {
    let bytes = saved(&audited(Cache::new(10)));
    let mut snapshot = Snapshot::<u32, String>::read(bytes.as_slice()).unwrap();
    assert!(snapshot.is_empty());
    assert_eq!(audited(Cache::new(10)).restore(&mut snapshot, 1), 0);
}

/// An entry without an end gets the lifetime of the present settings; one with an end keeps it.
#[test]
fn present_settings_hold_for_entries_without_a_lifetime() {
    let cache: Audited<u32, String> = audited(Cache::builder().clock(Clock::manual().0).build());
    cache.insert(1, "for ever".into());
    cache.insert_with_ttl(2, "an hour".into(), MINUTE * 60);
    let bytes = saved(&cache);
    let cache: Audited<u32, String> =
        audited(Cache::builder().time_to_live(MINUTE).clock(Clock::manual().0).build());
    cache.restore(&mut Snapshot::read(bytes.as_slice()).unwrap(), usize::MAX);
    assert_eq!(cache.expires_in(&1), Expiration::Due(MINUTE));
    assert!(cache.expires_in(&2).due() > Some(MINUTE * 58));
}

#[test]
fn entries_of_the_cache_are_newer() {
    let bytes = saved(&filled(3));
    let (told, removals) = channel();
    let cache: Audited<u32, String> = audited(
        Cache::builder()
            .removal_listener(move |removed| told.send(*removed.key()).unwrap())
            .build(),
    );
    cache.insert(1, "newer".into());
    let mut snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(cache.restore(&mut snapshot, usize::MAX), 2);
    assert_eq!(cache.get(&1).as_deref(), Some("newer"));
    cache.run_pending_tasks();
    assert!(removals.try_recv().is_err(), "nothing was replaced");
}

/// Neither a load nor a computation is waited for: this thread would wait for itself.
#[test]
fn a_key_with_a_load_or_a_computation_is_passed_over() {
    let bytes = saved(&filled(3));
    let cache: Audited<u32, String> = audited(Cache::new(100));
    let restore = || cache.restore(&mut Snapshot::read(bytes.as_slice()).unwrap(), usize::MAX);
    let value = cache.get_with(1, || {
        assert_eq!(restore(), 2);
        "loaded".into()
    });
    assert_eq!((value.as_str(), cache.get(&1).as_deref()), ("loaded", Some("loaded")));
    cache.invalidate_all();
    cache.entry(2).and_compute_with(|_| {
        assert_eq!(restore(), 2);
        Op::Nop
    });
    assert_eq!(cache.get(&2), None);
}

#[test]
fn portions_have_the_order_of_the_snapshot() {
    let cache: Audited<u32, String> = audited(Cache::new(1_000));
    (0..1_000).for_each(|key| cache.insert(key, String::new()));
    for _ in 0..20 {
        (500..600).for_each(|key| drop(cache.get(&key)));
        cache.run_pending_tasks();
    }
    let mut snapshot = Snapshot::read(saved(&cache).as_slice()).unwrap();
    let restored: Audited<u32, String> = audited(Cache::new(1_000));
    assert_eq!(restored.restore(&mut snapshot, 100), 100);
    assert_eq!(snapshot.len(), 900);
    let hot = (500..600).filter(|key| restored.contains_key(key)).count();
    assert!(hot >= 90, "{hot} of the 100 keys that were read are among the first 100");
}

/// By recency, what was read last comes first.
#[test]
fn portions_of_the_other_policies_begin_with_what_was_read() {
    for policy in [EvictionPolicy::lru(), EvictionPolicy::segmented_lru()] {
        let builder = Cache::builder().max_capacity(1_000).eviction_policy(policy.clone());
        let cache: Audited<u32, String> = audited(builder.build());
        (0..1_000).for_each(|key| cache.insert(key, String::new()));
        cache.run_pending_tasks();
        (500..600).for_each(|key| drop(cache.get(&key)));
        cache.run_pending_tasks();
        let mut snapshot = Snapshot::read(saved(&cache).as_slice()).unwrap();
        let restored: Audited<u32, String> = audited(Cache::new(1_000));
        assert_eq!(restored.restore(&mut snapshot, 100), 100);
        let read = (500..600).filter(|key| restored.contains_key(key)).count();
        assert_eq!(read, 100, "{policy:?}");
    }
}

#[test]
fn a_full_cache_takes_no_more() {
    let bytes = saved(&filled(1_000));
    let (told, evicted) = channel();
    let cache: Audited<u32, String> = audited(
        Cache::builder()
            .max_capacity(100)
            .removal_listener(move |removed| told.send(*removed.key()).unwrap())
            .build(),
    );
    let mut snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    let mut restored = 0;
    loop {
        match cache.restore(&mut snapshot, 10) {
            0 => break,
            some => restored += some,
        }
        cache.run_pending_tasks();
    }
    assert_eq!((restored, cache.entry_count(), snapshot.len()), (100, 100, 900));
    assert_eq!(evicted.try_iter().count(), 0);
}

/// Whatever the weights are, no entry that is restored evicts one that was restored before.
#[test]
fn a_cache_that_is_full_by_weight_takes_no_more() {
    for policy in
        [EvictionPolicy::lru(), EvictionPolicy::segmented_lru(), EvictionPolicy::tiny_lfu()]
    {
        let bytes = saved(&filled(1_000));
        let (told, evicted) = channel();
        let cache: Audited<u32, String> = audited(
            Cache::builder()
                .max_capacity(5_000)
                .eviction_policy(policy)
                .weigher(|key, _| 5 + key % 7)
                .removal_listener(move |removed| told.send(*removed.key()).unwrap())
                .build(),
        );
        let mut snapshot = Snapshot::read(bytes.as_slice()).unwrap();
        let restored = cache.restore(&mut snapshot, usize::MAX);
        assert_eq!(cache.restore(&mut snapshot, usize::MAX), 0);
        cache.run_pending_tasks();
        assert_eq!(restored, cache.entry_count() as usize);
        assert!(cache.weighted_size() > 4_900, "{}", cache.weighted_size());
        assert_eq!(evicted.try_iter().count(), 0);
    }
}

#[test]
fn caches_of_tasks_are_saved_through_their_other_face() {
    let cache: TasksAudited<u32, String> = tasks_audited(cortado::future::Cache::new(10));
    pollster::block_on(cache.insert(1, "one".into()));
    let bytes = saved(cache.sync());
    let cache: TasksAudited<u32, String> = tasks_audited(cortado::future::Cache::new(10));
    let mut snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(cache.sync().restore(&mut snapshot, 10), 1);
    assert_eq!(pollster::block_on(cache.get(&1)).as_deref(), Some("one"));
}

#[test]
fn the_stream_may_go_on_after_a_snapshot() {
    let mut bytes = saved(&filled(300));
    let first = bytes.len();
    bytes.extend(saved(&filled(5)));
    bytes.extend(b"rest");
    let mut reader = bytes.as_slice();
    assert_eq!(Snapshot::<u32, String>::read(&mut reader).unwrap().len(), 300);
    assert_eq!(reader.len(), bytes.len() - first);
    assert_eq!(Snapshot::<u32, String>::read(&mut reader).unwrap().len(), 5);
    assert_eq!(reader, b"rest");
}

/// Cut off anywhere, a snapshot is an error, and what precedes the cut is whole.
#[test]
fn a_snapshot_that_is_cut_off() {
    let bytes = saved(&filled(1_500));
    let mut kept = 0;
    for length in (0..bytes.len()).filter(|it| *it < 200 || it % 997 == 0 || it + 200 > bytes.len())
    {
        let (part, error) = Snapshot::<u32, String>::salvage(&bytes[..length]);
        match error.expect("the end is missing") {
            SnapshotError::Truncated => {}
            error => panic!("{error} at {length}"),
        }
        assert!(part.len() >= kept && part.len() <= 1_500);
        kept = part.len();
    }
    assert_eq!(kept, 1_500);
}

/// Any byte that is changed is noticed.
#[test]
fn a_snapshot_that_is_damaged() {
    let bytes = saved(&filled(50));
    for position in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1 << bit;
            let error = Snapshot::<u32, String>::read(damaged.as_slice()).unwrap_err();
            match error {
                SnapshotError::Foreign => assert!(position < 8),
                SnapshotError::Version(version) => {
                    assert!((8..12).contains(&position) && version != 1);
                }
                // A length that is too large ends beyond the stream.
                SnapshotError::Truncated | SnapshotError::Corrupt => assert!(position >= 12),
                error => panic!("{error} at {position}"),
            }
        }
    }
}

#[test]
fn other_streams_are_foreign() {
    for bytes in [&b"{\"a\": 1}"[..], b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", b"cortado: a crate"] {
        let error = Snapshot::<u32, String>::read(bytes).unwrap_err();
        assert!(matches!(error, SnapshotError::Foreign), "{error}");
    }
}

#[test]
fn other_types_are_refused() {
    let bytes = saved(&filled(10));
    let error = Snapshot::<u32, u64>::read(bytes.as_slice()).unwrap_err();
    assert!(matches!(error, SnapshotError::Types(_)), "{error}");
    let (none, error) = Snapshot::<String, String>::salvage(bytes.as_slice());
    assert!(none.is_empty() && matches!(error, Some(SnapshotError::Types(_))));
}

/// One field has gone, and one is new, with a default.
#[test]
fn types_may_change_their_fields() {
    #[derive(Serialize, Deserialize)]
    struct Before {
        name: String,
        age: u32,
    }
    #[derive(Clone, Serialize, Deserialize)]
    struct After {
        name: String,
        #[serde(default)]
        address: Option<String>,
    }
    let cache: Audited<u32, Before> = audited(Cache::new(10));
    cache.insert(1, Before { name: "alice".into(), age: 7 });
    let mut bytes = Vec::new();
    cache.save(&mut bytes).unwrap();
    let cache: Audited<u32, After> = audited(Cache::new(10));
    cache.restore(&mut Snapshot::read(&*bytes).unwrap(), 1);
    let after = cache.get(&1).unwrap();
    assert_eq!((after.name.as_str(), after.address), ("alice", None));
}

#[test]
fn a_stream_that_fails_says_so() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("no disk"))
        }
    }
    impl io::Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("no disk"))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let bytes = saved(&filled(1_500));
    let error = Snapshot::<u32, String>::read(bytes[..100].chain(Failing)).unwrap_err();
    assert!(matches!(&error, SnapshotError::Io(io) if io.to_string() == "no disk"), "{error}");
    let error = filled(1).save(Failing).unwrap_err();
    assert!(matches!(&error, SnapshotError::Io(_)), "{error}");
}

/// A mutex that another thread has poisoned has no value to write.
#[test]
fn what_cannot_be_serialized_says_so() {
    use std::sync::Mutex;
    let cache: Audited<u32, Mutex<u32>> = audited(Cache::new(10));
    cache.insert(1, Mutex::new(1));
    let entry = cache.get_entry(&1).unwrap();
    let poisoned = std::thread::scope(|scope| {
        let poisons = || {
            let _locked = entry.lock();
            panic!("with the lock");
        };
        scope.spawn(poisons).join()
    });
    assert!(poisoned.is_err());
    let error = cache.save(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, SnapshotError::Types(_)), "{error}");
}

proptest! {
    /// Whatever bytes come, the result is an error or a snapshot, never a panic, nor memory that
    /// the stream does not fill.
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400), headed in any::<bool>()) {
        let mut stream = if headed { b"cortado\x1a\x01\0\0\0".to_vec() } else { Vec::new() };
        stream.extend(&bytes);
        prop_assert!(Snapshot::<u32, String>::read(stream.as_slice()).is_err());
    }
}
