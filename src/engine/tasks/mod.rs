//! Operations for tasks: the same steps as those of threads, with an `await` between them.
//!
//! A future of an operation holds between two polls what the operation holds between two steps
//! ([`flights`](super::flights)): only state that it owns and that is `Send`. Dropping it cancels
//! the operation. Nothing here blocks a worker thread for another task: a step takes locks for some
//! instructions only, and its share of the maintenance is bounded.
//!
//! The user's futures are polled with the flight's token on the thread's stack of user code, as
//! closures are called. So a wait for one's own flight panics, and nothing is delivered meanwhile.
//! The future of one load or computation meets the operation in an [`exchange`], so that this is
//! compiled once for all futures.

mod drive;
mod exchange;
mod executed;
mod load;
mod write;

pub use drive::as_task;
pub use exchange::made_before;
pub use executed::race;
