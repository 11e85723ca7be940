//! For each system that the timers replace: what the first example of its documentation does. A
//! heap and a sorted set are used as services use them.

use crate::common::audited::tasks_audited;
use crate::common::crowd::draw;
use crate::jobs::{Bench, MS};
use crate::streams::on_a_runtime;
use cortado::timer::{
    Attempt, DelayQueue, DelayedOp, DelayedOps, Missed, Polled, Repeat, Run, Stop, Timer, TimerId,
};
use cortado::{Clock, RemovalCause, future};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// `SystemTimer`: `add` tasks, `advanceClock`, `size`; a cancelled task does not run.
#[test]
fn kafka_timer() {
    let bench = Bench::new();
    let tasks: Vec<_> = [("a", 10), ("b", 200), ("c", 3_000)]
        .map(|(name, ms)| bench.timer.after(MS * ms, bench.note(name)).unwrap())
        .into();
    assert_eq!(bench.timer.pending(), 3);
    let mut tasks = tasks.into_iter();
    let _first = tasks.next().unwrap();
    let _ = tasks.next().unwrap().cancel();
    assert_eq!(bench.step(10), ["a 1 at 10 late 0"]);
    assert_eq!(bench.step(1_000), [""; 0]);
    assert_eq!(bench.step(2_000), ["c 1 at 3010 late 10"]);
    assert_eq!(bench.timer.pending(), 0);
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
        assert!(matches!(watch, Ok(Attempt::Watching(_))));
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
    assert_eq!(bench.timer.pending(), 2, "pendingTimeouts");
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
    // schedule(task, delay, period): a period after the start of each run, which takes 300 ms.
    let (hand, mut note) = (bench.hand.clone(), bench.note("look"));
    let looks = bench.timer.every_with_gap(SECOND, move |run| {
        assert!(run.reschedule(SECOND));
        note(run);
        hand.advance(300 * MS);
    });
    let looks = looks.unwrap();
    assert!(looks.reschedule(100 * MS), "the first delay");
    let told: Vec<String> = (0..3).flat_map(|_| bench.walk(700)).collect();
    let starts = ["look 1 at 5100 late 0", "look 2 at 6100 late 0", "look 3 at 7100 late 0"];
    assert_eq!(told, starts);
    let _ = looks.cancel();
    // A task that throws does not end the timer, as it does there.
    let _bad = bench.timer.after(MS, |_| panic!("thrown")).unwrap();
    bench.step(1);
    let _next = bench.timer.after(MS, bench.note("goes on")).unwrap();
    assert_eq!(bench.step(1).len(), 1);
}

/// `ScheduledThreadPoolExecutor`: `BeeperControl`, which beeps every ten seconds for an hour.
#[test]
fn java_scheduled_thread_pool_executor() {
    let bench = Bench::new();
    let beeper = bench.timer.every(10 * SECOND, Missed::Burst, bench.note("beep")).unwrap();
    let id = beeper.detach();
    let timer = bench.timer.clone();
    let canceller = move |_: Run| _ = timer.cancel(id);
    let _canceller = bench.timer.after(3600 * SECOND + MS, canceller).unwrap();
    let beeps: usize = (0..400).map(|_| bench.step(10_000).len()).sum();
    assert_eq!(beeps, 360);
    // scheduleAtFixedRate(command, 1, 10, SECONDS): the first delay is not the period.
    let own = Bench::new();
    let beeper = own.timer.every(10 * SECOND, Missed::Burst, own.note("beep")).unwrap();
    assert!(beeper.reschedule(SECOND));
    let told: Vec<String> = (0..25).flat_map(|_| own.step(1_000)).collect();
    assert_eq!(told, ["beep 1 at 1000 late 0", "beep 2 at 11000 late 0", "beep 3 at 21000 late 0"]);
    // scheduleWithFixedDelay; and an exception ends no series silently.
    let failing = bench.timer.every_with_gap(SECOND, |run| assert!(run.number != 1, "failed"));
    let _failing = failing.unwrap();
    bench.step(1_000);
    assert_eq!((bench.timer.pending(), bench.timer.stats().panicked), (1, 1));
}

