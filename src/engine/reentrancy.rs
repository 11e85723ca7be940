//! The stack of user code that runs on this thread: callbacks, loads and computations, deliveries.
//! One stack serves all caches.
//!
//! * A **callback** (hook, weigher, condition) must not write the key that it was asked about: that
//!   write would invalidate the answer, and the operation would ask again without end.
//! * Inside a callback, a load or a computation nothing is **delivered**: a listener or destructor
//!   that writes the key in question would wait for itself. The thread remembers the caches
//!   concerned and delivers when the outermost frame ends.
//! * A **flight** leaves a token on the stack while its owner's code runs. A wait for a flight
//!   whose token is on this stack can never end, so it panics. Tokens, not thread ids, name the
//!   owner: two tasks that share a thread may wait for each other's flights. A call that loads many
//!   keys leaves one token for all its flights.
//! * A **cancelled** flight leaves its token on the stack while its owner's future is dropped. The
//!   flight is still on the board, and other threads wait for it. An operation on this stack takes
//!   the flight off the board instead.
//! * Deliveries of one cache do not nest: the outer delivery takes over what an inner one causes.
//!   So no chain of listeners and destructors grows the stack.
//!
//! An operation that runs outside of all callbacks reads one number of its thread.

use crate::executor::Running;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::primitives::atomic::Ordering::Relaxed;
use crate::primitives::guarded::GuardedBool;
use crate::primitives::plain::{Mutex, PoisonError};
use crate::primitives::{catch_user_panic, seeded};
use hashbrown::HashTable;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::ptr::NonNull;
use std::sync::Weak;

/// A reload that waits for its thread. If it is dropped, a later read triggers another one.
pub type DeferredReload = Box<dyn Any + Send>;

/// A cache that can deliver later.
pub trait Deliver: Send + Sync {
    /// Delivers notifications and drops reclaimed values, as much as a caller does after an
    /// operation. Then starts these reloads. Inside of another such call, that is left to the
    /// outermost one.
    fn deliver_some(&self, reloads: Vec<DeferredReload>, is_outermost: bool);

    /// The same for a job of the executor, which does more at a time.
    fn deliver_job(&self, running: Running);
}

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
    /// A callback, about whose key's node the caller has a count.
    Callback(Subject),
    /// A read hook, about a node that the caller's guard protects. The caller delivers what this
    /// frame deferred when it has dropped the guard.
    ReadHook(Subject),
    /// A load or a computation, until its end.
    Flight(FlightToken),
    /// One poll of the future of a load or a computation. What it defers waits for the end of the
    /// flight, on whatever thread that is. An operation of the cache in question may deliver
    /// before.
    Poll(FlightToken),
    /// A delivery ([`ReentrancyMark::delivery`]).
    Delivery(CacheId),
    /// The end of a load, a computation or a reload, until all that belongs to it is over:
    /// deliveries come after that.
    Ending,
    /// The drop of the owner's future, before it was ready and before its flight ends. The
    /// destructors may use the key ([`cancels`]). The end of the flight comes next, and delivers.
    Cancelling(FlightToken),
    /// A poll of the cache's listeners that await.
    Telling(CacheId),
    /// A poll of a task's operation, which must not block its thread for another one.
    Task,
}

impl Frame {
    /// Whether deliveries wait until this frame has ended.
    fn defers_deliveries(self) -> bool {
        !matches!(self, Self::Delivery(_) | Self::Telling(_) | Self::Task)
    }

    /// Whether the end of this frame delivers what waits, if it is the outermost one.
    fn delivers_at_its_end(self) -> bool {
        matches!(self, Self::Callback(_) | Self::Flight(_) | Self::Ending)
    }

    fn is_callback(self) -> bool {
        matches!(self, Self::Callback(_) | Self::ReadHook(_))
    }
}

/// A cache that delivers later, and the reloads that it starts then. These keep their nodes, and so
/// the old values, also if the cache ends before.
pub struct Deferred {
    cache: Weak<dyn Deliver>,
    reloads: Vec<DeferredReload>,
}

