//! The stack of user code that runs on this thread: callbacks, loads and computations, deliveries.
//! One stack serves all caches.
//!
//! * A **callback** (hook, weigher, condition) must not write the key that it was asked about: that
//!   write would invalidate the answer, and the operation would ask again without end.
//! * Inside a callback, a load or a computation nothing is **delivered**: a listener or destructor
//!   that writes the key in question would wait for itself. Later operations on the cache deliver,
//!   or its scheduler. Nor does a **reload** begin there, in a listener or under a view.
//! * A **flight** leaves a token on the stack while its owner's code runs. A wait for a flight
//!   whose token is on this stack can never end, so it panics. Tokens, not thread ids, name the
//!   owner: two tasks that share a thread may wait for each other's flights. A call that loads many
//!   keys leaves one token for all its flights.
//! * A **cancelled** flight leaves its token on the stack while its owner's future is dropped. The
//!   flight is still on the board, and other threads wait for it. An operation on this stack takes
//!   the flight off the board instead.
//! * A **turn** is a poll of another task inside of this stack: an executor may run a job at once,
//!   and so may a waker. That task may wait for the flights of the frames below, since they go on
//!   without it.
//! * Deliveries of one cache do not nest: the outer delivery takes over what an inner one causes.
//!   So no chain of listeners and destructors grows the stack.
//!
//! An operation that runs outside of all callbacks reads one number of its thread.

use crate::hash::Hash32;
use crate::links::NodeId;
use crate::primitives::seeded;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

/// Tells caches apart, as long as they exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheId(usize);

impl CacheId {
    /// The identity of the cache whose state is at this address.
    pub fn of<T>(state: &T) -> Self {
        Self(std::ptr::from_ref(state).addr())
    }
}

/// Tells the owners of flights apart, as long as their flights exist. Loads of one call have the
/// token of the first of them, and the call keeps that one until the others have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlightToken(NonZeroUsize);

impl FlightToken {
    /// The token of the flight whose state is at this address.
    pub fn of<T>(state: &T) -> Self {
        Self(NonNull::from(state).addr())
    }
}

/// A callback about the key of a node. The caller holds a count on the node, or a guard protects
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    pub cache: CacheId,
    pub hash: Hash32,
    pub id: NodeId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A callback about this key.
    Callback(Subject),
    /// A load or a computation: until its end, or one poll of its future.
    Flight(FlightToken),
    /// A delivery.
    Delivery(CacheId),
    /// The drop of the owner's future, before it was ready and before its flight ends. The
    /// destructors may use the key ([`cancels`]).
    Cancelling(FlightToken),
    /// A poll of the cache's listeners that await.
    Telling(CacheId),
    /// A poll of a task's operation, which must not block its thread for another one.
    Task,
    /// A turn of another task.
    Turn,
    /// The hand-over of reloads to an executor, which may run them at once.
    HandingOn(CacheId),
}

impl Frame {
    /// Whether nothing is delivered in this frame.
    fn bars_deliveries(self) -> bool {
        use Frame::{Delivery, HandingOn, Task, Telling, Turn};
        !matches!(self, Delivery(_) | Telling(_) | Task | Turn | HandingOn(_))
    }

    fn is_callback(self) -> bool {
        matches!(self, Self::Callback(_))
    }
}

// The first frame has a cell of its own without a destructor. Most stacks are one frame high, so
// most frames cost a few instructions. The cell also outlives the thread's other locals.
crate::primitives::thread_cells! {
    static FIRST: Cell<Option<Frame>> = Cell::new(None);
    /// Callbacks among the frames.
    static CALLBACKS: Cell<u32> = Cell::new(0);
}
crate::primitives::thread_local! {
    static REST: RefCell<Vec<Frame>> = RefCell::default();
}

/// A frame on the stack; dropping it pops the frame. It stays on its thread.
#[must_use]
pub struct ReentrancyMark {
    frame: Frame,
    is_first: bool,
    _stays: PhantomData<*const ()>,
}

impl ReentrancyMark {
    /// `None` if this thread is inside of such a frame already, which goes on with what this one
    /// would do, or destroys its locals: then another thread or a later call does it.
    pub fn push_once(frame: Frame) -> Option<Self> {
        if any(|other| *other == frame).unwrap_or(true) { None } else { Self::push(frame) }
    }

    /// `None` while the thread destroys its locals.
    #[inline]
    pub fn push(frame: Frame) -> Option<Self> {
        let is_first = FIRST.try_with(|first| {
            let is_first = first.get().is_none();
            if is_first {
                first.set(Some(frame));
            }
            is_first
        });
        let is_first = is_first.ok()?;
        if !is_first {
            push_above(frame)?;
        }
        if frame.is_callback() {
            let _ = CALLBACKS.try_with(|count| count.set(count.get() + 1));
        }
        Some(Self { frame, is_first, _stays: PhantomData })
    }

