//! The driver: takes what is due, hands it out, and sleeps until the next deadline.

use super::end::end_drain;
use super::execute::{Inside, dispatch};
use super::series::Due;
use super::shared::{AWAKE, Shared};
use super::stats::Counters;
use super::stopping::Stopping;
use crate::primitives::plain::Arc;
use crate::primitives::time::{Duration, Instant};
use crate::primitives::{catch_user_panic, seeded};
use crate::wheel::Poll;

/// A driver whose clock is the user's looks at it at least this often while jobs wait: it cannot
/// know how fast that clock goes. A thread that waits for the end of a timer looks so often, too.
pub const LOOK: Duration = Duration::from_secs(1);

/// Whether real time drives the clock of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    Real,
    Users,
}

/// What was handed out in one batch.
pub struct Turn {
    /// Jobs and errands.
    taken: usize,
    pub jobs: usize,
    /// Whether there may be more.
    has_more: bool,
}

impl Turn {
    /// Whether nothing is due.
    pub fn is_idle(&self) -> bool {
        self.taken == 0 && !self.has_more
    }
}

/// Takes one batch of due jobs and hands them out.
pub fn turn(shared: &Arc<Shared>, batch: &mut Vec<Due>, budget: &mut u32) -> Turn {
    let has_more = collect(shared, batch, budget);
    let taken = batch.len();
    let jobs = batch.iter().filter(|due| !due.is_errand).count();
    for due in batch.drain(..) {
        dispatch(shared, due);
    }
    Turn { taken, jobs, has_more }
}

/// Takes a batch of due jobs, under one hold of the lock. Returns whether there may be more.
fn collect(shared: &Shared, batch: &mut Vec<Due>, budget: &mut u32) -> bool {
    // `Cancel` and `FireAll` need no time, so they work even if the clock panics.
    let before = shared.jobs.lock().stopping;
    let is_timeless = matches!(before, Some(Stopping::Cancel | Stopping::FireAll));
    let now = if is_timeless { u64::MAX } else { shared.scale.now() };
    let mut jobs = shared.jobs.lock();
    let (now, last) = match jobs.stopping {
        None => (now, u64::MAX),
        // What is due by then runs, also by a clock that was set back.
        Some(Stopping::Settle(limit)) => (now.max(limit), limit),
        // Errands go on until the drain is ended.
        Some(Stopping::Drain(end)) => (now, end),
        // After a cancellation only errands are left.
        Some(Stopping::FireAll | Stopping::Cancel) => (u64::MAX, u64::MAX),
    };
    jobs.core.rewind(now);
    // Jobs that only cascade use up the budget, too.
    let limit = (*budget).min(shared.settings.max_batch);
    let mut looks = limit;
    let has_more = loop {
        match jobs.core.poll(now, &mut looks) {
            Poll::Due(slot) => {
                let is_late = jobs.core.slab().named(slot).is_some_and(|(_, due)| due > last);
                let Some((id, entry)) = jobs.core.slab_mut().named_mut(slot) else { continue };
                if entry.is_errand || !is_late {
                    batch.push(entry.queue(id));
                } else {
                    // Never due again. Whoever waits for the end of the drain takes it out.
                    jobs.core.schedule(id, u64::MAX);
                }
            }
            Poll::Exhausted => break true,
            Poll::Idle => break false,
        }
    };
    *budget -= limit - looks;
    has_more
}

/// The main loop of the driver's thread.
pub fn serve(shared: &Arc<Shared>, pace: Pace) {
    let _inside = Inside::enter(shared);
    let (mut batch, mut last) = (Vec::new(), None);
    loop {
        // A source of time of the user's may panic.
        let goes_on = catch_user_panic(|| {
            let mut budget = shared.settings.max_batch;
            turn(shared, &mut batch, &mut budget).has_more || park(shared, pace, &mut last)
        });
        match goes_on {
            Some(true) => {}
            Some(false) => break,
            None => {
                let jobs = shared.jobs.lock();
                if !matches!(jobs.stopping, Some(Stopping::Cancel | Stopping::FireAll)) {
                    // No limit can be read off this clock. Tasks that wait look at real time.
                    shared.wake_all(shared.wake.wait_timeout(jobs, LOOK));
                }
            }
        }
    }
    let mut jobs = shared.jobs.lock();
    jobs.has_driver = false;
    shared.wake_all(jobs);
}

/// When the thread looked at the user's clock last, by real time and by that clock.
struct Look {
    real: Instant,
    reading: u64,
}

/// Sleeps until the next deadline, or until it is woken. False if the timer has ended.
fn park(shared: &Shared, pace: Pace, last: &mut Option<Look>) -> bool {
    let passed = last.take().map(|last| (last.real.elapsed(), last.reading));
    end_drain(shared);
    let now = shared.now_or(0);
    let mut jobs = shared.jobs.lock();
    if jobs.is_over() {
        return false;
    }
    if jobs.awaited_by == 0 && jobs.is_drained() && !seeded("timer-sleeps-at-its-end") {
        // The last run has ended, or the last caller has gone, since the look above.
        return true;
    }
    let mut until = jobs.next_look();
    let is_drained = matches!(jobs.stopping, Some(Stopping::Drain(end)) if end <= now);
    if is_drained && jobs.awaited_by > 0 {
        // Whoever waits for the end of the drain ends it.
        until = jobs.core.next_deadline().unwrap_or(u64::MAX);
    }
    until = until.min(jobs.wake_tasks_at);
    if until <= now {
        return true;
    }
    jobs.parked_until = until;
    let mut jobs = if until == u64::MAX {
        shared.wake.wait(jobs)
    } else {
        let mut delay = Duration::from_nanos(until - now);
        if pace == Pace::Users {
            // The clock may stand just before the deadline. Sleeps until then would be short, and
            // without end.
            let is_slow = passed.is_some_and(|(real, reading)| {
                Duration::from_nanos(now.saturating_sub(reading)) < real / 2
            });
            if is_slow {
                delay = delay.max(Duration::from_nanos(shared.tick));
            }
            delay = delay.min(LOOK);
            *last = Some(Look { real: Instant::now(), reading: now });
        }
        shared.wake.wait_timeout(jobs, delay)
    };
    jobs.parked_until = AWAKE;
    drop(jobs);
    Counters::add(&shared.counters.wake_ups, 1);
    true
}
