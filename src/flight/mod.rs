//! Single flight: many callers want one result, and one of them makes it.
//!
//! * [`cell`]: the cell in which threads and tasks wait for one result, and its leader, which lands
//!   or abandons it.
//! * [`board`]: the table of the flights that are in flight.

pub mod board;
pub mod cell;
