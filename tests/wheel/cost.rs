//! What the wheel's work is bounded by, counted, not timed.

use crate::model::store::{Location, Poll, Timers, Wheel};
use cortado::internals::clock::Timestamp;
use cortado::internals::wheel::Geometry;
use std::time::Duration;

const MILLISECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * 1_000 * MILLISECOND;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Polls until there is nothing left; returns what was due.
fn poll_all(wheel: &mut Wheel, timers: &Timers) -> Vec<u32> {
    let (mut due, mut budget) = (Vec::new(), u32::MAX);
    while let Poll::Due(id) = wheel.poll(timers, &mut budget) {
        due.push(id);
    }
    due
}

/// How often one timer is looked at until it is handed out, by a wheel that is advanced whenever
/// it asks.
fn looks(geometry: &Geometry, start: u64, lifetime: u64) -> u64 {
    let timers = Timers::new(1);
    let mut wheel = Wheel::new(geometry.clone(), start);
    timers.set(1, start + lifetime);
    wheel.schedule(&timers, 1);
    let mut looks = 0;
    while let Some(next) = wheel.next_deadline() {
        wheel.advance(&timers, next);
        let before = timers.reads.get();
        if poll_all(&mut wheel, &timers) == [1] {
            let late = next - (start + lifetime);
            assert!(late < geometry.levels()[0].span().raw(), "{late} ns late");
        }
        looks += timers.reads.get() - before;
        wheel.validate(&timers).unwrap();
    }
    looks
}

#[test]
fn a_fine_tick_keeps_long_lifetimes_cheap() {
    let fine = Geometry::with_resolution(Duration::from_millis(1));
    let (runs, mut total, mut coarse) = (2_000, 0, 0);
    for run in 0..runs {
        let (start, lifetime) = (run * 7_919 * MILLISECOND, HOUR + run * 1_013 * MILLISECOND);
        let instants = [start, start + lifetime].map(Timestamp::from_raw);
        let level = fine.position(instants[0], instants[1]).level() as u64;
        assert_eq!(level, 4, "an hour is in the fifth of six levels");
        let looks = looks(&fine, start, lifetime);
        // Once on entering the tick of each level, from this one down, and once when the finest is
        // over; at each level once more if the bucket is a whole turn ahead.
        assert!(looks <= 2 * (level + 1) + 1, "{looks} looks in run {run}");
        total += looks;
        coarse += self::looks(&Geometry::default(), start, lifetime);
    }
    assert!(total * 10 <= runs * 62, "{total} looks for {runs} timers");
    assert!(total <= coarse + runs * 11 / 10, "one level more, and {total} looks for {coarse}");
}

#[test]
fn no_poll_exceeds_its_budget() {
    const TIMERS: u32 = 100_000;
    let timers = Timers::new(TIMERS);
    let mut wheel = Wheel::new(Geometry::default(), 0);
    // All in one bucket of a minute, and due at one of two instants.
    let minute = 1_u64 << 36;
    for id in 1..=TIMERS {
        timers.set(id, 5 * minute + u64::from(id % 2) * (minute / 2));
        wheel.schedule(&timers, id);
    }
    assert_eq!(wheel.advance(&timers, 5 * minute), 1, "one bucket, however many are in it");
    let (mut handed_out, mut polls) = (0, 0);
    for instant in [5 * minute, 5 * minute + minute / 2 + 1, 6 * minute] {
        wheel.advance(&timers, instant);
        while wheel.has_backlog() {
            assert_eq!(wheel.next_deadline(), Some(instant), "there is work now");
            let before = timers.reads.get();
            let mut budget = 1_000;
            while let Poll::Due(_) = wheel.poll(&timers, &mut budget) {
                handed_out += 1;
            }
            let looked_at = timers.reads.get() - before;
            assert!(looked_at <= 1_000, "{looked_at} looks");
            assert_eq!(wheel.clock(), instant, "the clock is not turned back");
            polls += 1;
        }
        wheel.validate(&timers).unwrap();
    }
    assert_eq!(handed_out, TIMERS);
    assert_eq!(
        polls, 150,
        "each look takes one from the budget, and half the timers are looked at twice"
    );
}

#[test]
fn a_budget_of_nothing_does_nothing() {
    let timers = Timers::new(1);
    let mut wheel = Wheel::new(Geometry::default(), 0);
    assert_eq!(wheel.poll(&timers, &mut 0), Poll::Idle);
    timers.set(1, 1);
    wheel.schedule(&timers, 1);
    assert_eq!(wheel.poll(&timers, &mut 0), Poll::Idle, "its bucket is not due yet");
    wheel.advance(&timers, 1 << 30);
    assert_eq!(wheel.poll(&timers, &mut 0), Poll::Exhausted);
    assert_eq!(wheel.poll(&timers, &mut 1), Poll::Due(1));
    assert_eq!(wheel.poll(&timers, &mut 0), Poll::Idle);
}

