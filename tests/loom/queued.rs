//! Loads that wait in an executor. The executor keeps its first job, and runs later ones at once.
//! The audit at the end of each model says that the board is empty.

use crate::support::engine_world::{Plain, finish, model, race};
use crate::tasks::block_on;
use cortado::future::{Cache, LoadingCache};
use cortado::internals::sync::thread;
use cortado::{Clock, Job, Loaded};
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

/// The upstream and the executor. None of its words is one of loom's.
#[derive(Default)]
struct Source {
    version: AtomicU8,
    running: AtomicUsize,
    overlaps: AtomicUsize,
    loads: AtomicUsize,
    has_kept: AtomicBool,
    kept: Mutex<Option<Job>>,
}

impl Source {
    fn make(&self) -> u8 {
        let version = self.version.load(Relaxed);
        self.overlaps.fetch_add(self.running.fetch_add(1, Relaxed), Relaxed);
        // Where others may come.
        thread::yield_now();
        self.running.fetch_sub(1, Relaxed);
        self.loads.fetch_add(1, Relaxed);
        version
    }

    fn execute(&self, job: Job) {
        match self.has_kept.swap(true, Relaxed) {
            true => job(),
            false => *self.kept.lock().unwrap() = Some(job),
        }
    }
}

type Store = LoadingCache<u8, u8, (), Plain>;
type Call = Pin<Box<dyn Future<Output = u8> + Send>>;

fn call(cache: &Store) -> Call {
    let cache = cache.clone();
    Box::pin(async move { cache.get_within(&1, pending::<()>()).await.expect("a value") })
}

/// A cache, a caller whose load waits, and its job.
fn world() -> (&'static Source, Store, Call, Job) {
    let source: &'static Source = Box::leak(Box::default());
    source.version.store(1, Relaxed);
    let load = move |_: u8| async move { Ok::<_, ()>(Loaded::new(source.make())) };
    let cache = Cache::<u8, u8>::builder()
        .clock(Clock::custom(|| Duration::ZERO))
        .executor(move |job: Job| source.execute(job))
        .try_build_with_loader(load, Plain)
        .unwrap();
    let mut waits = call(&cache);
    assert!(waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let job = source.kept.lock().unwrap().take().expect("a job");
    (source, cache, waits, job)
}

/// The cache holds this value; if `loads` says so, it is of so many loads, one after the other.
fn settle(source: &Source, cache: &Store, value: u8, loads: Option<usize>) {
    finish(cache.sync());
    assert_eq!(cache.sync().peek(&1).map(|it| *it), Some(value));
    if let Some(loads) = loads {
        let counts = (source.loads.load(Relaxed), source.overlaps.load(Relaxed));
        assert_eq!(counts, (loads, 0), "two loads of one key");
    }
}

/// The job begins the load, or another load goes past it.
#[test]
fn a_load_goes_past_one_that_waits() {
    model(|| {
        let (source, cache, waits, job) = world();
        let other = cache.sync().clone();
        race(
            || assert_eq!(block_on(waits), 1),
            [Box::new(job), Box::new(move || assert_eq!(other.get_with(1, || source.make()), 1))],
        );
        settle(source, &cache, 1, Some(1));
    });
}

/// The executor's only thread asks before it comes to the job.
#[test]
fn the_only_thread_goes_past() {
    model(|| {
        let (source, cache, waits, job) = world();
        let (other, joins) = (cache.sync().clone(), call(&cache));
        race(
            || assert_eq!(block_on(waits), 1),
            [
                Box::new(move || {
                    assert_eq!(other.get_with(1, || source.make()), 1);
                    job();
                }),
                Box::new(move || assert_eq!(block_on(joins), 1)),
            ],
        );
        settle(source, &cache, 1, Some(1));
    });
}

/// A call that begins after the removal gets nothing that was loaded before it.
#[test]
fn a_write_overtakes_one_that_waits() {
    model(|| {
        let (source, cache, waits, job) = world();
        let writer = cache.clone();
        race(
            job,
            [Box::new(move || {
                source.version.store(2, Relaxed);
                writer.sync().invalidate(&1);
                assert_eq!(block_on(call(&writer)), 2);
            })],
        );
        assert!(matches!(block_on(waits), 1 | 2));
        settle(source, &cache, 2, None);
    });
}

/// The first caller goes on in its task. One that has joined, or comes late, leads or joins.
#[test]
fn a_dropped_job_hands_over() {
    model(|| {
        let (source, cache, waits, job) = world();
        let joins = call(&cache);
        race(
            || assert_eq!(block_on(waits), 1),
            [Box::new(move || drop(job)), Box::new(move || assert_eq!(block_on(joins), 1))],
        );
        settle(source, &cache, 1, Some(1));
    });
}
