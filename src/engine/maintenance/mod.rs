//! The maintenance: one pass at a time, bounded, run by the thread that gets the maintenance lock.
//!
//! [`record`] takes in what reads and writes record. [`run`] says which thread runs a pass, and
//! when. [`pass`] says what a pass does, and in which order. The parts of a pass have a file each.

mod apply;
mod budget;
mod evict;
mod expire;
mod pass;
mod ranking;
mod reclaim;
mod record;
mod run;
mod sweep;
mod unlink;

pub use budget::Budget;
pub use record::take_owed_room;
pub use run::{FEW_FLUSHES, PATIENT_UNITS};
