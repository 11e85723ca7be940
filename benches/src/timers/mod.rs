//! Structures that order ids by deadline, behind one trait: cortado's wheel and what it was chosen
//! over.
//!
//! Ids run from 1 to a number that is known beforehand, as nodes of a pool do; instants are
//! nanoseconds from zero. Each structure is driven by one thread.

mod delayed;
mod hashed;
mod heap;
mod hierarchical;
mod queue;
mod simple;
mod sleep;
mod tree;
mod wheel;

pub use delayed::Delayed;
pub use hashed::{Hashed, Rounds};
pub use heap::{Lazy, Swept};
pub use hierarchical::Hierarchical;
pub use queue::Queue;
pub use simple::Simple;
pub use sleep::Sleeps;
pub use tree::Tree;
pub use wheel::{FineWheel, Wheel};

/// The tick of the structures that have a coarse one of no fixed size: that of cortado's wheel,
/// 16.8 ms.
pub const TICK_SHIFT: u32 = 24;

/// A structure of timers.
pub trait Timers {
    /// What the reports call it.
    const NAME: &'static str;
    /// How long after its deadline an id may be handed out, in nanoseconds.
    const LATENESS: u64;
    /// Bytes per id that a user of the structure would have anyway, and the adapter keeps.
    const USERS: usize = 0;

    /// What a user of the structure keeps to cancel by.
    type Key: Copy;

    /// For the ids 1 to `ids`, at instant zero.
    fn new(ids: u32) -> Self;

    /// Takes in an id that is not in it, with a deadline in the future.
    fn schedule(&mut self, id: u32, deadline: u64) -> Self::Key;

    /// Takes out the id that has this key.
    fn cancel(&mut self, key: Self::Key);

    /// Changes the deadline of an id that is in it. Returns its key from now on.
    #[inline]
    fn reschedule(&mut self, (id, key): (u32, Self::Key), deadline: u64) -> Self::Key {
        self.cancel(key);
        self.schedule(id, deadline)
    }

    /// Moves time to `now` and hands out what is due.
    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32));
}

/// What is done with each structure in turn, compiled for each.
pub trait Driver {
    type Output;

    fn drive<T: Timers>(&mut self) -> Self::Output;
}

/// Hands `driver` all structures, cortado's first.
pub fn each<D: Driver>(driver: &mut D) -> Vec<(&'static str, D::Output)> {
    vec![
        (Wheel::NAME, driver.drive::<Wheel>()),
        (FineWheel::NAME, driver.drive::<FineWheel>()),
        (Delayed::NAME, driver.drive::<Delayed>()),
        (Tree::NAME, driver.drive::<Tree>()),
        (Lazy::NAME, driver.drive::<Lazy>()),
        (Swept::NAME, driver.drive::<Swept>()),
        (Queue::NAME, driver.drive::<Queue>()),
        (Sleeps::NAME, driver.drive::<Sleeps>()),
        (Hashed::NAME, driver.drive::<Hashed>()),
        (Rounds::NAME, driver.drive::<Rounds>()),
        (Simple::NAME, driver.drive::<Simple>()),
        (Hierarchical::NAME, driver.drive::<Hierarchical>()),
    ]
}

#[cfg(test)]
mod tests;
