//! Tasks that are dropped after any number of polls, beside threads, on a few keys: each value
//! leaves once, with one cause, and is dropped once.
//!
//! `CORTADO_ONCE_OPS` scales the number of operations per task and thread.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use crate::common::{must_end, noted::eventually};
use crate::hand::{Boxed, pends};
use cortado::future::{Cache, FutureExt};
use cortado::{Clock, Loaded, ManualClock, Op, RemovalCause};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;
use tokio::runtime;

const TASKS: u64 = 12;
const THREADS: u64 = 2;
/// Few, so that operations meet.
const KEYS: u64 = 4;

fn operations() -> u64 {
    scale("CORTADO_ONCE_OPS", 150_000) / 10
}

/// What was made, and what was dropped, by tag.
#[derive(Default)]
struct Register {
    next: AtomicU64,
    dropped: Mutex<HashMap<u64, u64>>,
}

/// A value that is one of its kind. Clones are counted as one.
#[derive(Clone)]
struct Tagged(Arc<Tag>);

struct Tag {
    tag: u64,
    key: u64,
    register: Arc<Register>,
}

impl Drop for Tag {
    fn drop(&mut self) {
        *self.register.dropped.lock().unwrap().entry(self.tag).or_default() += 1;
    }
}

/// Tags and causes, in the order in which listeners were told.
type Log = Arc<Mutex<Vec<(u64, RemovalCause)>>>;

struct Bench {
    cache: TasksAudited<u64, Tagged>,
    register: Arc<Register>,
    hand: ManualClock,
    /// What the listener that awaits was told, and the other one.
    logs: [Log; 2],
}

fn bench(bounded: bool) -> Arc<Bench> {
    let (clock, hand) = Clock::manual();
    let logs = <[Log; 2]>::default();
    let [awaits, listens] = logs.clone();
    let mut builder = Cache::builder()
        .clock(clock)
        .record_stats(true)
        .expiry_resolution(Duration::from_millis(1))
        // The hooks' answer depends on the entry: an insert may have to take the key.
        .expire_after(Hooks)
        .removal_listener(move |removed: cortado::Removed<u64, Tagged>| {
            listens.lock().unwrap().push((removed.value().0.tag, removed.cause()));
        })
        .async_eviction_listener(move |key, value, cause| {
            let log = Arc::clone(&awaits);
            async move {
                assert_eq!(*key, value.0.key);
                pends((value.0.tag % 3) as u32).await;
                log.lock().unwrap().push((value.0.tag, cause));
            }
            .boxed()
        });
    if bounded {
        builder = builder.max_capacity(KEYS / 2);
    }
    Arc::new(Bench { cache: tasks_audited(builder.build()), register: Arc::default(), hand, logs })
}

struct Hooks;

impl cortado::Expiry<u64, Tagged> for Hooks {
    fn expire_after_create(
        &self,
        _: &u64,
        value: &Tagged,
        _: std::time::Instant,
    ) -> Option<Duration> {
        Some(Duration::from_millis(value.0.tag % 20))
    }

    fn expire_after_update(
        &self,
        _: &u64,
        _: &Tagged,
        _: std::time::Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        current.map(|left| left * 2)
    }
}

impl Bench {
    fn value(&self, key: u64) -> Tagged {
        let tag = self.register.next.fetch_add(1, Relaxed);
        Tagged(Arc::new(Tag { tag, key, register: Arc::clone(&self.register) }))
    }

    /// The value of a load or a computation, after some polls.
    async fn later(&self, key: u64, random: u64) -> Tagged {
        pends((random >> 20) as u32 % 3).await;
        self.value(key)
    }

    /// A random operation of a task.
    fn operation(&self, random: u64) -> Boxed<'_, ()> {
        let key = (random >> 8) % KEYS;
        let ttl = Duration::from_millis((random >> 40) % 20);
        let cache = &*self.cache;
        let later = self.later(key, random);
        Box::pin(async move {
            match random % 64 {
                0..10 => cache.insert(key, self.value(key)).await,
                10..14 => cache.insert_with_ttl(key, self.value(key), ttl).await,
                14..17 => cache.insert_many((0..3).map(|key| (key, self.value(key)))).await,
                17..21 => cache.invalidate(&key).await,
                21..23 => drop(cache.remove(&key).await),
                23..25 => drop(cache.remove_if(&key, |_, value| value.0.tag % 2 == 0).await),
                25..27 => drop(cache.replace(key, self.value(key)).await),
                27..29 => drop(cache.set_ttl(&key, ttl).await),
                29..34 => drop(cache.get_with(key, later).await),
                34..38 => {
                    let load =
                        async { if random >> 60 == 0 { Err(1_u8) } else { Ok(later.await) } };
                    drop(cache.try_get_with(key, load).await);
                }
                38..41 => {
                    let load = async { Some(Loaded::with_ttl(later.await, ttl)) };
                    drop(cache.load_by_ref(&key, load).await);
                }
                41..44 => {
                    let odd = |value: &Tagged| value.0.tag % 2 == 1;
                    drop(cache.entry(key).or_insert_with_if(later, odd).await);
                }
                44..49 => {
                    let put = |_| async { Op::Put(later.await) };
                    cache.entry(key).and_compute_with(put).await;
                }
                49..52 => drop(cache.entry(key).and_upsert_with(|_| later).await),
                52..54 => {
                    let remove = |_| async { (pends(1).await, Op::Remove).1 };
                    cache.entry(key).and_compute_with(remove).await;
                }
                54 => cache.retain(|_, value| value.0.tag % 3 > 0).await,
                55 => cache.run_pending_tasks().await,
                56 if random >> 56 == 0 => cache.invalidate_all(),
                57..60 => self.hand.advance(Duration::from_millis(1)),
                _ => assert!(cache.get(&key).await.is_none_or(|value| value.0.key == key)),
            }
        })
    }

    /// What a thread does beside the tasks.
    fn step(&self, random: u64) {
        let key = (random >> 8) % KEYS;
        let cache = self.cache.sync();
        match random % 8 {
            0 | 1 => cache.insert(key, self.value(key)),
            2 => cache.invalidate(&key),
            3 | 4 => drop(cache.get_with(key, || self.value(key))),
            5 => drop(cache.entry(key).and_upsert_with(|_| self.value(key))),
            6 => drop(cache.try_get_with(key, || Err::<Tagged, ()>(()))),
            _ => drop(cache.get(&key)),
        }
    }
}

