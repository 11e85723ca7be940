//! The maintenance: one pass at a time, bounded, run by the thread that gets the maintenance lock.
//!
//! [`core`] has [`Core`], the part of a cache without types, and in it the upkeep, which no other
//! room sees. [`record`] takes in what reads and writes record. [`run`] says which thread runs a
//! pass, and when. [`pass`] says what a pass does, and in which order. The parts of a pass have a
//! file each.

mod apply;
mod core;
mod evict;
mod expire;
mod pass;
mod reclaim;
mod record;
mod run;
mod schedule;
mod sweep;
mod unlink;
mod upkeep;

pub use self::core::{Core, Parts};
pub use pass::Budget;
pub use record::take_owed_room;
pub use run::{FEW_FLUSHES, PATIENT_UNITS};
#[cfg(all(test, feature = "internals", not(cortado_loom)))]
pub use upkeep::Maintenance;
#[cfg(feature = "serde")]
pub use upkeep::SLACK_SHARE;
