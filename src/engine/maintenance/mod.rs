//! The maintenance: one pass at a time, bounded, run by the thread that gets the maintenance lock.
//!
//! [`record`](self::record) takes in what reads and writes record, [`run`](self::run) says who runs
//! a pass and when, [`pass`](self::pass) what it does and in which order. The parts of a pass have a
//! file each: applying records, expiring, evicting, sweeping, reclaiming.

mod apply;
mod budget;
mod evict;
mod expire;
mod pass;
mod reclaim;
mod record;
mod run;
mod sweep;
mod unlink;

pub use budget::Budget;
pub use run::{GRACE_ROUNDS, PATIENT_UNITS};
