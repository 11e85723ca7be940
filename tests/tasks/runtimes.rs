//! Every operation on each runtime; futures may go from thread to thread, and are small.

use crate::common::audited::{tasks_audited, tasks_loading_audited};
use crate::common::must_end;
use crate::hand::pends;
use async_executor::Executor;
use cortado::future::{Cache, FutureExt};
use cortado::{CompResult, Entry, Loaded, Op};
use pollster::block_on;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);

fn key(n: u64) -> String {
    format!("key {n}")
}

async fn later<T>(value: T) -> T {
    pends(3).await;
    value
}

/// Every operation once. Its future can be spawned.
async fn all_operations() {
    let told = Arc::new(AtomicU64::new(0));
    let tells = Arc::clone(&told);
    let listener = move |_: Arc<String>, _: u64, _| {
        let told = Arc::clone(&tells);
        async move {
            pends(1).await;
            told.fetch_add(1, SeqCst);
        }
        .boxed()
    };
    let builder = Cache::builder().max_capacity(1000).record_stats(true);
    let cache = tasks_audited(builder.async_eviction_listener(listener).build());
    writes(&cache).await;
    loads(&cache).await;
    computations(&cache).await;
    cache.run_pending_tasks().await;
    cache.close().await;
    let (stats, told) = (cache.stats(), told.load(SeqCst));
    assert_eq!(stats.insertions, told);
}

async fn writes(c: &Cache<String, u64>) {
    c.insert(key(1), 1).await;
    c.insert_with_ttl(key(2), 2, MINUTE).await;
    c.insert_until(key(3), 3, Instant::now() + MINUTE).await;
    c.insert_many((4..9).map(|n| (key(n), n))).await;
    assert_eq!(c.get("key 1").await, Some(1));
    assert_eq!(c.get_entry("key 2").await.unwrap().key(), "key 2");
    assert!(c.touch("key 3").await);
    assert_eq!(c.get_many(["key 1", "key 9"]).await, [Some(1), None]);
    assert!(c.set_ttl("key 1", MINUTE).await);
    assert!(c.set_expires_at("key 1", Instant::now() + MINUTE).await);
    assert!(c.persist("key 1").await);
    assert_eq!(*c.replace(key(1), 10).await.unwrap(), 1);
    assert_eq!(c.replace(key(99), 10).await.unwrap_err(), 10);
    assert_eq!(c.remove("key 1").await, Some(10));
    assert_eq!(*c.remove_entry("key 2").await.unwrap(), 2);
    assert_eq!(c.remove_if("key 3", |_, value| *value == 0).await, None);
    assert_eq!(c.remove_if("key 3", |_, value| *value == 3).await, Some(3));
    c.invalidate("key 4").await;
    c.invalidate_many(["key 5", "key 6"]).await;
    c.retain(|_, value| *value != 7).await;
    assert_eq!(c.iter().collect::<Vec<_>>().len(), 1);
    c.invalidate_all();
}

#[expect(deprecated, reason = "a name of moka's")]
async fn loads(c: &Cache<String, u64>) {
    assert_eq!(c.get_with(key(1), later(1)).await, 1);
    assert_eq!(c.get_with_by_ref("key 2", later(2)).await, 2);
    assert_eq!(c.get_with_if(key(1), later(3), |value| *value == 1).await, 3);
    let next = |old: Option<Entry<String, u64>>| async move {
        let old = old.map_or(0, |old| *old);
        Ok::<_, u8>(Some(Loaded::new(later(old + 1).await)))
    };
    assert_eq!(c.load_if("key 1", next, |value, _| *value == 3).await, Ok(Some(4)));
    assert_eq!(c.get_if("key 1", |value, _| *value == 3).await, None);
    assert!(matches!(c.get_value_or_guard("key 1").await, Ok(4)));
    assert_eq!(c.try_get_with(key(3), later(Err::<u64, u8>(1))).await, Err(Arc::new(1)));
    assert_eq!(c.try_get_with_by_ref("key 3", later(Ok::<u64, u8>(3))).await, Ok(3));
    assert_eq!(c.optionally_get_with(key(4), later(None)).await, None);
    assert_eq!(c.optionally_get_with_by_ref("key 4", later(Some(4))).await, Some(4));
    assert_eq!(c.load(key(5), later(Loaded::with_ttl(5, MINUTE))).await, 5);
    assert_eq!(c.load_by_ref("key 6", later(None::<Loaded<u64>>)).await, None);
    assert_eq!(*c.entry(key(7)).or_insert(7).await, 7);
    assert_eq!(*c.entry(key(8)).or_default().await, 0);
    assert_eq!(*c.entry_by_ref("key 9").or_insert(9).await, 9);
    assert_eq!(*c.entry_by_ref("key 9").or_default().await, 9);
    assert_eq!(*c.entry(key(10)).or_insert_with(later(10)).await, 10);
    assert_eq!(*c.entry_by_ref("key 10").or_insert_with(later(0)).await, 10);
    assert_eq!(*c.entry(key(10)).or_insert_with_if(later(11), |_| true).await, 11);
    assert_eq!(*c.entry_by_ref("key 10").or_insert_with_if(later(12), |_| true).await, 12);
    assert!(c.entry(key(11)).or_optionally_insert_with(later(None)).await.is_none());
    assert!(c.entry_by_ref("key 11").or_optionally_insert_with(later(None)).await.is_none());
    assert!(c.entry(key(11)).or_try_insert_with(later(Err::<u64, u8>(1))).await.is_err());
    assert!(c.entry_by_ref("key 11").or_try_insert_with(later(Ok::<u64, u8>(1))).await.is_ok());
    assert_eq!(*c.entry(key(12)).or_load_with(later(Loaded::new(12))).await, 12);
    assert!(c.entry_by_ref("key 13").or_load_with(later(None::<Loaded<u64>>)).await.is_none());
}

