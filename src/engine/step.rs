//! Operations as sequences of steps.
//!
//! An operation that may have to wait is a sequence of *steps*. A step either ends the operation or
//! names the flight to wait for ([`Step`]). Between two steps an operation holds only state that it
//! owns and that is `Send`: a draft, a value, a closure, counts on nodes, its own flight. It holds
//! no epoch guard, no lock and no borrow of the cache's state. Dropping that state cancels the
//! operation: nothing is committed before the last step. [`block_on`] blocks a thread between
//! steps.

use super::flights::{Flight, FlightGuard};
use crate::primitives::Arc;
use crate::primitives::time::Instant;

/// Whether an operation has ended: if so, whatever it had to commit is committed.
///
/// # Errors
/// Nothing is committed. The next step follows when this flight has ended.
pub type Step<T> = Result<T, Arc<Flight>>;

/// Runs the steps of an operation and blocks this thread between them.
///
/// # Panics
/// If an operation would wait for a flight whose owner is further up on this thread's stack.
pub fn block_on<T>(step: impl FnMut() -> Step<T>) -> T {
    block_until(None, step).expect("there is no deadline")
}

/// [`block_on`] that gives up at `deadline`, if there is one: it returns `None`, with no commit.
///
/// # Panics
/// As [`block_on`].
pub fn block_until<T>(deadline: Option<Instant>, mut step: impl FnMut() -> Step<T>) -> Option<T> {
    loop {
        match step() {
            Ok(result) => return Some(result),
            Err(flight) if flight.wait_until(deadline) => {}
            Err(_) => return None,
        }
    }
}

/// Compile-time check: the state between two steps is `Send` and borrows nothing.
pub const fn is_owned<T: Send + 'static>() {}
const _: () = is_owned::<Step<FlightGuard>>();