impl Deferred {
    pub fn new(cache: &Weak<dyn Deliver>, reloads: Vec<DeferredReload>) -> Self {
        Self { cache: Weak::clone(cache), reloads }
    }

    fn deliver(self, is_outermost: bool) {
        let Some(cache) = self.cache.upgrade() else { return };
        let deliver = || cache.deliver_some(self.reloads, is_outermost);
        if std::thread::panicking() {
            // A second panic, of a clock of the user's, would abort the process.
            catch_user_panic(deliver);
        } else {
            deliver();
        }
    }

    /// Adds it to a list that has one for each cache.
    fn add_to(mut self, list: &mut Vec<Self>) {
        match list.iter_mut().find(|known| Weak::ptr_eq(&known.cache, &self.cache)) {
            Some(known) => known.reloads.append(&mut self.reloads),
            None => list.push(self),
        }
    }
}

// The first frame has a cell of its own without a destructor. Most stacks are one frame high, so
// most frames cost a few instructions. The cell also outlives the thread's other locals.
crate::primitives::thread_cells! {
    static FIRST: Cell<Option<Frame>> = Cell::new(None);
    static HAS_DEFERRED: Cell<bool> = Cell::new(false);
    /// While this thread delivers what was deferred: how many reloads it has started.
    static STARTED: Cell<Option<usize>> = Cell::new(None);
    /// Callbacks among the frames.
    static CALLBACKS: Cell<u32> = Cell::new(0);
}
crate::primitives::thread_local! {
    static REST: RefCell<Vec<Frame>> = RefCell::default();
    static DEFERRED: RefCell<Vec<Deferred>> = RefCell::default();
}

/// A frame on the stack; dropping it pops the frame. It stays on its thread.
#[must_use]
pub struct ReentrancyMark {
    frame: Frame,
    is_first: bool,
    _stays: PhantomData<*const ()>,
}

