//! Delayed operations.

use crate::jobs::{Bench, MS};
use cortado::timer::{Attempt, DelayedOp, DelayedOps, OpRef, Outcome, Stop, Timer, TimerError};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

const NO_TIMEOUT: Duration = Duration::MAX;

/// Holds once it has seen so many events; notes what it is told.
struct Count {
    wanted: usize,
    seen: AtomicUsize,
    told: Mutex<Vec<&'static str>>,
    on_complete: Box<dyn Fn() + Send + Sync>,
}

impl Count {
    fn new(wanted: usize) -> Arc<Self> {
        Self::with(wanted, || ())
    }

    fn with(wanted: usize, on_complete: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let (seen, told) = (AtomicUsize::new(0), Mutex::default());
        Arc::new(Self { wanted, seen, told, on_complete: Box::new(on_complete) })
    }

    fn see(&self) {
        self.seen.fetch_add(1, SeqCst);
    }

    fn told(&self) -> Vec<&'static str> {
        self.told.lock().unwrap().clone()
    }

    fn note(&self, what: &'static str) {
        self.told.lock().unwrap().push(what);
    }
}

impl DelayedOp for Count {
    fn try_complete(&self) -> bool {
        assert_ne!(self.wanted, 99, "a condition that panics");
        self.seen.load(SeqCst) >= self.wanted
    }

    fn on_complete(&self) {
        self.note("completed");
        (self.on_complete)();
    }

    fn on_expire(&self) {
        self.note("expired");
    }

    fn on_cancel(&self) {
        self.note("cancelled");
    }
}

type Ops = DelayedOps<&'static str>;

fn watch(
    ops: &Ops,
    op: &Arc<Count>,
    timeout: Duration,
    keys: &[&'static str],
) -> OpRef<&'static str> {
    match ops.try_complete_else_watch(Arc::clone(op), timeout, keys.to_vec()).unwrap() {
        Attempt::Watching(handle) => handle,
        Attempt::Completed => panic!("completed at once"),
    }
}

fn nothing_is_left(bench: &Bench, ops: &Ops) {
    assert_eq!((ops.pending(), ops.watched(), bench.timer.pending()), (0, 0, 0));
}

#[test]
fn an_operation_whose_condition_holds_is_never_watched() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let op = Count::new(0);
    let watch = ops.try_complete_else_watch(Arc::clone(&op), MS, ["k"]).unwrap();
    assert!(matches!(watch, Attempt::Completed));
    assert_eq!(op.told(), ["completed"]);
    nothing_is_left(&bench, &ops);
    let none: [&str; 0] = [];
    assert_eq!(ops.try_complete_else_watch(op, MS, none).unwrap_err(), TimerError::Empty);
}

#[test]
fn events_complete_it_once_and_unlink_it_everywhere() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let op = Count::new(2);
    let handle = watch(&ops, &op, 10 * MS, &["a", "b", "c"]);
    assert_eq!((ops.pending(), ops.watched(), bench.timer.pending()), (1, 3, 1));
    op.see();
    assert_eq!((ops.check("a"), ops.check("elsewhere")), (0, 0));
    op.see();
    assert_eq!((ops.check("c"), ops.check("a")), (1, 0));
    assert_eq!((op.told(), handle.outcome()), (vec!["completed"], Some(Outcome::Completed)));
    nothing_is_left(&bench, &ops);
    bench.step(20);
    assert!(!handle.complete() && !handle.cancel());
    assert_eq!(op.told(), ["completed"], "not by its timeout as well");
}

#[test]
fn a_timeout_completes_it_and_then_tells_that_it_expired() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let (op, other) = (Count::new(1), Count::new(1));
    let handle = watch(&ops, &op, 10 * MS, &["a", "b"]);
    let _forever = watch(&ops, &other, NO_TIMEOUT, &["b"]);
    bench.walk(9);
    assert_eq!((handle.outcome(), bench.timer.pending()), (None, 1));
    bench.step(1);
    assert_eq!(
        (op.told(), handle.outcome()),
        (vec!["completed", "expired"], Some(Outcome::Expired))
    );
    assert_eq!((ops.pending(), ops.watched()), (1, 1));
    other.see();
    assert_eq!(ops.check("b"), 1);
    nothing_is_left(&bench, &ops);
}

