//! Jobs that run more than once, on a manual clock.

use crate::jobs::{Bench, MS};
use cortado::timer::{Missed, Next, Repeat, Run, Schedule, TimerError, Turn};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn a_fixed_rate_keeps_to_the_multiples_of_the_period() {
    let bench = Bench::new();
    let _series = bench.timer.every(10 * MS, Missed::Skip, bench.note("r")).unwrap();
    let expected = ["r 1 at 10 late 0", "r 2 at 20 late 0", "r 3 at 30 late 0"];
    assert_eq!(bench.walk(39), expected);
    assert_eq!(bench.timer.pending(), 1);
}

#[test]
fn missed_runs_are_left_out_made_up_for_once_or_each() {
    for (missed, expected) in [
        (Missed::Skip, vec!["r 1 at 45 late 35", "r 2 at 50 late 0", "r 3 at 60 late 0"]),
        (
            Missed::Once,
            vec!["r 1 at 45 late 35", "r 2 at 45 late 5", "r 3 at 50 late 0", "r 4 at 60 late 0"],
        ),
        (
            Missed::Burst,
            vec![
                "r 1 at 45 late 35",
                "r 2 at 45 late 25",
                "r 3 at 45 late 15",
                "r 4 at 45 late 5",
                "r 5 at 50 late 0",
                "r 6 at 60 late 0",
            ],
        ),
    ] {
        let bench = Bench::new();
        let _series = bench.timer.every(10 * MS, missed, bench.note("r")).unwrap();
        let mut told = bench.step(45);
        told.extend(bench.walk(20));
        assert_eq!(told, expected, "{missed:?}");
    }
}

/// A run that comes due while one runs waits for its end, and the policy counts from there.
#[test]
fn a_job_never_overlaps_itself() {
    for (missed, next) in [(Missed::Skip, 40), (Missed::Once, 35), (Missed::Burst, 35)] {
        let bench = Bench::new();
        let (hand, mut note) = (bench.hand.clone(), bench.note("r"));
        let _series = bench.timer.every(10 * MS, missed, move |run| {
            note(run.clone());
            if run.number == 1 {
                hand.advance(25 * MS); // it takes its time
            }
        });
        let told = bench.walk(15);
        assert_eq!(told[0], "r 1 at 10 late 0");
        assert!(told[1].starts_with(&format!("r 2 at {next}")), "{missed:?}: {told:?}");
    }
}

#[test]
fn a_fixed_delay_counts_from_the_end_of_a_run() {
    let bench = Bench::new();
    let (hand, mut note) = (bench.hand.clone(), bench.note("d"));
    let _series = bench.timer.every_with_gap(10 * MS, move |run| {
        note(run);
        hand.advance(7 * MS);
    });
    let told = bench.walk(21);
    assert_eq!(told, ["d 1 at 10 late 0", "d 2 at 27 late 0"]);
}

#[test]
fn a_list_of_intervals_ends_or_cycles_and_tells_what_is_left() {
    let bench = Bench::new();
    let lists = [10, 20, 50].map(|ms| MS * ms);
    let left = Arc::new(AtomicU32::new(9));
    for (repeat, expected) in [
        (Repeat::Once, vec![10, 30, 80]),
        (Repeat::Times(2), vec![10, 30, 80, 90, 110, 160]),
        (Repeat::Forever, vec![10, 30, 80, 90, 110, 160, 170, 190]),
    ] {
        let bench = Bench::new();
        let (mut note, told) = (bench.note("l"), Arc::clone(&left));
        let series = bench.timer.intervals(lists, repeat, move |run| {
            note(run.clone());
            told.store(run.remaining.map_or(99, |left| left as u32), SeqCst);
        });
        let series = series.unwrap();
        let told: Vec<String> =
            (1..).zip(&expected).map(|(run, at)| format!("l {run} at {at} late 0")).collect();
        assert_eq!(bench.walk(200), told);
        let (len, remaining) = if repeat == Repeat::Forever { (1, 99) } else { (0, 0) };
        assert_eq!((bench.timer.pending(), left.load(SeqCst)), (len, remaining));
        drop(series);
    }
    let refused = |list: &[Duration], repeat| {
        bench.timer.intervals(list.to_vec(), repeat, |_| ()).unwrap_err()
    };
    assert_eq!(refused(&[], Repeat::Forever), TimerError::Empty);
    assert_eq!(refused(&[MS], Repeat::Times(0)), TimerError::Empty);
    assert_eq!(refused(&[MS, MS / 2], Repeat::Once), TimerError::TooShort);
}

/// What is late is made up for once, and the list goes on from there.
#[test]
fn a_list_does_not_burst() {
    let bench = Bench::new();
    let _series = bench.timer.intervals([10 * MS], Repeat::Forever, bench.note("l")).unwrap();
    assert_eq!(bench.step(45), ["l 1 at 45 late 35", "l 2 at 45 late 0"]);
    assert_eq!(bench.walk(10), ["l 3 at 55 late 0"]);
}