async fn computations(c: &Cache<String, u64>) {
    let put = c.entry(key(20)).and_compute_with(|_| later(Op::Put(1))).await;
    assert!(matches!(put, CompResult::Inserted(_)));
    let removed = c.entry_by_ref("key 20").and_compute_with(|_| later(Op::Remove)).await;
    assert!(matches!(removed, CompResult::Removed(_)));
    let failed = c.entry(key(20)).and_try_compute_with(|_| later(Err::<Op<u64>, u8>(1))).await;
    assert!(failed.is_err());
    let nothing = c.entry_by_ref("key 20");
    let nothing = nothing.and_try_compute_with(|_| later(Ok::<_, u8>(Op::Nop))).await;
    assert!(matches!(nothing, Ok(CompResult::StillNone(_))));
    assert_eq!(*c.entry(key(21)).and_upsert_with(|_| later(1)).await, 1);
    let add = |entry: Option<cortado::Entry<_, u64>>| later(*entry.unwrap() + 1);
    assert_eq!(*c.entry_by_ref("key 21").and_upsert_with(add).await, 2);
}

#[test]
fn on_tokio_with_threads() {
    must_end(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).build().unwrap();
        runtime.block_on(async {
            let tasks = [(); 4].map(|()| tokio::spawn(all_operations()));
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

#[test]
fn on_tokio_with_one_thread() {
    must_end(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async { tokio::spawn(all_operations()).await.unwrap() });
    });
}

#[test]
fn on_the_executor_of_smol() {
    must_end(|| {
        let executor = Executor::new();
        let task = executor.spawn(all_operations());
        block_on(executor.run(task));
    });
}

#[test]
fn without_a_runtime() {
    must_end(|| block_on(all_operations()));
}

/// A bound cannot be asked for by a wrong future: it does not compile then.
fn sent<T: Send>(future: T) -> usize {
    size_of_val(&future)
}

/// Sizes of futures, by what makes them.
macro_rules! sizes {
    ($($operation:expr),* $(,)?) => {
        [$((stringify!($operation), sent($operation))),*]
    };
}

#[test]
#[expect(deprecated, reason = "a name of moka's")]
fn futures_are_small_and_may_be_sent() {
    let c = &*tasks_audited::<u64, u64, _>(Cache::new(10));
    let reads = sizes![c.get(&1), c.get_entry(&1), c.touch(&1), c.run_pending_tasks(), c.close()];
    let others = sizes![
        c.get_many(&[1]),
        c.get_many_with([1], |_| ready([(1, 1)])),
        c.insert(1, 1),
        c.insert_with_ttl(1, 1, MINUTE),
        c.insert_many([(1, 1)]),
        c.remove(&1),
        c.remove_if(&1, |_, _| true),
        c.invalidate(&1),
        c.invalidate_many(&[1]),
        c.retain(|_, _| true),
        c.set_ttl(&1, MINUTE),
        c.persist(&1),
        c.replace(1, 1),
        c.get_with(1, ready(1)),
        c.get_with_by_ref(&1, ready(1)),
        c.get_with_if(1, ready(1), |_| true),
        c.load_if(&1, |_| ready(Loaded::new(1)), |_, _| true),
        c.get_if(&1, |_, _| true),
        c.get_value_or_guard(&1),
        c.try_get_with(1, ready(Ok::<u64, u8>(1))),
        c.optionally_get_with(1, ready(Some(1))),
        c.load(1, ready(Loaded::new(1))),
        c.entry(1).or_insert(1),
        c.entry(1).or_insert_with(ready(1)),
        c.entry_by_ref(&1).or_insert_with_if(ready(1), |_| true),
        c.entry(1).and_compute_with(|_| ready(Op::Put(1))),
        c.entry_by_ref(&1).and_compute_with(|_| ready(Op::Put(1))),
        c.entry(1).and_try_compute_with(|_| ready(Ok::<_, u8>(Op::Put(1)))),
        c.entry(1).and_upsert_with(|_| ready(1)),
    ];
    for (operation, size) in reads.iter().chain(&others) {
        eprintln!("{size} bytes: {operation}");
    }
    assert!(reads.iter().all(|(_, size)| *size <= 200));
    assert!(others.iter().all(|(_, size)| *size <= 1000));
}

/// A future of a load has the user's future twice, and no more: loads are nested.
#[test]
fn futures_do_not_multiply_the_users() {
    const LARGE: usize = 10_000;
    async fn large() -> u64 {
        let buffer = [1_u8; LARGE];
        pends(1).await;
        buffer[LARGE / 2].into()
    }
    let one = size_of_val(&large());
    assert!((LARGE..LARGE + 100).contains(&one));
    let c = &*tasks_audited::<u64, u64, _>(Cache::new(10));
    let all = sizes![
        c.get_with(1, large()),
        c.get_with_by_ref(&1, large()),
        c.load_if(&1, |_| async { Loaded::new(large().await) }, |_, _| true),
        c.try_get_with(1, async { Ok::<_, u8>(large().await) }),
        c.optionally_get_with(1, async { Some(large().await) }),
        c.load(1, async { Loaded::new(large().await) }),
        c.entry(1).or_insert_with(large()),
        c.entry_by_ref(&1).or_insert_with_if(large(), |_| true),
        c.entry(1).or_load_with(async { Loaded::new(large().await) }),
        c.entry(1).and_compute_with(|_| async { Op::Put(large().await) }),
        c.entry(1).and_try_compute_with(|_| async { Ok::<_, u8>(Op::Put(large().await)) }),
        c.entry_by_ref(&1).and_upsert_with(|_| large()),
    ];
    for (operation, size) in all {
        eprintln!("{size} bytes of {one}: {operation}");
        assert!(size <= 2 * one + 1000, "{operation}");
    }
}

/// So may futures that hold an operation across an await, whatever lifetimes the types of errors
/// and iterators have. (rustc does not know these when it decides.) A wrong one does not compile.
#[test]
fn futures_that_hold_operations_may_be_sent() {
    async fn fetch<E>() -> Result<u64, E> {
        Ok(1)
    }
    macro_rules! sent_with {
        ($($error:ty),*) => { $({
            type Made = Result<u64, $error>;
            let cache = tasks_audited(Cache::<u64, u64>::new(10));
            let load = |_: u64| async { fetch::<$error>().await.map(Loaded::new) };
            let loading = tasks_loading_audited(Cache::builder().executor(|job: cortado::Job| job()).build_with_loader(load));
            sent(async move {
                let _: Result<_, _> = cache.try_get_with(1, fetch::<$error>()).await;
                let _ = cache.try_get_with_by_ref(&1, fetch::<$error>()).await;
                let _ = cache.load(1, async { Made::Ok(1).map(Loaded::new) }).await;
                let _ = cache.load_by_ref(&1, async { Made::Ok(1).map(Loaded::new) }).await;
                let _ = cache.entry(1).or_try_insert_with(fetch::<$error>()).await;
                let _ = cache.entry_by_ref(&1).or_try_insert_with(fetch::<$error>()).await;
                let _ = cache.entry(1).or_load_with(async { Made::Ok(1).map(Loaded::new) }).await;
                let _ = cache.entry(1).and_try_compute_with(|_| async { Made::Ok(1).map(Op::Put) }).await;
                let _ = cache.try_get_many_with([1], |_| async { Made::Ok(1).map(|made| [(1, made)]) }).await;
                let _ = loading.get(&1).await;
                let _ = loading.get_entry(&1).await;
                let _ = loading.reload(&1).await;
                let _ = loading.get_many(&[1]).await;
                let _ = loading.get_within(&1, ready(())).await;
            });
        })* };
    }
    sent_with!(
        Box<dyn std::error::Error + Send + Sync>,
        &'static str,
        std::borrow::Cow<'static, str>,
        u8
    );

    let cache = tasks_audited(Cache::<u64, String>::new(10));
    let inserts = async move {
        let rows = [(1, "a"), (2, "b")];
        cache.insert_many(rows.iter().map(|(key, value)| (*key, (*value).to_owned()))).await;
        cache.get_many(rows.iter().map(|(key, _)| key)).await;
        cache.invalidate_many(rows.iter().map(|(key, _)| key)).await;
        cache.retain(|_, value| rows.iter().any(|(_, other)| other == value)).await;
    };
    sent(inserts);
}
