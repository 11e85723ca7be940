//! The clock of a tokio runtime: with paused time, on other threads, and with a scheduler on the
//! runtime.
#![cfg(all(feature = "tokio", not(cortado_loom)))]

mod common;

use common::audited::{TasksAudited, tasks_audited};
use common::noted::eventually;
use common::{MINUTE, must_end, panic_of};
use cortado::future::{Cache, CacheBuilder};
use cortado::{Clock, Expiration, RemovalCause};
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::runtime;
use tokio::time::{Instant, advance, sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
/// By how much a scheduler may be late: a tick of the wheel, and some roundings.
const LATE: Duration = Duration::from_millis(20);

type Numbers = TasksAudited<u64, u64>;

fn runtime() -> runtime::Runtime {
    runtime::Builder::new_multi_thread().enable_time().build().unwrap()
}

fn paused_runtime() -> runtime::Runtime {
    let mut runtime = runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap()
}

fn builder() -> CacheBuilder<u64, u64> {
    Cache::builder().clock(Clock::tokio())
}

#[tokio::test(start_paused = true)]
async fn lifetimes_follow_paused_time() {
    let cache: Numbers = tasks_audited(builder().time_to_live(MINUTE).build());
    cache.insert(1, 1).await;
    advance(MINUTE - MS).await;
    assert_eq!(cache.get(&1).await, Some(1));
    assert_eq!(cache.sync().expires_in(&1), Expiration::Due(MS));
    advance(MS).await;
    assert_eq!(cache.get(&1).await, None, "exactly at the deadline");
    // A sleep of the same length ends when the entry does.
    cache.insert(2, 2).await;
    sleep(MINUTE).await;
    assert!(!cache.contains_key(&2));
}

#[tokio::test(start_paused = true)]
async fn other_threads_read_the_runtimes_time() {
    let cache: Arc<Numbers> = Arc::new(tasks_audited(builder().time_to_live(HOUR).build()));
    cache.insert(1, 1).await;
    let look = || {
        let cache = Arc::clone(&cache);
        thread::spawn(move || cache.sync().get(&1)).join().unwrap()
    };
    assert_eq!(look(), Some(1));
    advance(HOUR).await;
    assert_eq!(look(), None, "the thread has read the real time");
    let cache = Arc::clone(&cache);
    thread::spawn(move || cache.sync().insert(2, 2)).join().unwrap();
}

#[tokio::test(start_paused = true)]
async fn instants_are_the_runtimes() {
    let cache: Numbers = tasks_audited(builder().build());
    thread::sleep(5 * MS); // The real time goes on, and the paused time does not.
    let end = Instant::now() + MINUTE;
    cache.insert_until(1, 1, end.into_std()).await;
    assert_eq!(cache.sync().expires_in(&1), Expiration::Due(MINUTE));
    assert_eq!(cache.sync().expires_at(&1), Expiration::Due(end.into_std()));
    advance(MINUTE - MS).await;
    assert!(cache.contains_key(&1));
    advance(MS).await;
    assert!(!cache.contains_key(&1));
}

/// No operation comes, and each entry leaves in its time, by the runtime's clock.
#[tokio::test(start_paused = true)]
async fn a_scheduler_on_the_runtime_expires_in_time() {
    let cache: Numbers = tasks_audited(builder().scheduler(true).removals(true).build());
    let mut removals = cache.removals().unwrap();
    let begun = Instant::now();
    cache.insert_with_ttl(1, 1, HOUR).await;
    sleep(MINUTE).await;
    // An earlier deadline comes while the task sleeps for a later one.
    cache.insert_with_ttl(2, 2, MINUTE).await;
    for (key, end) in [(2, 2 * MINUTE), (1, HOUR)] {
        let removed = timeout(2 * HOUR, removals.recv()).await.unwrap().unwrap();
        assert_eq!((*removed.key(), removed.cause()), (key, RemovalCause::Expired));
        let passed = begun.elapsed();
        assert!((end..end + LATE).contains(&passed), "{key} left after {passed:?}");
    }
}

/// A listener may block: it runs where the runtime allows that.
#[tokio::test(start_paused = true)]
async fn listeners_run_off_the_runtimes_thread() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = {
        let told = Arc::clone(&told);
        move |removed: cortado::Removed<u64, u64>| {
            thread::sleep(5 * MS);
            told.lock().unwrap().push((*removed.key(), thread::current().id()));
        }
    };
    let cache: Numbers = tasks_audited(
        builder().scheduler(true).time_to_live(MINUTE).removal_listener(listener).build(),
    );
    cache.insert(1, 1).await;
    // The paused time does not pass while the job runs.
    sleep(MINUTE + 2 * LATE).await;
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, 1);
    assert_ne!(told[0].1, thread::current().id(), "it ran on the runtime's thread");
}

