//! No load returns what ended before it was called: every form of a load, of threads and of tasks.

use crate::common::audited::audited;
use crate::common::effort::scale;
use crate::common::must_end;
use cortado::{Cache, Clock, Expiry, LoadGuard, Loaded, RemovalCause};
use pollster::block_on;
use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};

/// A value that knows when it ends. The hook says so.
type Ending = Arc<AtomicU64>;
type Endings = Cache<u64, Ending>;

const LIFE: u64 = 5;
const THREADS: u64 = 4;

std::thread_local! {
    /// The last reading of the clock on this thread.
    static LAST: Cell<u64> = const { Cell::new(0) };
}

struct Tells;

impl Expiry<u64, Ending> for Tells {
    fn expire_after_create(&self, _: &u64, value: &Ending, _: Instant) -> Option<Duration> {
        value.store(LAST.get() + LIFE, SeqCst);
        // The life begins with the reading. Some are over before the load has ended, for others
        // who have called meanwhile.
        if LAST.get().is_multiple_of(4) {
            (0..10).for_each(|_| std::thread::yield_now());
        }
        Some(Duration::from_micros(LIFE))
    }
}

/// What a loader makes, after others had a chance to come.
fn make() -> Ending {
    std::thread::yield_now();
    Arc::default()
}

/// The same of a task, which is pending once.
async fn later() -> Ending {
    let mut has_waited = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    make()
}

/// The same for all keys that are missing.
fn make_many(keys: &[&u64]) -> Vec<(u64, Ending)> {
    keys.iter().map(|&&key| (key, make())).collect()
}

async fn later_many(keys: Vec<u64>) -> Vec<(u64, Ending)> {
    let mut made = Vec::new();
    for key in keys {
        made.push((key, later().await));
    }
    made
}

fn owned(keys: &[&u64]) -> Vec<u64> {
    keys.iter().map(|&&key| key).collect()
}

fn all(values: Vec<Option<Ending>>) -> Vec<Ending> {
    values.into_iter().map(|value| value.expect("each key has a value")).collect()
}

type Fails<T> = Result<T, u8>;
type Load = fn(&Endings, u64) -> Vec<Ending>;

const PATIENCE: Duration = Duration::from_secs(3600);

/// Forms of threads that return one value.
macro_rules! one {
    ($cache:ident, $key:ident => $load:expr) => {
        (stringify!($load), (|$cache, $key| vec![$load]) as Load)
    };
}

/// Forms of tasks that return one value.
macro_rules! task {
    ($cache:ident, $key:ident => $load:expr) => {
        (
            stringify!($load),
            (|$cache, $key| {
                let $cache = $cache.future();
                block_on(async { vec![$load] })
            }) as Load,
        )
    };
}

#[expect(deprecated, reason = "a name of moka's")]
fn by_threads() -> Vec<(&'static str, Load)> {
    vec![
        one!(c, key => c.get_with(key, make)),
        one!(c, key => c.get_with_by_ref(&key, make)),
        one!(c, key => c.get_with_if(key, make, |_| false)),
        one!(c, key => c.optionally_get_with(key, || Some(make())).unwrap()),
        one!(c, key => c.optionally_get_with_by_ref(&key, || Some(make())).unwrap()),
        one!(c, key => c.try_get_with(key, || Fails::Ok(make())).unwrap()),
        one!(c, key => c.try_get_with_by_ref(&key, || Fails::Ok(make())).unwrap()),
        one!(c, key => c.load(key, || Loaded::new(make()))),
        one!(c, key => c.load_by_ref(&key, || Some(Loaded::new(make()))).unwrap()),
        one!(c, key => c.entry(key).or_default().into_value()),
        one!(c, key => c.entry(key).or_insert(make()).into_value()),
        one!(c, key => c.entry(key).or_insert_with(make).into_value()),
        one!(c, key => c.entry(key).or_insert_with_if(make, |_| false).into_value()),
        one!(c, key => c.entry(key).or_optionally_insert_with(|| Some(make())).unwrap().into_value()),
        one!(c, key => c.entry(key).or_try_insert_with(|| Fails::Ok(make())).unwrap().into_value()),
        one!(c, key => c.entry(key).or_load_with(|| Loaded::new(make())).into_value()),
        one!(c, key => c.entry_by_ref(&key).or_default().into_value()),
        one!(c, key => c.entry_by_ref(&key).or_insert_with(make).into_value()),
        one!(c, key => c.entry_by_ref(&key).or_load_with(|| Loaded::new(make())).into_value()),
        one!(c, key => guarded(c.get_value_or_guard(&key))),
        one!(c, key => c.load_if(&key, |_| Loaded::new(make()), |_, _| false)),
        one!(c, key => guarded(
            c.within(PATIENCE, async |c| c.get_value_or_guard(&key).await).unwrap()
        )),
        one!(c, key => c.within(PATIENCE, async |c| c.get_with(key, later()).await).unwrap()),
        ("get_many_with", |c, key| all(c.get_many_with([key, key + 1], make_many))),
        ("try_get_many_with", |c, key| {
            let made = c.try_get_many_with([key + 1, key], |keys| Fails::Ok(make_many(keys)));
            all(made.unwrap())
        }),
    ]
}

