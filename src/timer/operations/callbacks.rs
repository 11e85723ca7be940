//! Calls the callbacks of operations that have ended: on each thread one after the other.
//!
//! A callback may end other operations, and their callbacks others again. Inside of each other they
//! would take a stack as deep as that chain is long. So an operation that ends while a callback
//! runs waits. The outermost call of the thread calls its callbacks when that callback has
//! returned.

use super::op::{DelayedOp, Outcome};
use crate::primitives::plain::Arc;
use crate::primitives::{catch_user_panic, thread_cells};
use crate::timer::service::Timer;
use std::cell::RefCell;
use std::collections::VecDeque;

/// An operation that has ended while a callback ran.
struct Ended {
    user: Arc<dyn DelayedOp>,
    outcome: Outcome,
    /// Counts the panics of its callbacks.
    timer: Timer,
}

thread_cells! {
    /// The operations that wait for the callback that runs on this thread; `None` if none runs.
    static WAITING: RefCell<Option<VecDeque<Ended>>> = RefCell::new(None);
}

/// Calls the callbacks of an operation, and of those that they end. If a callback runs on this
/// thread already, leaves them to the call that has begun it.
pub fn call(user: &Arc<dyn DelayedOp>, outcome: Outcome, timer: &Timer) {
    let waits = |waiting: &RefCell<Option<VecDeque<Ended>>>| {
        let mut waiting = waiting.borrow_mut();
        let Some(queue) = waiting.as_mut() else {
            *waiting = Some(VecDeque::new());
            return false;
        };
        queue.push_back(Ended { user: Arc::clone(user), outcome, timer: timer.clone() });
        true
    };
    // While the thread ends, nothing waits any more.
    if WAITING.try_with(waits).unwrap_or(false) {
        return;
    }
    run(&**user, outcome, timer);
    while let Some(ended) = next() {
        run(&*ended.user, ended.outcome, &ended.timer);
        // It may be the last to hold them.
        let _: Option<()> = catch_user_panic(|| drop(ended));
    }
}

/// The next operation that waits. If there is none, no callback runs any more.
fn next() -> Option<Ended> {
    let take = |waiting: &RefCell<Option<VecDeque<Ended>>>| {
        let mut waiting = waiting.borrow_mut();
        let next = waiting.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *waiting = None;
        }
        next
    };
    WAITING.try_with(take).ok().flatten()
}

fn run(user: &dyn DelayedOp, outcome: Outcome, timer: &Timer) {
    let call = |callback: &dyn Fn()| {
        if catch_user_panic(callback).is_none() {
            timer.note_panic();
        }
    };
    match outcome {
        Outcome::Completed => call(&|| user.on_complete()),
        Outcome::Expired => {
            call(&|| user.on_complete());
            call(&|| user.on_expire());
        }
        Outcome::Cancelled => call(&|| user.on_cancel()),
    }
}