#[tokio::test(start_paused = true)]
async fn the_task_ends_with_the_cache() {
    let tasks = || runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let cache: Numbers = tasks_audited(builder().scheduler(true).time_to_live(HOUR).build());
    cache.insert(1, 1).await;
    sleep(MINUTE).await;
    assert_eq!(tasks(), before + 1);
    drop(cache);
    sleep(MINUTE).await;
    assert_eq!(tasks(), before);
}

/// Work that is more than a pass may do is done in turns.
#[tokio::test(start_paused = true)]
async fn many_entries_that_are_due_at_once_leave_in_turns() {
    const ENTRIES: u64 = 50_000;
    let cache: Numbers = tasks_audited(builder().scheduler(true).time_to_live(MINUTE).build());
    for key in 0..ENTRIES {
        cache.sync().insert(key, key);
    }
    sleep(MINUTE + 2 * LATE).await;
    assert_eq!(cache.entry_count(), 0);
}

#[test]
fn a_cache_outlives_its_runtime() {
    must_end(|| {
        for scheduler in [false, true] {
            let runtime = runtime();
            let cache: Numbers = runtime.block_on(async {
                tasks_audited(
                    builder().scheduler(scheduler).max_capacity(100).removal_listener(drop).build(),
                )
            });
            cache.sync().insert(1, 1);
            drop(runtime);
            (0..1000).for_each(|key| cache.sync().insert(key, key));
            cache.sync().run_pending_tasks();
            assert_eq!(cache.entry_count(), 100);
            cache.sync().close();
        }
    });
}

/// A job that has told its share makes room, and a runtime that shuts down drops the next one.
#[test]
fn the_end_of_a_runtime_waits_for_one_share_of_the_notices() {
    const ENTRIES: u64 = 10_000;
    /// What a job tells at most.
    const SHARE: u64 = 4096;
    thread_local!(static ENDS: RefCell<Option<Sender<()>>> = const { RefCell::new(None) });
    must_end(|| {
        let runtime = paused_runtime();
        let told = Arc::new(AtomicU64::new(0));
        let (begun, begins) = channel();
        let (open, gate) = channel::<()>();
        let (end, ended) = channel();
        let (count, gate, end) = (Arc::clone(&told), Mutex::new(gate), Mutex::new(Some(end)));
        let listener = move |_| {
            if count.fetch_add(1, SeqCst) == 0 {
                // Dropped when this thread ends, and with it the job.
                ENDS.set(end.lock().unwrap().take());
                begun.send(()).unwrap();
                let _ = gate.lock().unwrap().recv();
            }
        };
        let cache: Numbers = runtime.block_on(async {
            let builder = builder().scheduler(true).time_to_live(MINUTE).removal_listener(listener);
            let cache = tasks_audited(builder.build());
            (0..ENTRIES).for_each(|key| cache.sync().insert(key, key));
            advance(2 * MINUTE).await;
            while cache.entry_count() > 0 {
                tokio::task::yield_now().await;
            }
            cache
        });
        begins.recv().unwrap();
        runtime.shutdown_background();
        drop(open);
        assert!(ended.recv().is_err());
        assert!(told.load(SeqCst) <= SHARE, "{} were told", told.load(SeqCst));
        // The next operation that delivers tells the others.
        cache.sync().run_pending_tasks();
        assert_eq!(told.load(SeqCst), ENTRIES);
    });
}

/// Tokio's own thread-local may be gone by then.
#[test]
fn destructors_of_thread_locals_may_use_the_cache() {
    struct AtEnd(cortado::Cache<u64, u64>, Sender<Option<u64>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.insert(2, 2);
            self.1.send(self.0.get(&1)).unwrap();
        }
    }
    thread_local!(static LOCAL: RefCell<Option<AtEnd>> = const { RefCell::new(None) });
    for scheduler in [false, true] {
        let runtime = runtime();
        let cache: Numbers = runtime.block_on(async {
            tasks_audited(builder().scheduler(scheduler).time_to_live(HOUR).build())
        });
        let (tell, told) = channel();
        let of_thread = cache.sync().clone();
        // What a thread uses first is destroyed last.
        let work = move || {
            LOCAL.set(Some(AtEnd(of_thread.clone(), tell)));
            of_thread.insert(1, 1);
        };
        thread::spawn(work).join().unwrap();
        assert_eq!(told.recv(), Ok(Some(1)));
        assert_eq!(cache.sync().get(&2), Some(2));
    }
}

/// The same on a thread that reads the cache's clock for the first time when tokio's is gone.
#[test]
fn a_thread_may_use_the_clock_for_the_first_time_at_its_end() {
    struct AtEnd(cortado::Cache<u64, u64>, Sender<Option<u64>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            let got = panic::catch_unwind(AssertUnwindSafe(|| self.0.get(&1)));
            self.1.send(got.ok().flatten()).unwrap();
        }
    }
    thread_local!(static LOCAL: RefCell<Option<AtEnd>> = const { RefCell::new(None) });
    let runtime = runtime();
    let cache: Numbers =
        runtime.block_on(async { tasks_audited(builder().time_to_live(HOUR).build()) });
    cache.sync().insert(1, 1);
    let ((tell, told), of_thread) = (channel(), cache.sync().clone());
    let handle = runtime.handle().clone();
    let work = move || {
        LOCAL.set(Some(AtEnd(of_thread, tell)));
        drop(handle.enter());
    };
    thread::spawn(work).join().unwrap();
    assert_eq!(told.recv(), Ok(Some(1)));
}

