//! What a cancelled future owns is gone before the next load or computation of its key begins: a
//! permit, a transaction, a lock file.

use crate::common::audited::{
    TasksAudited, TasksLoadingAudited, tasks_audited, tasks_loading_audited,
};
use crate::common::{SECOND, must_end};
use crate::hand::{Boxed, Task, at_once};
use cortado::future::Cache;
use cortado::{Clock, Job, Loaded, Op, Removed, TimedOut};
use std::cell::RefCell;
use std::future::{pending, poll_fn, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

/// Does something when it is dropped.
struct Permit(Option<Box<dyn FnOnce() + Send>>);

impl Permit {
    fn new(at_end: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(at_end)))
    }

    /// Keeps the permit until the future is dropped.
    async fn keep<T>(self) -> T {
        let _kept = &self;
        pending().await
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.take().expect("it is dropped once")();
    }
}

type Shared = Arc<TasksAudited<u64, u64>>;

fn shared() -> Shared {
    Arc::new(tasks_audited(Cache::builder().build()))
}

/// Runs the future of one load or computation of key 1, which keeps the permit.
type Operation = fn(Shared, Permit) -> Boxed<'static, ()>;

/// One row: the name and the operation.
macro_rules! row {
    ($name:literal, |$cache:ident, $permit:ident| $operation:expr) => {
        ($name, (|$cache, $permit| Box::pin(async move { _ = $operation.await })) as Operation)
    };
}

/// Every operation that polls a future of the user's.
fn operations() -> Vec<(&'static str, Operation)> {
    vec![
        row!("get_with", |cache, permit| cache.get_with(1, permit.keep())),
        row!("get_with_by_ref", |cache, permit| cache.get_with_by_ref(&1, permit.keep())),
        row!("try_get_with", |cache, permit| {
            cache.try_get_with(1, permit.keep::<Result<u64, ()>>())
        }),
        row!("optionally_get_with", |cache, permit| cache.optionally_get_with(1, permit.keep())),
        row!("load", |cache, permit| cache.load(1, permit.keep::<Loaded<u64>>())),
        row!("or_insert_with", |cache, permit| cache.entry(1).or_insert_with(permit.keep())),
        row!("or_insert_with_if", |cache, permit| {
            cache.entry(1).or_insert_with_if(permit.keep(), |_| true)
        }),
        row!("get_many_with", |cache, permit| {
            let mut permit = Some(permit);
            cache
                .get_many_with([2, 1, 3], move |_| permit.take().unwrap().keep::<Vec<(u64, u64)>>())
        }),
        row!("try_get_many_with", |cache, permit| {
            let mut permit = Some(permit);
            cache.try_get_many_with([2, 1, 3], move |_| {
                permit.take().unwrap().keep::<Result<Vec<(u64, u64)>, ()>>()
            })
        }),
        row!("and_compute_with", |cache, permit| {
            cache.entry(1).and_compute_with(|_| permit.keep::<Op<u64>>())
        }),
        row!("and_try_compute_with", |cache, permit| {
            cache.entry(1).and_try_compute_with(|_| permit.keep::<Result<Op<u64>, ()>>())
        }),
        row!("and_upsert_with", |cache, permit| cache.entry(1).and_upsert_with(|_| permit.keep())),
    ]
}

/// What the permit's destructor has seen of those who wait for the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    is_woken: bool,
    goes_on: bool,
    /// The load of another thread, which does not wait for it.
    stranger: Result<u64, TimedOut>,
}

const NOBODY: Seen = Seen { is_woken: false, goes_on: false, stranger: Err(TimedOut) };

/// A load of key 1 that waits, and what a permit sees of it.
struct Watch {
    cache: Shared,
    waiter: Arc<Mutex<Task<'static, u64>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Watch {
    fn new() -> Self {
        let cache = shared();
        let loads = Arc::clone(&cache);
        let waiter = Task::new(async move { loads.get_with(1, async { 7 }).await });
        Self { cache, waiter: Arc::new(Mutex::new(waiter)), seen: Arc::default() }
    }

