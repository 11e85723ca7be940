//! What this thread is in the middle of: callbacks, loads and computations, deliveries. One stack for all caches.
//!
//! * A **callback** (hook, weigher, condition) must not write the key that it was asked about: the operation that asked
//!   would find its answer outdated, again and again.
//! * Inside a callback, a load or a computation nothing is **delivered**: a listener or a destructor that writes the key in
//!   question would wait for itself. The caches are noted, and delivered when the outermost has ended.
//! * A delivery does not nest in another of the same cache: what it causes is left to the outer one, so that no chain of
//!   listeners and destructors grows the stack.
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

    fn is_callback(self) -> bool {
        matches!(self, Self::Callback { .. } | Self::ReadHook { .. })
    }
}

crate::sync::thread_local! {
    static FRAMES: RefCell<Vec<Frame>> = RefCell::default();
    static PUT_OFF: RefCell<Vec<Weak<dyn Deliver>>> = RefCell::default();
    /// Callbacks among the frames.
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
}

fn address(core: &Core) -> usize {
    std::ptr::from_ref(core).addr()
}

/// Something that this thread is in the middle of, until it is dropped.
#[must_use]
pub struct Mark(Frame);

impl Mark {
    /// A callback about the key of a node, on which the caller has a count.
    pub fn callback(core: &Core, hash: u32, id: u32) -> Option<Self> {
        Self::push(Frame::Callback { core: address(core), hash, id })
    }

    /// A read hook about the key of a node, which the caller's guard protects. What it puts off is delivered by whoever
    /// lets go of the guard.
    pub fn read_hook(core: &Core, hash: u32, id: u32) -> Option<Self> {
        Self::push(Frame::ReadHook { core: address(core), hash, id })
    }

    /// A load or a computation.
    pub fn flight() -> Option<Self> {
        Self::push(Frame::Flight)
    }

    /// A delivery; `None` if one of this cache is under way on this thread, or its locals are being destroyed and
    /// somebody else will see to it.
    pub fn delivery(core: &Core) -> Option<Self> {
        let frame = Frame::Delivery { core: address(core) };
        if frames(|frames| frames.contains(&frame)).unwrap_or(true) {
            return None;
        }
        Self::push(frame)
    }

    fn push(frame: Frame) -> Option<Self> {
        let pushed = FRAMES.try_with(|frames| frames.borrow_mut().push(frame));
        pushed.inspect_err(|_| assert!(!seeded("locals-outlive-their-threads"))).ok()?;
        if frame.is_callback() {
            let _ = CALLBACKS.try_with(|count| count.set(count.get() + 1));
        }
        Some(Self(frame))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if self.0.is_callback() {
            let _ = CALLBACKS.try_with(|count| count.set(count.get() - 1));
        }
        let outermost = FRAMES.try_with(|frames| {
            let mut frames = frames.borrow_mut();
            let top = frames.pop();
            debug_assert_eq!(top, Some(self.0), "marks end in the order of a stack");
            self.0.puts_deliveries_off() && !frames.iter().any(|frame| frame.puts_deliveries_off())
        });
        if outermost.unwrap_or(false) && !matches!(self.0, Frame::ReadHook { .. }) {
            deliver_put_off();
        }
    }
}

fn frames<T>(look: impl FnOnce(&[Frame]) -> T) -> Option<T> {
    FRAMES.try_with(|frames| look(&frames.borrow())).ok()
}

/// Whether this thread is inside a callback of any cache.
#[inline(always)]
pub fn is_in_callback() -> bool {
    CALLBACKS.try_with(Cell::get).unwrap_or(0) > 0
}

/// Nodes about whose keys, with this hash, this thread is inside a callback of the cache.
pub fn asked_about(core: &Core, hash: u32) -> Vec<u32> {
    let ours = |frame: &Frame| match *frame {
        Frame::Callback { core: of, hash: at, id } | Frame::ReadHook { core: of, hash: at, id }
            if (of, at) == (address(core), hash) =>
        {
            Some(id)
        }
        _ => None,
    };
    frames(|frames| frames.iter().filter_map(ours).collect()).unwrap_or_default()
}

/// Whether nothing may be delivered on this thread now.
pub fn puts_deliveries_off() -> bool {
    frames(|frames| frames.iter().any(|frame| frame.puts_deliveries_off())).unwrap_or(true)
}

/// Whether this thread is delivering for this cache.
pub fn delivers(core: &Core) -> bool {
    let frame = Frame::Delivery { core: address(core) };
    frames(|frames| frames.contains(&frame)).unwrap_or(false)
}

/// Whether this thread is in the middle of anything.
pub fn is_anything_under_way() -> bool {
    frames(|frames| !frames.is_empty()).unwrap_or(true)
}

/// Notes a cache for the end of the outermost callback, load or computation.
pub fn put_off(cache: &Weak<dyn Deliver>) {
    let _ = PUT_OFF.try_with(|put_off| {
        let mut put_off = put_off.borrow_mut();
        if !put_off.iter().any(|noted| Weak::ptr_eq(noted, cache)) {
            put_off.push(Weak::clone(cache));
        }
    });
}

/// Whether deliveries were put off and are not yet made up for.
pub fn has_put_off() -> bool {
    PUT_OFF.try_with(|put_off| !put_off.borrow().is_empty()).unwrap_or(false)
}

/// Makes up for deliveries that were put off, unless they still are.
pub fn deliver_put_off() {
    if puts_deliveries_off() {
        return;
    }
    let caches = PUT_OFF.try_with(RefCell::take).unwrap_or_default();
    for cache in caches {
        if let Some(cache) = cache.upgrade() {
            cache.deliver_some();
        }
    }
}
