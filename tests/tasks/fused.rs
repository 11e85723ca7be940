//! The operations of tasks, with user code that does something of the test's wherever they call or
//! poll it: what the matrices of panics and of re-entrancy share.

use crate::common::fuse::{
    Borrowed, Key, MISSING, MISSING_TOO, Name, Place, RECENT, Subject, THERE, Timing, Value,
    paused, reach,
};
use crate::common::{SECOND, TICK};
use crate::hand::{Boxed, Gate, Task, Wakes, fused_waker};
use cortado::future::{Cache, FutureExt};
use cortado::{Loaded, Op};
use std::any::Any;
use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

/// A [`Subject`] for tasks, with a listener that awaits.
#[derive(Clone)]
pub struct Fused {
    subject: Subject,
    pub tasks: Cache<Key, Value>,
    /// Serials, as the listener that awaits was told.
    awaited: Arc<Mutex<Vec<u64>>>,
}

impl Deref for Fused {
    type Target = Subject;

    fn deref(&self) -> &Subject {
        &self.subject
    }
}

impl Fused {
    /// With entries of every kind.
    pub fn new(timing: Timing, capacity: u64, idles: bool) -> Self {
        let awaited = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&awaited);
        let subject = Subject::made(timing, Cache::builder(), (capacity, idles), |builder| {
            let builder = builder.async_eviction_listener(move |key, value, _| {
                log.lock().unwrap().push(value.serial);
                reach(Place::AsyncListener);
                Telling { _told: (key, value), has_waited: false }.boxed()
            });
            builder.build().sync().clone()
        });
        subject.fill();
        let tasks = subject.cache.future();
        Self { subject, tasks, awaited }
    }

    /// Lets the listener that awaits hear of everything.
    pub fn settle(&self) {
        Task::new(self.tasks.run_pending_tasks()).end();
    }

    /// Audits the cache, and all listeners were told the same; but for removals whose telling
    /// panicked before the last listener had them.
    pub fn check(&self, panics: usize) {
        self.advance(TICK);
        self.settle();
        self.subject.check();
        self.settle();
        let awaited = self.awaited.lock().unwrap();
        let told = self.told.lock().unwrap();
        let mut rest = told.iter().map(|told| told.0);
        let in_order = awaited.iter().all(|serial| rest.any(|told| told == *serial));
        assert!(in_order, "{awaited:?} awaited of {told:?}");
        assert!(told.len() - awaited.len() <= panics, "{awaited:?} awaited of {told:?}");
    }
}

/// What the listener that awaits returns.
struct Telling {
    _told: (Arc<Key>, Value),
    has_waited: bool,
}

impl Future for Telling {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        reach(Place::PollListener);
        if std::mem::replace(&mut self.has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        reach(Place::DropListener);
    }
}

/// The future of a load or a computation: pending once.
struct Steps<F> {
    place: Place,
    has_waited: bool,
    make: F,
}

impl<T, F: FnMut() -> T + Unpin> Future for Steps<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        reach(self.place);
        if std::mem::replace(&mut self.has_waited, true) {
            return Poll::Ready((self.make)());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<F> Drop for Steps<F> {
    fn drop(&mut self) {
        reach(Place::DropFuture);
    }
}

fn loads<T>(make: impl FnMut() -> T + Unpin) -> impl Future<Output = T> {
    Steps { place: Place::Loader, has_waited: false, make }
}

/// A closure of a computation, whose call counts like the polls of its future.
fn computes<T, E, F: FnMut() -> T + Unpin>(make: F) -> impl FnOnce(Option<E>) -> Steps<F> {
    move |_| {
        reach(Place::Compute);
        Steps { place: Place::Compute, has_waited: false, make }
    }
}

fn holds() -> bool {
    reach(Place::Condition);
    true
}

/// What an operation returns is kept until the fuse is out, so that only the cache drops things.
pub type Kept = Box<dyn Any + Send>;
pub type Operation = for<'a> fn(&'a Fused) -> Boxed<'a, Kept>;

