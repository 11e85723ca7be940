//! A scheduler on a tokio runtime: one task for each client, which sleeps by the runtime's clock.
//!
//! The rules of the [thread](super) hold, but for these: the task serves one client; deadlines are
//! the runtime's; a task whose runtime shuts down ends, and nothing runs the client any more.
//!
//! All state is in one mutex, which is held for a few instructions. Under it nothing is called but
//! tokio's timer.

use super::Scheduled;
use crate::clock::RuntimeTime;
use crate::primitives::plain::Weak;
use crate::primitives::{Arc, Mutex, catch_user_panic};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// When the client runs next, and the task that waits for it.
#[derive(Debug, Default)]
struct State {
    /// `None` means that the client is not armed.
    armed: Option<Instant>,
    is_cancelled: bool,
    waker: Option<Waker>,
}

#[derive(Debug)]
struct Shared {
    time: RuntimeTime,
    state: Mutex<State>,
}

/// A client's registration with its task. Dropping it ends the task.
#[derive(Debug)]
#[must_use = "dropping a registration deregisters the client"]
pub struct TaskRegistration {
    shared: Arc<Shared>,
}

impl TaskRegistration {
    /// Spawns the client's task on the runtime. The client is not armed yet.
    pub fn spawn(time: RuntimeTime, client: Weak<dyn Scheduled>) -> Self {
        let runtime = time.runtime().clone();
        let shared = Arc::new(Shared { time, state: Mutex::new(State::default()) });
        let task = serve(Arc::clone(&shared), client);
        drop(runtime.spawn(task));
        Self { shared }
    }

    /// Runs the client when `after` has elapsed, at the latest.
    pub fn wake_within(&self, after: Duration) {
        self.shared.arm(after);
    }

    /// Ends the task. Does not wait for a run that is in progress.
    pub fn cancel(&self) {
        self.shared.change(|state| state.is_cancelled = true);
    }
}

impl Drop for TaskRegistration {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Shared {
    fn arm(&self, after: Duration) {
        // A deadline that cannot be represented never comes.
        let Some(at) = self.time.present().checked_add(after) else { return };
        self.change(|state| state.armed = Some(state.armed.map_or(at, |armed| armed.min(at))));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let waker = {
            let mut state = self.state.lock();
            change(&mut state);
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ready when the armed deadline has come. Disarms the client then. False if it is cancelled.
    fn poll_due(
        &self,
        mut sleep: std::pin::Pin<&mut Sleep>,
        context: &mut Context<'_>,
    ) -> Poll<bool> {
        let mut state = self.state.lock();
        if state.is_cancelled {
            return Poll::Ready(false);
        }
        if let Some(at) = state.armed {
            if sleep.deadline() != at {
                sleep.as_mut().reset(at);
            }
            if sleep.as_mut().poll(context).is_ready() {
                state.armed = None;
                return Poll::Ready(true);
            }
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Runs the client whenever its deadline comes, until it is cancelled or gone.
async fn serve(shared: Arc<Shared>, client: Weak<dyn Scheduled>) {
    let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
    while poll_fn(|context| shared.poll_due(sleep.as_mut(), context)).await {
        let Some(client) = client.upgrade() else { return };
        let next = catch_user_panic(|| client.run()).flatten();
        let _ = catch_user_panic(|| drop(client));
        if let Some(after) = next {
            shared.arm(after);
        }
        // A run that asks for the next one at once lets other tasks go first.
        tokio::task::yield_now().await;
    }
}
