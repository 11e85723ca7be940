//! Single flight: many who want one result, one who makes it.
//!
//! * [`cell`]: the cell in which threads and tasks wait for one result, and its leader, who lands
//!   or abandons it.
//! * [`board`]: the table of the flights that are in the air.

pub mod board;
pub mod cell;
