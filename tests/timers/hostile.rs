//! Jobs, executors, clocks and destructors that do what nobody should.

use crate::jobs::{Bench, MS};
use cortado::timer::{
    Attempt, Builder, CancelOutcome, DelayedOp, DelayedOps, Next, OnPanic, Rejection, Schedule,
    Stop, Timer, Turn,
};
use cortado::{Clock, Job, ManualClock};
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

/// Long enough for anything that ends, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Ends its timer when it is dropped, and then says so.
struct Ender(Timer, Sender<usize>);

impl Drop for Ender {
    fn drop(&mut self) {
        let unfired = self.0.shutdown(Stop::Cancel).len();
        let _ = self.1.send(unfired);
    }
}

/// Drops an [`Ender`] when it is asked for the second run.
struct EndsIt(Option<Ender>);

impl Schedule for EndsIt {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        if turn.runs > 0 {
            self.0 = None;
        }
        Some(Next::After(MS))
    }
}

/// All code of the user's may end the timer, wherever it runs. It does not wait for itself.
#[test]
fn destructors_schedules_and_hooks_may_end_the_timer() {
    type Plan = fn(&Timer, Ender);
    let plans: [(&str, Plan); 3] = [
        ("destructor", |timer, ender| {
            timer.after(MS, move |_| _ = &ender).unwrap().detach();
        }),
        ("schedule", |timer, ender| {
            timer.schedule(EndsIt(Some(ender)), |_| ()).unwrap().detach();
        }),
        ("payload of a panic", |timer, ender| {
            timer.after(MS, move |_| std::panic::panic_any(ender)).unwrap().detach();
        }),
    ];
    for (name, plan) in plans {
        for runs_here in [false, true] {
            let builder = Timer::builder();
            let builder = if runs_here { builder.run_here() } else { builder };
            let timer = builder.start().unwrap();
            let (send, ended) = channel();
            timer.after(Duration::from_secs(3600), |_| ()).unwrap().detach();
            plan(&timer, Ender(timer.clone(), send));
            let unfired = ended.recv_timeout(PATIENCE);
            assert_eq!(unfired, Ok(1), "{name} waits for itself, here: {runs_here}");
        }
    }
    // In manual mode, and with an executor that drops every run.
    let bench = Bench::with(|it| it.executor(drop::<Job>).rejection(Rejection::Discard));
    let (send, ended) = channel();
    let schedule = EndsIt(Some(Ender(bench.timer.clone(), send)));
    bench.timer.schedule(schedule, |_| ()).unwrap().detach();
    let polled = std::thread::spawn(move || bench.step(1));
    assert_eq!(ended.recv_timeout(PATIENCE), Ok(0));
    assert_eq!(polled.join().unwrap(), [""; 0]);
}

/// Plans by a clock of its own, and takes its time before it looks at that.
struct Plans(ManualClock);

impl Schedule for Plans {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        self.0.advance(5 * MS);
        let delay = (1000 * MS).saturating_sub(self.0.now());
        (turn.runs == 0).then_some(Next::After(delay))
    }
}

/// A delay counts from when the schedule has returned it, so no job starts early.
#[test]
fn a_schedule_may_take_its_time() {
    let bench = Bench::new();
    let job = bench.note("planned");
    bench.timer.schedule(Plans(bench.hand.clone()), job).unwrap().detach();
    assert_eq!(bench.step(990), [""; 0]);
    assert_eq!(bench.step(5), ["planned 1 at 1000 late 0"]);
}

/// What a timer has to do for itself is no job: it does not count, and no id names it.
#[test]
fn errands_are_no_jobs() {
    let bench = Bench::new();
    let (send, told) = channel();
    let (timer, polls) = (bench.timer.clone(), AtomicUsize::new(0));
    let job = bench.timer.after(MS, move |_| async move {
        std::future::poll_fn(|context| {
            send.send((timer.pending(), timer.running())).unwrap();
            context.waker().wake_by_ref();
            if polls.fetch_add(1, SeqCst) == 1 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    let own = job.unwrap().detach();
    bench.hand.advance(MS);
    // The first poll only; the errand of the second one waits.
    assert_eq!(bench.timer.poll(&mut 1), 1);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(0, 1)]);
    // Ids of another timer may be equal to that of the errand.
    let other = Bench::new();
    for _ in 0..10 {
        let id = other.timer.after(MS, |_| ()).unwrap().detach();
        if id != own {
            assert!(!bench.timer.contains(id));
            assert!(!bench.timer.reschedule(id, MS * 1000));
            assert_eq!(bench.timer.cancel(id), CancelOutcome::Finished);
        }
    }
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 1));
    bench.step(0);
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [(0, 1)]);
    assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0));
}

