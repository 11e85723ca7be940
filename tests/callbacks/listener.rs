//! What a removal listener can rely on.

use crate::common::audited::{Audited, audited, tasks_audited};
use crate::common::{MINUTE, SECOND, TICK, Told, kept, must_end, yield_a_while};
use cortado::RemovalCause::{self, Expired, Explicit, Replaced, Size};
use cortado::{Cache, Clock, EvictionPolicy, Op, Removed};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

#[test]
fn the_values_of_a_key_are_announced_in_the_order_of_their_removals() {
    must_end(|| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let cache: Audited<u32, u64> = audited(
            Cache::builder()
                .max_capacity(100)
                .removal_listener(move |removed| {
                    log.lock().unwrap().push((*removed.key(), *removed.value()));
                })
                .build(),
        );
        // Each thread counts up its own keys, by several ways to remove.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..5000 {
                        let key = thread * 10 + n % 3;
                        match n % 5 {
                            0..=2 => cache.insert(key, u64::from(n)),
                            3 => drop(cache.entry(key).and_compute_with(|_| Op::Put(u64::from(n)))),
                            _ => cache.invalidate(&key),
                        }
                    }
                });
            }
        });
        cache.close();
        let told = told.lock().unwrap();
        for key in 0..40 {
            let of_key: Vec<_> =
                told.iter().filter(|told| told.0 == key).map(|told| told.1).collect();
            assert!(of_key.windows(2).all(|pair| pair[0] < pair[1]), "key {key}: {of_key:?}");
        }
        assert_eq!(told.len(), 4 * 4000);
    });
}

#[test]
fn it_is_called_for_one_removal_at_a_time() {
    must_end(|| {
        let (inside, most, calls) =
            (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
        let state = Arc::new((inside, most, calls));
        let shared = Arc::clone(&state);
        let cache: Audited<u32, u32> = audited(
            Cache::builder()
                .max_capacity(10)
                .removal_listener(move |_| {
                    let (inside, together, calls) = &*shared;
                    together.fetch_add(usize::from(inside.swap(true, SeqCst)), SeqCst);
                    std::thread::yield_now();
                    calls.fetch_add(1, SeqCst);
                    inside.store(false, SeqCst);
                })
                .build(),
        );
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let cache = &cache;
                scope.spawn(move || (0..1000).for_each(|n| cache.insert(thread * 1000 + n, n)));
            }
        });
        cache.close();
        assert_eq!(state.1.load(SeqCst), 0, "two calls at once");
        assert_eq!(state.2.load(SeqCst), 4000);
    });
}

#[test]
fn removals_that_it_causes_are_announced_after_it_has_returned() {
    static CACHE: OnceLock<Cache<u32, u32>> = OnceLock::new();
    let depth = Arc::new(AtomicUsize::new(0));
    let calls = Arc::new(AtomicUsize::new(0));
    let (deep, count) = (Arc::clone(&depth), Arc::clone(&calls));
    let cache = CACHE.get_or_init(|| {
        Cache::builder()
            .removal_listener(move |removed| {
                assert_eq!(deep.fetch_add(1, SeqCst), 0, "called from within");
                count.fetch_add(1, SeqCst);
                let (cache, key) = (CACHE.get().unwrap(), *removed.key());
                if key < 10_000 {
                    cache.insert(key + 1, 0);
                    cache.invalidate(&(key + 1));
                    cache.run_pending_tasks();
                }
                deep.fetch_sub(1, SeqCst);
            })
            .record_stats(true)
            .build()
    });
    must_end(move || {
        cache.insert(0, 0);
        cache.invalidate(&0);
        // A request leaves what the listener causes to the next one.
        while cache.stats().pending_notifications > 0 {
            cache.run_pending_tasks();
        }
        cache.audit();
    });
    assert_eq!(calls.load(SeqCst), 10_001);
    assert_eq!((cache.stats().listener_panics, depth.load(SeqCst)), (0, 0));
}

