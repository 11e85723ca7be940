//! So does the clock.
use cortado::Clock;
use std::cell::Cell;
use std::time::Duration;

fn main() {
    let time = Cell::new(0);
    let clock = Clock::custom(move || Duration::from_secs(time.get())); //~ E0277
    drop(clock);
}
