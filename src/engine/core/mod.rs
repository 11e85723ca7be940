//! The part of a cache that knows no `K` and no `V`, compiled once for all caches.
//!
//! Every room of the engine may use the fields of [`Core`] that are mechanisms or settings.
//! `upkeep` belongs to the maintenance, and `notices` to the delivery: other rooms call the methods
//! that these two rooms give to [`Core`]. `tests/house` holds the code to that.

mod announce;
mod hot;
mod notices;
mod progress;
mod receiving;
mod shared;
mod state;
mod upkeep;

pub use notices::Notice;
pub use receiving::Receiving;
pub use shared::{Core, Search};
pub use state::{Dead, Maintenance, Sweep};
pub use upkeep::{PASS_DELAY, SLACK_SHARE};
