//! For each system that the timers stand in for: what the first example of its documentation does.

use crate::jobs::{Bench, MS};
use cortado::timer::{
    DelayQueue, DelayedOp, DelayedOps, Missed, Polled, Repeat, Stop, Timer, Watch,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// `SystemTimer`: `add` tasks, `advanceClock`, `size`; a cancelled task does not run.
#[test]
fn kafka_timer() {
    let bench = Bench::new();
    let tasks: Vec<_> = [("a", 10), ("b", 200), ("c", 3_000)]
        .map(|(name, ms)| bench.timer.after(MS * ms, bench.note(name)).unwrap())
        .into();
    assert_eq!(bench.timer.len(), 3);
    let mut tasks = tasks.into_iter();
    let _first = tasks.next().unwrap();
    let _ = tasks.next().unwrap().cancel();
    assert_eq!(bench.step(10), ["a 1 at 10 late 0"]);
    assert_eq!(bench.step(1_000), [""; 0]);
    assert_eq!(bench.step(2_000), ["c 1 at 3010 late 10"]);
    assert_eq!(bench.timer.len(), 0);
}

/// `DelayedOperationPurgatory`: two operations, one completed by its key, one by its timeout.
#[test]
fn kafka_purgatory() {
    #[derive(Default)]
    struct Mock {
        is_completable: AtomicU32,
        completed: AtomicU32,
        expired: AtomicU32,
    }
    impl DelayedOp for Mock {
        fn try_complete(&self) -> bool {
            self.is_completable.load(SeqCst) == 1
        }
        fn on_complete(&self) {
            self.completed.fetch_add(1, SeqCst);
        }
        fn on_expire(&self) {
            self.expired.fetch_add(1, SeqCst);
        }
    }
    let bench = Bench::new();
    let purgatory = DelayedOps::new(&bench.timer);
    let (r1, r2) = (Arc::new(Mock::default()), Arc::new(Mock::default()));
    assert_eq!(purgatory.check("test1"), 0, "with nothing in the purgatory");
    for (op, key) in [(&r1, "test1"), (&r2, "test2")] {
        let watch = purgatory.try_complete_else_watch(Arc::clone(op), 200 * MS, [key]);
        assert!(matches!(watch, Ok(Watch::Watching(_))));
    }
    assert_eq!((purgatory.check("test1"), purgatory.watched()), (0, 2), "still not completable");
    r1.is_completable.store(1, SeqCst);
    assert_eq!((purgatory.check("test1"), purgatory.check("test1")), (1, 0));
    bench.step(200);
    let counts = |op: &Mock| (op.completed.load(SeqCst), op.expired.load(SeqCst));
    assert_eq!((counts(&r1), counts(&r2)), ((1, 0), (1, 1)));
    assert_eq!((purgatory.pending(), purgatory.watched()), (0, 0));
}

/// `HashedWheelTimer`: `newTimeout`, `cancel`, and `stop`, which returns what did not fire.
#[test]
fn netty_hashed_wheel_timer() {
    let bench = Bench::with(|builder| builder.tick(100 * MS).max_pending(3));
    let timeout = bench.timer.after(5 * SECOND, bench.note("timeout")).unwrap();
    let _other = bench.timer.after(70 * SECOND, bench.note("a turn later")).unwrap();
    assert_eq!(bench.timer.len(), 2, "pendingTimeouts");
    assert_eq!(bench.walk(4_999), [""; 0]);
    assert_eq!(bench.step(1), ["timeout 1 at 5000 late 0"]);
    assert!(!timeout.reschedule(SECOND), "isExpired");
    let unprocessed = bench.timer.shutdown(Stop::Cancel);
    assert_eq!(unprocessed.len(), 1);
}

/// `java.util.Timer`: the reminder of the tutorial, and a task at a fixed rate.
#[test]
fn java_util_timer() {
    let bench = Bench::new();
    let _reminder = bench.timer.after(5 * SECOND, bench.note("Time's up!")).unwrap();
    let beeps = bench.timer.every(SECOND, Missed::Burst, bench.note("Beep")).unwrap();
    let told = bench.step(5_000);
    assert_eq!(told.iter().filter(|line| line.starts_with("Beep")).count(), 5, "it catches up");
    assert!(told.contains(&"Time's up! 1 at 5000 late 0".to_owned()));
    let _ = beeps.cancel();
    // A task that throws does not end the timer, as it does there.
    let _bad = bench.timer.after(MS, |_| panic!("thrown")).unwrap();
    bench.step(1);
    let _next = bench.timer.after(MS, bench.note("goes on")).unwrap();
    assert_eq!(bench.step(1), ["goes on 1 at 5002 late 0"]);
}

/// `ScheduledThreadPoolExecutor`: `BeeperControl`, which beeps every ten seconds for an hour.
#[test]
fn java_scheduled_thread_pool_executor() {
    let bench = Bench::new();
    let beeper = bench.timer.every(10 * SECOND, Missed::Burst, bench.note("beep")).unwrap();
    let id = beeper.detach();
    let timer = bench.timer.clone();
    let canceller = move |_: &_| _ = timer.cancel(id);
    let _canceller = bench.timer.after(3600 * SECOND + MS, canceller).unwrap();
    let beeps: usize = (0..400).map(|_| bench.step(10_000).len()).sum();
    assert_eq!(beeps, 360);
    // scheduleWithFixedDelay; and an exception ends no series silently.
    let failing = bench.timer.every_after(SECOND, |run| assert!(run.number() != 1, "failed"));
    let _failing = failing.unwrap();
    bench.step(1_000);
    assert_eq!((bench.timer.len(), bench.timer.stats().panicked), (1, 1));
}

/// `DelayQueue`: `offer`, `poll` and `peek`: the head is the element that expired first.
#[test]
fn java_delay_queue() {
    let mut queue = DelayQueue::new();
    for (name, seconds) in [("third", 3), ("first", 1), ("second", 2)] {
        queue.insert(name, SECOND * seconds);
    }
    let peeked = queue.soonest().next().map(|(_, deadline, name)| (*name, deadline));
    assert_eq!(peeked, Some(("first", SECOND)));
    let mut budget = u32::MAX;
    assert!(matches!(queue.poll(Duration::ZERO, &mut budget), Polled::Idle), "none has expired");
    let mut taken = Vec::new();
    while let Polled::Due(element) = queue.poll(3 * SECOND, &mut budget) {
        taken.push(element.into_inner());
    }
    assert_eq!(taken, ["first", "second", "third"]);
}

/// `xboot/timer`: `AfterFunc`, `ScheduleFunc` with finite and infinite intervals, `CancelTask` by
/// id, the counter and the metadata of a job, `Shutdown`.
#[test]
fn xboot_timer() {
    let bench = Bench::new();
    let _after = bench.timer.after(20 * MS, bench.note("after")).unwrap();
    let mut note = bench.note("finite");
    let finite = bench.timer.intervals([20, 30].map(|ms| MS * ms), Repeat::Once, move |run| {
        assert_eq!(run.remaining(), Some(2 - run.number()), "GetRestLoopCount");
        note(run);
    });
    let _finite = finite.unwrap();
    let mut note = bench.note("infinite");
    let infinite = bench.timer.intervals([MS * 25], Repeat::Forever, move |run| {
        assert_eq!(run.remaining(), None);
        note(run);
    });
    let id = infinite.unwrap().detach();
    assert_eq!(bench.timer.len(), 3, "GetTaskCounter");
    let told = bench.walk(50);
    let expected = [
        "after 1 at 20 late 0",
        "finite 1 at 20 late 0",
        "infinite 1 at 25 late 0",
        "finite 2 at 50 late 0",
        "infinite 2 at 50 late 0",
    ];
    let mut told: Vec<&str> = told.iter().map(String::as_str).collect();
    told.sort_by_key(|line| line.split(' ').nth(3).unwrap().parse::<u32>().unwrap());
    assert_eq!(told.len(), 5);
    assert!(expected.iter().all(|line| told.contains(line)), "{told:?}");
    assert_eq!(bench.timer.cancel(id), cortado::timer::Cancel::Cancelled, "CancelTask");
    assert_eq!(bench.timer.len(), 0);
    assert!(bench.timer.shutdown(Stop::Cancel).is_empty());
    let _: Result<_, cortado::timer::TimerError> = Timer::after(&bench.timer, MS, |_| ());
}