    fn permit(&self) -> Permit {
        let (cache, waiter) = (Arc::clone(&self.cache), Arc::clone(&self.waiter));
        let seen = Arc::clone(&self.seen);
        Permit::new(move || {
            let mut waiter = waiter.lock().unwrap();
            let (is_woken, goes_on) = (waiter.is_woken(), waiter.poll());
            let stranger = std::thread::spawn(move || {
                let load = async |cache: &Cache<u64, u64>| cache.get_with(1, async { 8 }).await;
                cache.sync().within(Duration::ZERO, load)
            });
            let stranger = stranger.join().unwrap();
            seen.lock().unwrap().push(Seen { is_woken, goes_on, stranger });
        })
    }

    fn begin_waiting(&self) {
        assert!(!self.waiter.lock().unwrap().poll());
    }

    /// The operation was dropped: nobody has gone on before its future was gone.
    fn check(&self, name: &str) {
        assert_eq!(*self.seen.lock().unwrap(), [NOBODY], "{name}");
        let mut waiter = self.waiter.lock().unwrap();
        assert!(waiter.is_woken(), "{name}");
        waiter.run();
        assert_eq!(at_once(self.cache.get(&1)), Some(7), "{name}");
    }
}

#[test]
fn begin_when_a_dropped_future_is_gone() {
    must_end(|| {
        for (name, operation) in operations() {
            let watch = Watch::new();
            let mut task = Task::new(operation(Arc::clone(&watch.cache), watch.permit()));
            assert!(!task.poll());
            watch.begin_waiting();
            drop(task);
            watch.check(name);
        }
    });
}

/// The panic leaves a part of the future to its drop.
#[test]
fn begin_when_a_future_that_has_panicked_is_gone() {
    must_end(|| {
        let watch = Watch::new();
        let (cache, permit) = (Arc::clone(&watch.cache), watch.permit());
        let mut polls = 0;
        let load = poll_fn(move |_| {
            let _kept = &permit;
            polls += 1;
            assert_eq!(polls, 1, "as planned");
            Poll::Pending
        });
        let mut task = Task::new(async move { cache.get_with(1, load).await });
        assert!(!task.poll());
        watch.begin_waiting();
        assert!(catch_unwind(AssertUnwindSafe(|| task.poll())).is_err());
        watch.check("a panic");
    });
}

#[test]
fn begin_when_what_within_gives_up_is_gone() {
    must_end(|| {
        for (name, operation) in operations() {
            let watch = Watch::new();
            let operation = operation(Arc::clone(&watch.cache), watch.permit());
            let limited = async |_: &Cache<u64, u64>| {
                let mut operation = pin!(operation);
                poll_fn(|context| {
                    assert!(operation.as_mut().poll(context).is_pending());
                    watch.begin_waiting();
                    Poll::<()>::Pending
                })
                .await;
            };
            assert_eq!(watch.cache.sync().within(Duration::ZERO, limited), Err(TimedOut));
            watch.check(name);
        }
    });
}

/// A write waits for a computation, and so does one of another thread.
#[test]
fn of_writes_begin_when_a_dropped_computation_is_gone() {
    must_end(|| {
        let cache = shared();
        at_once(cache.insert(1, 1));
        let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (sees, writes, inserts) = (Arc::clone(&seen), Arc::clone(&cache), Arc::clone(&cache));
        let waiter = Task::new(async move { inserts.insert(1, 2).await });
        let waiter: Arc<Mutex<Task<'static, ()>>> = Arc::new(Mutex::new(waiter));
        let waits = Arc::clone(&waiter);
        let permit = Permit::new(move || {
            let goes_on = waits.lock().unwrap().poll();
            let write = async |cache: &Cache<u64, u64>| cache.remove(&1).await;
            let writes = move || writes.sync().within(Duration::ZERO, write).is_ok();
            let wrote = std::thread::spawn(writes).join().unwrap();
            sees.lock().unwrap().extend([goes_on, wrote]);
        });
        let computes = Arc::clone(&cache);
        let mut task = Task::new(async move {
            computes.entry(1).and_compute_with(|_| permit.keep::<Op<u64>>()).await;
        });
        assert!(!task.poll() && !waiter.lock().unwrap().poll());
        drop(task);
        assert_eq!(*seen.lock().unwrap(), [false, false]);
        waiter.lock().unwrap().run();
        assert_eq!(at_once(cache.get(&1)), Some(2));
    });
}

