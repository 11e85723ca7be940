//! The replay example's trace parser on any bytes: it neither panics nor goes on after a defect,
//! and what it says of time, place and size holds.
#![no_main]

mod counted;
#[path = "../../examples/replay/src/trace.rs"]
mod trace;

use libfuzzer_sys::fuzz_target;
use std::time::Duration;
use trace::{Position, Records};

/// A few compressed bytes can stand for many records.
const ENOUGH: usize = 10_000;

fuzz_target!(|bytes: &[u8]| {
    let mut records = match Records::open("input", bytes) {
        Ok(records) => records,
        Err(error) => {
            assert!(matches!(error.position, Position::Header(_)));
            assert!(error.to_string().starts_with("input: byte "));
            return;
        }
    };
    let announced = records.announced();
    let mut last = Duration::ZERO;
    let mut good = 0;
    let failed = loop {
        match records.next() {
            None => break false,
            Some(Err(error)) => {
                assert!(error.to_string().starts_with("input:"));
                match error.position {
                    Position::Line(line) => assert!(announced.is_none() && line > good),
                    Position::Record { number, .. } => assert_eq!(number, good + 1),
                    Position::Header(_) => panic!("a header after records: {error}"),
                }
                break true;
            }
            Some(Ok(request)) => {
                assert!(!request.update);
                if let Some(at) = request.at {
                    assert!(last <= at);
                    last = at;
                }
                good += 1;
                counted::add(1, "records");
            }
        }
        if good as usize == ENOUGH {
            return;
        }
    };
    assert!(records.next().is_none(), "the trace goes on after its end");
    if let (Some(announced), false) = (announced, failed) {
        assert_eq!(announced, good);
    }
});
