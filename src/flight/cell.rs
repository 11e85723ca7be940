//! The cell in which threads and tasks wait for one result.
//!
//! [`FlightCell::start`] makes a cell and its only [`Leader`]. The leader completes the flight by
//! [`complete`](Leader::complete). A leader that is dropped before that, by a panic, a cancelled
//! task or an early return, abandons the flight. Both are the *landing*. Threads wait by
//! [`FlightCell::wait`], and tasks by awaiting a [`Follow`]. Both can wait for the same flight.
//!
//! ```text
//!     Running ──── complete(T) ───► Done(T)
//!        └──── leader dropped ────► Abandoned
//! ```
//!
//! # Rules
//!
//! 1. Only the leader changes the state from `Running`, once. Therefore `complete` takes it by
//!    value.
//! 2. The leader takes the wakers out under the lock when it lands the flight. After releasing the
//!    lock it wakes all of them, and all waiting threads. A waiter that finds `Running` is
//!    registered (as a waiting thread or by its waker) before the lock is released. Thus no waiter
//!    sleeps through the landing.
//! 3. No user code runs under the lock: the result is cloned outside, and wakers are cloned, called
//!    and dropped outside. If a waker panics, the others are still called.
//! 4. A `Follow` that is dropped removes its waker.
//! 5. A waiter that sees [`Outcome::Abandoned`] starts again from the beginning, and may become the
//!    leader of another flight. The client removes a flight from its table *before* the flight is
//!    abandoned or completed. Otherwise the waiters would find it there again.
//!
//! The mutex is the only synchronisation: a waiter that sees the landing sees all that the leader
//! did before it. A thread that waits for a flight that it leads itself waits forever.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::primitives::{Arc, Condvar, Mutex, catch_user_panic, seeded};

/// How a flight ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome<T> {
    /// The leader's result.
    Done(T),
    /// The leader was dropped without a result.
    Abandoned,
}

#[derive(Debug)]
enum State<T> {
    Running(Wakers),
    /// Behind an `Arc`, so that it can be cloned after the lock is released.
    Done(Arc<T>),
    Abandoned,
}

/// The wakers of waiting tasks, by ticket. With a ticket, a poll costs a logarithmic search. With
/// `Waker::will_wake` it would cost a comparison with all other wakers.
#[derive(Debug, Default)]
struct Wakers {
    next_ticket: u64,
    by_ticket: BTreeMap<u64, Waker>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct FlightCell<T> {
    state: Mutex<State<T>>,
    landed: Condvar,
}

impl<T> FlightCell<T> {
    /// Starts a flight. Returns its leader and the flight.
    pub fn start() -> (Leader<T>, Arc<Self>) {
        let flight = Arc::new(Self {
            state: Mutex::new(State::Running(Wakers::default())),
            landed: Condvar::new(),
        });
        (Leader { flight: Some(Arc::clone(&flight)) }, flight)
    }

    /// Whether the flight has not landed yet.
    pub fn is_running(&self) -> bool {
        matches!(*self.state.lock(), State::Running(_))
    }

    /// Blocks until the flight has landed, or until `deadline`. Returns whether it has landed.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while let State::Running(_) = &*state {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.landed.wait_timeout(state, left);
        }
        true
    }

    fn land(&self, end: State<T>) {
        let mut state = self.state.lock();
        let silent = matches!(end, State::Abandoned) && seeded("flight-abandons-in-silence");
        let before = std::mem::replace(&mut *state, end);
        drop(state);
        if silent {
            return;
        }
        self.landed.notify_all();
        if let State::Running(wakers) = before {
            for waker in wakers.by_ticket.into_values() {
                let _ = catch_user_panic(|| waker.wake());
            }
        }
    }
}

impl<T: Clone> FlightCell<T> {
    /// How the flight ended; `None` while it is in the air.
    pub fn outcome(&self) -> Option<Outcome<T>> {
        let state = self.state.lock();
        match &*state {
            State::Running(_) => None,
            State::Done(result) => {
                let result = Arc::clone(result);
                drop(state);
                Some(Outcome::Done(T::clone(&result)))
            }
            State::Abandoned => Some(Outcome::Abandoned),
        }
    }

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
    /// `None` once the flight has landed.
    flight: Option<Arc<FlightCell<T>>>,
}

impl<T> Leader<T> {
    /// Whether others than the leader and one owner of the flight can see how it ends.
    pub fn has_followers(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| Arc::strong_count(flight) > 2)
    }

    /// Ends the flight without telling anybody. Only for a flight that nobody can wait for any
    /// more.
    pub fn retire(mut self) {
        self.flight = None;
    }

    /// Lands the flight with a result for all waiters.
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

/// A future that waits for a flight.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is polled"]
pub struct Follow<T> {
    flight: Arc<FlightCell<T>>,
    ticket: Option<u64>,
}

impl<T> Follow<T> {
    /// Creates a future that waits for `flight` from its first poll on.
    pub fn new(flight: Arc<FlightCell<T>>) -> Self {
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
            State::Running(wakers) => {
                let ticket = *this.ticket.get_or_insert_with(|| {
                    wakers.next_ticket += 1;
                    wakers.next_ticket
                });
                let replaced = wakers.by_ticket.insert(ticket, waker);
                drop(state);
                drop(replaced);
                Poll::Pending
            }
            State::Done(result) => {
                let result = Arc::clone(result);
                drop(state);
                // Before the result is the return value: a panic of the waker's destructor would
                // leak it.
                drop(waker);
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
            State::Running(wakers) if seeded("followers-go-together") => {
                wakers.by_ticket.pop_first().map(|(_, waker)| waker)
            }
            State::Running(wakers) => wakers.by_ticket.remove(&ticket),
            State::Done(_) | State::Abandoned => None,
        };
        drop(state);
        drop(waker);
    }
}
