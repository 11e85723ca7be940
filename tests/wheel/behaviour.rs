//! What the wheel promises, one promise at a time.

use crate::model::store::{Poll, Timers, Wheel, geometry};
use cortado::internals::wheel::{Geometry, Location, Verdict};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

const TICK: u64 = 1 << 30;
/// No timer.
const NONE: [u32; 0] = [];

fn wheel(deadlines: &[u64]) -> (Wheel, Timers) {
    let timers = Timers::new(deadlines.len() as u32);
    let mut wheel = Wheel::new(Geometry::default(), 0);
    for (id, &deadline) in (1..).zip(deadlines) {
        timers.set(id, deadline);
        wheel.schedule(&timers, id);
    }
    (wheel, timers)
}

fn advance(wheel: &mut Wheel, timers: &Timers, now: u64) -> Vec<u32> {
    let mut fired = Vec::new();
    wheel.advance_with(timers, now, u32::MAX, |_, id| {
        fired.push(id);
        Verdict::Expire
    });
    wheel.validate(timers).unwrap();
    fired
}

#[test]
fn an_extension_needs_no_call() {
    let (mut wheel, timers) = wheel(&[2 * TICK, 2 * TICK]);
    timers.set(1, 100 * TICK);
    assert_eq!(advance(&mut wheel, &timers, 3 * TICK), [2]);
    assert_eq!(wheel.location(&timers, 1), Some(Location::Bucket { level: 1, index: 1 }));
    assert_eq!(advance(&mut wheel, &timers, 99 * TICK), NONE);
    assert_eq!(advance(&mut wheel, &timers, 100 * TICK), [1]);
}

#[test]
fn a_timer_takes_anothers_place_if_that_has_one() {
    let timers = Timers::new(3);
    let mut wheel = Wheel::new(Geometry::default(), 0);
    (1..=3).for_each(|id| timers.set(id, 2 * TICK));
    wheel.schedule(&timers, 1);
    assert!(wheel.replace(&timers, 1, 2));
    assert!(!timers.is_linked(1) && timers.is_linked(2));
    assert!(!wheel.replace(&timers, 1, 3), "it is not on the wheel any more");
    assert!(!timers.is_linked(3));
    assert_eq!(advance(&mut wheel, &timers, 3 * TICK), [2]);
}

#[test]
fn a_timer_without_a_deadline_is_let_go() {
    let (mut wheel, timers) = wheel(&[2 * TICK]);
    timers.set(1, None);
    assert_eq!(wheel.len(), 1, "the wheel has not looked yet");
    assert_eq!(advance(&mut wheel, &timers, 3 * TICK), NONE);
    assert!(wheel.is_empty() && !timers.is_linked(1));
    wheel.schedule(&timers, 1);
    assert!(wheel.is_empty(), "never: not taken in");
}

#[test]
fn the_largest_instant_is_an_instant() {
    let timers = Timers::new(1);
    let mut wheel = Wheel::new(Geometry::default(), u64::MAX - TICK);
    timers.set(1, u64::MAX);
    wheel.schedule(&timers, 1);
    assert_eq!(advance(&mut wheel, &timers, u64::MAX - 1), NONE);
    assert_eq!(advance(&mut wheel, &timers, 0), [1], "past the end of the range");
}

