//! Keys, operations, jobs and schedules whose destructors or clones panic, and conditions that do.
//! Nothing else is lost by that. Two of these tests ended the process before it was so.

use crate::jobs::{Bench, MS};
use crate::tasks::Gate;
use cortado::Clock;
use cortado::timer::{DelayedOp, DelayedOps, Missed, Next, Schedule, Stop, Timer, Turn};
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor that fails");
    }
}

/// A key whose clones share a fuse. While it is lit, the next of them that is dropped explodes.
#[derive(Clone)]
struct Key(u32, Arc<AtomicBool>);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        assert!(!self.1.swap(false, SeqCst), "a key's destructor");
    }
}

#[derive(Default)]
struct Op {
    is_ready: AtomicBool,
    told: Mutex<Vec<&'static str>>,
}

impl DelayedOp for Op {
    fn try_complete(&self) -> bool {
        self.is_ready.load(SeqCst)
    }

    fn on_complete(&self) {
        self.told.lock().unwrap().push("completed");
    }

    fn on_expire(&self) {
        self.told.lock().unwrap().push("expired");
    }

    fn on_cancel(&self) {
        self.told.lock().unwrap().push("cancelled");
    }
}

/// An operation whose destructor panics.
#[derive(Default)]
struct Explosive(Arc<AtomicBool>);

impl DelayedOp for Explosive {
    fn try_complete(&self) -> bool {
        self.0.load(SeqCst)
    }

    fn on_complete(&self) {}
}

impl Drop for Explosive {
    fn drop(&mut self) {
        panic!("an operation's destructor");
    }
}

#[test]
fn a_keys_destructor_loses_no_callback_and_no_event() {
    let bench = Bench::new();
    let ops = DelayedOps::new(&bench.timer);
    let fuse = Arc::new(AtomicBool::new(false));
    let (first, other) = (Arc::new(Op::default()), Arc::new(Op::default()));
    let keys = [1, 2].map(|number| Key(number, Arc::clone(&fuse)));
    let _first = ops.try_complete_else_watch(Arc::clone(&first), 10 * MS, keys).unwrap();
    let keys = [Key(2, Arc::default())];
    let _other = ops.try_complete_else_watch(Arc::clone(&other), 10 * MS, keys).unwrap();
    first.is_ready.store(true, SeqCst);
    other.is_ready.store(true, SeqCst);
    fuse.store(true, SeqCst);
    let event = || ops.check(&Key(2, Arc::default()));
    let completed = catch_unwind(AssertUnwindSafe(event));
    bench.step(20);
    let told = [&first, &other].map(|op| op.told.lock().unwrap().clone());
    assert_eq!(told, [["completed"]; 2], "{completed:?}");
    assert_eq!((ops.pending(), ops.watched()), (0, 0));
}