/// A future that goes on at once, again and again, on an executor that runs inline.
#[test]
fn an_inline_executor_polls_without_recursion() {
    const TIMES: usize = 100_000;
    let bench = Bench::with(|builder| builder.executor(|job: Job| job()));
    let polls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&polls);
    let job = bench.timer.after(MS, move |_| async move {
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            let is_over = count.fetch_add(1, SeqCst) == TIMES;
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    job.unwrap().detach();
    bench.step(1);
    assert_eq!((polls.load(SeqCst), bench.timer.running()), (TIMES + 1, 0));
}

/// A future that goes on again and again on such an executor leaves other jobs their turn.
#[test]
fn an_inline_executor_does_not_keep_other_jobs_waiting() {
    const TIMES: usize = 10_000;
    let bench = Bench::with(|builder| builder.executor(|job: Job| job()));
    let (has_run, polls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (awaited, count) = (Arc::clone(&has_run), Arc::clone(&polls));
    let job = bench.timer.after(MS, move |_| async move {
        std::future::poll_fn(|context| {
            context.waker().wake_by_ref();
            let is_over = awaited.load(SeqCst) || count.fetch_add(1, SeqCst) == TIMES;
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    });
    job.unwrap().detach();
    bench.timer.after(MS, move |_| has_run.store(true, SeqCst)).unwrap().detach();
    bench.step(1);
    assert!((1..TIMES).contains(&polls.load(SeqCst)), "{} polls", polls.load(SeqCst));
}

#[test]
fn an_executor_may_refuse_for_ever() {
    for rejection in [Rejection::Retry(Duration::ZERO), Rejection::Discard, Rejection::RunHere] {
        let bench = Bench::with(|builder| builder.executor(drop::<Job>).rejection(rejection));
        bench.timer.after(MS, |_| ()).unwrap().detach();
        bench.timer.every(MS, Default::default(), |_| ()).unwrap().detach();
        bench.walk(5);
        let looks = bench.timer.stats().rejected;
        assert!((2..=20).contains(&looks), "{rejection:?}: {looks} times in five ticks");
        bench.timer.shutdown(Stop::Drain(Duration::MAX)).into_iter().for_each(drop);
        assert_eq!((bench.timer.pending(), bench.timer.running()), (0, 0), "{rejection:?}");
    }
}

/// A source of time that panics while a job begins, ends or is refused loses no job.
#[test]
fn a_clock_that_panics_loses_no_job() {
    let (is_broken, reading) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (broken, now) = (Arc::clone(&is_broken), Arc::clone(&reading));
    let clock = Clock::custom(move || {
        assert!(!broken.load(SeqCst), "a reading that fails");
        MS * now.load(SeqCst) as u32
    });
    let breaks = Arc::clone(&is_broken);
    // It breaks when the first job of a batch is handed over.
    let executor = move |job: Job| {
        breaks.store(true, SeqCst);
        job();
    };
    let timer = Timer::builder().clock(clock).executor(executor).manual();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let count = Arc::clone(&ran);
        timer.after(MS, move |_| _ = count.fetch_add(1, SeqCst)).unwrap().detach();
    }
    let count = Arc::clone(&ran);
    timer.every_with_gap(MS, move |_| _ = count.fetch_add(1, SeqCst)).unwrap().detach();
    reading.store(1, SeqCst);
    let polled = catch_unwind(AssertUnwindSafe(|| timer.poll(&mut 100)));
    assert!(polled.is_err(), "the poll after the batch reads the clock, too");
    assert_eq!((ran.load(SeqCst), timer.pending(), timer.running()), (4, 0, 0));
    is_broken.store(false, SeqCst);
    assert_eq!(timer.stats().panicked, 1, "a series without a present has no next run");
}

/// A clock that the test breaks and mends.
fn fragile() -> (Clock, Arc<AtomicBool>) {
    let is_broken = Arc::new(AtomicBool::new(false));
    let broken = Arc::clone(&is_broken);
    let clock = Clock::custom(move || {
        assert!(!broken.load(SeqCst), "a reading that fails");
        Duration::ZERO
    });
    (clock, is_broken)
}

/// Waking a future does not read the clock in a way that harms whoever wakes it.
#[test]
fn a_future_may_be_woken_while_the_clock_fails() {
    let executors: [fn(Builder) -> Builder; 2] =
        [|builder| builder.run_here(), |builder| builder.executor(drop::<Job>)];
    for set_up in executors {
        let (clock, is_broken) = fragile();
        let timer = set_up(Timer::builder().clock(clock).rejection(Rejection::RunHere)).manual();
        let (waker, is_open) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let (told, opened) = (Arc::clone(&waker), Arc::clone(&is_open));
        let job = timer.after(Duration::ZERO, move |_| {
            std::future::poll_fn(move |context| {
                *told.lock().unwrap() = Some(context.waker().clone());
                if opened.swap(false, SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            })
        });
        job.unwrap().detach();
        timer.poll(&mut 100);
        assert_eq!(timer.running(), 1);
        is_broken.store(true, SeqCst);
        is_open.store(true, SeqCst);
        let waker = waker.lock().unwrap().take();
        waker.unwrap().wake();
        is_broken.store(false, SeqCst);
        timer.poll(&mut 100);
        assert_eq!((timer.running(), is_open.load(SeqCst)), (0, false), "it was polled");
    }
}

/// A timer whose clock fails for good can be ended all the same.
#[test]
fn a_timer_with_a_broken_clock_ends() {
    for (stop, unfired) in [(Stop::Cancel, 1), (Stop::FireAll, 0)] {
        for has_thread in [false, true] {
            let (clock, is_broken) = fragile();
            let builder = Timer::builder().clock(clock);
            let timer = if has_thread { builder.start().unwrap() } else { builder.manual() };
            timer.after(Duration::from_secs(1), |_| ()).unwrap().detach();
            is_broken.store(true, SeqCst);
            let (ending, (send, told)) = (timer.clone(), channel());
            std::thread::spawn(move || send.send(ending.shutdown(stop).len()));
            assert_eq!(told.recv_timeout(PATIENCE), Ok(unfired), "{stop:?} {has_thread}");
            assert_eq!(timer.stats().fired, 1 - unfired as u64);
        }
    }
    // Its thread, which holds the clock, ends with the last handle.
    let (clock, is_broken) = fragile();
    let timer = Timer::builder().clock(clock).start().unwrap();
    is_broken.store(true, SeqCst);
    drop(timer);
    let start = std::time::Instant::now();
    while Arc::strong_count(&is_broken) > 1 && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&is_broken), 1, "the thread goes on");
}

/// A drain whose caller unwinds, because the clock panics, is ended by the next look at the timer.
#[test]
fn a_drain_that_unwinds_is_not_awaited_for_ever() {
    let (is_broken, reading) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (broken, now) = (Arc::clone(&is_broken), Arc::clone(&reading));
    let clock = Clock::custom(move || {
        assert!(!broken.load(SeqCst), "a reading that fails");
        MS * now.load(SeqCst) as u32
    });
    let breaks = Arc::clone(&is_broken);
    let executor = move |job: Job| {
        breaks.store(true, SeqCst);
        job();
    };
    let timer = Timer::builder().clock(clock).executor(executor).manual();
    timer.after(Duration::ZERO, |_| ()).unwrap().detach();
    timer.after(MS * 1_000_000, |_| ()).unwrap().detach();
    let ending = AssertUnwindSafe(|| timer.shutdown(Stop::Drain(MS * 100_000)).len());
    assert!(catch_unwind(ending).is_err(), "the clock breaks while the first job is handed over");
    is_broken.store(false, SeqCst);
    assert_eq!(timer.pending(), 1);
    reading.store(100_001, SeqCst);
    timer.poll(&mut 100);
    assert_eq!(timer.pending(), 0, "the drain is over, and nobody waits for what it leaves");
}

/// A key that calls the operations when it is dropped.
struct Key(u32, Arc<OnceLock<DelayedOps<Key>>>);

impl Key {
    fn new(number: u32, ops: &Arc<OnceLock<DelayedOps<Key>>>) -> Self {
        Self(number, Arc::clone(ops))
    }
}

impl Clone for Key {
    fn clone(&self) -> Self {
        Self::new(self.0, &self.1)
    }
}

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
        thread_local!(static IS_NESTED: Cell<bool> = const { Cell::new(false) });
        if let Some(ops) = self.1.get().filter(|_| !IS_NESTED.replace(true)) {
            ops.check(&Self::new(self.0, &Arc::default()));
            IS_NESTED.set(false);
        }
    }
}