#[test]
fn a_run_may_set_the_next_one_or_end_the_series() {
    let bench = Bench::new();
    let mut note = bench.note("r");
    let _series = bench.timer.every(10 * MS, Missed::Skip, move |run| {
        note(run.clone());
        match run.number {
            2 => assert!(run.reschedule(3 * MS)),
            5 => {
                run.cancel();
                assert!(!run.reschedule(MS), "cancelled");
            }
            _ => {}
        }
    });
    let told = bench.walk(100);
    let expected = [10, 20, 23, 33, 43];
    let expected: Vec<String> =
        (1..).zip(expected).map(|(run, at)| format!("r {run} at {at} late 0")).collect();
    assert_eq!(told, expected);
    assert_eq!(bench.timer.pending(), 0);
}

/// A list runs as often as it says: its last run can be moved, and no other follows it.
#[test]
fn the_last_run_of_a_list_has_no_next_one() {
    for is_async in [false, true] {
        let bench = Bench::new();
        let (told, timer) = (Arc::new(Mutex::new(Vec::new())), bench.timer.clone());
        let log = Arc::clone(&told);
        let asks = move |run: &Run| {
            let by_id = timer.reschedule(run.id, 5 * MS);
            log.lock().unwrap().push((run.remaining, run.reschedule(5 * MS), by_id));
        };
        let list = [MS, MS];
        let series = if is_async {
            bench.timer.intervals(list, Repeat::Once, move |run| {
                asks(&run);
                async {}
            })
        } else {
            bench.timer.intervals(list, Repeat::Once, move |run| asks(&run))
        };
        let series = series.unwrap();
        bench.walk(1);
        assert!(series.reschedule(7 * MS));
        assert_eq!((bench.walk(6).len(), told.lock().unwrap().len()), (0, 1));
        bench.walk(30);
        assert_eq!(*told.lock().unwrap(), [(Some(1), true, true), (Some(0), false, false)]);
        assert_eq!((bench.timer.pending(), bench.timer.stats().fired), (0, 2));
    }
}

/// It has two runs of its own, and may know that.
struct Two {
    tells: bool,
    left: u64,
}

impl Schedule for Two {
    fn next(&mut self, _: &Turn) -> Option<Next> {
        self.left = self.left.checked_sub(1)?;
        Some(Next::After(MS))
    }

    fn remaining(&self) -> Option<u64> {
        self.tells.then_some(self.left)
    }
}

/// A schedule that does not tell how many runs are left is not known to be at its end: a run may
/// set a further one, for which the schedule is not asked.
#[test]
fn a_schedule_that_tells_its_last_run_has_no_next_one_after_it() {
    let told_of = [(Some(1), false), (Some(0), false)].to_vec();
    let untold = [true, true, false, false].map(|is_set| (None, is_set)).to_vec();
    for (tells, runs) in [(true, told_of), (false, untold)] {
        let bench = Bench::new();
        let told = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&told);
        let series = bench.timer.schedule(Two { tells, left: 2 }, move |run| {
            let sets = run.remaining.map_or(run.number < 3, |left| left == 0);
            log.lock().unwrap().push((run.remaining, sets && run.reschedule(5 * MS)));
        });
        let _series = series.unwrap();
        bench.walk(60);
        assert_eq!(*told.lock().unwrap(), runs, "{tells}");
    }
}

struct Fickle(Vec<Option<Next>>);

impl Schedule for Fickle {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        assert!(turn.now >= turn.planned);
        match self.0.get(turn.runs as usize) {
            Some(next) => *next,
            None => panic!("asked for run {}", turn.runs),
        }
    }
}

#[test]
fn a_schedule_of_the_users_decides() {
    let bench = Bench::new();
    let none = bench.timer.schedule(Fickle(vec![None]), |_| ());
    assert_eq!(none.unwrap_err(), TimerError::Empty);
    let past = std::time::Instant::now() - Duration::from_secs(5);
    let plan = vec![Some(Next::After(5 * MS)), Some(Next::At(past)), Some(Next::After(MS)), None];
    let series = bench.timer.schedule(Fickle(plan), bench.note("s")).unwrap();
    let told = bench.walk(20);
    assert_eq!(told.len(), 3);
    assert_eq!((told[0].as_str(), told[2].as_str()), ("s 1 at 5 late 0", "s 3 at 6 late 0"));
    assert!(!series.reschedule(MS));
    // One that panics ends its series only.
    let _other = bench.timer.every_with_gap(MS, bench.note("other")).unwrap();
    let _bad = bench.timer.schedule(Fickle(vec![Some(Next::After(MS))]), |_| ()).unwrap();
    assert_eq!(bench.walk(3).len(), 3);
    assert_eq!((bench.timer.pending(), bench.timer.stats().panicked), (1, 1));
}

/// The clock of a suspended machine: it stands still, or jumps ahead by the length of the
/// suspension. A clock that goes back delays, and never fires early.
#[test]
fn clocks_may_stand_still_jump_and_go_back() {
    let bench = Bench::new();
    let _jump = bench.timer.every(1000 * MS, Missed::Once, bench.note("r")).unwrap();
    assert_eq!(bench.step(0), [""; 0]);
    let hour = 3_600_000;
    assert_eq!(bench.step(hour), ["r 1 at 3600000 late 3599000", "r 2 at 3600000 late 0"]);
    bench.hand.set(Duration::ZERO);
    assert_eq!(bench.walk(10), [""; 0]);
    assert_eq!(bench.step(hour + 990), ["r 3 at 3601000 late 0"]);
}