/// Polls the future so many times at most, whenever its task is polled. Says whether it was ready.
async fn polled(mut future: Boxed<'_, ()>, mut times: u64) -> bool {
    poll_fn(|context| {
        if times == 0 {
            return Poll::Ready(false);
        }
        times -= 1;
        let poll = future.as_mut().poll(context);
        if times == 0 && poll.is_pending() {
            // It is dropped at the next poll, which nobody else may ask for.
            context.waker().wake_by_ref();
        }
        poll.map(|()| true)
    })
    .await
}

/// One task: half of its operations may be dropped. Says how many were.
async fn work(bench: Arc<Bench>, number: u64) -> u64 {
    let mut state = seed(number);
    let mut dropped = 0;
    for _ in 0..operations() {
        let times = match draw(&mut state) % 12 {
            times @ 1..6 => times,
            _ => u64::MAX,
        };
        dropped += u64::from(!polled(bench.operation(draw(&mut state)), times).await);
        if draw(&mut state).is_multiple_of(8) {
            tokio::task::yield_now().await;
        }
    }
    dropped
}

fn run(bounded: bool, mut builder: runtime::Builder) {
    let bench = bench(bounded);
    let runtime = builder.build().unwrap();
    let dropped: u64 = std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let bench = &bench;
            scope.spawn(move || {
                let mut state = seed(thread + 100);
                (0..operations()).for_each(|_| bench.step(draw(&mut state)));
            });
        }
        runtime.block_on(async {
            let tasks: Vec<_> =
                (0..TASKS).map(|task| tokio::spawn(work(Arc::clone(&bench), task))).collect();
            let mut dropped = 0;
            for task in tasks {
                dropped += task.await.unwrap();
            }
            dropped
        })
    });
    drop(runtime);
    assert!(dropped > operations() / 10, "only {dropped} futures were dropped");
    let bench = Arc::into_inner(bench).unwrap();
    check(bench);
    counted((TASKS + THREADS) * operations(), "operations");
}

fn check(bench: Bench) {
    let Bench { cache, register, logs: [awaits, listens], .. } = bench;
    cache.sync().audit();
    pollster::block_on(cache.close());
    pollster::block_on(cache.run_pending_tasks());
    let stats = cache.stats();
    drop(cache);
    assert_eq!((stats.listener_panics, stats.pending_notifications), (0, 0));
    let mut causes = HashMap::new();
    for &(tag, cause) in listens.lock().unwrap().iter() {
        assert_eq!(causes.insert(tag, cause), None, "value {tag} left twice");
    }
    assert_eq!(stats.insertions, causes.len() as u64);
    for cause in RemovalCause::ALL {
        let announced = causes.values().filter(|seen| **seen == cause).count() as u64;
        assert_eq!(stats.removed(cause), announced, "{cause:?}");
    }
    // Both listeners were told the same, in the same order.
    assert_eq!(*awaits.lock().unwrap(), *listens.lock().unwrap());
    let made = register.next.load(Relaxed);
    eventually("all values are dropped", || register.dropped.lock().unwrap().len() as u64 == made);
    let dropped = register.dropped.lock().unwrap();
    assert!(dropped.values().all(|&times| times == 1), "a value was dropped twice");
}

fn on_threads() -> runtime::Builder {
    let mut builder = runtime::Builder::new_multi_thread();
    builder.worker_threads(3);
    builder
}

#[test]
fn unbounded() {
    must_end(|| run(false, on_threads()));
}

#[test]
fn bounded() {
    must_end(|| run(true, on_threads()));
}

#[test]
fn on_one_thread() {
    must_end(|| run(true, runtime::Builder::new_current_thread()));
}
