//! Loads and computations: operations that run the user's code with a flight on the board.

mod commit;
mod compute;
mod load;
mod pending;
mod source;
mod value;

pub use commit::{OwnedReplaces, Replaces, land_entry};
pub use load::{Begun, LoadTimer};
pub use pending::PendingLoad;
pub use source::{KeySource, Owned};