struct Never;

impl DelayedOp for Never {
    fn try_complete(&self) -> bool {
        false
    }

    fn on_complete(&self) {}
}

#[test]
fn destructors_of_keys_may_call_the_operations() {
    let (send, done) = channel();
    std::thread::spawn(move || {
        let bench = Bench::new();
        let cell = Arc::new(OnceLock::new());
        let ops = DelayedOps::new(&bench.timer);
        assert!(cell.set(ops.clone()).is_ok());
        for _ in 0..2 {
            let keys = [1, 2, 1].map(|number| Key::new(number, &cell));
            let watch = ops.try_complete_else_watch(Arc::new(Never), MS, keys).unwrap();
            assert!(matches!(watch, Attempt::Watching(_)));
        }
        assert_eq!((ops.pending(), ops.watched()), (2, 4));
        bench.step(1);
        assert_eq!((ops.pending(), ops.watched()), (0, 0));
        send.send(()).unwrap();
    });
    assert_eq!(done.recv_timeout(PATIENCE), Ok(()), "a destructor under a lock");
}

#[test]
fn the_last_handle_may_be_dropped_by_a_job() {
    for runs_here in [false, true] {
        let builder = Timer::builder();
        let builder = if runs_here { builder.run_here() } else { builder };
        let timer = builder.start().unwrap();
        let (send, told) = channel();
        let held = Arc::new(());
        let captured = Arc::clone(&held);
        timer.after(Duration::from_secs(3600), move |_| drop(captured)).unwrap().detach();
        let own = timer.clone();
        let job = timer.after(50 * MS, move |run| {
            drop(own);
            send.send(run.reschedule(MS)).unwrap();
        });
        job.unwrap().detach();
        drop(timer);
        assert_eq!(told.recv_timeout(PATIENCE), Ok(false));
        assert_eq!(Arc::strong_count(&held), 1, "what waits ends with the timer");
    }
}