/// A stored loader that keeps a permit, if there is one, and counts its calls that have begun.
#[derive(Clone, Default)]
struct Upstream {
    permit: Arc<Mutex<Option<Permit>>>,
    begun: Arc<AtomicU64>,
}

impl Upstream {
    fn load(&self) -> Boxed<'static, Result<Loaded<u64>, ()>> {
        let begun = self.begun.fetch_add(1, SeqCst);
        let permit = self.permit.lock().unwrap().take();
        Box::pin(async move {
            match permit {
                Some(permit) => permit.keep().await,
                None => Ok(Loaded::new(begun)),
            }
        })
    }
}

type Answer = Result<Result<u64, Arc<()>>, TimedOut>;

/// A cache with a stored loader, whose first future keeps a permit. The permit's destructor has
/// another thread ask for key 1, by a call that joins a load or a reload.
struct Loading {
    cache: Arc<TasksLoadingAudited<u64, u64, ()>>,
    jobs: Receiver<Job>,
    upstream: Upstream,
    answers: Arc<Mutex<Vec<Answer>>>,
}

impl Loading {
    fn new(is_stale: bool) -> Self {
        let (upstream, (clock, hand)) = (Upstream::default(), Clock::manual());
        let (asked, (jobs, queue)) = (upstream.clone(), channel::<Job>());
        let builder = Cache::builder()
            .refresh_after_write(10 * SECOND)
            .executor(move |job| drop(jobs.send(job)))
            .clock(clock);
        let loader = move |_: u64| asked.load();
        let cache = Arc::new(tasks_loading_audited(builder.build_with_loader(loader)));
        if is_stale {
            at_once(cache.insert(1, 0));
            hand.advance(10 * SECOND);
        }
        let (other, answers) = (Arc::clone(&cache), Arc::default());
        let told: Arc<Mutex<Vec<_>>> = Arc::clone(&answers);
        *upstream.permit.lock().unwrap() = Some(Permit::new(move || {
            let ask = move || {
                let ask = async |_: &Cache<u64, u64>| (**other).reload(&1).await;
                other.cache().sync().within(Duration::ZERO, ask)
            };
            told.lock().unwrap().push(std::thread::spawn(ask).join().unwrap());
        }));
        Self { cache, jobs: queue, upstream, answers }
    }

    /// The future of the loader was dropped, and the other thread has waited for that.
    fn check(&self, name: &str) {
        assert_eq!(*self.answers.lock().unwrap(), [Err(TimedOut)], "{name}");
        assert_eq!(self.upstream.begun.load(SeqCst), 1, "{name}");
    }
}

/// Nobody keeps the waker of the loader's future, so its task is dropped with its job.
#[test]
fn of_a_loader_in_a_job_begin_when_its_dropped_future_is_gone() {
    must_end(|| {
        for is_stale in [false, true] {
            let loading = Loading::new(is_stale);
            let cache = Arc::clone(&loading.cache);
            let mut task = Task::new(async move { cache.get_within(&1, pending::<()>()).await });
            assert!(!task.poll());
            loading.jobs.try_iter().for_each(|job| job());
            loading.check(if is_stale { "reload" } else { "load" });
        }
    });
}

