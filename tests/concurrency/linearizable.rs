//! Short concurrent histories of the operations on a key, each checked exhaustively: is there an
//! order of the operations, consistent with which ended before which began, that explains every
//! answer?
//!
//! `CORTADO_HISTORIES` sets the number of histories per test.

use crate::linear::play::check;
use crate::linear::{Answer, Event, IDLE, Op, READ, Refresh, Setup};

const PLAIN: Setup =
    Setup { idle: false, hook: false, moves: false, refresh: Refresh::Never, tasks: false };

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
    check(Setup { idle: true, hook: true, moves: true, ..PLAIN }, 7, &any);
}

/// Loads among what overtakes them.
#[test]
fn loads() {
    let of_loads = |op: Op| {
        use Op::{Clear, Get, Insert, Look, Put, Remove};
        op.load().is_some() || matches!(op, Get | Insert(_) | Remove | Clear | Put(_) | Look)
    };
    check(PLAIN, 8, &of_loads);
}

/// Loads of all kinds on one key, and little else: most of them meet others.
#[test]
fn loads_that_come_to_nothing() {
    let of_loads = |op: Op| op.load().is_some() || matches!(op, Op::Remove | Op::Insert(_));
    check(PLAIN, 11, &of_loads);
    check(Setup { moves: true, ..PLAIN }, 12, &of_loads);
}

/// Reloads among all other operations: those that calls ask for, and those that reads trigger.
/// Where the clock stands still, each read triggers one.
#[test]
fn reloads() {
    for (number, moves) in [(13, false), (14, true)] {
        check(Setup { refresh: Refresh::AtOnce, moves, ..PLAIN }, number, &any);
    }
}

#[test]
fn reloads_with_an_idle_time() {
    for (number, moves) in [(15, false), (16, true)] {
        check(Setup { refresh: Refresh::AtOnce, idle: true, moves, ..PLAIN }, number, &any);
    }
}

/// Of reloads, and of what overtakes them.
fn meets_reloads(op: Op) -> bool {
    use Op::{Clear, Get, Insert, Put, Reload, Remove};
    matches!(op, Get | Reload(_) | Insert(_) | Remove | Clear | Put(_))
}

#[test]
fn reloads_that_are_overtaken() {
    check(Setup { refresh: Refresh::AtOnce, ..PLAIN }, 17, &meets_reloads);
}

/// The same on threads of an executor.
#[test]
fn reloads_on_threads() {
    let threads = Setup { refresh: Refresh::Threads, ..PLAIN };
    for (number, idle, moves) in
        [(18, false, false), (19, false, true), (20, true, false), (21, true, true)]
    {
        check(Setup { idle, moves, ..threads }, number, &any);
    }
    check(threads, 22, &meets_reloads);
}

/// Tasks and threads on one key: loads and computations are pending, and some are dropped then.
#[test]
fn tasks() {
    let tasks = Setup { tasks: true, ..PLAIN };
    check(tasks, 50, &any);
    check(Setup { idle: true, moves: true, ..tasks }, 51, &any);
    check(Setup { hook: true, ..tasks }, 52, &any);
}

