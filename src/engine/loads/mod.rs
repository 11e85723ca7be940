//! Loads and computations: operations that run the user's code with a flight on the board.

mod commit;
mod compute;
mod load;

pub use commit::{NoLoadCondition, OwnedReplaces, Replaces, land_entry};
pub use load::{Begun, LoadTimer, PendingLoad, once};
