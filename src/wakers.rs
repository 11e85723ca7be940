//! The wakers of tasks that wait for one event.
//!
//! A task takes a slot at its first poll and keeps it until it waits no more. So neither a poll nor
//! the end of a wait searches, as both would with `Waker::will_wake`.

use std::task::Waker;

/// The slot of a task. It means something only to the [`Wakers`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakerSlot(u32);

#[derive(Debug)]
enum Slot {
    /// Nobody's. With the next such slot, or [`NONE`].
    Free(WakerSlot),
    /// A task's, with its waker unless that was taken out.
    Held(Option<Waker>),
}

/// No slot.
const NONE: WakerSlot = WakerSlot(u32::MAX);

/// Room for so many tasks stays when none waits any more.
const KEPT: usize = 16;

/// See the [module](self). The owner keeps it under a lock. Wakers are user code, so the owner
/// clones, calls and drops them outside of that lock.
#[derive(Debug)]
pub struct Wakers {
    slots: Vec<Slot>,
    free: WakerSlot,
    /// The slots that tasks hold. When there are none, all slots go: otherwise each event would
    /// look at as many as there ever were.
    held: u32,
}

impl Wakers {
    pub const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, held: 0 }
    }

    /// Keeps a waker in the task's slot; gives the task a slot if it has none. Returns the waker
    /// that was there before.
    #[must_use = "a waker's destructor is user code"]
    pub fn keep(&mut self, slot: &mut Option<WakerSlot>, waker: Waker) -> Option<Waker> {
        let slot = *slot.get_or_insert_with(|| {
            self.held += 1;
            self.free_slot()
        });
        match std::mem::replace(&mut self.slots[slot.0 as usize], Slot::Held(Some(waker))) {
            Slot::Held(before) => before,
            Slot::Free(next) => {
                self.free = next;
                None
            }
        }
    }

    /// The slot that the next task gets.
    fn free_slot(&mut self) -> WakerSlot {
        if self.free != NONE {
            return self.free;
        }
        self.slots.push(Slot::Held(None));
        WakerSlot((self.slots.len() - 1) as u32)
    }

    /// Takes a task's slot back, and returns its waker.
    #[must_use = "a waker's destructor is user code"]
    pub fn release(&mut self, slot: WakerSlot) -> Option<Waker> {
        let freed = std::mem::replace(&mut self.slots[slot.0 as usize], Slot::Free(self.free));
        self.free = slot;
        self.held -= 1;
        if self.held == 0 {
            self.slots.clear();
            self.slots.shrink_to(KEPT);
            self.free = NONE;
        }
        match freed {
            Slot::Held(waker) => waker,
            Slot::Free(_) => None,
        }
    }

    /// Takes all wakers out. The tasks keep their slots.
    pub fn take_all(&mut self) -> Vec<Waker> {
        let held = |slot: &mut Slot| match slot {
            Slot::Held(waker) => waker.take(),
            Slot::Free(_) => None,
        };
        self.slots.iter_mut().filter_map(held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again_and_belong_to_their_tasks() {
        let mut wakers = Wakers::new();
        let (mut first, mut second) = (None, None);
        assert!(wakers.keep(&mut first, Waker::noop().clone()).is_none());
        assert!(wakers.keep(&mut second, Waker::noop().clone()).is_none());
        assert!(wakers.keep(&mut first, Waker::noop().clone()).is_some());
        assert_eq!(wakers.take_all().len(), 2);
        assert!(wakers.keep(&mut second, Waker::noop().clone()).is_none());
        assert!(wakers.release(first.unwrap()).is_none());
        let mut third = None;
        assert!(wakers.keep(&mut third, Waker::noop().clone()).is_none());
        assert_eq!(third, first);
        assert!(wakers.release(second.unwrap()).is_some());
        assert!(wakers.release(third.unwrap()).is_some());
        assert!(wakers.slots.is_empty(), "nobody waits");
        assert!(wakers.take_all().is_empty());
    }
}
