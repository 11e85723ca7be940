//! An async job that did not fire does nothing unless its future is polled.
#![deny(unused_must_use)]
use cortado::timer::{Stop, Timer};

fn main() {
    for job in Timer::new().shutdown(Stop::Cancel) {
        job.run(); //~ unused_must_use
    }
}
