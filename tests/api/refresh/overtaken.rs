//! A reload that begins after its entry was replaced, and the reload of the new entry.

use super::bench::{HARD, Jobs, SOFT, bench};
use crate::common::audited::{loading_audited, tasks_loading_audited};
use crate::common::must_end;
use cortado::{Cache, Clock, Job, Loaded, Loader, Reloaded, future};
use pollster::block_on;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

type Amid = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A key whose next comparison does something else first.
#[derive(Clone)]
struct Key(u32, Amid);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        let amid = self.1.lock().unwrap().take();
        amid.into_iter().for_each(|amid| amid());
        self.0 == other.0
    }
}

impl Eq for Key {}

/// Makes the old value plus one, and notes the old values.
#[derive(Clone, Default)]
struct Counting(Arc<Mutex<Vec<u32>>>);

impl Loader<Key, u32> for Counting {
    type Error = ();

    fn load(&self, _: &Key) -> Result<Loaded<u32>, ()> {
        Err(())
    }

    fn reload(&self, _: &Key, old: &u32) -> Result<Reloaded<u32>, ()> {
        self.0.lock().unwrap().push(*old);
        Ok(Reloaded::new(old + 1))
    }
}

/// The late reload has registered, and is about to find that its entry is gone, when the other one
/// begins. It must not keep the other one from the loader.
#[test]
fn a_late_reload_of_a_replaced_entry_keeps_no_other_away() {
    let (clock, hand) = Clock::manual();
    let (jobs, asked, amid) = (Jobs::default(), Counting::default(), Amid::default());
    let queue = jobs.clone();
    let builder = Cache::builder()
        .time_to_live(HARD)
        .refresh_after_write(SOFT)
        .executor(move |job| queue.push(job))
        .clock(clock);
    let cache = loading_audited(builder.build_with_loader(asked.clone()));
    let key = Key(7, Arc::clone(&amid));
    for value in [10, 20] {
        cache.insert(key.clone(), value);
        hand.advance(SOFT);
        assert_eq!(cache.get(&key), Ok(value));
    }
    assert_eq!(jobs.len(), 2, "a reload of either value waits");
    let (others, none) = (jobs.clone(), Arc::default());
    let begun: Arc<Mutex<bool>> = Arc::clone(&none);
    *amid.lock().unwrap() = Some(Box::new(move || {
        *begun.lock().unwrap() = true;
        thread::spawn(move || others.run_one()).join().unwrap();
    }));
    jobs.run_one();
    assert!(*none.lock().unwrap(), "the late one compares keys");
    assert_eq!((jobs.len(), &*asked.0.lock().unwrap()), (0, &vec![20]));
    assert_eq!(cache.get(&key), Ok(21));
}

/// A reload that brings no value, and whose entry was written meanwhile, has ended like any other.
#[test]
fn a_reload_of_a_replaced_entry_is_counted() {
    for outcome in [Reloaded::not_modified(), Reloaded::gone()] {
        let b = bench(|builder| builder);
        b.trigger();
        b.plan(Ok(outcome));
        let cache = b.cache.cache().clone();
        *b.upstream.1.lock().unwrap() = Some(Box::new(move || cache.insert(7, 50)));
        b.jobs.run();
        let stats = b.cache.stats();
        assert_eq!((stats.reloads, stats.reload_failures, b.pending()), (1, 0, 0));
        assert_eq!(b.cache.get(&7), Ok(50));
    }
}

/// However late the sweep reaches the old entry, its value has ended.
#[test]
fn a_reader_whose_cache_was_cleared_gets_what_the_loader_made() {
    for others in [0, 100_000] {
        let (clock, hand) = Clock::manual();
        let itself = Arc::new(Mutex::new(None::<Cache<u32, u32>>));
        let clears = Arc::clone(&itself);
        let builder = Cache::builder()
            .refresh_after_write(SOFT)
            .executor(|job: cortado::Job| job())
            .clock(clock);
        let cache = loading_audited(builder.build_with_loader(move |_: u32| {
            clears.lock().unwrap().take().inspect(Cache::invalidate_all);
            Ok::<_, ()>(Loaded::new(2))
        }));
        cache.insert(u32::MAX, 1);
        cache.cache().insert_many((0..others).map(|n| (n, 0)));
        hand.advance(SOFT);
        *itself.lock().unwrap() = Some(cache.cache().clone());
        assert_eq!(cache.get_entry(&u32::MAX).map(|entry| *entry), Ok(2), "beside {others}");
    }
}

/// The destructor of the second value panics.
struct Second(u32);

impl Drop for Second {
    fn drop(&mut self) {
        assert!(self.0 != 2, "the second value");
    }
}

/// The reload's value is not cached, and the call that has run the reload has the last count on it.
/// A panic of its destructor is counted. It reaches neither the reader nor the executor.
#[test]
fn the_value_of_an_overtaken_reload_may_panic_when_it_is_dropped() {
    for by_read in [true, false] {
        let (clock, hand) = Clock::manual();
        let made = AtomicU32::new(0);
        let itself: Arc<Mutex<Option<Cache<u32, Second>>>> = Arc::default();
        let of_loader = Arc::clone(&itself);
        let cache = loading_audited(
            Cache::builder()
                .refresh_after_write(SOFT)
                .executor(|job: Job| job())
                .record_stats(true)
                .clock(clock)
                .build_with_loader(move |_: u32| {
                    let number = made.fetch_add(1, SeqCst) + 1;
                    if number == 2 {
                        of_loader.lock().unwrap().as_ref().unwrap().invalidate_all();
                    }
                    Ok::<_, ()>(Loaded::new(Second(number)))
                }),
        );
        *itself.lock().unwrap() = Some(cache.cache().clone());
        drop(cache.get_entry(&7).unwrap());
        hand.advance(SOFT);
        if by_read {
            assert_eq!(cache.cache().get_entry(&7).map(|entry| entry.value().0), Some(1));
        } else {
            assert!(cache.refresh(&7));
        }
        assert_eq!((cache.cache().get_entry(&7).is_none(), cache.stats().drop_panics), (true, 1));
        drop(itself.lock().unwrap().take());
    }
}