#[test]
fn a_slow_one_holds_up_no_other_thread() {
    must_end(|| {
        let (entered, entrance) = channel();
        let (release, released) = channel::<()>();
        let gate = Mutex::new((entered, released, false));
        let (clock, hand) = Clock::manual();
        let cache: Audited<u32, u32> = audited(
            Cache::builder()
                .max_capacity(50)
                .clock(clock)
                .removal_listener(move |_| {
                    let mut gate = gate.lock().unwrap();
                    if !gate.2 {
                        gate.2 = true;
                        gate.0.send(()).unwrap();
                        gate.1.recv().unwrap();
                    }
                })
                .build(),
        );
        std::thread::scope(|scope| {
            scope.spawn(|| {
                cache.insert(1, 1);
                cache.invalidate(&1);
                cache.run_pending_tasks();
            });
            entrance.recv().unwrap();
            // While it is stuck: everything, maintenance and eviction included.
            for key in 0..1000 {
                cache.insert_with_ttl(key, key, MINUTE);
                cache.get(&key);
                cache.get_with(key + 5000, || key);
                cache.entry(key).and_compute_with(|_| Op::Remove);
            }
            hand.advance(2 * MINUTE);
            cache.run_pending_tasks();
            assert_eq!(cache.entry_count(), cache.entries().count() as u64);
            cache.invalidate_all();
            cache.run_pending_tasks();
            assert_eq!(cache.entry_count(), 0);
            release.send(()).unwrap();
        });
    });
}

#[test]
fn what_it_gets_may_be_kept_and_sent() {
    let (sender, receiver) = channel();
    let (clock, hand) = Clock::manual();
    let cache: Audited<String, Vec<u8>> = audited(
        Cache::builder()
            .clock(clock)
            .weigher(|_, value: &Vec<u8>| value.len() as u32)
            .removal_listener(move |removed| sender.send(removed).unwrap())
            .build(),
    );
    cache.insert_with_ttl("a".into(), vec![1; 100], SECOND);
    hand.advance(SECOND);
    hand.advance(TICK);
    cache.run_pending_tasks();
    let removed: Removed<String, Vec<u8>> = receiver.try_recv().unwrap();
    let again = removed.clone();
    drop(cache);
    let seen = std::thread::spawn(move || {
        let shown = format!("{removed:?}");
        assert!(shown.contains("key: \"a\"") && shown.contains("Expired"), "{shown}");
        Told::of(&removed)
    })
    .join()
    .unwrap();
    assert_eq!((seen.key.as_str(), seen.value.len(), seen.cause), ("a", 100, Expired));
    assert_eq!((seen.weight, seen.age), (100, SECOND + TICK));
    assert_eq!(seen.late_by, Some(TICK));
    assert_eq!(again.value(), &vec![1; 100]);
}

