//! `tokio::time::sleep`: a future for each id, which tokio keeps in a hierarchical wheel of
//! milliseconds. As in a program, each has a waker of its own, that of the task which sleeps.

use super::Timers;
use super::queue::RUNTIME;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::runtime::EnterGuard;
use tokio::time::{Instant, Sleep, sleep_until};

/// The ids that were woken.
#[derive(Default)]
struct Woken(Mutex<Vec<u32>>);

/// Stands for a task.
struct Task {
    id: u32,
    woken: Arc<Woken>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.id);
    }
}

/// The sleeps by id, and the runtime that they must be used in.
pub struct Sleeps {
    sleeps: Vec<Option<Pin<Box<Sleep>>>>,
    wakers: Vec<Waker>,
    woken: Arc<Woken>,
    start: Instant,
    now: u64,
    _entered: EnterGuard<'static>,
}

impl Sleeps {
    fn instant(&self, deadline: u64) -> Instant {
        self.start + Duration::from_nanos(deadline)
    }

    /// A sleep is not in the wheel before its first poll.
    fn poll(&mut self, id: u32) -> bool {
        let mut context = Context::from_waker(&self.wakers[id as usize]);
        let sleep = self.sleeps[id as usize].as_mut();
        sleep.is_some_and(|sleep| sleep.as_mut().poll(&mut context) == Poll::Ready(()))
    }
}

impl Timers for Sleeps {
    const NAME: &'static str = "tokio::time::sleep";
    const LATENESS: u64 = 2_000_000;
    /// The future's box, and the task, which is there anyway.
    const USERS: usize = size_of::<Option<Pin<Box<Sleep>>>>()
        + size_of::<Waker>()
        + 2 * size_of::<usize>()
        + size_of::<Task>();

    type Key = u32;

    fn new(ids: u32) -> Self {
        let entered = RUNTIME.enter();
        let woken = Arc::new(Woken::default());
        let task = |id| Waker::from(Arc::new(Task { id, woken: Arc::clone(&woken) }));
        Self {
            sleeps: (0..=ids).map(|_| None).collect(),
            wakers: (0..=ids).map(task).collect(),
            woken,
            start: Instant::now(),
            now: 0,
            _entered: entered,
        }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> u32 {
        let sleep = Box::pin(sleep_until(self.instant(deadline)));
        self.sleeps[id as usize] = Some(sleep);
        self.poll(id);
        id
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.sleeps[id as usize] = None;
    }

    #[inline]
    fn reschedule(&mut self, (id, _): (u32, u32), deadline: u64) -> u32 {
        let deadline = self.instant(deadline);
        if let Some(sleep) = &mut self.sleeps[id as usize] {
            sleep.as_mut().reset(deadline);
        }
        self.poll(id);
        id
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        RUNTIME.block_on(tokio::time::advance(Duration::from_nanos(now - self.now)));
        self.now = now;
        let woken =
            std::mem::take(&mut *self.woken.0.lock().unwrap_or_else(PoisonError::into_inner));
        for id in woken {
            // It may have been cancelled, or given a later deadline, since.
            if self.poll(id) {
                self.sleeps[id as usize] = None;
                due(id);
            }
        }
    }
}