#[test]
fn operations_of_a_key_complete_in_their_order() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let order = Arc::new(Mutex::new(Vec::new()));
    let all: Vec<_> = (0..100)
        .map(|number| {
            let order = Arc::clone(&order);
            let op = Count::with(1, move || order.lock().unwrap().push(number));
            watch(&ops, &op, 10 * MS, &["k"]);
            op
        })
        .collect();
    all.iter().filter(|op| Arc::strong_count(op) > 1).for_each(|op| op.see());
    assert_eq!(ops.check("k"), 100);
    assert!(order.lock().unwrap().iter().copied().eq(0..100));
    nothing_is_left(&bench, &ops);
}

#[test]
fn it_is_completed_or_cancelled_by_hand_and_by_key() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let many: Vec<Arc<Count>> = (0..4).map(|_| Count::new(9)).collect();
    let handles: Vec<_> = many.iter().map(|op| watch(&ops, op, 10 * MS, &["k", "l"])).collect();
    assert!(handles[0].complete() && handles[1].cancel());
    let cancelled = ops.cancel_key("l");
    assert_eq!(cancelled.len(), 2);
    assert!(cancelled.iter().all(|it| it.outcome() == Some(Outcome::Cancelled)));
    nothing_is_left(&bench, &ops);
    let told: Vec<_> = many.iter().map(|op| op.told()).collect();
    assert_eq!(told, [["completed"], ["cancelled"], ["cancelled"], ["cancelled"]]);
}

/// Callbacks run with no lock held: they call everything there is.
#[test]
fn callbacks_may_call_the_operations_and_the_timer() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let second = Count::new(1);
    let (inner, timer, next) = (ops.clone(), bench.timer.clone(), Arc::clone(&second));
    let first = Count::with(1, move || {
        next.see();
        assert_eq!(inner.check("k"), 1, "the other one");
        assert_eq!(inner.cancel_key("k").len(), 0);
        assert_eq!(timer.pending(), 0);
        watch(&inner, &Count::new(5), MS, &["k"]);
        panic!("and it may panic");
    });
    let handle = watch(&ops, &first, 10 * MS, &["k"]);
    watch(&ops, &second, 10 * MS, &["k"]);
    first.see();
    assert_eq!(ops.check("k"), 1);
    assert_eq!(handle.outcome(), Some(Outcome::Completed));
    assert_eq!((second.told(), ops.pending()), (vec!["completed"], 1));
    assert_eq!(bench.timer.stats().panicked, 1);
    bench.step(1);
    nothing_is_left(&bench, &ops);
}

/// Completes if it gets the permit, and then gives it back and does what the test says.
struct Link {
    permit: Arc<AtomicBool>,
    calls: Arc<AtomicUsize>,
    /// How many callbacks are on the stack.
    depth: Arc<AtomicUsize>,
    next: Weak<OnceLock<Box<dyn Fn() + Send + Sync>>>,
}

impl Link {
    fn called(&self) {
        assert_eq!(self.depth.fetch_add(1, SeqCst), 0, "a callback inside of another");
        self.calls.fetch_add(1, SeqCst);
        self.permit.store(true, SeqCst);
        self.next.upgrade().unwrap().get().unwrap()();
        self.depth.fetch_sub(1, SeqCst);
    }
}

impl DelayedOp for Link {
    fn try_complete(&self) -> bool {
        self.permit.swap(false, SeqCst)
    }

    fn on_complete(&self) {
        self.called();
    }

    fn on_cancel(&self) {
        self.called();
    }
}

