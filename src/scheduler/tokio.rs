//! A scheduler on a tokio runtime: one task for each client, which sleeps by the runtime's clock.
//!
//! The rules of the [thread](super) hold, but for these: the task serves one client; deadlines are
//! the runtime's; a task whose runtime shuts down ends, and nothing runs the client any more.
//!
//! **Paused time** advances to the next deadline as soon as all tasks of the runtime wait. So only
//! what is to happen at a time of the runtime's is a deadline here. A client that waits for other
//! threads asks to be run [within real time](Alarm::come_back_in_real_time): the thread
//! of the process calls the task then. That thread exists only if there is such a wait.
//!
//! All state is in one mutex, which is held for a few instructions. Under it nothing is called but
//! tokio's timer.

use super::serve::{Registration, Scheduler};
use super::{Alarm, Scheduled};
use crate::clock::RuntimeTime;
use crate::epoch::Grace;
use crate::primitives::plain::OnceLock;
use crate::primitives::plain::Weak;
use crate::primitives::{Arc, Mutex, catch_user_panic};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// When the client runs next, and the task that waits for it.
#[derive(Default)]
struct State {
    /// `None` means that the client is not armed.
    armed: Option<Instant>,
    /// Whether the client is to run at once. (A deadline, even one that has come, is rounded up to
    /// a millisecond of the runtime's.)
    is_called: bool,
    is_cancelled: bool,
    waker: Option<Waker>,
}

struct Shared {
    time: RuntimeTime,
    state: Mutex<State>,
}

/// A client's registration with its task. Dropping it ends the task.
#[must_use = "dropping a registration deregisters the client"]
pub struct TaskRegistration {
    shared: Arc<Shared>,
    /// The task's place with the thread of the process; `None` if there is no thread to be had.
    real_time: OnceLock<Option<Registration>>,
}

impl TaskRegistration {
    /// Spawns the client's task on the runtime. The client is not armed yet.
    pub fn spawn(time: RuntimeTime, client: Weak<dyn Scheduled>) -> Self {
        let runtime = time.runtime().clone();
        let shared = Arc::new(Shared { time, state: Mutex::new(State::default()) });
        let task = serve(Arc::clone(&shared), client);
        drop(runtime.spawn(task));
        Self { shared, real_time: OnceLock::new() }
    }

    fn real_time(&self) -> Option<&Registration> {
        let task = || Arc::downgrade(&self.shared) as Weak<dyn Scheduled>;
        self.real_time.get_or_init(|| Scheduler::global().register(task()).ok()).as_ref()
    }
}

impl Alarm for TaskRegistration {
    fn wake_within(&self, after: Duration) {
        self.shared.arm(after);
    }

    fn come_back_in_real_time(&self, after: Duration) -> Option<Duration> {
        match self.real_time() {
            Some(registration) => registration.wake_within(after),
            None => self.wake_within(after),
        }
        None
    }

    /// The thread of the process looks after that.
    fn wake_after(&self, grace: Grace) {
        if let Some(registration) = self.real_time() {
            registration.wake_after(grace);
        }
    }

    /// Ends the task.
    fn cancel(&self) {
        self.shared.change(|state| state.is_cancelled = true);
        if let Some(Some(registration)) = self.real_time.get() {
            registration.cancel();
        }
    }
}

impl Drop for TaskRegistration {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// What the thread of the process does for the task: it calls it.
impl Scheduled for Shared {
    fn run(&self) -> Option<Duration> {
        self.arm(Duration::ZERO);
        None
    }
}

impl Shared {
    fn arm(&self, after: Duration) {
        if after.is_zero() {
            return self.change(|state| state.is_called = true);
        }
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
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ready when the armed deadline has come. Disarms the client then. False if it is cancelled.
    fn poll_due(&self, mut sleep: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.state.lock();
        if state.is_cancelled {
            return Poll::Ready(false);
        }
        let has_come = |at| {
            if sleep.deadline() != at {
                sleep.as_mut().reset(at);
            }
            sleep.as_mut().poll(context).is_ready()
        };
        if std::mem::take(&mut state.is_called) || state.armed.is_some_and(has_come) {
            state.armed = None;
            return Poll::Ready(true);
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
        // The closure drops the client, which may be the last handle.
        let next = catch_user_panic(move || client.run()).flatten();
        if let Some(after) = next {
            shared.arm(after);
        }
        // A run that asks for the next one at once lets other tasks go first.
        tokio::task::yield_now().await;
    }
}
