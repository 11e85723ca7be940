//! Clocks of the user's that go back, or that give one wrong reading.

use crate::tasks::Gate;
use cortado::Clock;
use cortado::timer::{Missed, Timer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: u64 = 3_600_000;

/// A timer that is driven by hand, and what its clock reads, in milliseconds.
fn settable() -> (Timer, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(0));
    let read = Arc::clone(&time);
    let clock = Clock::custom(move || Duration::from_millis(read.load(SeqCst)));
    (Timer::builder().clock(clock).manual(), time)
}

#[test]
fn a_gap_is_a_gap_after_the_clock_was_set_back() {
    let (timer, time) = settable();
    let job = timer.every_with_gap(SECOND, |_| ()).unwrap();
    time.store(HOUR, SeqCst);
    assert_eq!(timer.poll(&mut 1000), 1);
    time.store(HOUR / 4, SeqCst);
    job.reschedule(SECOND);
    assert_eq!(timer.poll(&mut 1000), 0, "a second is not over");
    for _ in 0..3 {
        time.fetch_add(1000, SeqCst);
        assert_eq!(timer.poll(&mut 1000), 1);
    }
}

#[test]
fn a_gap_is_a_gap_if_the_clock_is_set_back_during_a_run() {
    let (timer, time) = settable();
    let hand = Arc::clone(&time);
    let job = timer.every_with_gap(SECOND, move |run| {
        if run.number == 2 {
            hand.store(HOUR / 4, SeqCst);
        }
    });
    job.unwrap().detach();
    time.store(HOUR, SeqCst);
    assert_eq!(timer.poll(&mut 1000), 1);
    time.fetch_add(1000, SeqCst);
    assert_eq!(timer.poll(&mut 1000), 1);
    time.fetch_add(1000, SeqCst);
    assert_eq!(timer.poll(&mut 1000), 1);
}

#[test]
fn one_wrong_reading_makes_no_run_early() {
    let (timer, time) = settable();
    let (hand, start) = (Arc::clone(&time), Instant::now());
    let job = timer.every(SECOND, Missed::Skip, move |run| {
        // Set right again.
        hand.store(1500, SeqCst);
        let is_early = run.planned > start + Duration::from_millis(HOUR) + SECOND;
        assert!(!is_early, "planned for {:?}", run.planned - start);
    });
    job.unwrap().detach();
    time.store(HOUR, SeqCst);
    let runs = timer.poll(&mut 1000);
    assert!(runs <= 2, "{runs} runs at one instant");
    assert_eq!(timer.stats().panicked, 0);
}

#[test]
fn a_wake_up_does_not_wait_for_the_clock() {
    let (timer, time) = settable();
    let gate = Gate::default();
    let inner = gate.clone();
    let job = timer.after(Duration::ZERO, move |_| async move { inner.pass().await });
    job.unwrap().detach();
    timer.poll(&mut 1000);
    // The thread that wakes reads another time.
    time.store(HOUR, SeqCst);
    gate.open();
    time.store(10, SeqCst);
    timer.poll(&mut 1000);
    assert_eq!(timer.running(), 0, "the wake-up waits for an hour");
}
