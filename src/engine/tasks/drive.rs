//! Waiting between steps, and polling the user's futures.

use crate::engine::flights::{Flight, FlightGuard, Step};
use crate::engine::reentrancy::ReentrancyMark;
use crate::flight::cell::Follow;
use crate::primitives::Arc;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs a part of a task's operation that ends in deliveries: back-pressure must not block the
/// thread. The operation awaits it at its end
/// ([`tell_async`](crate::engine::Engine::tell_async)).
pub fn as_task<T>(run: impl FnOnce() -> T) -> T {
    let _mark = ReentrancyMark::task();
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
            Step::Done(result) => return result,
            Step::Wait(flight) => FlightEnded::of(flight).await,
        }
    }
}

/// A future that waits until a flight has landed.
pub struct FlightEnded {
    follow: Follow<Flight>,
}

impl FlightEnded {
    pub fn of(flight: Arc<Flight>) -> Self {
        Self { follow: Follow::new(flight) }
    }
}

impl Future for FlightEnded {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let poll = Pin::new(&mut self.follow).poll(context).map(drop);
        // Not before: if the flight has landed, its owner may be calling this task's waker, with
        // the token still on the stack, and an executor may poll within the call.
        if poll.is_pending() {
            self.follow.flight().assert_not_own();
        }
        poll
    }
}

/// Awaits the user's future, which runs on behalf of a flight's owner.
pub async fn fly<F: Future>(flight: &FlightGuard, mut future: Pin<&mut F>) -> F::Output {
    poll_fn(|context| {
        let _mark = flight.mark_poll();
        future.as_mut().poll(context)
    })
    .await
}