/// One row: the name, the key, the operation.
macro_rules! row {
    ($name:literal, $key:ident, $s:ident => $operation:expr) => {
        (
            $name,
            $key,
            (|$s| Box::pin(async move { Box::new($operation.await) as Kept })) as Operation,
        )
    };
}

/// Every operation, with the key that it is about.
pub fn operations() -> Vec<(&'static str, u64, Operation)> {
    const NOW: Duration = Duration::ZERO;
    vec![
        row!("get", THERE, s => s.tasks.get(&Name(THERE))),
        row!("get_entry", THERE, s => s.tasks.get_entry(&Name(THERE))),
        row!("get if", THERE, s => s.tasks.get_if(&Name(THERE), |_, _| holds())),
        row!("get missing", MISSING, s => s.tasks.get(&Name(MISSING))),
        row!("get_many", THERE, s => s.tasks.get_many(&[Name(THERE), Name(MISSING)])),
        row!("touch", THERE, s => s.tasks.touch(&Name(THERE))),
        row!("insert", MISSING, s => s.tasks.insert(Key(MISSING), s.value())),
        row!("replace", THERE, s => s.tasks.insert(Key(THERE), s.value())),
        row!("insert for no time", MISSING, s => {
            s.tasks.insert_with_ttl(Key(MISSING), s.value(), NOW)
        }),
        row!("replace for no time", THERE, s => {
            s.tasks.insert_with_ttl(Key(THERE), s.value(), NOW)
        }),
        row!("insert many", MISSING, s => {
            s.tasks.insert_many([(Key(MISSING), s.value()), (Key(THERE), s.value())])
        }),
        row!("remove", THERE, s => s.tasks.remove(&Name(THERE))),
        row!("remove_if", THERE, s => s.tasks.remove_if(&Name(THERE), |_, _| holds())),
        row!("invalidate", THERE, s => s.tasks.invalidate(&Name(THERE))),
        row!("invalidate many", THERE, s => s.tasks.invalidate_many(&[Name(THERE), Name(2)])),
        row!("invalidate some", THERE, s => async {
            let condition = |_: &Key, value: &Value| holds() && value.serial.is_multiple_of(2);
            assert!(s.tasks.invalidate_entries_if(condition).is_ok());
        }),
        row!("retain", THERE, s => s.tasks.retain(|_, _| !holds())),
        row!("set_ttl", THERE, s => s.tasks.set_ttl(&Name(THERE), s.timing.other_life())),
        row!("set_ttl zero", THERE, s => s.tasks.set_ttl(&Name(THERE), NOW)),
        row!("load", MISSING, s => s.tasks.get_with(Key(MISSING), loads(|| s.value()))),
        row!("load by reference", MISSING, s => {
            s.tasks.get_with_by_ref(&Borrowed(MISSING), loads(|| s.value()))
        }),
        row!("load what is there", THERE, s => {
            s.tasks.entry(Key(THERE)).or_insert_with(loads(|| s.value()))
        }),
        row!("load fails", MISSING, s => {
            s.tasks.try_get_with(Key(MISSING), loads(|| Err::<Value, _>(s.value())))
        }),
        row!("load or fail", MISSING, s => {
            s.tasks.try_get_with(Key(MISSING), loads(|| Ok::<_, Value>(s.value())))
        }),
        row!("load nothing", MISSING, s => {
            s.tasks.optionally_get_with_by_ref(&Borrowed(MISSING), loads(|| None))
        }),
        row!("load many", MISSING, s => {
            let keys = [Key(MISSING), Key(MISSING_TOO), Key(MISSING)];
            s.tasks.get_many_with(keys, |asked| {
                let keys: Vec<u64> = asked.iter().map(|key| key.0).collect();
                loads(move || keys.iter().map(|key| (Key(*key), s.value())).collect::<Vec<_>>())
            })
        }),
        row!("load many fails", MISSING, s => {
            s.tasks.try_get_many_with([Key(MISSING), Key(MISSING_TOO)], |_| {
                loads(|| Err::<[(Key, Value); 0], _>(s.value()))
            })
        }),
        row!("load with a lifetime", MISSING, s => {
            let load = loads(|| Ok::<_, ()>(Loaded::with_ttl(s.value(), s.timing.other_life())));
            s.tasks.load_by_ref(&Borrowed(MISSING), load)
        }),
        row!("load for no time", MISSING, s => {
            s.tasks.load(Key(MISSING), loads(|| Loaded::with_ttl(s.value(), NOW)))
        }),
        row!("load is overtaken", MISSING, s => {
            let load = loads(|| {
                s.insert(MISSING);
                s.value()
            });
            s.tasks.get_with(Key(MISSING), load)
        }),
        row!("load replaces", RECENT, s => {
            let place = s.tasks.entry(Key(RECENT));
            place.or_insert_with_if(loads(|| s.value()), |_| holds())
        }),
        row!("load if", RECENT, s => {
            let load = |old| {
                drop(old);
                loads(|| Ok::<_, Value>(Some(Loaded::new(s.value()))))
            };
            s.tasks.load_if(&Borrowed(RECENT), load, |_, _| holds())
        }),
        row!("load by a guard", MISSING, s => async {
            match s.tasks.get_value_or_guard(&Borrowed(MISSING)).await {
                Ok(value) => value,
                Err(guard) => guard.insert(s.value()).into_value(),
            }
        }),
        row!("load replaces what goes", RECENT, s => async {
            let load = loads(|| {
                s.cache.invalidate(&Name(RECENT));
                s.cache.run_pending_tasks();
                s.value()
            });
            let loaded = s.tasks.entry(Key(RECENT)).or_insert_with_if(load, |_| true).await;
            s.cache.run_pending_tasks();
            loaded
        }),
        row!("compute", MISSING, s => {
            s.tasks.entry(Key(MISSING)).and_compute_with(computes(|| Op::Put(s.value())))
        }),
        row!("compute replaces", THERE, s => {
            s.tasks.entry(Key(THERE)).and_compute_with(computes(|| Op::Put(s.value())))
        }),
        row!("compute removes", THERE, s => {
            s.tasks.entry(Key(THERE)).and_compute_with(computes(|| Op::<Value>::Remove))
        }),
        row!("compute nothing", THERE, s => {
            s.tasks.entry(Key(THERE)).and_compute_with(computes(|| Op::<Value>::Nop))
        }),
        row!("compute fails", THERE, s => {
            s.tasks.entry(Key(THERE)).and_try_compute_with(computes(|| Err::<Op<Value>, _>(s.value())))
        }),
        row!("compute upserts", THERE, s => {
            s.tasks.entry_by_ref(&Borrowed(THERE)).and_upsert_with(computes(|| s.value()))
        }),
        row!("compute replaces value", THERE, s => s.tasks.replace(Key(THERE), s.value())),
        row!("compute replaces for a time", THERE, s => {
            s.tasks.replace_with_ttl(Key(THERE), s.value(), s.timing.other_life())
        }),
        row!("compute replaces no value", MISSING_TOO, s => {
            s.tasks.replace(Key(MISSING_TOO), s.value())
        }),
        row!("maintenance", THERE, s => async {
            s.advance(70 * SECOND);
            s.tasks.run_pending_tasks().await;
            // Other threads of the process may hold the epoch up for a moment.
            while s.cache.run_pending_tasks_up_to(64).reclamations > 0 {
                std::thread::yield_now();
            }
        }),
    ]
}