#[test]
fn the_backlog_is_part_of_the_wheel() {
    let (mut wheel, timers) = wheel(&[TICK, TICK, TICK, 90 * TICK]);
    wheel.advance(&timers, 2 * TICK);
    assert_eq!(wheel.location(&timers, 2), Some(Location::Backlog));
    assert_eq!((wheel.len(), wheel.next_delay()), (4, Some(0)));
    assert_eq!(wheel.soonest(&timers).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(wheel.latest(&timers).collect::<Vec<_>>(), [4, 3, 2, 1]);

    assert!(wheel.cancel(&timers, 2));
    assert!(!wheel.cancel(&timers, 2));
    timers.set(3, 50 * TICK);
    assert!(wheel.reschedule(&timers, 3));
    wheel.validate(&timers).unwrap();
    let mut budget = 5;
    assert_eq!(wheel.poll(&timers, &mut budget), Poll::Due(1));
    assert_eq!(wheel.poll(&timers, &mut budget), Poll::Idle);
    assert_eq!((budget, wheel.len()), (4, 2));
}

#[test]
fn iteration_goes_from_bucket_to_bucket() {
    // The current tick; the next; the last of the turn; two a whole turn ahead, at two levels.
    let turn = 64 * TICK;
    let (mut wheel, timers) =
        wheel(&[TICK / 2, TICK, 63 * TICK, 64 * turn - 1, 2 * turn, 3 * turn]);
    assert_eq!(wheel.soonest(&timers).collect::<Vec<_>>(), [1, 2, 3, 5, 6, 4]);
    assert_eq!(wheel.latest(&timers).collect::<Vec<_>>(), [4, 6, 5, 3, 2, 1]);

    wheel.advance(&timers, turn + TICK / 2);
    timers.set(4, turn + TICK / 2 + 64 * turn - 1);
    wheel.reschedule(&timers, 4);
    assert_eq!(wheel.location(&timers, 4), Some(Location::Bucket { level: 1, index: 1 }));
    let backlog_first: Vec<u32> = wheel.soonest(&timers).collect();
    assert_eq!(
        backlog_first,
        [1, 2, 3, 5, 6, 4],
        "the current bucket is a turn ahead above level 0"
    );
}

#[test]
fn an_earlier_now_is_ignored() {
    let (mut wheel, timers) = wheel(&[5 * TICK]);
    wheel.advance(&timers, 3 * TICK);
    for earlier in [2 * TICK, 0, 0_u64.wrapping_sub(100 * TICK)] {
        assert_eq!(wheel.advance(&timers, earlier), 0);
        assert_eq!(wheel.clock(), 3 * TICK);
    }
    assert_eq!(advance(&mut wheel, &timers, 6 * TICK), [1]);
}

#[test]
fn a_clock_set_back_makes_nothing_due_and_nothing_late() {
    let (mut wheel, timers) = wheel(&[50 * TICK, 60 * TICK]);
    wheel.advance(&timers, 40 * TICK + 1);
    // Due already: waits in the bucket of tick 40, not in its own.
    timers.set(2, 20 * TICK);
    wheel.reschedule(&timers, 2);
    wheel.rewind(&timers, 10 * TICK);
    assert_eq!(advance(&mut wheel, &timers, 10 * TICK), NONE);
    assert_eq!(advance(&mut wheel, &timers, 20 * TICK), [2]);
    assert_eq!(advance(&mut wheel, &timers, 49 * TICK), NONE);
    assert_eq!(advance(&mut wheel, &timers, 50 * TICK), [1]);
}

#[test]
fn a_panic_loses_nothing() {
    let (mut wheel, timers) = wheel(&[TICK, TICK, TICK]);
    let mut seen = Vec::new();
    let pass = catch_unwind(AssertUnwindSafe(|| {
        wheel.advance_with(&timers, 2 * TICK, u32::MAX, |_, id| {
            seen.push(id);
            if id == 2 { resume_unwind(Box::new(())) } else { Verdict::Expire }
        })
    }));
    assert!(pass.is_err());
    wheel.validate(&timers).unwrap();
    assert_eq!((seen, wheel.len()), (vec![1, 2], 2));
    assert_eq!(advance(&mut wheel, &timers, 2 * TICK), [3, 2], "the failed one comes last");
}

#[test]
fn a_refusal_keeps_the_timer() {
    let (mut wheel, timers) = wheel(&[TICK]);
    let mut calls = 0;
    for now in [2 * TICK, 2 * TICK + 1, 3 * TICK] {
        wheel.advance_with(&timers, now, u32::MAX, |_, _| {
            calls += 1;
            Verdict::Keep
        });
        wheel.validate(&timers).unwrap();
    }
    assert_eq!((calls, wheel.len()), (2, 1), "once in each tick, never twice in a pass");
}

#[test]
fn a_callback_that_feeds_itself_is_ended_by_the_budget() {
    let (mut wheel, timers) = wheel(&[TICK]);
    let mut calls = 0;
    let left = wheel.advance_with(&timers, 2 * TICK, 100, |wheel, id| {
        calls += 1;
        wheel.schedule(&timers, id);
        Verdict::Expire
    });
    assert_eq!((calls, left, wheel.has_backlog()), (100, 0, true));
}

#[test]
fn resolutions() {
    let shifts = |resolution| -> Vec<u32> {
        let geometry = Geometry::with_resolution(resolution);
        geometry.levels().iter().map(|level| level.shift()).collect()
    };
    assert_eq!(shifts(Duration::ZERO), [19, 25, 30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::from_millis(1)), [19, 25, 30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::from_micros(1_049)), [20, 26, 30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::from_millis(100)), [26, 30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::from_secs(1)), [29, 30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::from_nanos(1 << 30)), [30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::MAX), [30, 36, 42, 47, 49]);
    assert_eq!(Geometry::with_resolution(Duration::MAX), Geometry::default());
    let tick = Geometry::with_resolution(Duration::from_millis(1)).tick();
    assert!(tick <= Duration::from_millis(1) && tick > Duration::from_micros(500));
    let fine = Geometry::with_resolution(Duration::ZERO);
    assert_eq!(Wheel::new(fine.clone(), 0).geometry(), &fine);
}

#[test]
fn geometries_that_do_not_fit_together_are_refused() {
    let wrong: [&[(u32, u32)]; 6] =
        [&[], &[(0, 64)], &[(0, 3), (2, 1)], &[(0, 128), (7, 1)], &[(0, 4), (3, 1)], &[(62, 1)]];
    for levels in wrong {
        assert!(catch_unwind(|| geometry(levels)).is_err(), "{levels:?}");
    }
}