#[test]
fn a_jump_costs_what_is_occupied() {
    for geometry in [Geometry::default(), Geometry::with_resolution(Duration::from_millis(1))] {
        let timers = Timers::new(300);
        let mut wheel = Wheel::new(geometry, 0);
        assert_eq!(wheel.advance(&timers, 100 * YEAR), 0, "nothing is occupied");
        let now = wheel.clock();
        for id in 1..=300 {
            timers.set(id, now + 100 * YEAR + u64::from(id));
            wheel.schedule(&timers, id);
        }
        timers.set(1, now + 2 * DAY);
        wheel.schedule(&timers, 1);
        timers.set(2, now + 1);
        wheel.schedule(&timers, 2);
        let before = timers.reads.get();
        assert_eq!(wheel.advance(&timers, now + 99 * YEAR), 2, "two buckets are occupied");
        assert_eq!(timers.reads.get(), before, "no timer is looked at");
        assert_eq!(poll_all(&mut wheel, &timers), [2, 1]);
        assert_eq!(timers.reads.get(), before + 300, "and now each of them, once");
        assert!((3..=300).all(|id| timers.is_linked(id)));
        wheel.validate(&timers).unwrap();
    }
}

#[test]
fn an_idle_day_costs_what_is_occupied() {
    let geometry = Geometry::with_resolution(Duration::from_millis(1));
    // Far deadlines are looked at once in each tick of the last level, which is 2.44 h.
    let last = geometry.levels().last().unwrap().span().raw();
    let cascades = (2 * DAY / last - DAY / last) * 3;
    let timers = Timers::new(3);
    let mut wheel = Wheel::new(geometry, DAY);
    for (id, lifetime) in (1..).zip([20 * DAY, 20 * DAY + 1, 3 * YEAR]) {
        timers.set(id, DAY + lifetime);
        wheel.schedule(&timers, id);
    }
    let before = timers.reads.get();
    // A wheel that is asked every millisecond for a while, every second for a day.
    let mut moved = 0;
    for step in 0..10_000 {
        moved += wheel.advance(&timers, DAY + step * MILLISECOND);
        assert!(poll_all(&mut wheel, &timers).is_empty(), "nothing is due");
    }
    for step in 0..86_400 {
        moved += wheel.advance(&timers, DAY + step * 1_000 * MILLISECOND);
        assert!(poll_all(&mut wheel, &timers).is_empty(), "nothing is due");
    }
    assert_eq!((moved as u64, timers.reads.get() - before), (cascades / 3, cascades));
    assert_eq!(wheel.clock(), DAY + 86_399_000 * MILLISECOND);
    assert!(wheel.next_deadline().is_some_and(|next| next > 2 * DAY - last));
}

/// What is due does not wait for a cascade of many others, and the cascade goes on all the same.
#[test]
fn a_cascade_delays_nothing_that_is_due() {
    const FAR: u32 = 20_000;
    const NEAR: u32 = 2_000;
    let timers = Timers::new(FAR + NEAR);
    let geometry = Geometry::default();
    let last = geometry.levels().last().unwrap().span().raw();
    let tick = geometry.levels()[0].span().raw();
    // A clock that is about to enter a tick of the last level, which all but a few ids are in.
    let start = last - 5 * tick;
    let mut wheel = Wheel::new(geometry, start);
    for id in 1..=FAR {
        timers.set(id, start + 30 * DAY + u64::from(id));
        wheel.schedule(&timers, id);
    }
    // Ten in each tick from the cascade on, while it lasts.
    let due_at = |id: u32| last + u64::from(id - FAR) / 10 * tick + 1;
    for id in FAR + 1..=FAR + NEAR {
        timers.set(id, due_at(id));
        wheel.schedule(&timers, id);
    }
    let (mut handed_out, mut cascade_ended) = (0, None);
    for number in 0..=NEAR / 10 + 1 {
        let now = last + u64::from(number) * tick;
        wheel.advance(&timers, now);
        // Few looks for each tick, so that the cascade takes two hundred ticks.
        let mut budget = 128;
        while let Poll::Due(id) = wheel.poll(&timers, &mut budget) {
            assert!(now - due_at(id) < tick, "{id} is {} ns late", now - due_at(id));
            handed_out += 1;
        }
        if !wheel.has_backlog() && cascade_ended.is_none() && handed_out > 0 {
            cascade_ended = Some(number);
        }
        wheel.validate(&timers).unwrap();
    }
    assert_eq!(handed_out, NEAR);
    assert!(cascade_ended.is_some_and(|tick| tick > 150), "it ended at tick {cascade_ended:?}");
}

/// A cascade goes on while more ids are due than the budget allows.
#[test]
fn what_is_due_does_not_starve_a_cascade() {
    const FAR: u32 = 1_000;
    const NEAR: u32 = 100_000;
    let timers = Timers::new(FAR + NEAR);
    let geometry = Geometry::default();
    let last = geometry.levels().last().unwrap().span().raw();
    let mut wheel = Wheel::new(geometry, last - 1);
    for id in 1..=FAR + NEAR {
        timers.set(id, if id <= FAR { 2 * last } else { last + u64::from(id % 8) });
        wheel.schedule(&timers, id);
    }
    wheel.advance(&timers, last + (1 << 24));
    let cascading = |wheel: &Wheel| {
        let places = wheel.places(&timers).into_iter();
        let mut backlog = places.filter(|(place, _)| *place == Location::Backlog { level: 4 });
        let ids = backlog.next().map_or(Vec::new(), |(_, ids)| ids);
        ids.into_iter().filter(|&id| id <= FAR).count() as u32
    };
    assert_eq!(cascading(&wheel), FAR);
    let mut budget = 32 * 64;
    while let Poll::Due(_) = wheel.poll(&timers, &mut budget) {}
    assert_eq!(cascading(&wheel), FAR - 32 * 16, "a quarter of the looks is for the cascade");
}
