//! The cell in which threads and tasks wait for one result.
//!
//! [`Flight::start`] makes a cell and its one [`Leader`]. The leader lands it by
//! [`complete`](Leader::complete); a leader that is dropped before that, by a panic, a cancelled
//! task or an early return, abandons it. Threads wait by [`Flight::wait`], tasks by awaiting a
//! [`Follow`]; both can wait for the same flight.
//!
//! ```text
//!     Running ──── complete(T) ───► Done(T)
//!        └──── leader dropped ────► Abandoned
//! ```
//!
//! # Rules
//!
//! 1. Only the leader leaves `Running`, once. Therefore `complete` consumes it.
//! 2. Who leaves `Running` takes the wakers out under the lock and wakes all of them, and all
//!    waiting threads, after it. Who finds `Running` is registered (as a waiting thread or by its
//!    waker) before the lock is released. Thus nobody sleeps through the landing.
//! 3. Nobody's code runs under the lock: the result is cloned, wakers are cloned, called and
//!    dropped outside. A waker that panics is passed over; the others are called.
//! 4. A `Follow` that is dropped takes its waker along.
//! 5. A follower that sees [`Outcome::Abandoned`] starts again from the beginning and may become
//!    the leader of another flight. The client removes a flight from its table *before* it is
//!    abandoned or completed, or they would find it there again.
//!
//! The mutex is the only synchronisation: all that the leader did before it landed is seen by those
//! who saw the landing. A thread that waits for the flight that it leads itself waits for ever.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::sync::{Arc, Condvar, Mutex, catch_user_panic, seeded};

/// How a flight ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// The leader's result.
    Done(T),
    /// The leader went away without a result.
    Abandoned,
}

#[derive(Debug)]
enum State<T> {
    Running(Waiting),
    /// Behind an `Arc` so that it can be cloned after the lock is released.
    Done(Arc<T>),
    Abandoned,
}

/// Tasks by ticket. Tickets rather than `Waker::will_wake`, so that a task costs a logarithmic
/// search at each poll and not a comparison with all others.
#[derive(Debug, Default)]
struct Waiting {
    next_ticket: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Flight<T> {
    state: Mutex<State<T>>,
    landed: Condvar,
}

impl<T> Flight<T> {
    /// A flight in the air, and its leader.
    pub fn start() -> (Leader<T>, Arc<Self>) {
        let flight = Arc::new(Self {
            state: Mutex::new(State::Running(Waiting::default())),
            landed: Condvar::new(),
        });
        (Leader { flight: Some(Arc::clone(&flight)) }, flight)
    }

    /// Whether the leader is still at it.
    pub fn is_running(&self) -> bool {
        matches!(*self.state.lock(), State::Running(_))
    }

    fn land(&self, end: State<T>) {
        let mut state = self.state.lock();
        let silent = matches!(end, State::Abandoned) && seeded("flight_abandons_in_silence");
        let before = std::mem::replace(&mut *state, end);
        drop(state);
        if silent {
            return;
        }
        self.landed.notify_all();
        if let State::Running(waiting) = before {
            for waker in waiting.wakers.into_values() {
                let _ = catch_user_panic(|| waker.wake());
            }
        }
    }
}

impl<T: Clone> Flight<T> {
    /// Blocks until the flight has landed.
    pub fn wait(&self) -> Outcome<T> {
        let mut state = self.state.lock();
        loop {
            match &*state {
                State::Running(_) => state = self.landed.wait(state),
                State::Done(result) => {
                    let result = Arc::clone(result);
                    drop(state);
                    return Outcome::Done(T::clone(&result));
                }
                State::Abandoned => return Outcome::Abandoned,
            }
        }
    }
}

/// The duty to land a flight. Dropping it abandons the flight.
#[derive(Debug)]
#[must_use = "dropping the leader abandons the flight"]
pub struct Leader<T> {
    /// `None` once landed.
    flight: Option<Arc<Flight<T>>>,
}

impl<T> Leader<T> {
    /// Lands the flight with a result for all followers.
    pub fn complete(mut self, result: T) {
        if let Some(flight) = self.flight.take() {
            flight.land(State::Done(Arc::new(result)));
        }
    }
}

impl<T> Drop for Leader<T> {
    fn drop(&mut self) {
        if let Some(flight) = self.flight.take() {
            flight.land(State::Abandoned);
        }
    }
}

/// A task's wait for a flight.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Follow<T> {
    flight: Arc<Flight<T>>,
    ticket: Option<u64>,
}

impl<T> Follow<T> {
    /// Waits for this flight, from the first poll on.
    pub fn new(flight: Arc<Flight<T>>) -> Self {
        Self { flight, ticket: None }
    }
}

impl<T: Clone> Future for Follow<T> {
    type Output = Outcome<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<T>> {
        let this = self.get_mut();
        let waker = cx.waker().clone();
        let mut state = this.flight.state.lock();
        match &mut *state {
            State::Running(waiting) => {
                let ticket = *this.ticket.get_or_insert_with(|| {
                    waiting.next_ticket += 1;
                    waiting.next_ticket
                });
                let replaced = waiting.wakers.insert(ticket, waker);
                drop(state);
                drop(replaced);
                Poll::Pending
            }
            State::Done(result) => {
                let result = Arc::clone(result);
                drop(state);
                Poll::Ready(Outcome::Done(T::clone(&result)))
            }
            State::Abandoned => Poll::Ready(Outcome::Abandoned),
        }
    }
}

impl<T> Drop for Follow<T> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.flight.state.lock();
        let waker = match &mut *state {
            State::Running(waiting) => waiting.wakers.remove(&ticket),
            State::Done(_) | State::Abandoned => None,
        };
        drop(state);
        drop(waker);
    }
}