/// What the callback of each operation of a chain does with the operations, and the number of its
/// call.
type Step = fn(&[Ops; 2], &[OpRef<&'static str>], usize);

/// Callbacks that end operations whose callbacks end operations take no stack, however many.
#[test]
fn chains_of_callbacks_take_no_stack() {
    const LINKS: usize = 2000;
    let steps: [Step; 4] = [
        |ops, _, _| _ = ops.iter().map(|ops| ops.check("k")).sum::<usize>(),
        |ops, _, _| ops.iter().for_each(|ops| drop(ops.cancel_key("k"))),
        |_, handles, call| _ = handles.get(call).is_none_or(OpRef::complete),
        |_, handles, call| _ = handles.get(call).is_none_or(OpRef::cancel),
    ];
    for step in steps {
        let chain = move || {
            let bench = Bench::new();
            let ops = [Ops::new(&bench.timer), Ops::new(&bench.timer)];
            let (permit, next) = (Arc::new(AtomicBool::new(false)), Arc::new(OnceLock::new()));
            let (calls, depth) = (Arc::new(AtomicUsize::new(0)), Arc::default());
            let handles: Vec<_> = (0..LINKS)
                .map(|number| {
                    let (permit, calls) = (Arc::clone(&permit), Arc::clone(&calls));
                    let (depth, next) = (Arc::clone(&depth), Arc::downgrade(&next));
                    let link = Arc::new(Link { permit, calls, depth, next });
                    match ops[number % 2].try_complete_else_watch(link, NO_TIMEOUT, ["k"]).unwrap()
                    {
                        Attempt::Watching(handle) => handle,
                        Attempt::Completed => panic!("without a permit"),
                    }
                })
                .collect();
            let (own, count) = (ops.clone(), Arc::clone(&calls));
            let run = move || step(&own, &handles, count.load(SeqCst));
            assert!(next.set(Box::new(run) as Box<dyn Fn() + Send + Sync>).is_ok());
            permit.store(true, SeqCst);
            next.get().unwrap()();
            assert_eq!(calls.load(SeqCst), LINKS);
            assert_eq!(bench.timer.stats().panicked, 0);
            ops.iter().for_each(|ops| nothing_is_left(&bench, ops));
        };
        std::thread::Builder::new().stack_size(256 << 10).spawn(chain).unwrap().join().unwrap();
    }
}

/// What a callback ends has ended when the call returns. Its own callback follows afterwards.
#[test]
fn a_callback_is_told_what_its_calls_have_ended() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let (second, third) = (Count::new(1), Count::new(9));
    let (inner, seen) = (ops.clone(), [Arc::clone(&second), Arc::clone(&third)]);
    let first = Count::with(1, move || {
        seen[0].see();
        assert_eq!((inner.check("k"), inner.pending()), (1, 1));
        let cancelled = inner.cancel_key("k");
        assert_eq!(cancelled[0].outcome(), Some(Outcome::Cancelled));
        assert!(seen.iter().all(|op| op.told().is_empty()), "not inside of this callback");
    });
    for op in [&first, &second, &third] {
        watch(&ops, op, 10 * MS, &["k"]);
    }
    first.see();
    assert_eq!(ops.check("k"), 1, "the inner call has counted the second");
    assert_eq!((second.told(), third.told()), (vec!["completed"], vec!["cancelled"]));
    assert_eq!(bench.timer.stats().panicked, 0);
    nothing_is_left(&bench, &ops);
}

#[test]
fn a_condition_that_panics_harms_no_other_operation() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let (bad, good) = (Count::new(99), Count::new(1));
    watch(&ops, &bad, 10 * MS, &["k"]);
    watch(&ops, &good, 10 * MS, &["k"]);
    good.see();
    assert_eq!((ops.check("k"), good.told()), (1, vec!["completed"]));
    assert_eq!((ops.pending(), bench.timer.stats().panicked), (1, 3));
    bench.step(10);
    assert_eq!(bad.told(), ["completed", "expired"]);
}

#[test]
fn the_end_of_the_timer_or_of_the_operations_cancels_them() {
    let bench = Bench::with(|builder| builder.max_pending(1));
    let ops = Ops::new(&bench.timer);
    let (op, refused) = (Count::new(1), Count::new(1));
    watch(&ops, &op, 10 * MS, &["k"]);
    let full = ops.try_complete_else_watch(Arc::clone(&refused), MS, ["k"]);
    assert_eq!((full.unwrap_err(), refused.told()), (TimerError::Full, vec!["cancelled"]));
    assert_eq!(ops.pending(), 1);
    drop(bench.timer.shutdown(Stop::Cancel));
    assert_eq!(op.told(), ["cancelled"]);
    nothing_is_left(&bench, &ops);

    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let op = Count::new(1);
    let handle = watch(&ops, &op, 10 * MS, &["k", "l"]);
    drop(ops.clone());
    assert_eq!(handle.outcome(), None);
    drop(ops);
    assert_eq!((op.told(), bench.timer.pending()), (vec!["cancelled"], 0));
}

