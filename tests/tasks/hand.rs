//! An executor that does what a test says: it polls a future when asked, and counts its wakers'
//! calls. A test that waits for nothing by itself cannot hang: a task that is not ready and was not
//! woken is a failure.
#![allow(dead_code, reason = "each module uses its part")]

use crate::common::fuse::{Place, paused, reach};
use std::future::{Future, poll_fn};
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

/// What a boxed future of any operation is.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Counts the calls of a waker.
#[derive(Default)]
pub struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A future that is polled by hand.
pub struct Task<'a, T> {
    future: Option<Boxed<'a, T>>,
    wakes: Arc<Wakes>,
    /// Makes the waker of each poll.
    waker: fn(Arc<Wakes>) -> Waker,
    /// Calls of the waker before the last poll.
    seen: usize,
    result: Option<T>,
}

impl<'a, T> Task<'a, T> {
    pub fn new(future: impl Future<Output = T> + Send + 'a) -> Self {
        Self::with_waker(Waker::from, future)
    }

    /// A task with wakers of the test's own, which call [`Wakes`].
    pub fn with_waker(
        waker: fn(Arc<Wakes>) -> Waker,
        future: impl Future<Output = T> + Send + 'a,
    ) -> Self {
        let future = Some(Box::pin(future) as Boxed<'a, T>);
        Self { future, wakes: Arc::default(), waker, seen: 0, result: None }
    }

    /// A task that was polled once, and has to wait.
    pub fn waiting(future: impl Future<Output = T> + Send + 'a) -> Self {
        let mut task = Self::new(future);
        assert!(!task.poll(), "it is ready at once");
        task
    }

    /// Polls once, unless the future is ready; says whether it is. A future that is ready is
    /// dropped.
    pub fn poll(&mut self) -> bool {
        let Some(future) = &mut self.future else { return true };
        self.seen = self.wakes.0.load(SeqCst);
        let waker = (self.waker)(Arc::clone(&self.wakes));
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        // Not a drop by the cache.
        paused(|| drop(waker));
        let Poll::Ready(result) = poll else { return false };
        self.result = Some(result);
        self.future = None;
        true
    }

    /// Whether the waker was called since the last poll.
    pub fn is_woken(&self) -> bool {
        self.wakes.0.load(SeqCst) > self.seen
    }

    pub fn is_ready(&self) -> bool {
        self.future.is_none()
    }

    /// The counter, which lives as long as somebody keeps a waker of the task.
    pub fn wakes(&self) -> Arc<Wakes> {
        Arc::clone(&self.wakes)
    }

    /// Wakers that somebody keeps.
    pub fn wakers(&self) -> usize {
        Arc::strong_count(&self.wakes) - 1
    }

    /// Polls whenever the task was woken, until it is ready.
    pub fn run(&mut self) {
        while !self.poll() {
            assert!(self.is_woken(), "nobody wakes the task");
        }
    }

    /// The result of a task that is ready.
    pub fn result(mut self) -> T {
        self.result.take().expect("it is not ready")
    }

    /// Runs to the end.
    pub fn end(mut self) -> T {
        self.run();
        self.result()
    }
}

/// The result of a future that must be ready at its first poll.
pub fn at_once<T>(future: impl Future<Output = T> + Send) -> T {
    let mut task = Task::new(future);
    assert!(task.poll(), "it waits");
    task.result()
}

/// Is pending so many times, and wakes itself each time.
pub async fn pends(mut times: u32) {
    poll_fn(move |context| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Keeps futures waiting until it is opened.
#[derive(Clone, Default)]
pub struct Gate(pub Arc<Mutex<(bool, Vec<Waker>)>>);

impl Gate {
    pub async fn passed(&self) {
        poll_fn(|context| {
            let (is_open, wakers) = &mut *self.0.lock().unwrap();
            if *is_open {
                return Poll::Ready(());
            }
            wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub fn open(&self) {
        let wakers = {
            let (is_open, wakers) = &mut *self.0.lock().unwrap();
            *is_open = true;
            std::mem::take(wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// A waker each of whose calls is a place of the fuse's, its clones and drops too.
pub fn fused_waker(wakes: Arc<Wakes>) -> Waker {
    let data = Arc::into_raw(wakes).cast();
    #[expect(unsafe_code, reason = "only a waker with a table of its own notices its clones")]
    // SAFETY: the data is a count on `Wakes`, which is what the table's functions expect.
    unsafe {
        Waker::new(data, &FUSED)
    }
}

static FUSED: RawWakerVTable = {
    #[expect(unsafe_code, reason = "the table takes functions of this kind")]
    /// # Safety
    /// `data` is a count on `Wakes`, which the caller keeps.
    unsafe fn clone(data: *const ()) -> RawWaker {
        reach(Place::CloneWaker);
        // SAFETY: the caller promises it.
        unsafe { Arc::increment_strong_count(data.cast::<Wakes>()) };
        RawWaker::new(data, &FUSED)
    }
    #[expect(unsafe_code, reason = "the table takes functions of this kind")]
    /// # Safety
    /// `data` is a count on `Wakes`, which the caller gives up.
    unsafe fn wake(data: *const ()) {
        // SAFETY: the caller promises it.
        let wakes = unsafe { Arc::from_raw(data.cast::<Wakes>()) };
        wakes.wake_by_ref();
        reach(Place::Wake);
    }
    #[expect(unsafe_code, reason = "the table takes functions of this kind")]
    /// # Safety
    /// `data` is a count on `Wakes`, which the caller keeps.
    unsafe fn wake_by_ref(data: *const ()) {
        // SAFETY: the caller promises it; the count is not given up.
        let wakes = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Wakes>()) });
        wakes.wake_by_ref();
        reach(Place::Wake);
    }
    #[expect(unsafe_code, reason = "the table takes functions of this kind")]
    /// # Safety
    /// `data` is a count on `Wakes`, which the caller gives up.
    unsafe fn release(data: *const ()) {
        // SAFETY: the caller promises it.
        let _wakes = unsafe { Arc::from_raw(data.cast::<Wakes>()) };
        reach(Place::DropWaker);
    }
    RawWakerVTable::new(clone, wake, wake_by_ref, release)
};
