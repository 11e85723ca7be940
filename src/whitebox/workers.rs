//! What an idle worker does next.

use super::*;

const NEAR: Duration = Duration::from_millis(1);

/// Asks what an idle worker does next, at some time after the start.
fn ask(state: &mut State, start: Instant, after: Duration) -> Next {
    state.next(&Limits::default(), &mut start.clone(), start + after)
}

/// A state with this many jobs and idle workers, none of which has worked yet.
fn state(jobs: usize, idle: usize) -> (State, Instant) {
    let start = Instant::now();
    // So late that none has waited for long.
    let jobs = (0..jobs).map(|_| (start + LINGER, Box::new(|| ()) as Job)).collect();
    (State { jobs, idle, ..State::default() }, start)
}

#[test]
fn the_patience_is_counted_from_the_youngest_job() {
    let (mut state, start) = state(9, 3);
    assert!(matches!(ask(&mut state, start, Duration::ZERO), Next::Run(0, _)));
    let left = |next| if let Next::Watch(left) = next { Some(left) } else { None };
    assert_eq!(left(ask(&mut state, start, NEAR)), Some(PATIENCE - NEAR));
    assert_eq!(left(ask(&mut state, start, PATIENCE - NEAR)), Some(NEAR));
    // The first job is blocked. The second worker does not wait for it between its jobs.
    assert!(matches!(ask(&mut state, start, PATIENCE), Next::Run(1, _)));
    assert_eq!(left(ask(&mut state, start, PATIENCE + NEAR)), Some(PATIENCE - NEAR));
    state.finish(1, false);
    assert!(matches!(ask(&mut state, start, PATIENCE + NEAR), Next::Run(2, _)));
    // When the first worker is back, the job of the second one makes progress.
    state.finish(0, false);
    assert!(matches!(ask(&mut state, start, PATIENCE + 2 * NEAR), Next::Watch(_)));
    state.finish(2, false);
    assert!(matches!(ask(&mut state, start, PATIENCE + 2 * NEAR), Next::Run(3, _)));
}

#[test]
fn a_job_that_waits_for_the_patience_has_a_worker_of_its_own_while_cores_are_free() {
    let (mut state, start) = state(6, 6);
    let limits = Limits { parallel: 2, ..Limits::default() };
    state.jobs.iter_mut().for_each(|job| job.0 = start);
    let ask = |state: &mut State, after| state.next(&limits, &mut start.clone(), start + after);
    assert!(matches!(ask(&mut state, Duration::ZERO), Next::Run(0, _)));
    state.finish(0, false);
    assert!(matches!(ask(&mut state, NEAR), Next::Run(1, _)));
    // The first waiting job comes before the end of the running one's patience.
    let next = ask(&mut state, 2 * NEAR);
    assert!(matches!(next, Next::Watch(left) if left == PATIENCE - 2 * NEAR));
    assert!(matches!(ask(&mut state, PATIENCE), Next::Run(2, _)));
    state.finish(1, false);
    assert!(matches!(ask(&mut state, PATIENCE), Next::Run(3, _)));
    // Both cores are in use.
    let next = ask(&mut state, PATIENCE + NEAR);
    assert!(matches!(next, Next::Watch(left) if left == PATIENCE - NEAR));
    state.finish(3, false);
    assert!(matches!(ask(&mut state, PATIENCE + NEAR), Next::Run(4, _)));
    // A blocked job uses none.
    assert!(matches!(ask(&mut state, 2 * PATIENCE), Next::Run(5, _)));
}

#[test]
fn one_idle_worker_watches_and_a_third_ends() {
    let (mut state, start) = state(2, 4);
    assert!(matches!(ask(&mut state, start, Duration::ZERO), Next::Run(..)));
    state.watched = true;
    assert_eq!(state.idle, 3);
    assert!(matches!(ask(&mut state, start, NEAR), Next::End));
    state.idle = 2;
    assert!(matches!(ask(&mut state, start, NEAR), Next::Wait(LINGER)));
}

#[test]
fn an_idle_worker_waits_for_the_linger_and_ends() {
    let (mut state, start) = state(0, 1);
    let next = ask(&mut state, start, NEAR);
    assert!(matches!(next, Next::Wait(left) if left == LINGER - NEAR));
    assert!(matches!(ask(&mut state, start, LINGER), Next::End));
}