impl ReentrancyMark {
    /// A delivery. `None` if this thread is already delivering for this cache, or is destroying its
    /// locals; another thread or a later call delivers then.
    pub fn delivery(cache: CacheId) -> Option<Self> {
        let frame = Frame::Delivery(cache);
        if any(|other| *other == frame).unwrap_or(true) {
            return None;
        }
        Self::push(frame)
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
        if !has_deferred() {
            return;
        }
        match self.frame {
            Frame::Poll(flight) => leave_to(flight),
            frame if frame.delivers_at_its_end() => deliver_deferred(),
            _ => {}
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
        Frame::Callback(subject) | Frame::ReadHook(subject)
            if (subject.cache, subject.hash) == (cache, hash) =>
        {
            Some(subject.id)
        }
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

/// Whether this thread runs the code of the flight's owner.
pub fn runs_owner_of(token: FlightToken) -> bool {
    any(|frame| [Frame::Flight(token), Frame::Poll(token)].contains(frame)).unwrap_or(false)
}

/// Whether this thread drops the future of the flight's owner.
pub fn cancels(token: FlightToken) -> bool {
    any(|frame| *frame == Frame::Cancelling(token)).unwrap_or(false)
}

/// Whether deliveries on this thread have to wait.
pub fn defers_deliveries() -> bool {
    any(|frame| frame.defers_deliveries()).unwrap_or(true)
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
    any(|frame| !matches!(frame, Frame::Task | Frame::Telling(_))).unwrap_or(true)
}

/// Whether the stack of this thread has any frame.
pub fn is_anything_under_way() -> bool {
    any(|_| true).unwrap_or(true)
}

/// Remembers what is deferred for the end of the outermost callback, load or computation.
pub fn defer_delivery(deferred: Deferred) {
    let _ = DEFERRED.try_with(|list| {
        deferred.add_to(&mut list.borrow_mut());
        let _ = HAS_DEFERRED.try_with(|has| has.set(true));
    });
}

/// Whether this thread has deferred deliveries.
#[inline]
pub fn has_deferred() -> bool {
    HAS_DEFERRED.try_with(Cell::get).unwrap_or(false)
}

/// What polls have deferred, and the flights at whose ends it is due: the next poll may be on
/// another thread. It has one entry for each pending flight that was put off.
static LEFT: Mutex<HashTable<Left>> = Mutex::new(HashTable::new());
/// Whether there is anything. A flight that has left something was polled before by who ends it, so
/// that one sees it; others may see an older answer.
static HAS_LEFT: GuardedBool = GuardedBool::new(false);

struct Left {
    flight: FlightToken,
    /// One for each cache.
    deferred: Vec<Deferred>,
}

/// A flight's place in the table.
fn place_of(flight: FlightToken) -> u64 {
    // The low bits of addresses are all the same, and so are the product's.
    (flight.0.get() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes()
}

/// Leaves what this thread has deferred to the end of this flight, unless a frame still defers it,
/// or a view does. Operations of the cache in question may deliver before.
#[cold]
fn leave_to(flight: FlightToken) {
    if defers_deliveries() || crate::epoch::is_pinned() {
        return;
    }
    let _ = HAS_DEFERRED.try_with(|has| has.set(false));
    let list = DEFERRED.try_with(RefCell::take).unwrap_or_default();
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let (place, hash) = (place_of(flight), |left: &Left| place_of(left.flight));
    let entry = left.entry(place, |left| left.flight == flight, hash);
    let mut entry = entry.or_insert_with(|| Left { flight, deferred: Vec::new() });
    let known = &mut entry.get_mut().deferred;
    list.into_iter().for_each(|deferred| deferred.add_to(known));
    HAS_LEFT.store(true, Relaxed);
}

/// Has this thread do what polls of this flight have left. The flight ends.
#[inline]
pub fn take_up_from(flight: FlightToken) {
    if HAS_LEFT.load(Relaxed) {
        take_up_slow(flight);
    }
}

#[cold]
fn take_up_slow(flight: FlightToken) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    let own = left.find_entry(place_of(flight), |left| left.flight == flight);
    let Ok(own) = own.map(|own| own.remove().0) else { return };
    HAS_LEFT.store(!left.is_empty(), Relaxed);
    drop(left);
    own.deferred.into_iter().for_each(defer_delivery);
}

/// Delivers what was deferred, unless a frame still defers it.
///
/// A reload may defer others. The outermost call of this starts those, too. So a chain of them does
/// not grow the stack.
#[cold]
pub fn deliver_deferred() {
    if defers_deliveries() {
        return;
    }
    let outermost = Outermost::begin();
    loop {
        let _ = HAS_DEFERRED.try_with(|has| has.set(false));
        let list = DEFERRED.try_with(RefCell::take).unwrap_or_default();
        list.into_iter().for_each(|deferred| deferred.deliver(outermost.is_some()));
        if outermost.is_none() || !has_deferred() || crate::epoch::is_pinned() {
            return;
        }
    }
}

/// The outermost call of [`deliver_deferred`] on this thread.
struct Outermost;

impl Outermost {
    /// `None` if there is one already.
    fn begin() -> Option<Self> {
        let before = STARTED.try_with(|started| started.replace(started.get().or(Some(0)))).ok()?;
        before.is_none().then(|| Self)
    }
}

impl Drop for Outermost {
    fn drop(&mut self) {
        let _ = STARTED.try_with(|started| started.set(None));
    }
}

/// Counts a deferred reload that the outermost call starts. False if it has started `limit` of
/// them: two loaders that read each other's keys might go on for ever.
pub fn may_start_another(limit: usize) -> bool {
    let count = |started: &Cell<Option<usize>>| {
        let before = started.get().unwrap_or(0);
        started.set(Some(before + 1));
        before < limit
    };
    STARTED.try_with(count).unwrap_or(false)
}
