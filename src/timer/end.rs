//! The end of a timer: nothing begins any more, and what has not begun is taken out.

use super::body::drop_user_code;
use super::shared::{Jobs, Shared, UnfiredJobs};
use super::stats::Counters;
use super::stopping::Stopping;
use crate::primitives::MutexGuard;

/// Ends the timer without waiting for anything.
pub fn stop_now(shared: &Shared) {
    take_unfired(shared, shared.jobs.lock()).into_iter().for_each(drop_user_code);
}

/// Cancels the timer: takes out the jobs that have not begun, and lets no more begin.
pub fn take_unfired(shared: &Shared, mut jobs: MutexGuard<'_, Jobs>) -> UnfiredJobs {
    jobs.stopping = Some(Stopping::Cancel);
    let taken = jobs.take_all();
    shared.wake_all(jobs);
    // The errands are dropped here.
    let left: UnfiredJobs = taken.filter(|(_, _, entry)| entry.weight() > 0).collect();
    Counters::add(&shared.counters.cancelled, left.len());
    left
}

/// Ends the timer if the time of a drain is over, or if there is nothing more to wait for, unless
/// somebody waits for the end. Wakes the tasks that wait if the limit of one of them is reached.
pub fn end_drain(shared: &Shared) {
    let jobs = shared.jobs.lock();
    let has_limit = jobs.stopping.and_then(Stopping::limit).is_some();
    if !has_limit && jobs.wake_tasks_at == u64::MAX {
        return;
    }
    drop(jobs);
    let now = shared.now_or(0);
    let jobs = shared.jobs.lock();
    let is_over = matches!(jobs.stopping, Some(Stopping::Drain(end)) if end <= now);
    if jobs.awaited_by == 0 && (is_over || jobs.is_drained()) {
        take_unfired(shared, jobs).into_iter().for_each(drop_user_code);
    } else if jobs.wake_tasks_at <= now {
        shared.wake_all(jobs);
    }
}