/// Nobody runs the scheduler's task any more, or nobody yet.
#[test]
fn operations_release_values_in_place_of_a_runtime_that_is_not_driven() {
    for ended in [true, false] {
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let cache: TasksAudited<u64, Arc<u64>> = runtime.block_on(async {
            tasks_audited(Cache::builder().clock(Clock::tokio()).scheduler(true).build())
        });
        let runtime = (!ended).then_some(runtime);
        let value = Arc::new(0);
        (0..100).for_each(|key| cache.sync().insert(key, Arc::clone(&value)));
        cache.sync().run_pending_tasks();
        (0..50).for_each(|key| cache.sync().invalidate(&key));
        let is_released = || {
            assert!(cache.sync().contains_key(&99) && cache.sync().get(&99).is_some());
            Arc::strong_count(&value) == 51
        };
        eventually("reads release", is_released);
        drop(runtime);
    }
}

/// Waits for other threads are by real time: paused time does not advance for them.
#[tokio::test(start_paused = true)]
async fn paused_time_stands_still_while_a_view_is_held() {
    let builder = Cache::<u64, Arc<u64>>::builder().clock(Clock::tokio()).scheduler(true);
    let cache = tasks_audited(builder.build());
    let value = Arc::new(0);
    (0..100).for_each(|key| cache.sync().insert(key, Arc::clone(&value)));
    let (hold, held) = channel();
    let (done, is_done) = tokio::sync::oneshot::channel();
    let other = cache.sync().clone();
    let holder = thread::spawn(move || {
        let view = other.pin();
        hold.send(()).unwrap();
        // Time for many looks at the view.
        thread::sleep(50 * MS);
        drop(view);
        done.send(()).unwrap();
    });
    held.recv().unwrap();
    (0..50).for_each(|key| cache.sync().invalidate(&key));
    let begun = Instant::now();
    is_done.await.unwrap();
    // Some milliseconds are for the writes.
    assert!(begun.elapsed() < 100 * MS, "time has moved by {:?}", begun.elapsed());
    holder.join().unwrap();
    // No operation comes. The task looks again after a while, by real time.
    while Arc::strong_count(&value) > 51 {
        tokio::task::spawn_blocking(|| thread::sleep(MS)).await.unwrap();
    }
}

/// A computation on another thread keeps an entry that has ended, so each look finds it again, a
/// tick later. These looks are by real time, too.
#[tokio::test(start_paused = true)]
async fn paused_time_does_not_run_ahead_while_a_computation_keeps_what_has_ended() {
    let cache: Numbers = tasks_audited(builder().scheduler(true).time_to_live(MINUTE).build());
    cache.insert(1, 1).await;
    cache.run_pending_tasks().await;
    let (begin, begun) = channel();
    let (done, is_done) = tokio::sync::oneshot::channel();
    let other = cache.sync().clone();
    let computes = thread::spawn(move || {
        other.entry(1).and_compute_with(|_| {
            begin.send(()).unwrap();
            // Time for many looks at the entry.
            thread::sleep(50 * MS);
            cortado::Op::Nop
        });
        done.send(()).unwrap();
    });
    begun.recv().unwrap();
    advance(MINUTE + MS).await;
    let (begun, real) = (Instant::now(), std::time::Instant::now());
    is_done.await.unwrap();
    let (paused, real) = (begun.elapsed(), real.elapsed());
    assert!(paused < real + 100 * MS, "time has moved by {paused:?} in {real:?}");
    computes.join().unwrap();
    // No operation comes. The next look finds the entry free.
    while cache.sync().entry_count() > 0 {
        sleep(MS).await;
    }
}

/// By real time, on a runtime with several threads.
#[test]
fn a_scheduler_on_the_runtime_works_by_real_time() {
    must_end(|| {
        let runtime = runtime();
        let (told, removals) = channel();
        let cache: Numbers = runtime.block_on(async {
            let listener = move |removed: cortado::Removed<u64, u64>| {
                told.send((*removed.key(), removed.cause())).unwrap();
            };
            tasks_audited(
                builder()
                    .scheduler(true)
                    .time_to_live(20 * MS)
                    .expiry_resolution(MS)
                    .removal_listener(listener)
                    .build(),
            )
        });
        for key in 0..10 {
            cache.sync().insert(key, key);
            assert_eq!(removals.recv(), Ok((key, RemovalCause::Expired)));
        }
        drop(cache);
    });
}

#[test]
fn there_must_be_a_runtime_with_time() {
    panic_of(Clock::tokio);
    let timeless = runtime::Builder::new_current_thread().build().unwrap();
    let message = timeless.block_on(async { panic_of(Clock::tokio) });
    assert!(message.contains("time"), "{message}");
}