#[test]
fn endless_delays_and_schedules_that_panic_harm_nobody() {
    struct Panics;
    impl Schedule for Panics {
        fn next(&mut self, turn: &Turn) -> Option<Next> {
            assert!(turn.runs == 0, "no second run");
            Some(Next::After(MS))
        }

        fn remaining(&self) -> Option<u64> {
            panic!("who knows")
        }
    }
    let bench = Bench::with(|builder| builder.on_panic(OnPanic::Continue));
    let job = bench.timer.schedule(Panics, |run| assert_eq!(run.remaining, None));
    job.unwrap().detach();
    bench.walk(3);
    let stats = bench.timer.stats();
    assert_eq!((stats.fired, stats.panicked, bench.timer.pending()), (1, 1, 0));

    let timer = Timer::builder().start().unwrap();
    let (send, told) = channel();
    timer.after(Duration::MAX, |_| unreachable!("584 years")).unwrap().detach();
    timer.every(Duration::MAX, Default::default(), |_| unreachable!()).unwrap().detach();
    timer.after(5 * MS, move |run| send.send(run.number).unwrap()).unwrap().detach();
    assert_eq!(told.recv_timeout(PATIENCE), Ok(1));
    assert_eq!(timer.shutdown(Stop::Drain(5 * MS)).len(), 2);
}

/// A thread cannot wait for a clock that a runtime or a test moves. By hand, both work.
#[test]
fn a_clock_that_no_thread_can_wait_for_is_refused() {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let refused = Timer::builder().clock(Clock::tokio()).start().unwrap_err();
        assert_eq!(refused.setting(), "clock");
        assert!(refused.to_string().contains("on_tokio"), "{refused}");
        let timer = Timer::builder().clock(Clock::tokio()).manual();
        timer.after(5 * MS, |_| ()).unwrap().detach();
        assert_eq!(timer.poll(&mut 10), 0);
        tokio::time::advance(5 * MS).await;
        assert_eq!(timer.poll(&mut 10), 1);
    });
    let refused = Timer::builder().clock(Clock::manual().0).start().unwrap_err();
    assert!(refused.to_string().contains("`manual`"), "{refused}");
}

#[test]
fn a_poll_without_a_budget_does_nothing() {
    let bench = Bench::new();
    bench.timer.after(MS, bench.note("job")).unwrap().detach();
    bench.hand.advance(Duration::from_secs(100));
    assert_eq!((bench.timer.poll(&mut 0), bench.timer.pending()), (0, 1));
    assert_eq!(bench.step(0).len(), 1);
}
