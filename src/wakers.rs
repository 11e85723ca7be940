//! The wakers of tasks that wait for one event.
//!
//! A task takes a slot at its first poll and keeps it until it waits no more. So neither a poll nor
//! the end of a wait searches, as both would with `Waker::will_wake`.

use std::task::Waker;

/// The slot of a task. It means something only to the [`Wakers`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WakerSlot(u32);

/// Room for so many tasks stays when none waits any more.
const KEPT: usize = 16;

/// See the [module](self). The owner keeps it under a lock. Wakers are user code, so the owner
/// clones, calls and drops them outside of that lock.
#[derive(Debug, Default)]
pub struct Wakers {
    /// The wakers of the tasks, unless they were taken out.
    slots: Vec<Option<Waker>>,
    /// The slots that no task holds. When no task holds one, all slots go: otherwise each event
    /// would look at as many as there ever were.
    free: Vec<WakerSlot>,
}

impl Wakers {
    /// Keeps a waker in the task's slot; gives the task a slot if it has none. Returns the waker
    /// that was there before.
    #[must_use = "a waker's destructor is user code"]
    pub fn keep(&mut self, slot: &mut Option<WakerSlot>, waker: Waker) -> Option<Waker> {
        let new = || {
            self.slots.push(None);
            WakerSlot(self.slots.len() as u32 - 1)
        };
        let slot = *slot.get_or_insert_with(|| self.free.pop().unwrap_or_else(new));
        self.slots[slot.0 as usize].replace(waker)
    }

    /// Takes a task's slot back, and returns its waker.
    #[must_use = "a waker's destructor is user code"]
    pub fn release(&mut self, slot: WakerSlot) -> Option<Waker> {
        let waker = self.slots[slot.0 as usize].take();
        if self.free.len() + 1 < self.slots.len() {
            self.free.push(slot);
        } else {
            self.slots.clear();
            self.slots.shrink_to(KEPT);
            self.free = Vec::new();
        }
        waker
    }

    /// Takes all wakers out. The tasks keep their slots.
    pub fn take_all(&mut self) -> Vec<Waker> {
        self.slots.iter_mut().filter_map(Option::take).collect()
    }
}

#[cfg(test)]
#[path = "whitebox/wakers.rs"]
mod tests;