/// The cache that a loader clears, which is made after the loader.
type Cleared = Arc<Mutex<Option<Cache<u32, Arc<Second>>>>>;

/// Clears the cache when it makes the second value.
fn make(cleared: &Cleared, number: u32) -> Loaded<Arc<Second>> {
    if number == 2 {
        cleared.lock().unwrap().take().unwrap().invalidate_all();
    }
    Loaded::new(Arc::new(Second(number)))
}

/// The same by the stored loader of a cache for tasks.
#[test]
fn so_may_that_of_a_reload_by_a_task() {
    let (clock, hand) = Clock::manual();
    let (made, cleared) = (AtomicU32::new(0), Cleared::default());
    let of_loader = Arc::clone(&cleared);
    let builder = future::Cache::builder().refresh_after_write(SOFT).executor(|job: Job| job());
    let cache = builder.record_stats(true).clock(clock);
    let cache = tasks_loading_audited(cache.build_with_loader(move |_: u32| {
        let value = make(&of_loader, made.fetch_add(1, SeqCst) + 1);
        async move { Ok::<_, ()>(value) }
    }));
    let sync = cache.cache().sync();
    *cleared.lock().unwrap() = Some(sync.clone());
    drop(block_on(cache.get(&7)));
    hand.advance(SOFT);
    assert_eq!(block_on(cache.cache().get(&7)).map(|value| value.0), Some(1));
    assert_eq!((sync.get(&7).is_none(), sync.stats().drop_panics), (true, 1));
}

/// The destructor of the first value panics.
struct First(u32);

impl Drop for First {
    fn drop(&mut self) {
        assert!(self.0 != 1, "the first value");
    }
}

/// A reload keeps the old value until its end, and so may have the last count on it.
#[test]
fn an_old_value_may_panic_when_its_reload_ends() {
    {
        let (clock, hand) = Clock::manual();
        let made = AtomicU32::new(0);
        let itself: Arc<Mutex<Option<Cache<u32, First>>>> = Arc::default();
        let of_loader = Arc::clone(&itself);
        let cache = loading_audited(
            Cache::builder()
                .refresh_after_write(SOFT)
                .executor(|job: Job| job())
                .record_stats(true)
                .clock(clock)
                .build_with_loader(move |_: u32| {
                    let number = made.fetch_add(1, SeqCst) + 1;
                    if number == 2 {
                        let cache = of_loader.lock().unwrap().clone().unwrap();
                        cache.insert(7, First(10));
                        cache.run_pending_tasks();
                    }
                    Ok::<_, ()>(Loaded::new(First(number)))
                }),
        );
        *itself.lock().unwrap() = Some(cache.cache().clone());
        drop(cache.get_entry(&7).unwrap());
        hand.advance(SOFT);
        assert!(cache.cache().touch(&7));
        // If a guard of another test has kept it, maintenance drops it.
        while cache.stats().drop_panics == 0 {
            cache.run_pending_tasks();
        }
        assert_eq!(cache.cache().get_entry(&7).map(|entry| entry.value().0), Some(10));
        drop(itself.lock().unwrap().take());
    }
}

/// A job that comes after the end of the cache has the last count on the old value.
#[test]
fn what_a_late_job_drops_may_panic() {
    let (clock, hand) = Clock::manual();
    let jobs = Jobs::default();
    let queue = jobs.clone();
    let builder = Cache::<u32, Arc<First>>::builder().refresh_after_write(SOFT).clock(clock);
    let builder = builder.executor(move |job| queue.push(job));
    let loads = |_: u32| Ok::<_, ()>(Loaded::new(Arc::new(First(1))));
    let cache = loading_audited(builder.build_with_loader(loads));
    drop(cache.get(&7));
    hand.advance(SOFT);
    assert!(cache.cache().touch(&7));
    drop(cache);
    assert_eq!(jobs.len(), 1);
    jobs.run_one();
}

/// The sweep has not reached the entry when its reload ends.
#[test]
fn who_waits_for_the_reload_of_a_cleared_entry_goes_on() {
    must_end(|| {
        for others in [0, 3_000] {
            let b = bench(|builder| builder);
            b.cache.insert(7, 0);
            b.cache.cache().insert_many((1_000..1_000 + others).map(|key| (key, 0)));
            b.cache.run_pending_tasks();
            let cache = b.cache.cache().clone();
            *b.upstream.1.lock().unwrap() = Some(Box::new(move || cache.invalidate_all()));
            thread::scope(|scope| {
                let waiting = scope.spawn(|| b.cache.reload(&7));
                while !waiting.is_finished() {
                    b.jobs.run();
                    thread::yield_now();
                }
                assert!(waiting.join().unwrap().is_ok(), "{others}");
            });
        }
    });
}
