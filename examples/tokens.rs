//! Access tokens that live as long as their issuer says: eight threads need one token, one of them
//! fetches it.
//!
//! ```text
//! cargo run --example tokens
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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

#[derive(Clone)]
struct Token {
    text: String,
    expires_in: Duration,
}

/// A token that is about to end may end on its way to the server.
const MARGIN: Duration = Duration::from_secs(30);

/// Stands for the server that issues tokens.
#[derive(Default)]
struct Issuer {
    issued: AtomicU64,
}

impl Issuer {
    fn issue(&self, client: &str) -> Token {
        let number = self.issued.fetch_add(1, Relaxed) + 1;
        println!("    the issuer issues token {number}");
        Token { text: format!("{client}-{number}"), expires_in: Duration::from_secs(300) }
    }
}

fn main() {
    let (clock, hand) = Clock::manual();
    let tokens = Cache::<String, Token>::builder()
        .max_capacity(1_000)
        .ttl_on_write(|_client, token| Some(token.expires_in.saturating_sub(MARGIN)))
        .clock(clock)
        .build();
    let issuer = Issuer::default();

    for minute in 0..=6 {
        println!("minute {minute}: eight requests");
        let texts: Vec<String> = thread::scope(|scope| {
            let request = || tokens.get_with("billing".to_owned(), || issuer.issue("billing")).text;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(request)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a request")).collect()
        });
        assert!(texts.iter().all(|text| *text == texts[0]), "all got the same token");
        let left = tokens.expires_in("billing").due().unwrap_or_default();
        println!("    all sent {}, which is good for {} s more", texts[0], left.as_secs());
        hand.advance(Duration::from_secs(60));
    }
    println!("{} tokens for 56 requests", issuer.issued.load(Relaxed));
}
