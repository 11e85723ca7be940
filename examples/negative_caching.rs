//! How many look-ups reach a database: with misses that are not cached, and with misses that are
//! cached for a shorter time than values.
//!
//! ```text
//! cargo run --example negative_caching
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, Clock};
use std::cell::Cell;
use std::time::Duration;

#[derive(Clone)]
struct User;

#[derive(Clone)]
enum Missing {
    NotFound,
    Unavailable,
}

/// Stands for a database: it knows the even numbers, and is away from second 20 to second 40.
struct Database {
    queries: Cell<u32>,
}

impl Database {
    fn find(&self, id: u64, second: u64) -> Result<User, Missing> {
        self.queries.set(self.queries.get() + 1);
        match () {
            () if (20..40).contains(&second) => Err(Missing::Unavailable),
            () if id.is_multiple_of(2) => Ok(User),
            () => Err(Missing::NotFound),
        }
    }
}

/// A minute of requests: each second, each of ten users is asked for ten times.
fn run(request: impl Fn(&Database, u64, u64), each_second: impl Fn()) -> u32 {
    let database = Database { queries: Cell::new(0) };
    for second in 0..60 {
        for id in (0..10).cycle().take(100) {
            request(&database, id, second);
        }
        each_second();
    }
    database.queries.get()
}

fn main() {
    const SECOND: Duration = Duration::from_secs(1);

    let (clock, hand) = Clock::manual();
    let found = Cache::builder().time_to_live(10 * SECOND).clock(clock).build();
    let queries = run(
        |database, id, second| {
            drop(found.try_get_with(id, || database.find(id, second).map_err(drop)))
        },
        || hand.advance(SECOND),
    );
    println!("6000 requests, only values are cached:            {queries:>4} queries");

    let (clock, hand) = Clock::manual();
    let outcomes = Cache::<u64, Result<User, Missing>>::builder()
        .ttl_on_write(|_id, outcome| match outcome {
            Ok(User) => Some(10 * SECOND),
            Err(Missing::NotFound) => Some(5 * SECOND),
            Err(Missing::Unavailable) => Some(SECOND),
        })
        .clock(clock)
        .build();
    let queries = run(
        |database, id, second| drop(outcomes.get_with(id, || database.find(id, second))),
        || hand.advance(SECOND),
    );
    println!("6000 requests, \"not found\" and failures are, too: {queries:>4} queries");
}