#[test]
fn a_task_is_told_what_was_first() {
    let bench = Bench::new();
    let ops = Ops::new(&bench.timer);
    let context = &mut Context::from_waker(Waker::noop());
    let mut event = pin!(ops.watch(["a", "b"], 10 * MS).unwrap());
    let mut timeout = pin!(ops.watch(["c"], 10 * MS).unwrap());
    let mut cancelled = pin!(ops.watch(["d"], NO_TIMEOUT).unwrap());
    assert_eq!(ops.watch([], MS).unwrap_err(), TimerError::Empty);
    assert_eq!(event.as_mut().poll(context), Poll::Pending);
    assert_eq!((ops.check("b"), ops.check("a")), (1, 0));
    assert_eq!(event.as_mut().poll(context), Poll::Ready(Outcome::Completed));
    bench.step(10);
    assert_eq!(timeout.as_mut().poll(context), Poll::Ready(Outcome::Expired));
    assert_eq!(ops.cancel_key("d").len(), 1);
    assert_eq!(cancelled.as_mut().poll(context), Poll::Ready(Outcome::Cancelled));
    drop(ops.watch(["e"], MS).unwrap());
    nothing_is_left(&bench, &ops);
}

/// By real threads: every operation ends once, however events, timeouts and cancellations race, and
/// nothing is left behind. `CORTADO_TIMER_JOBS` sets their number.
#[test]
fn each_operation_ends_once_in_any_race() {
    let rounds = crate::common::effort::scale("CORTADO_TIMER_JOBS", 100_000) as usize / 20;
    let timer = Timer::builder().run_here().start().unwrap();
    let ops: DelayedOps<u64> = DelayedOps::new(&timer);
    let all: Mutex<Vec<Arc<Count>>> = Mutex::default();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (ops, all) = (&ops, &all);
            scope.spawn(move || {
                let mut state = thread;
                for _ in 0..rounds {
                    let random = crate::common::crowd::draw(&mut state);
                    let op = Count::new(1 + (random % 2) as usize);
                    let keys = [random % 7, random % 5];
                    let timeout = MS * (random >> 8 & 3) as u32;
                    let watch = ops.try_complete_else_watch(Arc::clone(&op), timeout, keys);
                    let other = {
                        let mut all = all.lock().unwrap();
                        all.push(op);
                        Arc::clone(&all[(random >> 16) as usize % all.len()])
                    };
                    other.see();
                    ops.check(&(random >> 32 & 7));
                    if let (Ok(Attempt::Watching(handle)), 0) = (watch, random >> 40 & 7) {
                        handle.cancel();
                    }
                }
            });
        }
    });
    drop(timer.shutdown(Stop::Drain(Duration::from_secs(600))));
    assert_eq!((ops.pending(), ops.watched(), timer.pending()), (0, 0, 0));
    for op in all.into_inner().unwrap() {
        let told = op.told();
        let ends = [vec!["completed"], vec!["completed", "expired"], vec!["cancelled"]];
        assert!(ends.contains(&told), "{told:?}");
        assert_eq!(Arc::strong_count(&op), 1, "nothing holds it");
    }
    crate::common::crowd::counted(3 * rounds as u64, "operations");
}

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn a_watch_that_is_dropped_does_not_wake_its_own_task() {
    let bench = Bench::new();
    let ops = DelayedOps::new(&bench.timer);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut watched = Box::pin(ops.watch([1], NO_TIMEOUT).unwrap());
    assert!(watched.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop(watched);
    assert_eq!((woken.0.load(SeqCst), Arc::strong_count(&woken)), (0, 2), "and keeps no waker");
}
