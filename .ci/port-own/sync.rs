//! Programs of the kind that moka's users write, for threads. They run with moka and with cortado: only
//! the `use` lines differ.

use moka::notification::{ListenerFuture, RemovalCause};
use moka::ops::compute::{CompResult, Op};
use moka::sync::{Cache, CacheBuilder, SegmentedCache};
use moka::{Entry, Expiry, PredicateError};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// A type of the async listeners that programs name in signatures.
#[allow(dead_code)]
fn named(_: fn() -> ListenerFuture) {}

#[test]
fn types_and_functions_by_their_names() {
    let cache: Cache<u32, u32> =
        CacheBuilder::new(10).support_invalidation_closures().build();
    match cache.invalidate_entries_if(|_, _| true) {
        Ok(_) => {}
        Err(PredicateError::InvalidationClosuresDisabled) => unreachable!("they were asked for"),
    }
    let causes = [RemovalCause::Expired, RemovalCause::Explicit, RemovalCause::Size];
    assert_eq!(causes.iter().filter(|cause| RemovalCause::was_evicted(cause)).count(), 2);
    assert_eq!(causes.iter().map(RemovalCause::was_evicted).last(), Some(true));
}

#[test]
fn handles_for_several_threads() {
    let cache: Cache<u32, String> = Cache::new(10_000);
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let cache = cache.clone();
            thread::spawn(move || {
                let (from, to) = (thread * 64, (thread + 1) * 64);
                for key in from..to {
                    cache.insert(key, format!("value {key}"));
                    assert_eq!(cache.get(&key), Some(format!("value {key}")));
                }
                for key in (from..to).step_by(4) {
                    cache.invalidate(&key);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    for key in 0..256 {
        assert_eq!(cache.contains_key(&key), key % 4 != 0, "{key}");
    }
    cache.run_pending_tasks();
    assert_eq!(cache.entry_count(), 192);
}

#[test]
fn a_counter_for_each_key() {
    let cache: Cache<String, u64> = Cache::builder().max_capacity(100).build();
    let words = ["a", "rose", "is", "a", "rose", "is", "a", "rose"];
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for word in words {
                    cache
                        .entry_by_ref(word)
                        .and_upsert_with(|entry| entry.map_or(1, |entry| entry.into_value() + 1));
                }
            });
        }
    });
    let counts: HashMap<_, _> = cache.iter().map(|(word, count)| ((*word).clone(), count)).collect();
    assert_eq!(counts, HashMap::from([("a".into(), 12), ("rose".into(), 12), ("is".into(), 8)]));
}

#[test]
fn values_that_grow() {
    let cache: Cache<&str, Arc<RwLock<Vec<u32>>>> = Cache::new(100);
    let append = |key, number| {
        cache.entry(key).and_compute_with(|entry| match entry {
            Some(entry) => {
                entry.value().write().unwrap().push(number);
                Op::Nop
            }
            None => Op::Put(Arc::new(RwLock::new(vec![number]))),
        })
    };
    assert!(matches!(append("k", 1), CompResult::Inserted(_)));
    let CompResult::Unchanged(entry) = append("k", 2) else { panic!("it was there") };
    assert_eq!(*entry.into_value().read().unwrap(), [1, 2]);
}

/// Takes what a source gives; an error leaves the entry as it was, an end removes it.
#[test]
fn values_that_grow_from_a_source_that_may_fail() {
    let cache: Cache<&str, String> = Cache::new(100);
    let mut source = vec![Err("broken"), Ok(Some("b")), Ok(Some("a")), Ok(None), Ok(Some("a"))];
    let mut next = || source.pop().unwrap();
    let mut append = || {
        cache.entry("k").and_try_compute_with(|entry| {
            let mut text = entry.map_or_else(String::new, Entry::into_value);
            Ok::<_, &str>(match next()? {
                Some(more) => {
                    text.write_str(more).unwrap();
                    Op::Put(text)
                }
                None => Op::Remove,
            })
        })
    };
    assert!(matches!(append(), Ok(CompResult::Inserted(_))));
    assert!(matches!(append(), Ok(CompResult::Removed(_))));
    assert!(matches!(append(), Ok(CompResult::Inserted(_))));
    assert!(matches!(append(), Ok(CompResult::ReplacedWith(_))));
    assert!(matches!(append(), Err("broken")));
    assert_eq!(cache.get("k"), Some("ab".into()));
}

