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
    /// Bytes per id for keys that a user of the structure would keep, and the adapter does.
    const KEY: usize = 0;

    /// For the ids 1 to `ids`, at instant zero.
    fn new(ids: u32) -> Self;

    /// Takes in an id that is not in it, with a deadline in the future.
    fn schedule(&mut self, id: u32, deadline: u64);

    /// Takes out an id that is in it.
    fn cancel(&mut self, id: u32);

    /// Changes the deadline of an id that is in it.
    fn reschedule(&mut self, id: u32, deadline: u64) {
        self.cancel(id);
        self.schedule(id, deadline);
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
