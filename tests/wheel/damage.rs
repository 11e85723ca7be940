//! `validate` notices what a fault would leave behind: each kind of damage is done to a sound
//! wheel.

use crate::model::store::{Timers, Wheel};
use cortado::internals::wheel::Geometry;

const TICK: u64 = 1 << 24;

/// Four in one bucket, then one each in another, at a higher level, and in the backlog.
fn sound() -> (Wheel, Timers) {
    let timers = Timers::new(7);
    let mut wheel = Wheel::new(Geometry::default(), 0);
    for (id, ticks) in (1..).zip([5, 5, 5, 5, 6, 500, 1]) {
        timers.set(id, ticks * TICK + 1);
        wheel.schedule(&timers, id);
    }
    assert_eq!(wheel.advance(&timers, 2 * TICK), 1);
    assert!((1..=7).all(|id| timers.is_linked(id)));
    wheel.validate(&timers).unwrap();
    (wheel, timers)
}

/// What is done to the timers.
type Damage = fn(&Timers);

#[test]
fn each_kind_of_damage_is_noticed() {
    let damages: [(&str, Damage); 9] = [
        ("a link forward cut", |timers| timers.set_next(2, 0)),
        ("a link back cut", |timers| timers.set_prev(2, 0)),
        ("a link forward that leaves one out", |timers| timers.set_next(1, 3)),
        ("one left out both ways", |timers| {
            timers.set_next(1, 3);
            timers.set_prev(3, 1);
        }),
        ("no node in the place of one", |timers| {
            timers.set_next(1, 0);
            timers.set_prev(0, 1);
            timers.set_next(0, 3);
            timers.set_prev(3, 0);
        }),
        ("a ring without a head", |timers| {
            timers.set_next(2, 1);
            timers.set_prev(1, 2);
        }),
        ("one that is in the backlog too", |timers| timers.set_next(4, 7)),
        ("a deadline that was moved forward", |timers| timers.set(6, 3 * TICK)),
        ("a deadline that has passed", |timers| timers.set(5, TICK)),
    ];
    for (what, damage) in damages {
        let (wheel, timers) = sound();
        damage(&timers);
        assert!(wheel.validate(&timers).is_err(), "{what}");
    }
}

/// What the wheel does not have to be told of is no damage.
#[test]
fn what_is_allowed_is_sound() {
    let allowed: [(&str, Damage); 3] = [
        ("a deadline that was moved back", |timers| timers.set(2, 900 * TICK)),
        ("a deadline taken away", |timers| timers.set(2, None)),
        ("a deadline moved forward while looked at soon", |timers| timers.set(7, 0)),
    ];
    for (what, change) in allowed {
        let (wheel, timers) = sound();
        change(&timers);
        assert_eq!(wheel.validate(&timers), Ok(()), "{what}");
    }
}

/// One that was handed out is not in the wheel, and that is no damage either.
#[test]
fn a_wheel_is_sound_between_polls() {
    let (mut wheel, timers) = sound();
    let mut due = 0;
    wheel.advance_with(&timers, 10 * TICK, u32::MAX, |wheel, _| {
        assert_eq!(wheel.validate(&timers), Ok(()));
        due += 1;
    });
    assert_eq!((due, wheel.len()), (6, 1));
}