#[test]
fn capacity_in_bytes() {
    let cache = Cache::builder()
        .max_capacity(4_096)
        .weigher(|_key: &u32, value: &Vec<u8>| value.len().try_into().unwrap_or(u32::MAX))
        .build();
    for key in 0..64 {
        cache.insert(key, vec![0; 256]);
    }
    cache.run_pending_tasks();
    assert!(cache.weighted_size() <= 4_096);
    assert!(cache.entry_count() <= 16);
    cache.insert(1_000, vec![0; 5_000]);
    cache.run_pending_tasks();
    assert_eq!(cache.get(&1_000), None, "heavier than the whole");
}

/// Lifetimes of 300 to 600 ms, so that entries made together do not end together.
struct Jitter;

impl Expiry<u64, String> for Jitter {
    fn expire_after_create(&self, key: &u64, _: &String, _: Instant) -> Option<Duration> {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Some(Duration::from_millis(300 + hasher.finish() % 300))
    }
}

#[test]
fn lifetimes_with_jitter() {
    let cache = Cache::builder().max_capacity(1_000).expire_after(Jitter).build();
    let begun = Instant::now();
    for key in 0..100 {
        cache.insert(key, key.to_string());
    }
    let there = (0..100).filter(|key| cache.contains_key(key)).count();
    assert!(there == 100 || begun.elapsed() >= Duration::from_millis(300));
    thread::sleep(Duration::from_millis(700));
    assert!((0..100).all(|key| cache.get(&key).is_none()));
}

/// What timed out is put back by a thread that the listener tells.
#[test]
fn entries_that_come_back() {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let cache: Cache<u32, u32> = Cache::builder()
        .max_capacity(100)
        .time_to_live(Duration::from_millis(200))
        .eviction_listener(move |key, value, cause| {
            if cause == RemovalCause::Expired {
                _ = tell.lock().unwrap().send((key, value));
            }
        })
        .build();
    let keeper = {
        let cache = cache.clone();
        thread::spawn(move || {
            let (key, value): (Arc<u32>, u32) = told.recv().unwrap();
            cache.insert(*key, value + 1);
        })
    };
    cache.insert(7, 1);
    thread::sleep(Duration::from_millis(250));
    while !keeper.is_finished() {
        cache.run_pending_tasks();
        _ = cache.get(&7);
        thread::sleep(Duration::from_millis(5));
    }
    keeper.join().unwrap();
    assert!(matches!(cache.get(&7), Some(2) | None));
}

/// The listener cleans up what the values name.
#[test]
fn files_that_go_with_their_entries() {
    let folder = std::env::temp_dir().join(format!("ported-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let cache: Cache<String, PathBuf> = CacheBuilder::new(2)
        .eviction_listener(|_key: Arc<String>, path: PathBuf, _cause| {
            std::fs::remove_file(path).unwrap();
        })
        .build();
    for number in 0..10 {
        let path = folder.join(number.to_string());
        std::fs::write(&path, "text").unwrap();
        cache.insert(number.to_string(), path);
    }
    cache.run_pending_tasks();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count() as u64, cache.entry_count());
    assert!(cache.entry_count() <= 2);
    cache.invalidate_all();
    cache.run_pending_tasks();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(folder).unwrap();
}

#[test]
fn one_load_for_all_who_ask() {
    let cache: Cache<u32, String> = Cache::new(100);
    let (loads, start) = (AtomicUsize::new(0), Barrier::new(8));
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let value = cache.get_with(1, || {
                    loads.fetch_add(1, Ordering::SeqCst);
                    "loaded".into()
                });
                assert_eq!(value, "loaded");
            });
        }
    });
    assert_eq!(loads.into_inner(), 1);
    let refused: Result<String, Arc<String>> = cache.try_get_with(2, || Err("refused".to_owned()));
    assert_eq!(*refused.unwrap_err(), "refused");
    assert_eq!(cache.optionally_get_with(3, || None), None);
    assert!(!cache.contains_key(&2) && !cache.contains_key(&3));
}

#[test]
fn entries_of_one_user() {
    let cache: SegmentedCache<(String, u32), u32> =
        SegmentedCache::builder(8).max_capacity(1_000).support_invalidation_closures().build();
    for number in 0..50 {
        cache.insert(("ann".into(), number), number);
        cache.insert(("bob".into(), number), number);
    }
    cache.invalidate_entries_if(|(user, _), _| user == "ann").unwrap();
    for number in 0..50 {
        assert_eq!(cache.get(&("ann".into(), number)), None);
        assert_eq!(cache.get(&("bob".into(), number)), Some(number));
    }
}
