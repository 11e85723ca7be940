//! Short concurrent histories of the operations on a key, each checked exhaustively: is there an
//! order of the operations, consistent with which ended before which began, that explains every
//! answer?
//!
//! `CORTADO_HISTORIES` sets the number of histories per test.

use crate::linear::play::check;
use crate::linear::{Answer, Event, IDLE, Op, READ, Setup};

const PLAIN: Setup = Setup { idle: false, hook: false, moves: false };

fn any(_: Op) -> bool {
    true
}

#[test]
fn with_terms_of_their_own() {
    check(PLAIN, 1, &any);
}

#[test]
fn with_an_idle_time() {
    check(Setup { idle: true, ..PLAIN }, 2, &any);
}

#[test]
fn with_a_read_hook() {
    check(Setup { hook: true, ..PLAIN }, 3, &any);
}

#[test]
fn with_an_idle_time_and_a_read_hook() {
    check(Setup { idle: true, hook: true, ..PLAIN }, 4, &any);
}

#[test]
fn with_terms_and_a_clock_that_moves() {
    check(Setup { moves: true, ..PLAIN }, 5, &any);
}

#[test]
fn with_an_idle_time_and_a_clock_that_moves() {
    check(Setup { idle: true, moves: true, ..PLAIN }, 6, &any);
}

#[test]
fn with_all_of_them() {
    check(Setup { idle: true, hook: true, moves: true }, 7, &any);
}

/// Loads among what overtakes them.
#[test]
fn loads() {
    let of_loads = |op| {
        use Op::{Clear, Get, Insert, Load, Look, Put, Remove};
        matches!(op, Load(_) | Get | Insert(_) | Remove | Clear | Put(_) | Look)
    };
    check(PLAIN, 8, &of_loads);
}

/// Terms that are set, also to nothing, under reads that prolong lives.
#[test]
fn lives() {
    let of_lives = |op| {
        use Op::{ExpiresIn, Get, GetEntry, Insert, Look, Persist, SetTtl, Touch};
        let sets = matches!(op, SetTtl(_) | Persist | ExpiresIn);
        sets || matches!(op, Get | GetEntry | Touch | Insert(_) | Look)
    };
    check(Setup { idle: true, moves: true, ..PLAIN }, 9, &of_lives);
    check(Setup { idle: true, hook: true, ..PLAIN }, 10, &of_lives);
}

/// The checker itself: it takes what can be explained and nothing else.
#[test]
fn the_checker_tells_the_difference() {
    let event = |op, answer, began, ended| Event { op, answer, began, ended, readings: vec![10] };
    let insert = event(Op::Insert(1), Answer::Done, 0, 3);
    let found = |began, ended| event(Op::Get, Answer::Value(Some(1)), began, ended);
    let missed = |began, ended| event(Op::Get, Answer::Value(None), began, ended);
    let explains = |history: &[&Event]| {
        PLAIN.explains(&history.iter().map(|&event| event.clone()).collect::<Vec<_>>())
    };
    assert!(explains(&[&insert, &missed(1, 2), &found(4, 5)]));
    assert!(explains(&[&insert, &found(1, 2), &found(4, 5)]));
    assert!(!explains(&[&insert, &found(1, 2), &missed(4, 5)]));
    assert!(!explains(&[&insert, &missed(4, 5)]));
    let removal = event(Op::Remove, Answer::Value(Some(1)), 1, 6);
    assert!(explains(&[&insert, &removal, &missed(4, 5)]));
    assert!(!explains(&[&insert, &removal, &removal]));
    // A load that nobody else's write overlaps is kept; one that is overtaken need not be.
    let load = event(Op::Load(2), Answer::Value(Some(2)), 0, 3);
    assert!(!explains(&[&load, &missed(4, 5)]));
    assert!(explains(&[&load, &event(Op::Clear, Answer::Done, 1, 2), &missed(4, 5)]));
    assert!(!explains(&[
        &load,
        &event(Op::Clear, Answer::Done, 4, 5),
        &event(Op::Get, Answer::Value(Some(2)), 6, 7)
    ]));
}

/// The same for time.
#[test]
fn the_checker_knows_the_time() {
    let at = |op, answer, began, readings: &[u64]| Event {
        op,
        answer,
        began,
        ended: began + 1,
        readings: readings.to_vec(),
    };
    let insert = |readings: &[u64]| at(Op::InsertFor(1, 5), Answer::Done, 0, readings);
    let found = |readings: &[u64]| at(Op::Get, Answer::Value(Some(1)), 2, readings);
    let missed = |readings: &[u64]| at(Op::Get, Answer::Value(None), 2, readings);
    let explains = |first: Event, second: Event| PLAIN.explains(&[first, second]);
    assert!(explains(insert(&[10]), found(&[14])) && !explains(insert(&[10]), missed(&[14])));
    assert!(explains(insert(&[10]), missed(&[15])) && !explains(insert(&[10]), found(&[15])));
    // Whichever reading the insert was made by, or the read.
    assert!(
        explains(insert(&[10, 12]), found(&[16])) && explains(insert(&[10, 12]), missed(&[16]))
    );
    assert!(
        explains(insert(&[10]), found(&[14, 20])) && explains(insert(&[10]), missed(&[14, 20]))
    );
    let life = |left| at(Op::ExpiresIn, Answer::Life(Some(left)), 2, &[13]);
    assert!(explains(insert(&[10]), life(2)) && !explains(insert(&[10]), life(5)));
}

/// A read that was held up ends an entry at once, between a computation's look and its act.
#[test]
fn the_checker_knows_that_reads_do_not_wait_for_computations() {
    let of = |op, answer, (began, ended), readings: &[u64]| Event {
        op,
        answer,
        began,
        ended,
        readings: readings.to_vec(),
    };
    let late = 10 + READ;
    let explains = |touched: u64| {
        let setup = Setup { idle: true, hook: true, moves: true };
        setup.explains(&[
            of(Op::Insert(5), Answer::Done, (0, 1), &[10]),
            of(Op::Touch, Answer::Was(true), (2, touched), &[10, late]),
            of(Op::Put(9), Answer::Entry(Some((5, IDLE - READ))), (4, 7), &[late]),
            of(Op::ExpiresIn, Answer::Life(None), (5, 6), &[late]),
        ])
    };
    assert!(explains(8));
    assert!(!explains(3), "the read ended before the computation began");
}