#[test]
fn every_way_out_has_its_cause() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let (clock, hand) = Clock::manual();
    let cache: Audited<u32, u32> = audited(
        Cache::builder()
            .max_capacity(100)
            .weigher(|_, weight| *weight)
            .clock(clock)
            .removal_listener(move |removed| log.lock().unwrap().push(removed.cause()))
            .build(),
    );
    let cause_of = |act: &dyn Fn()| -> Vec<RemovalCause> {
        act();
        cache.run_pending_tasks();
        std::mem::take(&mut *told.lock().unwrap())
    };
    let put = || cache.insert_with_ttl(1, 1, MINUTE);
    let expire = || {
        put();
        hand.advance(MINUTE);
    };
    type Acts<'a> = Vec<(&'a str, Vec<RemovalCause>, Box<dyn Fn() + 'a>)>;
    let acts: Acts = vec![
        ("remove", vec![Explicit], Box::new(|| assert_eq!(cache.remove(&1), Some(1)))),
        ("remove_if", vec![Explicit], Box::new(|| _ = cache.remove_if(&1, |_, _| true))),
        ("invalidate", vec![Explicit], Box::new(|| cache.invalidate(&1))),
        ("invalidate_all", vec![Explicit], Box::new(|| cache.invalidate_all())),
        ("retain", vec![Explicit], Box::new(|| cache.retain(|_, _| false))),
        (
            "compute",
            vec![Explicit],
            Box::new(|| _ = cache.entry(1).and_compute_with(|_| Op::Remove)),
        ),
        ("insert", vec![Replaced], Box::new(|| cache.insert(1, 2))),
        ("put", vec![Replaced], Box::new(|| _ = cache.entry(1).and_compute_with(|_| Op::Put(2)))),
        ("too heavy", vec![Replaced, Size], Box::new(|| cache.insert(1, 101))),
        (
            "no life",
            vec![Replaced, Expired],
            Box::new(|| cache.insert_with_ttl(1, 1, Duration::ZERO)),
        ),
        ("ended", vec![Expired], Box::new(|| assert!(cache.set_ttl(&1, Duration::ZERO)))),
        ("time", vec![Expired], Box::new(|| hand.advance(MINUTE + TICK))),
    ];
    for (name, causes, act) in acts {
        put();
        assert_eq!(cause_of(&*act), causes, "{name}");
        cache.invalidate_all();
        cause_of(&|| ());
    }
    // What had expired before leaves as expired, whoever comes upon it.
    type Deed<'a> = Box<dyn Fn() + 'a>;
    let over: Vec<(&str, Deed<'_>)> = vec![
        ("remove", Box::new(|| assert_eq!(cache.remove(&1), None))),
        ("insert", Box::new(|| cache.insert(1, 2))),
        ("too heavy", Box::new(|| cache.insert(1, 101))),
        ("load", Box::new(|| assert_eq!(cache.get_with(1, || 3), 3))),
        ("put", Box::new(|| _ = cache.entry(1).and_compute_with(|_| Op::Put(2)))),
    ];
    for (name, act) in over {
        expire();
        assert_eq!(cause_of(&*act)[0], Expired, "{name}");
        cache.invalidate_all();
        cause_of(&|| ());
    }
    let sizes = cause_of(&|| (10..20).for_each(|key| cache.insert(key, 30)));
    assert_eq!(sizes, [Size; 7]);
    assert_eq!(cause_of(&|| cache.close()), [Explicit; 3]);
    assert_eq!(cause_of(&put), [Explicit]);
    cache.audit();
    assert!(Expired.was_evicted() && Size.was_evicted());
    assert!(!Explicit.was_evicted() && !Replaced.was_evicted());
}

/// What `close` promises holds when it returns, whoever is announcing meanwhile.
#[test]
fn close_waits_for_the_announcement_that_another_thread_is_making() {
    must_end(|| {
        let slot: &'static OnceLock<Cache<u32, u32>> = kept(OnceLock::new());
        let (entered, announced) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (inside, count) = (entered.clone(), announced.clone());
        let cache = audited(
            Cache::builder()
                .removal_listener(move |removed: Removed<u32, u32>| {
                    let cache = slot.get().expect("set below");
                    if *removed.key() == 1 {
                        inside.store(true, SeqCst);
                        // Until the other thread closes the cache, which then stores nothing, and
                        // somewhat longer.
                        while cache.get_with(2, || 2) == 2 && cache.contains_key(&2) {
                            cache.invalidate(&2);
                            std::thread::yield_now();
                        }
                        yield_a_while();
                    }
                    count.fetch_add(1, SeqCst);
                })
                .record_stats(true)
                .build(),
        );
        slot.set(cache.clone()).unwrap();
        (0..100).for_each(|key| cache.insert(key + 10, key));
        cache.insert(1, 1);
        let other = cache.clone();
        let announcer = std::thread::spawn(move || other.invalidate(&1));
        while !entered.load(SeqCst) {
            std::thread::yield_now();
        }
        cache.close();
        let stats = cache.stats();
        let removed: u64 = RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum();
        assert_eq!(announced.load(SeqCst) + stats.refused_after_close, removed);
        announcer.join().unwrap();
    });
}

/// The destructor of a value that was not cloned panics.
struct Bomb(bool);

impl Clone for Bomb {
    fn clone(&self) -> Self {
        Self(false)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0, "the destructor");
    }
}

/// A listener that gets clones is called before what they are clones of is dropped.
#[test]
fn a_listener_that_gets_clones_is_told_whatever_destructors_do() {
    let (told, jobs) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (count, queue) = (Arc::clone(&told), Arc::clone(&jobs));
    let (clock, hand) = Clock::manual();
    let cache = audited(
        Cache::<u32, Bomb>::builder()
            .executor(move |job| queue.lock().unwrap().push(job))
            .eviction_listener(move |_, _, _| _ = count.fetch_add(1, SeqCst))
            .clock(clock)
            .build(),
    );
    cache.insert(1, Bomb(true));
    cache.invalidate(&1);
    // The cache's own count goes first, if no guard of another test keeps it.
    for _ in 0..20 {
        hand.advance(SECOND);
        cache.insert(2, Bomb(false));
        cache.invalidate(&2);
    }
    while let Some(job) = { jobs.lock().unwrap().pop() } {
        job();
    }
    assert_eq!(told.load(SeqCst), 21);
}