/// What else there is with the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Others {
    Nobody,
    /// A task that comes for the key after the first poll of the operation.
    Waiter,
    /// A load or a computation that is under way before the operation begins; a load of a value, or
    /// one that fails; the computation comes to nothing.
    Value,
    Load,
    Computation,
}

/// How a case goes.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Course {
    pub others: Others,
    /// Whether the operation is dropped after its first poll.
    pub is_dropped: bool,
}

impl Course {
    /// Of all kinds.
    pub const ALL: [Self; 8] = [
        Self { others: Others::Nobody, is_dropped: false },
        Self { others: Others::Nobody, is_dropped: true },
        Self { others: Others::Waiter, is_dropped: false },
        Self { others: Others::Waiter, is_dropped: true },
        Self { others: Others::Value, is_dropped: false },
        Self { others: Others::Load, is_dropped: false },
        Self { others: Others::Computation, is_dropped: false },
        Self { others: Others::Computation, is_dropped: true },
    ];
}

/// How the operation of a case went.
pub struct Ran {
    /// `Err` is the message of its panic.
    pub result: Result<(), String>,
    pub before: crate::common::fuse::Seen,
    pub after: crate::common::fuse::Seen,
}

/// Runs the operation. `arm` is called before its first poll, and `disarm` after its last one.
/// `counts_in_leader` says whether the fuse stays in while another task ends its load.
pub fn run(
    s: &Fused,
    (_, key, operation): (&str, u64, Operation),
    course: Course,
    (arm, disarm): (impl FnOnce(), impl FnOnce()),
    counts_in_leader: bool,
) -> Ran {
    let gate = Gate::default();
    let mut leader = leader(s, key, course.others, &gate);
    let mut before = s.seen();
    let mut task = Some(Task::with_waker(fused_waker, operation(s)));
    let wakes = task.as_ref().unwrap().wakes();
    let mut waiter = None;
    arm();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut is_ready = task.as_mut().unwrap().poll();
        if !is_ready && course.others == Others::Waiter {
            paused(|| {
                let waits = s.tasks.optionally_get_with(Key(key), async { None });
                let mut waits = Task::with_waker(fused_waker, waits);
                if !waits.poll() {
                    waiter = Some(waits);
                }
                before = s.seen();
            });
        }
        if course.is_dropped {
            drop(task.take());
            return;
        }
        let task = task.as_mut().unwrap();
        while !is_ready && task.is_woken() {
            is_ready = task.poll();
        }
        if !is_ready {
            let leader = leader.as_mut().expect("somebody to wait for");
            gate.open();
            if counts_in_leader {
                leader.run();
            } else {
                paused(|| leader.run());
            }
            before = paused(|| s.seen());
            task.run();
        }
    }));
    disarm();
    let result = result.map_err(|panic| {
        let message = panic.downcast_ref::<&str>().map(|message| (*message).to_owned());
        message.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
    });
    let after = s.seen();
    drop(task);
    assert_eq!(Arc::strong_count(&wakes), 1, "somebody keeps a waker of the operation");
    // The others go on.
    gate.open();
    if let Some(leader) = &mut leader {
        leader.run();
    }
    if let Some(mut waiter) = waiter {
        waiter.run();
        let wakes: Arc<Wakes> = waiter.wakes();
        drop(waiter);
        assert_eq!(Arc::strong_count(&wakes), 1, "somebody keeps a waker of the waiter");
    }
    Ran { result, before, after }
}

/// A task that holds the key until the gate is open, and was polled once.
fn leader<'a>(s: &'a Fused, key: u64, others: Others, gate: &'a Gate) -> Option<Task<'a, ()>> {
    let mut task = match others {
        Others::Nobody | Others::Waiter => return None,
        Others::Load | Others::Value => Task::new(async move {
            let end = |value| if others == Others::Value { Ok(value) } else { Err(value) };
            let load = async { (gate.passed().await, end(s.value())).1 };
            drop(s.tasks.try_get_with(Key(key), load).await);
        }),
        Others::Computation => Task::new(async move {
            let compute = |_| async { (gate.passed().await, Op::<Value>::Nop).1 };
            drop(s.tasks.entry(Key(key)).and_compute_with(compute).await);
        }),
    };
    task.poll();
    Some(task)
}