/// The destructor's own thread takes the key: it waits for nobody.
#[test]
fn of_the_destructor_itself_begin_at_once() {
    must_end(|| {
        for (name, operation) in operations() {
            let cache = shared();
            let (inside, told) = (Arc::clone(&cache), Arc::new(AtomicU64::new(0)));
            let tells = Arc::clone(&told);
            let permit = Permit::new(move || {
                let loaded = inside.sync().get_with(1, || 5);
                inside.sync().insert(1, loaded + 1);
                let upserted = inside.sync().entry(1).and_upsert_with(|entry| *entry.unwrap() + 1);
                tells.store(*upserted, SeqCst);
            });
            let mut task = Task::new(operation(Arc::clone(&cache), permit));
            assert!(!task.poll());
            let waits = Arc::clone(&cache);
            let mut waiter = Task::new(async move { waits.get_with(1, async { 8 }).await });
            assert!(!waiter.poll());
            drop(task);
            assert_eq!(told.load(SeqCst), 7, "{name}");
            waiter.run();
            assert_eq!(waiter.result(), 7, "{name}");
        }
    });
}

/// A destructor that panics ends the load or computation all the same.
#[test]
fn begin_after_a_destructor_that_panics() {
    must_end(|| {
        for (name, operation) in operations() {
            let cache = shared();
            let permit = Permit::new(|| panic!("as planned"));
            let mut task = Task::new(operation(Arc::clone(&cache), permit));
            assert!(!task.poll());
            let waits = Arc::clone(&cache);
            let mut waiter = Task::new(async move { waits.get_with(1, async { 8 }).await });
            assert!(!waiter.poll());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_err(), "{name}");
            assert!(waiter.is_woken(), "{name}");
            waiter.run();
            assert_eq!(waiter.result(), 8, "{name}");
            let others = cache.get_many_with([2, 3], |_| ready([(2, 2)]));
            assert_eq!(at_once(others), [Some(2), None], "{name}");
        }
    });
}

/// What the future has put off is delivered after the end, and the listener may use the key.
#[test]
fn of_a_listener_begin_after_a_destructor_that_panics() {
    must_end(|| {
        for (name, operation) in operations() {
            let handle: Arc<Mutex<Option<Cache<u64, u64>>>> = Arc::default();
            let told = Arc::new(AtomicU64::new(0));
            let (cache, tells) = (Arc::clone(&handle), Arc::clone(&told));
            let listener = move |_: Removed<u64, u64>| {
                let cache = cache.lock().unwrap().clone().unwrap();
                tells.fetch_add(cache.sync().get_with(1, || 5), SeqCst);
            };
            let builder = Cache::builder().removal_listener(listener);
            let cache: Shared = Arc::new(tasks_audited(builder.build()));
            let inside = (**cache).clone();
            *handle.lock().unwrap() = Some(inside.clone());
            let permit = Permit::new(move || {
                (0..2).for_each(|value| inside.sync().insert(9, value));
                panic!("as planned");
            });
            let mut task = Task::new(operation(Arc::clone(&cache), permit));
            assert!(!task.poll());
            assert!(catch_unwind(AssertUnwindSafe(|| drop(task))).is_err(), "{name}");
            at_once(cache.run_pending_tasks());
            assert_eq!((told.load(SeqCst), cache.stats().listener_panics), (5, 0), "{name}");
            drop(handle.lock().unwrap().take());
        }
    });
}

/// A thread that ends drops its locals, and the futures in them.
#[test]
fn of_a_destructor_in_a_threads_locals_begin_at_once() {
    thread_local! {
        static KEPT: RefCell<Vec<Task<'static, ()>>> = const { RefCell::new(Vec::new()) };
    }
    must_end(|| {
        let told = Arc::new(AtomicU64::new(0));
        let tells = Arc::clone(&told);
        let keeps = move || {
            for (_, operation) in operations() {
                let (cache, tells) = (shared(), Arc::clone(&tells));
                let inside = (**cache).clone();
                let permit = Permit::new(move || {
                    inside.sync().invalidate(&1);
                    tells.fetch_add(inside.sync().get_with(1, || 5), SeqCst);
                });
                let mut task = Task::new(operation(cache, permit));
                assert!(!task.poll());
                KEPT.with_borrow_mut(|kept| kept.push(task));
            }
        };
        std::thread::spawn(keeps).join().unwrap();
        assert_eq!(told.load(SeqCst), 5 * operations().len() as u64);
    });
}
