//! Five things that services build on timers, each with a timeline. On the real clock, with minutes
//! that are a fraction of a second long. `tests/timers/examples.rs` runs the same on a manual
//! clock.
//!
//! ```sh
//! cargo run --release --example timers             # all five
//! cargo run --release --example timers -- orders   # or retries, replicas, messages, connections
//! ```
#![allow(missing_docs, reason = "a program")]
#![expect(clippy::print_stdout, reason = "the timelines are what this program is for")]

mod connections;
mod messages;
mod orders;
mod replicas;
mod retries;
#[allow(dead_code, reason = "the tests play on a manual clock")]
mod stage;

use cortado::timer::TimerError;
use stage::Stage;
use std::time::Duration;

type Part = (&'static str, &'static str, fn() -> Result<(), TimerError>);

const PARTS: [Part; 5] = [
    ("orders", "An order is cancelled unless it is paid within 30 minutes.", || {
        orders::run(&Stage::real(Duration::from_millis(100))).map(drop)
    }),
    ("retries", "A call that fails is tried again, with growing delays and jitter.", || {
        retries::run(&Stage::real(Duration::from_millis(5000))).map(drop)
    }),
    ("replicas", "A write waits for all replicas, or for its timeout.", || {
        replicas::run(&Stage::real(Duration::from_millis(2000))).map(drop)
    }),
    ("messages", "Messages are delivered when their delay is over.", || {
        messages::run(&Stage::real(Duration::from_millis(250)));
        Ok(())
    }),
    ("connections", "A million connections are closed when they are idle for a minute.", || {
        connections::run(&Stage::real(Duration::from_millis(3000)), 1_000_000);
        Ok(())
    }),
];

fn main() -> Result<(), TimerError> {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = wanted.iter().find(|name| PARTS.iter().all(|part| part.0 != **name)) {
        let names: Vec<&str> = PARTS.iter().map(|part| part.0).collect();
        println!("There is no part {unknown}. The parts are: {}.", names.join(", "));
        return Ok(());
    }
    for (name, title, run) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|other| other == name) {
            println!("\n{title}\n");
            run()?;
        }
    }
    Ok(())
}
