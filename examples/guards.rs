//! Loads by a guard, for code that is no closure: several steps with `?`, another thread, a time
//! limit for those that wait.
//!
//! ```text
//! cargo run --example guards
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, LoadGuard, Loaded, TimedOut};
use std::error::Error;
use std::thread;
use std::time::Duration;

type Report = String;

/// Loads in several steps. If a step fails, the guard is dropped, and the next caller may load.
fn load(guard: LoadGuard<u32, Report>, source: &str) -> Result<Report, Box<dyn Error>> {
    let rows: u32 = source.trim().parse()?;
    thread::sleep(Duration::from_millis(100)); // a query
    let report = format!("report {} has {rows} rows", guard.key());
    // All callers that wait get the report now.
    Ok(guard.insert(Loaded::with_ttl(report, Duration::from_secs(60))).into_value())
}

fn request(reports: &Cache<u32, Report>, name: &str, source: &str, patience: Duration) {
    match reports.within(patience, async |reports| reports.get_value_or_guard(&7).await) {
        Ok(Ok(report)) => println!("{name}: {report}, by another request"),
        Err(TimedOut) => println!("{name}: not ready after {patience:?}, try again later"),
        Ok(Err(guard)) => match load(guard, source) {
            Ok(report) => println!("{name}: {report}, loaded by this request"),
            Err(error) => println!("{name}: {error}"),
        },
    }
}

fn main() {
    const LONG: Duration = Duration::from_secs(5);
    const SHORT: Duration = Duration::from_millis(10);

    let reports: Cache<u32, Report> = Cache::new(1_000);
    println!("A load that fails leaves the key as it was:");
    request(&reports, "request 1", "no number", LONG);

    println!("One request loads, the others wait or lose patience:");
    let Err(guard) = reports.get_value_or_guard(&7) else {
        unreachable!("the first load has failed")
    };
    thread::scope(|scope| {
        let patient = scope.spawn(|| request(&reports, "request 2", "", LONG));
        let hasty = scope.spawn(|| request(&reports, "request 3", "", SHORT));
        hasty.join().expect("request 3");
        // A guard may go to another thread.
        scope.spawn(|| load(guard, "42").map_err(drop));
        patient.join().expect("request 2");
    });
    request(&reports, "request 4", "", SHORT);
}