    #[cold]
    fn pop_above(&self) {
        let popped = REST.try_with(|frames| frames.borrow_mut().pop());
        debug_assert!(popped.map_or(true, |popped| popped == Some(self.frame)), "a stack");
    }
}

#[cold]
fn push_above(frame: Frame) -> Option<()> {
    let pushed = REST.try_with(|frames| frames.borrow_mut().push(frame));
    pushed.inspect_err(|_| assert!(!seeded("locals-outlive-their-threads"))).ok()
}

impl Drop for ReentrancyMark {
    #[inline]
    fn drop(&mut self) {
        if self.frame.is_callback() {
            let _ = CALLBACKS.try_with(|count| count.set(count.get() - 1));
        }
        if self.is_first {
            let _ = FIRST.try_with(|first| first.set(None));
        } else {
            self.pop_above();
        }
    }
}

/// Whether any frame of this thread satisfies the predicate; `None` while the thread destroys its
/// locals.
fn any(is_such: impl Fn(&Frame) -> bool) -> Option<bool> {
    if FIRST.try_with(Cell::get).ok()?.is_some_and(|first| is_such(&first)) {
        return Some(true);
    }
    REST.try_with(|frames| frames.borrow().iter().any(is_such)).ok()
}

/// Whether this thread is inside a callback of any cache.
#[inline(always)]
pub fn is_in_callback() -> bool {
    CALLBACKS.try_with(Cell::get).unwrap_or(0) > 0
}

/// Nodes of the cache about whose keys, with this hash, callbacks on this thread were asked.
#[cold]
pub fn asked_about(cache: CacheId, hash: Hash32) -> Vec<NodeId> {
    let ours = |frame: Frame| match frame {
        Frame::Callback(it) => ((it.cache, it.hash) == (cache, hash)).then_some(it.id),
        _ => None,
    };
    let first = FIRST.try_with(Cell::get).ok().flatten();
    let rest = REST.try_with(|frames| frames.borrow().clone()).unwrap_or_default();
    first.into_iter().chain(rest).filter_map(ours).collect()
}

/// How many frames the stack of this thread has.
#[cfg(all(test, feature = "internals", not(cortado_loom)))]
pub fn frames() -> usize {
    let rest = REST.with(|frames| frames.borrow().len());
    usize::from(FIRST.with(|first| first.get().is_some())) + rest
}

/// Whether this thread runs the code of the flight's owner: then that ends no sooner than a wait of
/// this thread.
pub fn runs_owner_of(token: FlightToken) -> bool {
    any(|frame| *frame == Frame::Flight(token)).unwrap_or(false)
}

/// Whether this thread runs the code of the flight's owner in the innermost turn: then that ends no
/// sooner than a wait of the task that is being polled.
pub fn polls_owner_of(token: FlightToken) -> bool {
    let first = FIRST.try_with(Cell::get).ok().flatten();
    let is_innermost = |frames: &RefCell<Vec<Frame>>| {
        let frames = frames.borrow();
        let mut inwards = frames.iter().copied().rev().chain(first);
        inwards.find(|it| [Frame::Turn, Frame::Flight(token)].contains(it))
            == Some(Frame::Flight(token))
    };
    REST.try_with(is_innermost).unwrap_or(false)
}

/// Whether this thread drops the future of the flight's owner.
pub fn cancels(token: FlightToken) -> bool {
    any(|frame| *frame == Frame::Cancelling(token)).unwrap_or(false)
}

/// Whether this thread must not deliver now.
pub fn bars_deliveries() -> bool {
    any(|frame| frame.bars_deliveries()).unwrap_or(true)
}

/// Whether this thread runs a listener of this cache, or polls one that awaits.
pub fn notifies(cache: CacheId) -> bool {
    let own = [Frame::Delivery(cache), Frame::Telling(cache)];
    any(|frame| own.contains(frame)).unwrap_or(false)
}

/// Whether this thread polls a listener that awaits, of any cache. Such a listener waits for no
/// other one: two of them might wait for each other.
pub fn tells() -> bool {
    any(|frame| matches!(frame, Frame::Telling(_))).unwrap_or(false)
}

/// Whether user code runs on this thread, beside the tasks and the listeners that are being polled.
pub fn is_in_user_code() -> bool {
    use Frame::{HandingOn, Task, Telling, Turn};
    any(|frame| !matches!(frame, Task | Turn | HandingOn(_) | Telling(_))).unwrap_or(true)
}

/// Whether this thread hands reloads of this cache on: no other thread does.
pub fn hands_on(cache: CacheId) -> bool {
    any(|frame| *frame == Frame::HandingOn(cache)).unwrap_or(true)
}

/// Whether a reload may begin on this thread: it runs no code of the user's whose locks the loader
/// may want, and holds no view, which would hold memory back meanwhile.
pub fn may_reload() -> bool {
    !is_in_user_code() && !tells() && !crate::epoch::is_pinned()
}

/// Whether the stack of this thread has any frame.
pub fn is_anything_under_way() -> bool {
    any(|_| true).unwrap_or(true)
}
