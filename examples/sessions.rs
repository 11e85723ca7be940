//! Sessions that time out: after half an hour without a request, and after four hours in any case.
//! A listener hears of each time-out. A new session is never refused.
//!
//! ```text
//! cargo run --example sessions
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, Clock, EvictionPolicy, RemovalCause};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

/// A moment of the afternoon.
fn time(now: Duration) -> String {
    let minutes = now.as_secs() / 60;
    format!("{:02}:{:02}", 12 + minutes / 60, minutes % 60)
}

fn main() {
    let (clock, hand) = Clock::manual();
    let watch = hand.clone();
    let sessions = Cache::<&str, ()>::builder()
        .max_capacity(100)
        .eviction_policy(EvictionPolicy::segmented_lru())
        .time_to_idle(30 * MINUTE)
        .ttl_on_create(|_name, ()| Some(4 * 60 * MINUTE))
        .removal_listener(move |removed| {
            let how = match removed.cause() {
                RemovalCause::Expired => "timed out",
                RemovalCause::Explicit => "logged out",
                _ => "had to make room",
            };
            let minutes = removed.age().as_secs() / 60;
            println!("{}  {} {how} after {minutes} min", time(watch.now()), removed.key());
        })
        .clock(clock)
        .build();

    for minute in 0..=250 {
        hand.set(minute * MINUTE);
        // In a service the scheduler's thread does this: `.scheduler(true)`.
        sessions.run_pending_tasks();
        match minute {
            0 => log_in(&sessions, &hand, &["ann", "ben"]),
            5 => log_in(&sessions, &hand, &["cleo"]),
            20 => assert!(sessions.touch("cleo")),
            // Twenty-five minutes later her session is still there.
            45 => drop(sessions.remove("cleo")),
            // Ann sends requests all afternoon. Ben has gone home.
            _ if minute % 10 == 0 => drop(sessions.touch("ann")),
            _ => {}
        }
    }
    println!("{}  {} sessions are left", time(hand.now()), sessions.entry_count());
}

fn log_in(sessions: &Cache<&'static str, ()>, hand: &cortado::ManualClock, names: &[&'static str]) {
    for name in names {
        println!("{}  {name} logged in", time(hand.now()));
        sessions.insert(name, ());
    }
}
