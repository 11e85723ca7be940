//! Programs of the kind that moka's users write, for tasks. They run with moka and with cortado: only the
//! `use` lines differ.

use futures_util::future::join_all;
use moka::future::{Cache, FutureExt as _, Iter};
use moka::notification::ListenerFuture;
use moka::ops::compute::Op;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Types that programs name in signatures.
#[allow(dead_code)]
fn first<'i>(mut iter: Iter<'i, u32, u32>) -> Option<u32> {
    iter.next().map(|(_, value)| value)
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_for_several_tasks() {
    let cache: Cache<u32, String> = Cache::new(10_000);
    let tasks = (0..4).map(|task| {
        let cache = cache.clone();
        tokio::spawn(async move {
            for key in task * 64..(task + 1) * 64 {
                cache.insert(key, key.to_string()).await;
                assert_eq!(cache.get(&key).await, Some(key.to_string()));
                if key % 4 == 0 {
                    cache.invalidate(&key).await;
                }
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(|end| end.unwrap());
    cache.run_pending_tasks().await;
    assert_eq!(cache.entry_count(), 192);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_counter_for_each_key() {
    let cache: Cache<String, u64> = Cache::new(100);
    let tasks = (0..8).map(|_| {
        let cache = cache.clone();
        tokio::spawn(async move {
            for word in ["a", "rose", "is", "a", "rose"] {
                let count = cache.entry_by_ref(word).and_upsert_with(|entry| {
                    let count = entry.map_or(1, |entry| entry.into_value() + 1);
                    async move {
                        tokio::task::yield_now().await;
                        count
                    }
                });
                count.await;
            }
        })
    });
    join_all(tasks).await.into_iter().for_each(|end| end.unwrap());
    assert_eq!(cache.get("a").await, Some(16));
    assert_eq!(cache.get("is").await, Some(8));
}

#[tokio::test]
async fn a_computation_that_fails_changes_nothing() {
    let cache: Cache<&str, u32> = Cache::new(100);
    cache.insert("k", 1).await;
    let failed = cache.entry("k").and_try_compute_with(|_| async { Err::<Op<u32>, _>("no") }).await;
    assert!(matches!(failed, Err("no")));
    assert_eq!(cache.get("k").await, Some(1));
    let removed = cache.entry("k").and_compute_with(|_| async { Op::Remove }).await;
    assert_eq!(removed.into_entry().map(|entry| entry.into_value()), Some(1));
    assert_eq!(cache.get("k").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_load_for_all_who_ask() {
    let cache: Cache<u32, Arc<str>> = Cache::new(100);
    let loads = Arc::new(AtomicUsize::new(0));
    let tasks = (0..100).map(|_| {
        let (cache, loads) = (cache.clone(), Arc::clone(&loads));
        tokio::spawn(async move {
            cache
                .try_get_with(1, async {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    loads.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, std::io::Error>("loaded".into())
                })
                .await
        })
    });
    for value in join_all(tasks).await {
        assert_eq!(&*value.unwrap().unwrap(), "loaded");
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

/// Removing a parent removes its children, which a task does that the listener tells.
#[tokio::test]
async fn removals_that_cascade() {
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let cache: Cache<String, Vec<String>> = Cache::builder()
        .max_capacity(100)
        .eviction_listener(move |_key, children, _cause| _ = tell.send(children))
        .build();
    let cascade = {
        let cache = cache.clone();
        async move {
            for _ in 0..4 {
                for child in told.recv().await.unwrap() {
                    cache.invalidate(&child).await;
                }
                cache.run_pending_tasks().await;
            }
        }
    };
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    cache.insert("root".into(), names(&["a", "b"])).await;
    cache.insert("a".into(), names(&["c"])).await;
    cache.insert("b".into(), Vec::new()).await;
    cache.insert("c".into(), Vec::new()).await;
    cache.invalidate("root").await;
    cache.run_pending_tasks().await;
    cascade.await;
    assert_eq!(cache.iter().count(), 0);
}

#[tokio::test]
async fn a_listener_that_awaits() {
    let written = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&written);
    let listener = move |key: Arc<u32>, value: u32, _cause| -> ListenerFuture {
        let log = Arc::clone(&log);
        async move {
            tokio::task::yield_now().await;
            log.lock().unwrap().push((*key, value));
        }
        .boxed()
    };
    let cache = Cache::builder().max_capacity(100).async_eviction_listener(listener).build();
    for value in 0..5 {
        cache.insert(1, value).await;
    }
    assert_eq!(cache.remove(&1).await, Some(4));
    cache.run_pending_tasks().await;
    assert_eq!(*written.lock().unwrap(), [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4)]);
}

#[tokio::test]
async fn a_load_that_runs_out_of_time() {
    let cache: Cache<u32, u32> = Cache::new(100);
    let slow = cache.get_with(1, std::future::pending());
    assert!(tokio::time::timeout(Duration::from_millis(5), slow).await.is_err());
    assert_eq!(cache.get(&1).await, None);
    assert_eq!(cache.get_with(1, async { 2 }).await, 2);
}
