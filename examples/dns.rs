//! A resolver's cache: each answer lives for its own TTL, also the answer that there is no such
//! name. Clients get the TTL that is left.
//!
//! ```text
//! cargo run --example dns
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
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

enum Answer {
    Address(Ipv4Addr, Duration),
    NoSuchName(Duration),
}

impl Answer {
    fn lifetime(&self) -> Duration {
        match self {
            Self::Address(_, ttl) => *ttl,
            Self::NoSuchName(ttl) => (*ttl).min(Duration::from_secs(900)),
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address, _) => address.fmt(f),
            Self::NoSuchName(_) => f.pad("no such name"),
        }
    }
}

/// Stands for the name servers.
fn ask(name: &str) -> Result<Answer, &'static str> {
    match name {
        "www.example" => Ok(Answer::Address([192, 0, 2, 7].into(), Duration::from_secs(300))),
        "cdn.example" => Ok(Answer::Address([192, 0, 2, 8].into(), Duration::from_secs(60))),
        "typo.example" => Ok(Answer::NoSuchName(Duration::from_secs(3600))),
        _ => Err("no server answers"),
    }
}

fn main() {
    let (clock, hand) = Clock::manual();
    let answers = Cache::<String, Answer>::builder()
        .max_capacity(10_000)
        .ttl_on_write(|_name, answer| Some(answer.lifetime()))
        .record_stats(true)
        .clock(clock)
        .build();

    println!("{:>6}  {:<14}{:<20}{:>6}", "second", "name", "answer", "TTL");
    for (seconds, name) in [
        (0, "www.example"),
        (5, "cdn.example"),
        (10, "typo.example"),
        (40, "www.example"),
        (80, "cdn.example"),
        (85, "down.example"),
        (300, "www.example"),
        (600, "typo.example"),
        (910, "typo.example"),
    ] {
        hand.set(Duration::from_secs(seconds));
        match answers.entry_by_ref(name).or_try_insert_with(|| ask(name)) {
            Err(error) => println!("{seconds:>6}  {name:<14}{error}"),
            Ok(entry) => {
                let ttl = entry.expires_in().unwrap_or_default().as_secs();
                let origin = if entry.is_fresh() { "asked" } else { "from the cache" };
                println!("{seconds:>6}  {name:<14}{:<20}{ttl:>6}  {origin}", entry.to_string());
            }
        }
    }
    println!("{:.0} % hits", answers.stats().hit_ratio() * 100.0);
}
