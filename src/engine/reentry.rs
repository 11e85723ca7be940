//! What this thread is in the middle of: callbacks, loads and computations, deliveries. One stack
//! for all caches.
//!
//! * A **callback** (hook, weigher, condition) must not write the key that it was asked about: the
//!   operation that asked would find its answer outdated, again and again.
//! * Inside a callback, a load or a computation nothing is **delivered**: a listener or a
//!   destructor that writes the key in question would wait for itself. The caches are noted, and
//!   delivered when the outermost has ended.
//! * A delivery does not nest in another of the same cache: what it causes is left to the outer
//!   one, so that no chain of listeners and destructors grows the stack.
//!
//! An operation that is in nobody's callback looks at one number of its thread.

use super::core::Core;
use crate::executor::Running;
use crate::sync::seeded;
use std::cell::{Cell, RefCell};
use std::sync::Weak;

/// A cache whose delivery was put off.
pub trait Deliver: Send + Sync {
    /// Delivers notifications and drops what passes took out, as much as a caller does in passing.
    fn deliver_some(&self);

    /// The same for a job of the executor's, which goes on for longer.
    fn deliver_job(&self, running: Running);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Of the cache whose core is there, about the key of this node, which its frame's owner keeps.
    Callback {
        core: usize,
        hash: u32,
        id: u32,
    },
    /// The same of a read, whose guard is held.
    ReadHook {
        core: usize,
        hash: u32,
        id: u32,
    },
    Flight,
    Delivery {
        core: usize,
    },
}

impl Frame {
    /// Whether nothing is delivered meanwhile.
    fn puts_deliveries_off(self) -> bool {
        !matches!(self, Self::Delivery { .. })
    }

    fn holds_a_guard(self) -> bool {
        matches!(self, Self::ReadHook { .. })
    }

    fn is_callback(self) -> bool {
        matches!(self, Self::Callback { .. } | Self::ReadHook { .. })
    }
}

// The first frame has a place of its own, which has no destructor: most stacks are one frame high,
// and so cost a few instructions. Thus it also outlives the thread's other locals.
crate::sync::thread_cells! {
    static FIRST: Cell<Option<Frame>> = Cell::new(None);
    static HAS_PUT_OFF: Cell<bool> = Cell::new(false);
    /// Callbacks among the frames.
    static CALLBACKS: Cell<u32> = Cell::new(0);
}
crate::sync::thread_local! {
    static REST: RefCell<Vec<Frame>> = RefCell::default();
    static PUT_OFF: RefCell<Vec<Weak<dyn Deliver>>> = RefCell::default();
}

fn address(core: &Core) -> usize {
    std::ptr::from_ref(core).addr()
}

/// Something that this thread is in the middle of, until it is dropped.
#[must_use]
pub struct Mark {
    frame: Frame,
    is_first: bool,
}

impl Mark {
    /// A callback about the key of a node, on which the caller has a count.
    #[inline]
    pub fn callback(core: &Core, hash: u32, id: u32) -> Option<Self> {
        Self::push(Frame::Callback { core: address(core), hash, id })
    }

    /// A read hook about the key of a node, which the caller's guard protects. What it puts off is
    /// delivered by whoever lets go of the guard.
    #[inline]
    pub fn read_hook(core: &Core, hash: u32, id: u32) -> Option<Self> {
        Self::push(Frame::ReadHook { core: address(core), hash, id })
    }

    /// A load or a computation.
    pub fn flight() -> Option<Self> {
        Self::push(Frame::Flight)
    }

    /// A delivery; `None` if one of this cache is under way on this thread, or its locals are being
    /// destroyed and somebody else will see to it.
    pub fn delivery(core: &Core) -> Option<Self> {
        let frame = Frame::Delivery { core: address(core) };
        if any(|other| *other == frame).unwrap_or(true) {
            return None;
        }
        Self::push(frame)
    }

    #[inline]
    fn push(frame: Frame) -> Option<Self> {
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
        Some(Self { frame, is_first })
    }
}

#[cold]
fn push_above(frame: Frame) -> Option<()> {
    let pushed = REST.try_with(|frames| frames.borrow_mut().push(frame));
    pushed.inspect_err(|_| assert!(!seeded("locals-outlive-their-threads"))).ok()
}

impl Drop for Mark {
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
        let delivers = self.frame.puts_deliveries_off() && !self.frame.holds_a_guard();
        if delivers && has_put_off() {
            deliver_put_off();
        }
    }
}

impl Mark {
    #[cold]
    fn pop_above(&self) {
        let popped = REST.try_with(|frames| frames.borrow_mut().pop());
        debug_assert!(popped.map_or(true, |popped| popped == Some(self.frame)), "a stack");
    }
}

/// Whether a frame of this thread is such a one; `None` while its locals are being destroyed.
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

/// Nodes about whose keys, with this hash, this thread is inside a callback of the cache.
#[cold]
pub fn asked_about(core: &Core, hash: u32) -> Vec<u32> {
    let ours = |frame: Frame| match frame {
        Frame::Callback { core: of, hash: at, id } | Frame::ReadHook { core: of, hash: at, id }
            if (of, at) == (address(core), hash) =>
        {
            Some(id)
        }
        _ => None,
    };
    let first = FIRST.try_with(Cell::get).ok().flatten();
    let rest = REST.try_with(|frames| frames.borrow().clone()).unwrap_or_default();
    first.into_iter().chain(rest).filter_map(ours).collect()
}

/// Whether nothing may be delivered on this thread now.
pub fn puts_deliveries_off() -> bool {
    any(|frame| frame.puts_deliveries_off()).unwrap_or(true)
}

/// Whether this thread is delivering for this cache.
pub fn delivers(core: &Core) -> bool {
    let frame = Frame::Delivery { core: address(core) };
    any(|other| *other == frame).unwrap_or(false)
}

/// Whether this thread is in the middle of anything.
pub fn is_anything_under_way() -> bool {
    FIRST.try_with(|first| first.get().is_some()).unwrap_or(true) || any(|_| true).unwrap_or(true)
}

/// Notes a cache for the end of the outermost callback, load or computation.
pub fn put_off(cache: &Weak<dyn Deliver>) {
    let _ = PUT_OFF.try_with(|put_off| {
        let mut put_off = put_off.borrow_mut();
        if !put_off.iter().any(|noted| Weak::ptr_eq(noted, cache)) {
            put_off.push(Weak::clone(cache));
        }
        let _ = HAS_PUT_OFF.try_with(|has| has.set(true));
    });
}

/// Whether deliveries were put off and are not yet made up for.
#[inline]
pub fn has_put_off() -> bool {
    HAS_PUT_OFF.try_with(Cell::get).unwrap_or(false)
}

/// Makes up for deliveries that were put off, unless they still are.
#[cold]
pub fn deliver_put_off() {
    if puts_deliveries_off() {
        return;
    }
    let _ = HAS_PUT_OFF.try_with(|has| has.set(false));
    let caches = PUT_OFF.try_with(RefCell::take).unwrap_or_default();
    for cache in caches {
        if let Some(cache) = cache.upgrade() {
            cache.deliver_some();
        }
    }
}