#[test]
fn an_operations_destructor_keeps_no_others_from_being_cancelled() {
    let bench = Bench::new();
    let ops = DelayedOps::new(&bench.timer);
    drop(ops.try_complete_else_watch(Arc::new(Explosive::default()), 10 * MS, [1]).unwrap());
    let mut watched = Box::pin(ops.watch([1], 10 * MS).unwrap());
    let _ = catch_unwind(AssertUnwindSafe(|| drop(ops)));
    bench.step(20);
    assert!(watched.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

#[test]
fn an_event_ends_two_operations_whose_destructors_panic() {
    let bench = Bench::new();
    let (ops, is_ready) = (DelayedOps::new(&bench.timer), Arc::new(AtomicBool::new(false)));
    for _ in 0..2 {
        let op = Arc::new(Explosive(Arc::clone(&is_ready)));
        drop(ops.try_complete_else_watch(op, 10 * MS, [1]).unwrap());
    }
    is_ready.store(true, SeqCst);
    assert_eq!(ops.check(&1), 2);
}

struct Plan(#[allow(dead_code, reason = "it is dropped")] Bomb);

impl Schedule for Plan {
    fn next(&mut self, _: &Turn) -> Option<Next> {
        Some(Next::After(MS))
    }
}

#[test]
fn a_job_and_its_schedule_are_dropped_one_by_one() {
    let (bench, bomb) = (Bench::new(), Bomb);
    drop(bench.timer.schedule(Plan(Bomb), move |_| _ = &bomb).unwrap());
    assert_eq!(bench.timer.pending(), 0);
}

#[test]
fn an_end_is_dropped_that_has_two_jobs_whose_destructors_panic() {
    let (bench, gate) = (Bench::new(), Gate::default());
    let inner = gate.clone();
    let running = bench.timer.after(MS, move |_| async move { inner.pass().await });
    running.unwrap().detach();
    bench.step(1);
    for bomb in [Bomb, Bomb] {
        bench.timer.after(MS, move |_| _ = &bomb).unwrap().detach();
    }
    let mut end = Box::pin(bench.timer.shutdown_async(Stop::Cancel));
    assert!(end.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    drop(end);
    gate.forget();
}

#[test]
fn a_jobs_destructor_leaks_no_future_of_an_unfired_job() {
    let (bench, bomb, held) = (Bench::new(), Bomb, Arc::new(()));
    let captured = Arc::clone(&held);
    let job = bench.timer.every(MS, Missed::Skip, move |_| {
        let (_, captured) = (&bomb, Arc::clone(&captured));
        async move { drop(captured) }
    });
    job.unwrap().detach();
    let job = bench.timer.shutdown(Stop::Cancel).pop().unwrap();
    let _ = catch_unwind(AssertUnwindSafe(|| drop(job.run())));
    assert_eq!(Arc::strong_count(&held), 1, "the future is lost");
}

/// Its third look panics while another thread wants a fourth one, which holds.
struct Twice(AtomicUsize, DelayedOps<u32>);

impl DelayedOp for Twice {
    fn try_complete(&self) -> bool {
        let look = self.0.fetch_add(1, SeqCst);
        if look == 2 {
            let ops = self.1.clone();
            std::thread::spawn(move || ops.check(&1)).join().unwrap();
            panic!("a condition that fails");
        }
        look > 2
    }

    fn on_complete(&self) {}
}

#[test]
fn a_conditions_panic_that_another_look_follows_is_counted() {
    let bench = Bench::new();
    let ops = DelayedOps::new(&bench.timer);
    let op = Arc::new(Twice(AtomicUsize::new(0), ops.clone()));
    let _watch = ops.try_complete_else_watch(op, MS, [1]).unwrap();
    assert_eq!(ops.check(&1), 1);
    assert_eq!(bench.timer.stats().panicked, 1);
}

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    Clone,
    Hash,
    Eq,
}

/// A key of which one operation panics, if its number is 2. All of them have one hash.
struct Broken(u32, Fails);

impl Broken {
    fn may_panic(&self, call: Fails) {
        assert!(self.0 != 2 || self.1 != call, "a call that fails");
    }
}

impl Clone for Broken {
    fn clone(&self) -> Self {
        self.may_panic(Fails::Clone);
        Self(self.0, self.1)
    }
}

impl Hash for Broken {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.may_panic(Fails::Hash);
        0.hash(state);
    }
}

impl PartialEq for Broken {
    fn eq(&self, other: &Self) -> bool {
        self.may_panic(Fails::Eq);
        other.may_panic(Fails::Eq);
        self.0 == other.0
    }
}

impl Eq for Broken {}

#[test]
fn a_key_that_cannot_be_cloned_hashed_or_compared_leaves_no_operation() {
    for fails in [Fails::Clone, Fails::Hash, Fails::Eq] {
        let bench = Bench::new();
        let ops = DelayedOps::new(&bench.timer);
        let op = Arc::new(Op::default());
        let keys = [1, 2].map(|number| Broken(number, fails));
        let watch = || ops.try_complete_else_watch(Arc::clone(&op), 10 * MS, keys);
        assert!(catch_unwind(AssertUnwindSafe(watch)).is_err());
        bench.step(20);
        assert_eq!((ops.pending(), ops.watched()), (0, 0));
        let told = op.told.lock().unwrap().clone();
        assert_eq!(told, if fails == Fails::Hash { vec![] } else { vec!["cancelled"] });
    }
}

/// The clone of its second key makes an event of its first one, and that of its third one panics.
struct Sly(u32, Arc<Mutex<Option<DelayedOps<Self>>>>, Arc<Op>);

impl Clone for Sly {
    fn clone(&self) -> Self {
        if self.0 == 2 {
            let ops = self.1.lock().unwrap().clone().unwrap();
            self.2.is_ready.store(true, SeqCst);
            assert_eq!(ops.check(&Self(1, Arc::clone(&self.1), Arc::clone(&self.2))), 1);
        }
        assert!(self.0 != 3, "a clone that fails");
        Self(self.0, Arc::clone(&self.1), Arc::clone(&self.2))
    }
}

impl PartialEq for Sly {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Sly {}

impl Hash for Sly {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn an_operation_that_ends_while_its_keys_are_cloned_is_unlinked() {
    let bench = Bench::new();
    let ops = DelayedOps::new(&bench.timer);
    let (own, op) = (Arc::new(Mutex::new(Some(ops.clone()))), Arc::new(Op::default()));
    let keys = [1, 2, 3].map(|number| Sly(number, Arc::clone(&own), Arc::clone(&op)));
    let watch = || ops.try_complete_else_watch(Arc::clone(&op), 10 * MS, keys);
    assert!(catch_unwind(AssertUnwindSafe(watch)).is_err());
    own.lock().unwrap().take();
    assert_eq!((ops.pending(), ops.watched()), (0, 0));
    assert_eq!(*op.told.lock().unwrap(), ["completed"]);
}

struct NoFirstRun;

impl Schedule for NoFirstRun {
    fn next(&mut self, _: &Turn) -> Option<Next> {
        panic!("no first run")
    }
}

#[test]
fn a_schedule_without_a_first_run_drops_its_job_by_itself() {
    let (bench, bomb) = (Bench::new(), Bomb);
    let add = || drop(bench.timer.schedule(NoFirstRun, move |_| _ = &bomb));
    let panic = catch_unwind(AssertUnwindSafe(add)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"no first run"));
}

#[test]
fn a_clock_that_panics_and_a_job_whose_destructor_does() {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let clock = Clock::custom(move || {
        assert!(!broken.load(SeqCst), "a reading that fails");
        Duration::ZERO
    });
    let timer = Timer::builder().clock(clock).manual();
    is_broken.store(true, SeqCst);
    let bombs = [Bomb, Bomb];
    let [first, second] = bombs;
    let adds: [Box<dyn FnOnce()>; 2] = [
        Box::new(|| drop(timer.after(MS, move |_| _ = &first))),
        Box::new(|| {
            drop(timer.after(MS, move |_| {
                let _ = &second;
                async {}
            }));
        }),
    ];
    for add in adds {
        let panic = catch_unwind(AssertUnwindSafe(add)).unwrap_err();
        assert_eq!(panic.downcast_ref(), Some(&"a reading that fails"));
    }
}

/// No such key can be hashed.
#[derive(Clone, PartialEq, Eq)]
struct Unhashed;

impl Hash for Unhashed {
    fn hash<H: Hasher>(&self, _: &mut H) {
        panic!("a hash that fails");
    }
}

#[test]
fn a_hash_that_panics_and_an_operation_whose_destructor_does() {
    let bench = Bench::new();
    let ops = DelayedOps::new(&bench.timer);
    let add = || drop(ops.try_complete_else_watch(Arc::new(Explosive::default()), MS, [Unhashed]));
    let panic = catch_unwind(AssertUnwindSafe(add)).unwrap_err();
    assert_eq!(panic.downcast_ref(), Some(&"a hash that fails"));
    assert_eq!((ops.pending(), ops.watched()), (0, 0));
}
