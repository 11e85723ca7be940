//! A listener that feeds a channel: a worker thread deletes the files of entries that have left.
//!
//! ```text
//! cargo run --example listener_channel
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, Clock, Overflow, Removed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

fn main() {
    let (clock, hand) = Clock::manual();
    // If the worker got stuck, the listener would wait, and so would writers: nothing piles up.
    let (sender, removals) = sync_channel::<Removed<u32, String>>(10_000);
    let uploads = Cache::<u32, String>::builder()
        .max_capacity(1_000)
        .time_to_live(Duration::from_secs(3600))
        // The listener does nothing slow. A `Removed` owns its key and value, and clones nothing.
        .removal_listener(move |removed| drop(sender.send(removed)))
        .notification_limit(10_000, Overflow::Wait)
        .clock(clock)
        .build();

    let worker = thread::spawn(move || {
        // The loop ends when the cache and its listener are gone.
        for removed in removals {
            let late = removed.late_by().map(|late| format!(", {late:?} after its deadline"));
            println!(
                "delete {:<18} upload {}, {}{}",
                removed.value(),
                removed.key(),
                removed.cause(),
                late.unwrap_or_default(),
            );
        }
    });

    uploads.insert(1, "/upload/1.first".to_owned());
    uploads.insert(1, "/upload/1.second".to_owned());
    uploads.insert_with_ttl(2, "/upload/2".to_owned(), Duration::from_secs(60));
    uploads.insert(3, "/upload/3".to_owned());
    uploads.insert(4, "/upload/4".to_owned());
    uploads.invalidate(&3);
    hand.advance(Duration::from_secs(65));
    // In a service the scheduler's thread does this: `.scheduler(true)`.
    uploads.run_pending_tasks();

    uploads.close(); // announces what is still inside
    drop(uploads);
    worker.join().expect("the worker");
}
