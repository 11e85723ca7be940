//! One operation: its state, and the protocol of attempts.

use crate::executor::Handoff;
use crate::primitives::plain::Arc;
use crate::primitives::{Mutex, catch_user_panic, seeded};
use crate::timer::body::drop_user_code;
use crate::timer::id::TimerId;

/// Something that waits for a condition, or for a timeout.
///
/// # Contract
///
/// * [`try_complete`](Self::try_complete) looks at the condition. It is quick, and does not call
///   [`check`](super::DelayedOps::check) for a key of its own operation. It never runs twice at the
///   same time for one operation.
/// * [`on_complete`](Self::on_complete) is called exactly once, whether the condition or the
///   timeout was first; not if the operation is cancelled.
/// * [`on_expire`](Self::on_expire) follows it if the timeout was first.
/// * [`on_cancel`](Self::on_cancel) is called, in place of both, if it is cancelled.
///
/// All of them run with no lock held, so they may lock, and call the timer and the operations. What
/// the condition completes runs on the thread of the call that completed it. What the timeout
/// completes runs on the timer's executor. A panic is caught and counted by the timer.
///
/// The callbacks of one thread run one after the other, never inside of each other. If a callback
/// ends another operation, that has ended when the call returns, and its own callbacks follow when
/// the first one has returned. So a chain of operations that complete each other may be of any
/// length. A callback must not wait for the callbacks of operations that it ends.
pub trait DelayedOp: Send + Sync + 'static {
    /// Whether the condition holds.
    fn try_complete(&self) -> bool;

    /// The operation is completed, or its time is over.
    fn on_complete(&self);

    /// Its time is over.
    fn on_expire(&self) {}

    /// It was cancelled: neither its condition nor its timeout will end it.
    fn on_cancel(&self) {}
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By an event, or by [`OpRef::complete`](super::OpRef::complete).
    Completed,
    /// By its timeout.
    Expired,
    /// By [`cancel_key`](super::DelayedOps::cancel_key),
    /// [`OpRef::cancel`](super::OpRef::cancel), the end of the
    /// [`DelayedOps`](super::DelayedOps), or the end of the timer, if the operation has a timeout
    /// there (`Duration::MAX` is none). Also if a key panicked when it was cloned or compared, or
    /// if the timer's executor has dropped the timeout, with
    /// [`Rejection::Discard`](crate::timer::Rejection::Discard).
    Cancelled,
}

/// What changes of an operation. No code of the user's runs under its lock.
#[derive(Default)]
pub struct State {
    /// How it ended; `None` while it is pending.
    outcome: Option<Outcome>,
    /// The job of its timeout.
    pub timeout: Option<TimerId>,
    /// It is counted among those that are pending.
    pub is_counted: bool,
}

pub struct Op<K> {
    /// Its number: those of one key are tried in this order.
    pub number: u64,
    /// Each with its hash.
    pub keys: Box<[(u64, K)]>,
    /// `None` while it is being dropped.
    user: Option<Arc<dyn DelayedOp>>,
    pub state: Mutex<State>,
    /// At most one attempt at a time. An event that finds an attempt under way requests another
    /// one, which the thread of the first makes.
    attempts: Handoff,
}

/// Whoever holds it last has no part in the destructors of the user's values. Each may panic.
impl<K> Drop for Op<K> {
    fn drop(&mut self) {
        drop_user_code(self.user.take());
        std::mem::take(&mut self.keys).into_iter().for_each(drop_user_code);
    }
}

impl<K> Op<K> {
    pub fn user(&self) -> &Arc<dyn DelayedOp> {
        self.user.as_ref().expect("it is not being dropped")
    }

    pub fn new(number: u64, keys: Box<[(u64, K)]>, user: Arc<dyn DelayedOp>) -> Self {
        let user = Some(user);
        Self { number, keys, user, state: Mutex::new(State::default()), attempts: Handoff::new() }
    }

    /// How it ended; `None` while it is pending.
    pub fn outcome(&self) -> Option<Outcome> {
        self.state.lock().outcome
    }

    /// Ends it. True for the one caller that does.
    pub fn end(&self, outcome: Outcome) -> bool {
        let mut state = self.state.lock();
        let is_pending = state.outcome.is_none();
        if is_pending {
            if seeded("operations-end-twice") {
                drop(state);
                state = self.state.lock();
            }
            state.outcome = Some(outcome);
        }
        is_pending
    }

    /// Looks at the condition. What happened before this call is seen by this look, or by a later
    /// one of the thread that is looking. Returns whether the condition holds, as far as this call
    /// has looked. Calls `note_panic` for each panic of the condition.
    pub fn attempt(&self, note_panic: impl Fn()) -> bool {
        let Some(mut ticket) = self.attempts.request() else { return false };
        while self.outcome().is_none() {
            let running = ticket.begin();
            match catch_user_panic(|| self.user().try_complete()) {
                Some(true) => return true,
                Some(false) => {}
                None => note_panic(),
            }
            match running.finish() {
                Some(again) => ticket = again,
                None => break,
            }
        }
        false
    }
}
