//! The calls that any code of a program makes: its jobs, futures, destructors and wakers.

use super::jobs::{Plan, Token};
use super::world::{Known, State, World};
use super::{MS, planned};
use cortado::timer::{CancelOutcome, Missed, Repeat, Timer};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl World {
    /// Calls the timer in some way, as a job or a destructor may.
    pub fn act(self: &Arc<Self>) {
        let Some(timer) = self.timer() else { return };
        match self.below(20) {
            0..=3 => self.add(),
            4 => (0..4).for_each(|_| self.add()),
            5 | 6 => self.cancel(&timer),
            7 | 8 => self.reschedule(&timer),
            9 | 10 => {
                let Some(handle) = self.any_handle() else { return };
                match self.below(4) {
                    0 => _ = planned(|| self.drop_handle(handle)),
                    how @ (1 | 2) => {
                        let (number, id) = (self.number(&handle), handle.id());
                        let expected = self.expects(number);
                        let aborts = how == 2;
                        self.note(format_args!("{number} ends, abort {aborts}: {expected:?}"));
                        self.notes().jobs[number].is_aborted |= aborts;
                        let answer = if aborts { handle.abort() } else { handle.cancel() };
                        assert!(expected.contains(&answer), "{answer:?}");
                        let is_over = answer != CancelOutcome::Cancelled || !timer.contains(id);
                        assert!(is_over, "{number} was cancelled");
                    }
                    _ => _ = handle.detach(),
                }
            }
            11..=14 => self.use_waker(),
            15 if self.once_in(3) => self.set_clock(),
            16 if self.once_in(4) => {
                let mut notes = self.notes();
                notes.is_broken = !notes.is_broken;
                notes.was_broken = true;
            }
            17 if self.notes().depth > 0 && self.once_in(40) => {
                let stop = self.any_stop();
                self.stop(stop);
                let unfired = if self.once_in(2) {
                    planned(|| timer.shutdown(stop))
                } else {
                    let mut end = pin!(timer.shutdown_async(stop));
                    let mut context = Context::from_waker(Waker::noop());
                    planned(|| match end.as_mut().poll(&mut context) {
                        Poll::Ready(unfired) => unfired,
                        Poll::Pending => panic!("it waits for itself"),
                    })
                };
                unfired.into_iter().for_each(|unfired| self.take(unfired));
            }
            18 if self.notes().depth > 0 => assert_eq!(timer.poll(&mut 9), 0, "jobs nest"),
            _ => _ = planned(|| (timer.next_deadline(), timer.pending(), timer.running())),
        }
    }

    /// A job that has not been accepted.
    pub fn token(self: &Arc<Self>, is_series: bool) -> Token {
        let handle = if self.once_in(4) { self.any_handle() } else { None };
        let mut notes = self.notes();
        let number = notes.jobs.len();
        notes.jobs.push(Known {
            state: State::New,
            id: None,
            is_series,
            planned: None,
            runs: 0,
            is_last: !is_series,
            is_cancelled: false,
            is_aborted: false,
            next: None,
        });
        drop(notes);
        let explodes = self.below(100) < self.config.explosive;
        self.note(format_args!("job {number}, series {is_series}, explodes {explodes}"));
        Token { number, explodes, world: Arc::clone(self), handle }
    }

    pub fn add(self: &Arc<Self>) {
        let Some(timer) = self.timer() else { return };
        let kind = self.below(9);
        let is_series = !matches!(kind, 0..=2 | 5);
        let token = self.token(is_series);
        let (number, delay) = (token.number, self.delay());
        let period = MS + Duration::from_micros(self.below(5_000));
        let missed = if self.once_in(2) { Missed::Skip } else { Missed::Once };
        let lists = [Repeat::Once, Repeat::Times(2), Repeat::Forever];
        let list = ([period, MS, 2 * period], lists[self.below(3) as usize]);
        let mut exact = None;
        let result = planned(|| match kind {
            0..=2 => {
                exact = Some(delay);
                timer.after(delay, move |run| token.run_once(&run))
            }
            3 => timer.every(period, missed, move |run| token.run(&run)),
            4 => timer.every_with_gap(period, move |run| token.run(&run)),
            5 => {
                exact = Some(delay);
                timer.after(delay, move |run| token.run_async(run))
            }
            6 => timer.every(period, missed, move |run| token.future(run, None)),
            7 => timer.intervals(list.0, list.1, move |run| token.run(&run)),
            _ => {
                let plan = Plan(Arc::clone(self), number);
                if self.once_in(2) {
                    timer.schedule(plan, move |run| token.run(&run))
                } else {
                    timer.schedule(plan, move |run| token.future(run, None))
                }
            }
        });
        let Some(Ok(handle)) = result else { return };
        let mut notes = self.notes();
        let planned = exact.map(|delay| notes.now.saturating_add(delay));
        assert!(!notes.stopping, "accepted after the end");
        assert_eq!(notes.jobs[number].state, State::New);
        notes.counts.added += 1;
        notes.numbers.insert(handle.id(), number);
        let job = &mut notes.jobs[number];
        (job.state, job.id, job.planned) = (State::Waiting, Some(handle.id()), planned);
        notes.handles.push(handle);
    }

    pub fn cancel(&self, timer: &Timer) {
        let Some((number, id)) = self.any_job() else { return };
        let expected = self.expects(number);
        self.note(format_args!("{number} is cancelled: {expected:?}"));
        let answer = timer.cancel(id);
        assert!(expected.contains(&answer), "{answer:?}, not {expected:?}");
    }

    pub fn reschedule(&self, timer: &Timer) {
        let Some((number, id)) = self.any_job() else { return };
        let delay = self.delay();
        self.note(format_args!("{number} is moved by {delay:?}"));
        let Some(answer) = planned(|| timer.reschedule(id, delay)) else { return };
        let mut notes = self.notes();
        let (stopping, at) = (notes.stopping, notes.now.saturating_add(delay));
        let job = &mut notes.jobs[number];
        let expected = match job.state {
            State::Waiting => !stopping,
            State::Running => !stopping && !job.is_last && !job.is_cancelled,
            State::Ending => answer,
            _ => false,
        };
        assert_eq!(answer, expected, "{number}, which is {:?}", job.state);
        match job.state {
            State::Waiting if expected => job.planned = Some(at),
            State::Running if expected => job.next = Some(at),
            _ => {}
        }
    }

    pub fn use_waker(&self) {
        let wakers = self.notes().wakers.len() as u64;
        if wakers == 0 {
            return;
        }
        let at = self.below(wakers) as usize;
        let waker = self.notes().wakers.swap_remove(at);
        self.note("a future is woken, or forgotten");
        match self.below(4) {
            0 => drop(waker),
            1 => waker.wake_by_ref(),
            _ => waker.wake(),
        }
    }

    pub fn set_clock(&self) {
        let by = match self.below(20) {
            0 => Duration::from_secs(self.below(20_000_000)),
            1 | 2 => Duration::from_secs(1),
            _ => Duration::from_micros(self.below(8_000)),
        };
        let goes_back = self.once_in(12);
        let mut notes = self.notes();
        notes.now = if goes_back { notes.now.saturating_sub(by) } else { notes.now + by };
        let now = notes.now;
        drop(notes);
        self.note(format_args!("it is {now:?}"));
    }
}
