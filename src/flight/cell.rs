//! The cell in which threads and tasks wait for one result.
//!
//! A flight is a cell, or something that [has one](HasCell). [`Leader::of`] makes its only leader.
//! The leader completes the flight by [`complete`](Leader::complete). A leader that is dropped
//! before that, by a panic, a cancelled task or an early return, abandons the flight. Both are the
//! *landing*. Threads wait by [`FlightCell::wait_until`], and tasks by awaiting a [`Follow`]. Both
//! can wait for the same flight.
//!
//! ```text
//!     Running ──── complete(T) ───► Landed(Some(T))
//!        └──── leader dropped ────► Landed(None): abandoned
//! ```
//!
//! # Rules
//!
//! 1. Only the leader changes the state from `Running`, once.
//! 2. The leader takes the wakers out under the lock when it lands the flight. After releasing the
//!    lock it wakes all of them, and all waiting threads. A waiter that finds `Running` is
//!    registered (as a waiting thread or by its waker) before the lock is released. Thus no waiter
//!    sleeps through the landing.
//! 3. No user code runs under the lock: the result is cloned outside, and wakers are cloned, called
//!    and dropped outside. If a waker panics, the others are still called.
//! 4. A `Follow` that is dropped removes its waker.
//! 5. A waiter of an abandoned flight starts again from the beginning, and may become the leader of
//!    another flight. The client removes a flight from its table *before* the flight is abandoned
//!    or completed. Otherwise the waiters would find it there again.
//!
//! The mutex is the only synchronisation: a waiter that sees the landing sees all that the leader
//! did before it. A thread that waits for a flight that it leads itself waits forever.

use crate::primitives::time::Instant;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::primitives::{Arc, Condvar, Mutex, catch_user_panic, seeded};
use crate::wakers::{WakerSlot, Wakers};

enum State<T> {
    Running(Wakers),
    /// The leader's result; `None` if the leader was dropped without one. Behind an `Arc`, so that
    /// it can be cloned after the lock is released.
    Landed(Option<Arc<T>>),
}

/// A flight: it has a cell in which others wait for its result.
pub trait HasCell {
    type Result;

    fn cell(&self) -> &FlightCell<Self::Result>;
}

/// See the [module](self).
pub struct FlightCell<T> {
    state: Mutex<State<T>>,
    landed: Condvar,
}

impl<T> FlightCell<T> {
    /// The cell of a flight that has a leader.
    pub fn new() -> Self {
        Self { state: Mutex::new(State::Running(Wakers::default())), landed: Condvar::new() }
    }

    /// Whether the flight has not landed yet.
    pub fn is_running(&self) -> bool {
        matches!(*self.state.lock(), State::Running(_))
    }

    /// Blocks until the flight has landed, or until `deadline`, if there is one. Returns whether it
    /// has landed.
    pub fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        while let State::Running(_) = &*state {
            state = match deadline.map(|it| it.saturating_duration_since(Instant::now())) {
                None => self.landed.wait(state),
                Some(left) if left.is_zero() => return false,
                Some(left) => self.landed.wait_timeout(state, left),
            };
        }
        true
    }

    fn land(&self, result: Option<T>) {
        let end = State::Landed(result.map(Arc::new));
        let mut state = self.state.lock();
        let silent = matches!(end, State::Landed(None)) && seeded("flight-abandons-in-silence");
        let before = std::mem::replace(&mut *state, end);
        drop(state);
        if silent {
            return;
        }
        self.landed.notify_all();
        if let State::Running(mut wakers) = before {
            for waker in wakers.take_all() {
                let _ = catch_user_panic(|| waker.wake());
            }
        }
    }
}

impl<T> HasCell for FlightCell<T> {
    type Result = T;

    fn cell(&self) -> &Self {
        self
    }
}

impl<T: Clone> FlightCell<T> {
    /// The result of a completed flight; `None` if it was abandoned or still runs.
    pub fn result(&self) -> Option<T> {
        let result = match &*self.state.lock() {
            State::Landed(result) => result.clone(),
            State::Running(_) => None,
        };
        result.map(|result| T::clone(&result))
    }
}

/// The duty to land a flight. Dropping it abandons the flight.
#[must_use = "dropping the leader abandons the flight"]
pub struct Leader<F: HasCell> {
    flight: Arc<F>,
    has_landed: bool,
}

impl<F: HasCell> Leader<F> {
    /// The leader of a flight that has just been made.
    pub fn of(flight: F) -> Self {
        Self { flight: Arc::new(flight), has_landed: false }
    }

    pub fn flight(&self) -> &Arc<F> {
        &self.flight
    }

    /// Whether the flight has not landed yet.
    pub fn is_running(&self) -> bool {
        !self.has_landed
    }

    /// Lands the flight without a result, if it has not landed.
    pub fn abandon(&mut self) {
        if !std::mem::replace(&mut self.has_landed, true) {
            self.flight.cell().land(None);
        }
    }

    /// Lands the flight with a result for all waiters. `result` is not called if nobody else holds
    /// the flight: then nobody can see how it ends.
    pub fn complete(&mut self, result: impl FnOnce() -> F::Result) {
        // If `result` panics, the drop of this leader abandons the flight.
        let result = self.has_waiters().then(result);
        self.has_landed = true;
        if result.is_some() {
            self.flight.cell().land(result);
        }
    }

    /// Whether the flight has not landed, and others hold it.
    pub fn has_waiters(&self) -> bool {
        // A count of 1 is final: others get the flight from a table, from which the client has
        // removed it (rule 5), or from one another.
        let is_alone = Arc::strong_count(&self.flight) == 1;
        !self.has_landed && !is_alone && !seeded("landings-forget-the-waiters")
    }
}

impl<F: HasCell> Drop for Leader<F> {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// A future that waits for a flight. It returns the result; `None` if the flight was abandoned.
#[must_use = "a future does nothing unless it is polled"]
pub struct Follow<F: HasCell> {
    flight: Arc<F>,
    slot: Option<WakerSlot>,
}

impl<F: HasCell> Follow<F> {
    /// Creates a future that waits for `flight` from its first poll on.
    pub fn new(flight: Arc<F>) -> Self {
        Self { flight, slot: None }
    }

    pub fn flight(&self) -> &F {
        &self.flight
    }
}

impl<F: HasCell<Result: Clone>> Future for Follow<F> {
    type Output = Option<F::Result>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let (cell, waker) = (this.flight.cell(), cx.waker().clone());
        let mut state = cell.state.lock();
        if let State::Running(wakers) = &mut *state {
            let replaced = wakers.keep(&mut this.slot, waker);
            drop(state);
            drop(replaced);
            return Poll::Pending;
        }
        drop(state);
        // Before the result is the return value, which a panic of the waker's destructor would
        // leak.
        drop(waker);
        Poll::Ready(cell.result())
    }
}

impl<F: HasCell> Drop for Follow<F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let mut state = self.flight.cell().state.lock();
        let (mut waker, mut others) = (None, Vec::new());
        match &mut *state {
            State::Running(wakers) if seeded("followers-go-together") => others = wakers.take_all(),
            State::Running(wakers) => waker = wakers.release(slot),
            State::Landed(_) => {}
        }
        drop(state);
        drop((waker, others));
    }
}
