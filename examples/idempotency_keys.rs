//! Idempotency keys: a client sends each payment several times, and the bank is asked once.
//!
//! ```text
//! cargo run --example idempotency_keys
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, Clock, Entry, EvictionPolicy};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

struct Receipt {
    number: u32,
    cents: u32,
}

struct Payments {
    /// A policy that never refuses a new key: a key that leaves early may be paid twice.
    receipts: Cache<String, Receipt>,
    /// Stands for the bank.
    transfers: AtomicU32,
}

impl Payments {
    fn new(clock: Clock) -> Self {
        let receipts = Cache::builder()
            .max_capacity(1_000_000)
            .eviction_policy(EvictionPolicy::lru())
            .time_to_live(DAY)
            .clock(clock)
            .build();
        Self { receipts, transfers: AtomicU32::new(0) }
    }

    /// Pays once for each key. Callers with the same key wait, and share receipt or error.
    fn pay(&self, key: &str, cents: u32) -> Result<Entry<String, Receipt>, Arc<String>> {
        self.receipts.entry_by_ref(key).or_try_insert_with(|| {
            thread::sleep(Duration::from_millis(50)); // the bank takes its time
            match cents {
                0 => Err("nothing to pay".to_owned()),
                _ => Ok(Receipt { number: self.transfers.fetch_add(1, Relaxed) + 1, cents }),
            }
        })
    }
}

fn main() {
    let (clock, hand) = Clock::manual();
    let payments = Payments::new(clock);
    let show = |key: &str, cents| match payments.pay(key, cents) {
        Err(error) => println!("{key}: {error}"),
        Ok(receipt) => {
            let how = if receipt.is_fresh() { "paid" } else { "paid already" };
            println!("{key}: {how}, {} cents, receipt {}", receipt.cents, receipt.number);
        }
    };

    println!("Eight requests with the same key, at the same time:");
    thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(|| show("key 1", 4200)))));
    println!("A failure is not kept, so the client may try again:");
    show("key 2", 0);
    show("key 2", 700);
    println!("After a day the keys are free:");
    hand.advance(DAY);
    show("key 1", 4200);
    println!("{} transfers", payments.transfers.load(Relaxed));
}
