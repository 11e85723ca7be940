//! Waiting between steps.

use crate::engine::flights::Flight;
use crate::engine::reentrancy::{Frame, ReentrancyMark};
use crate::engine::step::Step;
use crate::flight::cell::Follow;
use crate::primitives::Arc;
use std::future::{Future, poll_fn};
use std::pin::Pin;

/// Runs the part of a task's operation that ends in deliveries. Back-pressure does not block the
/// thread here: the operation awaits the deliveries at its end
/// ([`tell_async`](crate::engine::Engine::tell_async)).
pub fn as_task<T>(run: impl FnOnce() -> T) -> T {
    let _mark = ReentrancyMark::push(Frame::Task);
    run()
}

/// Runs the steps of an operation, and awaits the flights that they name.
///
/// # Panics
/// If an operation would wait for a flight whose owner is being polled further up on this thread's
/// stack.
pub async fn drive<T>(mut step: impl FnMut() -> Step<T>) -> T {
    loop {
        match step() {
            Ok(result) => return result,
            Err(flight) => flight_ended(flight).await,
        }
    }
}

/// Waits until a flight has ended.
pub async fn flight_ended(flight: Arc<Flight>) {
    let mut follow = Follow::new(flight);
    poll_fn(|context| {
        let poll = Pin::new(&mut follow).poll(context).map(drop);
        // The check must come after the poll. While the owner ends the flight, its token is still
        // on the stack, it calls this task's waker, and an executor may poll within that call.
        if poll.is_pending() {
            follow.flight().assert_not_own();
        }
        poll
    })
    .await;
}
