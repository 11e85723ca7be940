//! What the wheel promises, one promise at a time.

use crate::model::store::{Location, Poll, Timers, Wheel, geometry};
use cortado::internals::wheel::Geometry;
use std::panic::catch_unwind;
use std::time::Duration;

/// The default tick.
const TICK: u64 = 1 << 24;
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
    wheel.advance_with(timers, now, u32::MAX, |_, id| fired.push(id));
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
    assert_eq!(wheel.location(&timers, 2), Some(Location::Backlog { level: 0 }));
    assert_eq!((wheel.len(), wheel.next_delay()), (4, Some(0)));
    assert_eq!(wheel.soonest(&timers), [1, 2, 3, 4]);

    assert!(wheel.cancel(&timers, 2));
    assert!(!wheel.cancel(&timers, 2));
    timers.set(3, 50 * TICK);
    wheel.schedule(&timers, 3);
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
    assert_eq!(wheel.soonest(&timers), [1, 2, 3, 5, 6, 4]);

    wheel.advance(&timers, turn + TICK / 2);
    timers.set(4, turn + TICK / 2 + 64 * turn - 1);
    wheel.schedule(&timers, 4);
    assert_eq!(wheel.location(&timers, 4), Some(Location::Bucket { level: 1, index: 1 }));
    let backlog_first: Vec<u32> = wheel.soonest(&timers);
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
    wheel.schedule(&timers, 2);
    wheel.rewind(&timers, 10 * TICK);
    assert_eq!(advance(&mut wheel, &timers, 10 * TICK), NONE);
    assert_eq!(advance(&mut wheel, &timers, 20 * TICK), [2]);
    assert_eq!(advance(&mut wheel, &timers, 49 * TICK), NONE);
    assert_eq!(advance(&mut wheel, &timers, 50 * TICK), [1]);
}

#[test]
fn a_due_timer_that_is_scheduled_again_is_due_in_the_next_tick() {
    let (mut wheel, timers) = wheel(&[TICK]);
    let mut calls = 0;
    for now in [2 * TICK, 2 * TICK + 1, 3 * TICK] {
        wheel.advance_with(&timers, now, u32::MAX, |wheel, id| {
            calls += 1;
            assert!(!wheel.cancel(&timers, id), "it is the caller's");
            wheel.schedule(&timers, id);
        });
        wheel.validate(&timers).unwrap();
    }
    assert_eq!((calls, wheel.len()), (2, 1), "once in each tick, never twice in a pass");
}

#[test]
fn the_current_tick_is_recalled() {
    let (mut wheel, timers) = wheel(&[TICK / 4, TICK / 2, 3 * TICK]);
    assert_eq!(advance(&mut wheel, &timers, TICK / 3), NONE, "the tick has not ended");
    wheel.recall_current(&timers);
    assert_eq!(advance(&mut wheel, &timers, TICK / 3), [1]);
    wheel.recall_current(&timers);
    assert_eq!(advance(&mut wheel, &timers, TICK / 3), NONE);
    assert_eq!(advance(&mut wheel, &timers, TICK), [2]);
}

#[test]
fn resolutions() {
    let shifts = |resolution| -> Vec<u32> {
        let geometry = Geometry::with_resolution(resolution);
        geometry.levels().iter().map(|level| level.shift).collect()
    };
    assert_eq!(shifts(Duration::ZERO), [19, 24, 30, 36, 41, 43]);
    assert_eq!(shifts(Duration::from_millis(1)), [19, 24, 30, 36, 41, 43]);
    assert_eq!(shifts(Duration::from_micros(1_049)), [20, 24, 30, 36, 41, 43]);
    assert_eq!(shifts(Duration::from_nanos((1 << 24) - 1)), [23, 24, 30, 36, 41, 43]);
    assert_eq!(shifts(Duration::from_nanos(1 << 24)), [24, 30, 36, 41, 43]);
    assert_eq!(shifts(Duration::from_millis(100)), [26, 32, 38, 43, 45]);
    assert_eq!(shifts(Duration::from_secs(1)), [29, 35, 41, 46, 48]);
    assert_eq!(shifts(Duration::from_nanos(1 << 30)), [30, 36, 42, 47, 49]);
    assert_eq!(shifts(Duration::MAX), [30, 36, 42, 47, 49]);
    assert_eq!(Geometry::with_resolution(Duration::from_millis(17)), Geometry::default());
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