fn guarded(found: Result<Ending, LoadGuard<u64, Ending>>) -> Ending {
    match found {
        Ok(value) => value,
        Err(guard) => guard.insert(make()).into_value(),
    }
}

#[expect(deprecated, reason = "a name of moka's")]
fn by_tasks() -> Vec<(&'static str, Load)> {
    vec![
        task!(c, key => c.get_with(key, later()).await),
        task!(c, key => c.get_with_by_ref(&key, later()).await),
        task!(c, key => c.get_with_if(key, later(), |_| false).await),
        task!(c, key => {
            c.load_if(&key, async |_| Loaded::new(later().await), |_, _| false).await
        }),
        task!(c, key => c.optionally_get_with(key, async { Some(later().await) }).await.unwrap()),
        task!(c, key => c.try_get_with(key, async { Fails::Ok(later().await) }).await.unwrap()),
        task!(c, key => c.load(key, async { Loaded::new(later().await) }).await),
        task!(c, key => c.load_by_ref(&key, async { Loaded::new(later().await) }).await),
        task!(c, key => c.entry(key).or_default().await.into_value()),
        task!(c, key => c.entry(key).or_insert_with(later()).await.into_value()),
        task!(c, key => c.entry(key).or_insert_with_if(later(), |_| false).await.into_value()),
        task!(c, key => c.entry_by_ref(&key).or_insert_with(later()).await.into_value()),
        ("get_many_with of tasks", |c, key| {
            let c = c.future();
            all(block_on(c.get_many_with([key, key + 1], |keys| later_many(owned(keys)))))
        }),
        ("try_get_many_with of tasks", |c, key| {
            let c = c.future();
            let made = c.try_get_many_with([key + 1, key], |keys| {
                let keys = owned(keys);
                async { Fails::Ok(later_many(keys).await) }
            });
            all(block_on(made).unwrap())
        }),
    ]
}

/// Each reading of the clock moves it on, so that lives end at any point of the calls. On some
/// threads the form is met by another one.
fn check((name, load): (&str, Load), other: Load) {
    let time = Arc::new(AtomicU64::new(0));
    let moving = Arc::clone(&time);
    let clock = Clock::custom(move || {
        LAST.set(moving.fetch_add(1, SeqCst));
        Duration::from_micros(LAST.get())
    });
    let builder = Cache::builder().max_capacity(100).record_stats(true);
    let cache = audited(builder.expire_after(Tells).clock(clock).build());
    let calls = scale("CORTADO_LOADS_IN_TIME", 1_000);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let load = if thread == 0 { other } else { load };
            let (cache, time) = (&cache, &time);
            scope.spawn(move || {
                for n in 0..calls {
                    let called = time.load(SeqCst);
                    for value in load(cache, n % 3) {
                        let ends = value.load(SeqCst);
                        assert!(ends > called, "{name}: called at {called}, ended at {ends}");
                    }
                }
            });
        }
    });
    let stats = cache.stats();
    assert!(stats.removed(RemovalCause::Expired) > 0, "{name}: nothing ended");
}

#[test]
fn loads_of_threads() {
    for row in by_threads() {
        must_end(move || check(row, |c, key| vec![c.get_with(key, make)]));
    }
}

#[test]
fn loads_of_tasks() {
    for row in by_tasks() {
        must_end(move || check(row, |c, key| vec![c.get_with(key, make)]));
    }
}
