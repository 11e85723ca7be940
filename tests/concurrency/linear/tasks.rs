//! Operations of a history by tasks: loads and computations are pending for a while, and some are
//! dropped then.

use super::perform::{make, seen};
use super::{Answer, Op};
use cortado::Loaded;
use cortado::future::Cache;
use cortado::{CompResult, Op as Decision};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// Wakes the thread that polls.
struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The result of a future, which is dropped before that as soon as `gives_up` holds.
fn block_on<T>(future: impl Future<Output = T>, gives_up: impl Fn() -> bool) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(result);
        }
        if gives_up() {
            return None;
        }
        thread::park();
    }
}

/// The user's part of an operation: pending so many times, and awake at once.
struct Work {
    pends: u32,
    has_begun: Cell<bool>,
}

impl Work {
    async fn make<T>(&self, result: T) -> T {
        let mut left = self.pends;
        poll_fn(|context| {
            self.has_begun.set(true);
            make();
            if left == 0 {
                return Poll::Ready(());
            }
            left -= 1;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        result
    }
}

/// Performs an operation as a task whose loader or computation is pending once or twice.
pub fn perform(cache: &Cache<u64, u64>, key: u64, op: Op, twice: bool) -> Answer {
    let work = Work { pends: 1 + u32::from(twice), has_begun: Cell::new(false) };
    let end = |answer: Option<Answer>| answer.expect("only a dropped operation has none");
    match op {
        Op::Guard { drops: true, .. } => {
            // A load whose task is dropped is given up as a guard is.
            let load = cache.get_with(key, work.make(0));
            Answer::Value(block_on(load, || work.has_begun.get()))
        }
        Op::Look => look(cache, key, &work, twice),
        Op::Load(_) | Op::LoadIf(_) | Op::LoadOptionally { .. } | Op::LoadFallibly { .. } => {
            end(block_on(load(cache, key, op, &work), || false))
        }
        Op::Guard { value, .. } => {
            end(block_on(load(cache, key, Op::Load(value), &work), || false))
        }
        op => end(block_on(write_or_read(cache, key, op, &work), || false)),
    }
}

/// A computation that changes nothing: it says so, or its task is dropped when it has looked.
fn look(cache: &Cache<u64, u64>, key: u64, work: &Work, drops: bool) -> Answer {
    let shown = Cell::new(None);
    let looks = cache.entry(key).and_compute_with(|entry| {
        shown.set(seen(entry.as_ref()));
        work.make(Decision::Nop)
    });
    let result = block_on(looks, || drops && work.has_begun.get());
    match (result, shown.get()) {
        (None, _) => assert!(drops, "it was not dropped"),
        (Some(CompResult::Unchanged(old)), shown) => assert_eq!(seen(Some(&old)), shown),
        (Some(CompResult::StillNone(_)), None) => {}
        (Some(result), shown) => panic!("nothing done to {shown:?} came to {result:?}"),
    }
    Answer::Entry(shown.get())
}

async fn load(cache: &Cache<u64, u64>, key: u64, op: Op, work: &Work) -> Answer {
    /// An error of another type.
    #[derive(Debug)]
    struct Other(u64);

    match op {
        Op::LoadIf(value) if value % 2 == 1 => {
            let load = |_| async { Loaded::new(work.make(value).await) };
            Answer::Value(Some(cache.load_if(&key, load, |old, _| old.is_multiple_of(2)).await))
        }
        Op::LoadIf(value) => {
            let entry = cache.entry(key);
            let is_even = |old: &u64| old.is_multiple_of(2);
            Answer::Value(Some(*entry.or_insert_with_if(work.make(value), is_even).await))
        }
        Op::LoadOptionally { value, makes } => {
            let made = work.make(makes.then_some(value));
            Answer::Value(cache.optionally_get_with(key, made).await)
        }
        Op::LoadFallibly { value, fails, other_type } => {
            let made = if fails { Err(value) } else { Ok(value) };
            let loaded = if other_type {
                let loaded = cache.try_get_with(key, work.make(made.map_err(Other))).await;
                loaded.map_err(|error| error.0)
            } else {
                cache.try_get_with(key, work.make(made)).await.map_err(|error| *error)
            };
            loaded.map_or_else(Answer::Failed, |value| Answer::Value(Some(value)))
        }
        Op::Load(value) => Answer::Value(Some(cache.get_with(key, work.make(value)).await)),
        _ => unreachable!("{op:?} is no load"),
    }
}

async fn write_or_read(cache: &Cache<u64, u64>, key: u64, op: Op, work: &Work) -> Answer {
    match op {
        Op::Get => Answer::Value(cache.get(&key).await),
        Op::GetIf => Answer::Value(cache.get_if(&key, |value, _| value % 2 == 1).await),
        Op::GetEntry => Answer::Entry(seen(cache.get_entry(&key).await.as_ref())),
        Op::Touch => Answer::Was(cache.touch(&key).await),
        Op::Insert(value) => {
            cache.insert(key, value).await;
            Answer::Done
        }
        Op::InsertFor(value, life) => {
            cache.insert_with_ttl(key, value, Duration::from_secs(life)).await;
            Answer::Done
        }
        Op::Remove => Answer::Value(cache.remove(&key).await),
        Op::RemoveIfOdd => Answer::Value(cache.remove_if(&key, |_, value| value % 2 == 1).await),
        Op::SetTtl(life) => Answer::Was(cache.set_ttl(&key, Duration::from_secs(life)).await),
        Op::Persist => Answer::Was(cache.persist(&key).await),
        Op::Replace(value) => Answer::Value(cache.replace(key, value).await.ok().map(|old| *old)),
        Op::Put(value) => compute(cache, key, Decision::Put(value), work).await,
        Op::ComputeRemove => compute(cache, key, Decision::Remove, work).await,
        Op::Upsert(value) => {
            let shown = Cell::new(None);
            let upsert = cache.entry(key).and_upsert_with(|entry| {
                shown.set(seen(entry.as_ref()));
                work.make(value)
            });
            let entry = upsert.await;
            let had = shown.get().is_some();
            assert_eq!((*entry, entry.is_old_value_replaced()), (value, had));
            Answer::Entry(shown.get())
        }
        // These are the same functions for both, or have no form for tasks.
        Op::Peek | Op::ExpiresIn | Op::Clear => unreachable!("{op:?} has no form for tasks"),
        Op::Reload(_) | Op::Renewal | Op::Lapsed => unreachable!("{op:?} is no task's"),
        Op::Look | Op::Guard { .. } => unreachable!("{op:?} may be dropped"),
        loads => load(cache, key, loads, work).await,
    }
}

async fn compute(
    cache: &Cache<u64, u64>,
    key: u64,
    decision: Decision<u64>,
    work: &Work,
) -> Answer {
    let shown = RefCell::new(None);
    let decides = |entry: Option<cortado::Entry<u64, u64>>| {
        *shown.borrow_mut() = seen(entry.as_ref());
        work.make(decision)
    };
    let result = cache.entry(key).and_compute_with(decides).await;
    let shown = shown.into_inner();
    match (result, decision, shown) {
        (CompResult::Inserted(new), Decision::Put(put), None)
        | (CompResult::ReplacedWith(new), Decision::Put(put), Some(_)) => assert_eq!(*new, put),
        (CompResult::Removed(old), Decision::Remove, Some(_)) => {
            assert_eq!(seen(Some(&old)), shown);
        }
        (CompResult::StillNone(_), Decision::Remove, None) => {}
        (result, _, _) => panic!("{decision:?} of {shown:?} came to {result:?}"),
    }
    Answer::Entry(shown)
}
