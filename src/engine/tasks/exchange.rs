//! Where an operation meets the user's future.
//!
//! An operation that needs the result of a user's future runs as two futures. The *operation* knows
//! nothing of the user's future, so it is compiled once for each type of cache. When it needs the
//! result, it [asks] here. [`poll`](Exchange::poll) polls the two in turns, and passes the reply
//! on. So only a closure is compiled for each future of the user's.
//!
//! The user's future is polled outside of the operation's polls, with the flight's token on the
//! thread's stack of user code.
//!
//! [asks]: Exchange::ask

use crate::engine::reentrancy::{FlightToken, Frame, ReentrancyMark};
use crate::primitives::plain::{Mutex, MutexGuard, PoisonError};
use crate::primitives::seeded;
use crate::span::Span;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

/// See the [module](self). Only one thread at a time polls the two futures, so the lock is always
/// free; it makes this `Sync`, as the future of an operation has to be that refers to it.
pub struct Exchange<Q, A> {
    state: Mutex<State<Q, A>>,
}

enum State<Q, A> {
    Idle,
    /// The operation has asked. The question is `None` once [`Exchange::poll`] has passed it on.
    Asked(Asker, Option<Q>),
    Replied(A),
}

/// On whose behalf an operation asks.
#[derive(Clone)]
struct Asker {
    /// The flight that the operation owns.
    flight: FlightToken,
    /// The span in which the user's future runs.
    span: Span,
}

impl<Q, A> Exchange<Q, A> {
    pub fn new() -> Self {
        Self { state: Mutex::new(State::Idle) }
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, A>> {
        // No code of the user's runs under the lock but a subscriber's, when the span is cloned. It
        // reaches no exchange.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the user's future, on behalf of a flight's owner, to run in a span. An operation asks
    /// once.
    pub async fn ask(&self, flight: FlightToken, span: &Span, question: Q) -> A {
        let asker = Asker { flight, span: span.clone() };
        *self.lock() = State::Asked(asker, Some(question));
        poll_fn(|_| {
            let mut state = self.lock();
            match mem::replace(&mut *state, State::Idle) {
                State::Replied(reply) => Poll::Ready(reply),
                other => {
                    *state = other;
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// The flight of an operation that waits for a reply.
    fn flight(&self) -> Option<FlightToken> {
        match &*self.lock() {
            State::Asked(asker, _) => Some(asker.flight),
            State::Idle | State::Replied(_) => None,
        }
    }

    /// The asker and the question, if the operation waits for a reply.
    fn asked(&self) -> Option<(Asker, Option<Q>)> {
        match &mut *self.lock() {
            State::Asked(asker, question) => Some((asker.clone(), question.take())),
            State::Idle | State::Replied(_) => None,
        }
    }

    /// Polls an operation, and replies by the user's future. `poll_user` polls that future, and
    /// begins it if it gets a question.
    pub fn poll<T>(
        &self,
        mut operation: Pin<&mut impl Future<Output = T>>,
        poll_user: PollUser<'_, Q, A>,
        context: &mut Context<'_>,
    ) -> Poll<T> {
        let mut asked = self.asked();
        loop {
            if let Some((Asker { flight, span }, question)) = asked {
                let poll = {
                    let _mark = ReentrancyMark::push(Frame::Flight(flight));
                    let _entered = span.enter();
                    poll_user(question, context)
                };
                let Poll::Ready(reply) = poll else { return Poll::Pending };
                let asked = mem::replace(&mut *self.lock(), State::Replied(reply));
                drop(asked);
            }
            let poll = operation.as_mut().poll(context);
            if poll.is_ready() {
                return poll;
            }
            asked = self.asked();
            if asked.is_none() {
                return Poll::Pending;
            }
        }
    }
}

/// Begins nothing: the user's future was made before the question.
pub fn made_before<Q, F>(_: Q) -> Option<F> {
    None
}

/// An operation of a task, and the user's future.
pub struct Parts<'a, Q, A, O, F> {
    pub exchange: &'a Exchange<Q, A>,
    pub operation: Pin<&'a mut Option<O>>,
    pub user: Pin<&'a mut Option<F>>,
}

impl<Q, A, O: Future, F: Future> Parts<'_, Q, A, O, F> {
    /// Runs the operation, and the user's future when the operation asks: the one that is there, or
    /// what `begin` makes of the question. `reply_of` makes the reply of what the future returns.
    /// (A future around the user's would take more code, and one that took the two by value would
    /// have room for each twice.)
    pub async fn run(
        mut self,
        mut begin: impl FnMut(Q) -> Option<F>,
        reply_of: impl Fn(F::Output) -> A,
    ) -> O::Output {
        poll_fn(|context| self.poll(context, &mut begin, &reply_of)).await
    }

    /// One poll of [`run`](Self::run).
    pub fn poll(
        &mut self,
        context: &mut Context<'_>,
        begin: &mut impl FnMut(Q) -> Option<F>,
        mut reply_of: impl FnMut(F::Output) -> A,
    ) -> Poll<O::Output> {
        let Self { operation, user, exchange } = self;
        let Some(operation) = operation.as_mut().as_pin_mut() else { return Poll::Pending };
        let poll_user = &mut |question: Option<Q>, context: &mut Context<'_>| {
            if let Some(future) = question.and_then(&mut *begin) {
                user.set(Some(future));
            }
            let Some(future) = user.as_mut().as_pin_mut() else { return Poll::Pending };
            future.poll(context).map(&mut reply_of)
        };
        let poll = exchange.poll(operation, poll_user, context);
        if poll.is_ready() {
            self.operation.set(None);
            self.user.set(None);
        }
        poll
    }
}

impl<Q, A, O, F> Drop for Parts<'_, Q, A, O, F> {
    /// The operation has ended, or the task was cancelled, or the user's future has panicked. The
    /// user's future is dropped first: when its flight lands, the next load or computation of the
    /// key begins.
    fn drop(&mut self) {
        if let Some(flight) = self.exchange.flight().filter(|_| self.operation.is_some()) {
            // Without the mark, a destructor that uses the key would wait for the flight.
            let mark = ReentrancyMark::push(Frame::Cancelling(flight));
            if mark.is_none() || seeded("cancelled-flights-land-first") {
                self.operation.set(None);
            }
            self.user.set(None);
        }
        self.operation.set(None);
    }
}

/// Polls the user's future. It is a trait object, so that the function that takes it is compiled
/// once, and not for each closure.
pub type PollUser<'a, Q, A> = &'a mut dyn FnMut(Option<Q>, &mut Context<'_>) -> Poll<A>;
