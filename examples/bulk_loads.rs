//! Bulk loads: a request for many keys asks the database once, for the keys that are missing.
//!
//! ```text
//! cargo run --example bulk_loads
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
use std::time::Duration;

#[derive(Clone)]
struct Price {
    cents: u64,
}

/// Stands for `SELECT article, price FROM prices WHERE article IN (..)`.
fn select(articles: &[&u64]) -> Result<Vec<(u64, Price)>, String> {
    println!("    SELECT .. WHERE article IN {articles:?}");
    if articles.contains(&&0) {
        return Err("article 0 locks the table".to_owned());
    }
    // The database has no article beyond 99.
    let known = articles.iter().filter(|article| ***article < 100);
    Ok(known.map(|&&article| (article, Price { cents: article * 100 + 99 })).collect())
}

fn main() {
    let (clock, hand) = Clock::manual();
    let prices = Cache::<u64, Price>::builder()
        .max_capacity(10_000)
        .time_to_live(Duration::from_secs(60))
        .clock(clock)
        .build();

    let show = |basket: &[u64]| {
        println!("basket {basket:?}");
        match prices.try_get_many_with(basket.iter().copied(), select) {
            Err(error) => println!("    {error}"),
            // In the order of the keys; `None` for a key that the loader did not return.
            Ok(found) => {
                for (article, price) in basket.iter().zip(found) {
                    match price {
                        Some(Price { cents }) => {
                            println!("    {article:>4} {:>6}.{:02}", cents / 100, cents % 100);
                        }
                        None => println!("    {article:>4}  no such article"),
                    }
                }
            }
        }
    };

    show(&[7, 8, 9]);
    show(&[8, 9, 10, 500]);
    prices.invalidate_many(&[7, 8]);
    show(&[7, 8, 9, 10]);
    show(&[0, 11]);
    hand.advance(Duration::from_secs(60));
    show(&[7, 10]);
}