/// The same of one that awaits.
#[test]
fn a_listener_that_awaits_is_told_whatever_destructors_do() {
    let (told, awaited) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (count, polls) = (Arc::clone(&told), Arc::clone(&awaited));
    let builder = cortado::future::Cache::<u32, Bomb>::builder();
    let builder = builder.async_eviction_listener(move |_, _, _| {
        count.fetch_add(1, SeqCst);
        let polls = Arc::clone(&polls);
        Box::pin(async move { _ = polls.fetch_add(1, SeqCst) })
    });
    let cache = tasks_audited(builder.build());
    let sync = cache.sync();
    // By a thread, which cannot run the listener.
    sync.insert(1, Bomb(true));
    sync.invalidate(&1);
    (0..3).for_each(|_| sync.run_pending_tasks());
    pollster::block_on(cache.run_pending_tasks());
    assert_eq!((told.load(SeqCst), awaited.load(SeqCst)), (1, 1));
}

/// A listener puts back what was evicted, which evicts something else, for ever. A request delivers
/// what waited when it began, and what its own passes cause.
#[test]
fn a_request_ends_where_a_listener_puts_back_what_was_evicted() {
    const FUSE: u64 = 100_000;
    let told = Arc::new(AtomicU64::new(0));
    let slot: Arc<OnceLock<Cache<u64, u64>>> = Arc::default();
    let (count, own) = (Arc::clone(&told), Arc::downgrade(&slot));
    let builder = Cache::builder().max_capacity(100).eviction_policy(EvictionPolicy::lru());
    let builder = builder.clock(Clock::manual().0).removal_listener(move |removed| {
        // A request without an end ends by the fuse.
        if removed.cause() == RemovalCause::Size
            && count.fetch_add(1, SeqCst) < FUSE
            && let Some(slot) = own.upgrade()
            && let Some(cache) = slot.get()
        {
            cache.insert(*removed.key(), *removed.value());
        }
    });
    let cache = audited(builder.build());
    let _ = slot.set((*cache).clone());
    (0..150).for_each(|key| cache.insert(key, key));
    for _ in 0..3 {
        let before = told.load(SeqCst);
        cache.run_pending_tasks();
        let caused = told.load(SeqCst) - before;
        assert!(caused < 1000, "{caused} removals in one request");
    }
    drop(slot);
    cache.close();
}

/// The same of one that awaits.
#[test]
fn a_request_ends_where_a_listener_that_awaits_puts_back_what_was_evicted() {
    const FUSE: u64 = 10_000;
    let told = Arc::new(AtomicU64::new(0));
    let slot: Arc<OnceLock<cortado::future::Cache<u64, u64>>> = Arc::default();
    let (count, own) = (Arc::clone(&told), Arc::downgrade(&slot));
    let builder = cortado::future::Cache::builder().max_capacity(100).clock(Clock::manual().0);
    let builder = builder.eviction_policy(EvictionPolicy::lru());
    let builder = builder.async_eviction_listener(move |key: Arc<u64>, value: u64, cause| {
        let (count, own) = (Arc::clone(&count), own.clone());
        async move {
            if cause == RemovalCause::Size
                && count.fetch_add(1, SeqCst) < FUSE
                && let Some(slot) = own.upgrade()
                && let Some(cache) = slot.get()
            {
                cache.insert(*key, value).await;
            }
        }
    });
    let cache = tasks_audited(builder.build());
    let _ = slot.set((*cache).clone());
    pollster::block_on(async {
        for key in 0..150 {
            cache.insert(key, key).await;
        }
        for _ in 0..3 {
            let before = told.load(SeqCst);
            cache.run_pending_tasks().await;
            let caused = told.load(SeqCst) - before;
            assert!(caused < 1000, "{caused} removals in one request");
        }
        drop(slot);
        cache.close().await;
    });
}