/// The same for loads and computations alone, and what overtakes them.
#[test]
fn tasks_that_meet() {
    let meets = |op: Op| {
        use Op::{ComputeRemove, Get, Insert, Look, Put, Remove, Upsert};
        let computes = matches!(op, Put(_) | Upsert(_) | Look | ComputeRemove);
        op.load().is_some() || computes || matches!(op, Get | Insert(_) | Remove)
    };
    check(Setup { tasks: true, ..PLAIN }, 53, &meets);
    check(Setup { tasks: true, moves: true, ..PLAIN }, 54, &meets);
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
    let event = |op, answer, began, ended| event(op, answer, (began, ended));
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

fn event(op: Op, answer: Answer, (began, ended): (u64, u64)) -> Event {
    Event { op, answer, began, ended, loader: None, readings: vec![10] }
}

/// The same for loads without a value: only those who waited share them, and only of their kind.
#[test]
fn the_checker_knows_who_shares_what() {
    let fallible = |value, fails, other_type| Op::LoadFallibly { value, fails, other_type };
    let fails = event(fallible(1, true, false), Answer::Failed(1), (0, 3));
    let explains = |first: &Event, second: Event| PLAIN.explains(&[first.clone(), second]);
    let failed = Answer::Failed(1);
    for makes in [false, true] {
        let same_type = fallible(2, !makes, false);
        assert!(explains(&fails, event(same_type, failed, (1, 4))));
        assert!(!explains(&fails, event(same_type, failed, (4, 5))), "it came later");
        let other_type = fallible(2, !makes, true);
        assert!(!explains(&fails, event(other_type, failed, (1, 4))), "another type");
    }
    assert!(!explains(&fails, event(fallible(2, false, false), Answer::Failed(2), (1, 4))));
    let optional = |value, makes| Op::LoadOptionally { value, makes };
    let none = Answer::Value(None);
    assert!(!explains(&fails, event(optional(2, true), none, (1, 4))), "an error is no absence");
    let absent = event(optional(1, false), none, (0, 3));
    assert!(explains(&absent, event(optional(2, true), none, (1, 4))));
    assert!(!explains(&absent, event(optional(2, true), none, (4, 5))));
    assert!(!explains(&absent, event(Op::Guard { value: 2, drops: false }, none, (1, 4))));
    let dropped = event(Op::Guard { value: 1, drops: true }, none, (0, 3));
    assert!(!explains(&dropped, event(optional(2, true), none, (1, 4))), "another one leads");
    // A value is for all, though it was not kept; but not for those who came after it.
    let load = event(Op::Load(1), Answer::Value(Some(1)), (0, 3));
    let shared = |op, ended| {
        let removed = event(Op::Remove, none, (1, 2));
        let other = event(op, Answer::Value(Some(1)), ended);
        let gone = event(Op::Get, none, (8, 9));
        PLAIN.explains(&[load.clone(), removed, other, gone])
    };
    for op in [optional(2, false), fallible(2, true, true), Op::LoadIf(2)] {
        assert!(shared(op, (1, 4)) && !shared(op, (4, 5)), "{op:?}");
    }
    // Who waited has found nothing before. One that has found a value returns it.
    let insert = event(Op::Insert(7), Answer::Done, (0, 1));
    let waits = |op, answer| {
        let fails = event(fallible(1, true, false), Answer::Failed(1), (2, 5));
        PLAIN.explains(&[insert.clone(), fails, event(op, answer, (3, 6))])
    };
    assert!(!waits(fallible(2, true, false), Answer::Failed(1)));
}

/// What is overtaken for certain, because its loader was running, is not kept, and nobody shares it
/// who comes later.
#[test]
fn the_checker_knows_who_comes_after_an_overtaken_load() {
    let some = Answer::Value(Some(1));
    let load = |loader| Event { loader, ..event(Op::Load(1), some, (0, 9)) };
    let removed = event(Op::Remove, Answer::Value(None), (3, 4));
    let explains = |loader, joined, then| {
        let joins = event(Op::Load(2), some, (joined, 10));
        let gets = event(Op::Get, Answer::Value(then), (11, 12));
        PLAIN.explains(&[load(loader), removed.clone(), joins, gets])
    };
    for joined in [2, 5] {
        assert!(explains(None, joined, None) && explains(None, joined, Some(1)));
        // The loader has begun after the removal, or has ended before it.
        assert!(explains(Some((5, 8)), joined, Some(1)) && explains(Some((1, 2)), 2, None));
    }
    assert!(explains(Some((1, 8)), 2, None), "it waited before the removal");
    assert!(!explains(Some((1, 8)), 5, None) && !explains(Some((1, 8)), 2, Some(1)));
}

/// What an insert overtakes is returned and not kept. A replacement and an upsert overtake nothing:
/// they wait.
#[test]
fn the_checker_knows_what_replaces_what() {
    let insert = |value| event(Op::Insert(value), Answer::Done, (0, 1));
    let some = |value| Answer::Value(Some(value));
    let explains = |events: &[Event]| PLAIN.explains(events);
    let loads = |old, answer, then| {
        explains(&[
            insert(old),
            event(Op::LoadIf(9), some(answer), (2, 3)),
            event(Op::Get, some(then), (4, 5)),
        ])
    };
    assert!(loads(4, 9, 9) && !loads(4, 4, 4) && !loads(4, 9, 4), "an even value is replaced");
    assert!(loads(5, 5, 5) && !loads(5, 9, 9), "an odd one is not");
    let replaced = |answer, then| {
        let replace = event(Op::Replace(2), Answer::Value(answer), (2, 3));
        explains(&[insert(1), replace, event(Op::Get, some(then), (4, 5))])
    };
    assert!(replaced(Some(1), 2) && !replaced(None, 1) && !replaced(Some(1), 1));
    let none = event(Op::Replace(2), Answer::Value(None), (2, 3));
    let get = |answer| event(Op::Get, Answer::Value(answer), (4, 5));
    assert!(explains(&[none.clone(), get(None)]) && !explains(&[none, get(Some(2))]));
    let ends = |was| {
        let ends = event(Op::SetTtl(0), Answer::Was(was), (3, 4));
        explains(&[
            insert(4),
            event(Op::LoadIf(9), some(9), (2, 5)),
            ends,
            event(Op::Get, Answer::Value(None), (6, 7)),
        ])
    };
    assert!(ends(true) && !ends(false), "the end of an entry's life overtakes loads");
    let load = event(Op::Load(3), some(3), (0, 6));
    let upsert = event(Op::Upsert(4), Answer::Entry(None), (1, 2));
    let then = event(Op::Get, some(4), (7, 8));
    assert!(!explains(&[load, upsert, then]), "the load comes after it, or before it");
}

/// A read that is under way while a lifetime is set and taken back may show that lifetime until it
/// ends.
#[test]
fn the_checker_knows_that_reads_notice_late() {
    let idle = Setup { idle: true, ..PLAIN };
    let explains = |load: (u64, u64), life| {
        idle.explains(&[
            event(Op::Insert(0), Answer::Done, (0, 1)),
            event(Op::Load(10), Answer::Value(Some(0)), load),
            event(Op::SetTtl(5), Answer::Was(true), (4, 5)),
            event(Op::Persist, Answer::Was(true), (6, 7)),
            event(Op::ExpiresIn, Answer::Life(Some(life)), (8, 9)),
        ])
    };
    assert!(explains((2, 10), 5) && explains((2, 10), IDLE));
    assert!(!explains((2, 10), 6), "that was no life");
    assert!(!explains((2, 7), 5) && !explains((8, 10), 5), "no read does that");
}

/// If a term is set under a read that ends when the idle time would have ended, the read may show
/// the idle time that it gives until it ends.
#[test]
fn the_checker_knows_that_reads_notice_terms_late() {
    let idle = Setup { idle: true, moves: true, ..PLAIN };
    let at = |now, event| Event { readings: vec![now], ..event };
    let explains = |read: (u64, u64), term, life| {
        idle.explains(&[
            at(10, event(Op::Insert(0), Answer::Done, (0, 1))),
            at(12, event(Op::Get, Answer::Value(Some(0)), read)),
            at(12, event(Op::SetTtl(term), Answer::Was(true), (4, 5))),
            at(12, event(Op::ExpiresIn, Answer::Life(Some(life)), (8, 9))),
        ])
    };
    let same_end = IDLE - 2;
    assert!(explains((2, 10), same_end, same_end) && explains((2, 10), same_end, IDLE));
    assert!(!explains((2, 10), same_end, IDLE - 1), "no read gives that");
    assert!(!explains((2, 10), same_end - 1, IDLE), "the read sees that the term was set");
    assert!(!explains((2, 7), same_end, IDLE), "it has noticed");
    assert!(!explains((6, 10), same_end, IDLE), "it began with that term");
}

/// The same for time.
#[test]
fn the_checker_knows_the_time() {
    let at = |op, answer, began, readings: &[u64]| Event {
        op,
        answer,
        began,
        ended: began + 1,
        loader: None,
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
        loader: None,
        readings: readings.to_vec(),
    };
    let late = 10 + READ;
    let explains = |touched: u64| {
        let setup = Setup { idle: true, hook: true, moves: true, ..PLAIN };
        setup.explains(&[
            of(Op::Insert(5), Answer::Done, (0, 1), &[10]),
            of(Op::Touch, Answer::Was(true), (2, touched), &[10, late]),
            of(Op::Put(9), Answer::Entry(Some((5, IDLE - READ))), (4, 7), &[late]),
            of(Op::ExpiresIn, Answer::Life(None), (5, 6), &[late]),
        ])
    };
    assert!(explains(8));
    assert!(!explains(3), "the read ended before the computation began");
    // Or the computation looks after that.
    let setup = Setup { idle: true, hook: true, moves: true, ..PLAIN };
    assert!(setup.explains(&[
        of(Op::Insert(5), Answer::Done, (0, 1), &[10]),
        of(Op::Touch, Answer::Was(true), (2, 8), &[10, late]),
        of(Op::Replace(9), Answer::Value(None), (4, 7), &[late]),
    ]));
}
