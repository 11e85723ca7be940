//! The wakers of tasks that wait for one event.
//!
//! A task takes a place at its first poll and keeps it until it waits no more. So neither a poll
//! nor the end of a wait searches, as both would with `Waker::will_wake`.

use std::task::Waker;

/// The place of a task. It means something only to the [`Wakers`] that gave it.
#[derive(Clone, Copy, Debug)]
pub struct Place(usize);

/// See the [module](self). Under a lock of the owner's; wakers are user code, so they are cloned,
/// called and dropped outside.
#[derive(Debug, Default)]
pub struct Wakers {
    places: Vec<Option<Waker>>,
    free: Vec<Place>,
}

impl Wakers {
    pub const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// Keeps a waker in the task's place; gives the task a place if it has none. Returns the waker
    /// that was there before.
    #[must_use = "a waker's destructor is user code"]
    pub fn keep(&mut self, place: &mut Option<Place>, waker: Waker) -> Option<Waker> {
        let Place(place) = *place.get_or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.places.push(None);
                Place(self.places.len() - 1)
            })
        });
        self.places[place].replace(waker)
    }

    /// Takes a task's place back, and returns its waker.
    #[must_use = "a waker's destructor is user code"]
    pub fn release(&mut self, place: Place) -> Option<Waker> {
        self.free.push(place);
        self.places[place.0].take()
    }

    /// Takes all wakers out. The tasks keep their places.
    pub fn take_all(&mut self) -> Vec<Waker> {
        self.places.iter_mut().filter_map(Option::take).collect()
    }
}
