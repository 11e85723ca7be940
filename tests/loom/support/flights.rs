//! Flights that are nothing but a cell.

use cortado::internals::flight::cell::{FlightCell, Leader};
use cortado::internals::sync::Arc;

/// Starts a flight.
pub fn start() -> (Leader<FlightCell<u32>>, Arc<FlightCell<u32>>) {
    let leader = Leader::of(FlightCell::new());
    let flight = Arc::clone(leader.flight());
    (leader, flight)
}