/// `DelayQueue`: `offer`, `poll` and `peek`: the head is the element that expired first.
#[test]
fn java_delay_queue() {
    let mut queue = DelayQueue::new();
    for (name, seconds) in [("third", 3), ("first", 1), ("second", 2)] {
        queue.insert_at(name, SECOND * seconds);
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

/// tokio-util's `DelayQueue`: a cache whose entries leave after 30 seconds, when it is purged.
#[test]
fn tokio_util_delay_queue() {
    use cortado::timer::delay_queue::{DelayQueue, Key};

    struct Entries {
        values: HashMap<&'static str, (u32, Key)>,
        expirations: DelayQueue<&'static str>,
    }

    impl Entries {
        fn insert(&mut self, name: &'static str, value: u32) {
            let key = self.expirations.insert(name, 30 * SECOND);
            self.values.insert(name, (value, key));
        }

        fn remove(&mut self, name: &str) {
            let (_, key) = self.values.remove(name).unwrap();
            self.expirations.remove(&key);
        }

        fn poll_purge(&mut self, context: &mut Context<'_>) -> Poll<()> {
            while let Some(expired) = ready!(self.expirations.poll_expired(context)) {
                self.values.remove(expired.get_ref());
            }
            Poll::Ready(())
        }
    }

    on_a_runtime(async {
        let mut entries = Entries { values: HashMap::new(), expirations: DelayQueue::new() };
        let mut context = Context::from_waker(Waker::noop());
        entries.insert("one", 1);
        entries.insert("two", 2);
        tokio::time::advance(10 * SECOND).await;
        entries.insert("three", 3);
        entries.remove("two");
        tokio::time::advance(20 * SECOND).await;
        assert_eq!(entries.poll_purge(&mut context), Poll::Pending);
        assert!(entries.values.keys().eq(&["three"]));
        tokio::time::advance(10 * SECOND).await;
        assert_eq!(entries.poll_purge(&mut context), Poll::Ready(()));
        assert!(entries.values.is_empty());
    });
}

/// `BinaryHeap` with lazy deletion: what is cancelled stays in the heap until its deadline. The
/// queue hands out the same items, and never holds more than those.
#[test]
fn binary_heap_with_lazy_deletion() {
    let (mut heap, mut cancelled) = (BinaryHeap::new(), HashSet::new());
    let (mut queue, mut ids) = (DelayQueue::new(), Vec::<TimerId>::new());
    let mut state = 7;
    for name in 0..1000_usize {
        let deadline = MS * (draw(&mut state) % 500) as u32;
        heap.push(Reverse((deadline, name)));
        ids.push(queue.insert_at(name, deadline));
        if draw(&mut state) % 10 < 9 {
            let one = draw(&mut state) as usize % ids.len();
            assert_eq!(queue.try_remove(&ids[one]).is_some(), cancelled.insert(one));
        }
    }
    let live = heap.len() - cancelled.len();
    assert_eq!((heap.len(), queue.len()), (1000, live), "what is cancelled has left");
    for ms in 0..=500 {
        let now = MS * ms;
        let (mut of_the_heap, mut of_the_queue) = (BTreeSet::new(), BTreeSet::new());
        while heap.peek().is_some_and(|Reverse((deadline, _))| *deadline <= now) {
            of_the_heap.extend(heap.pop().filter(|it| !cancelled.contains(&it.0.1)));
        }
        while let Polled::Due(due) = queue.poll(now, &mut u32::MAX.clone()) {
            of_the_queue.insert(Reverse((due.deadline(), due.into_inner())));
        }
        assert_eq!(of_the_heap, of_the_queue, "at {ms} ms");
    }
    assert!(queue.is_empty());
}

/// A sorted set in Redis as a delayed queue: `ZADD` with the time as the score, `ZRANGEBYSCORE 0
/// now LIMIT 0 10` and `ZREM` again and again, `ZREM` to cancel, `ZADD` to move.
#[test]
fn redis_sorted_set() {
    let mut queue = DelayQueue::new();
    let ids = ["welcome", "invoice", "reminder"].map(|name| queue.insert_at(name, 60 * SECOND));
    assert!(queue.try_reset_at(&ids[1], 10 * SECOND), "ZADD XX");
    assert_eq!(queue.try_remove(&ids[2]).unwrap().into_inner(), "reminder", "ZREM");
    assert_eq!(queue.try_deadline(&ids[1]), Some(10 * SECOND), "ZSCORE");
    let mut polls = Vec::new();
    // The time to poll, where a client of Redis would poll every second.
    while let Some(now) = queue.next_deadline() {
        let mut limit = 10;
        while let Polled::Due(message) = queue.poll(now, &mut limit) {
            polls.push((now, message.into_inner()));
        }
    }
    assert_eq!(polls, [(10 * SECOND, "invoice"), (60 * SECOND, "welcome")]);
}

/// Events of expired keys in Redis: `SET session … EX 60`, and a subscriber who hears of its end,
/// although nobody reads the key. Here the event comes in time, and has the value.
#[test]
fn redis_key_events() {
    on_a_runtime(async {
        let cache = future::Cache::builder().clock(Clock::tokio()).scheduler(true).removals(true);
        let cache = tasks_audited(cache.build());
        let mut events = cache.removals().unwrap();
        cache.insert_with_ttl("session", "ann", 60 * SECOND).await;
        let start = tokio::time::Instant::now();
        let event = events.recv().await.unwrap();
        assert_eq!((*event.key(), *event.value()), ("session", "ann"));
        assert_eq!(event.cause(), RemovalCause::Expired);
        let passed = start.elapsed();
        // A tick of the cache's wheel.
        assert!((60 * SECOND..62 * SECOND).contains(&passed), "after {passed:?}");
    });
}

/// `xboot/timer`: `AfterFunc`, `ScheduleFunc` with finite and infinite intervals, `CancelTask` by
/// id, the counter and the metadata of a job, `Shutdown`.
#[test]
fn xboot_timer() {
    let bench = Bench::new();
    let _after = bench.timer.after(20 * MS, bench.note("after")).unwrap();
    let mut note = bench.note("finite");
    let finite = bench.timer.intervals([20, 30].map(|ms| MS * ms), Repeat::Once, move |run| {
        assert_eq!(run.remaining, Some(2 - run.number), "GetRestLoopCount");
        note(run);
    });
    let _finite = finite.unwrap();
    let mut note = bench.note("infinite");
    let infinite = bench.timer.intervals([MS * 25], Repeat::Forever, move |run| {
        assert_eq!(run.remaining, None);
        note(run);
    });
    let id = infinite.unwrap().detach();
    assert_eq!(bench.timer.pending(), 3, "GetTaskCounter");
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
    assert_eq!(bench.timer.cancel(id), cortado::timer::CancelOutcome::Cancelled, "CancelTask");
    assert_eq!(bench.timer.pending(), 0);
    assert!(bench.timer.shutdown(Stop::Cancel).is_empty());
    let _: Result<_, cortado::timer::TimerError> = Timer::after(&bench.timer, MS, |_| ());
}
