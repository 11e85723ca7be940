//! A cache of HTTP responses: the loader returns a response together with its `max-age`.
//!
//! ```text
//! cargo run --example http_max_age
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, Clock, Loaded};
use std::time::Duration;

struct Response {
    body: String,
    cache_control: &'static str,
}

/// Stands for the origin server.
fn fetch(url: &str) -> Result<Response, String> {
    let cache_control = match url {
        "/logo.svg" => "public, max-age=600",
        "/prices" => "max-age=20",
        "/basket" => "no-store",
        _ => return Err("connection refused".to_owned()),
    };
    Ok(Response { body: format!("<{url}>"), cache_control })
}

/// How long the response may be kept. Zero means: not at all.
fn max_age(cache_control: &str) -> Duration {
    let directives = cache_control.to_ascii_lowercase();
    let mut directives = directives.split(',').map(str::trim);
    if directives.clone().any(|it| ["no-store", "no-cache", "private"].contains(&it)) {
        return Duration::ZERO;
    }
    let seconds = directives.find_map(|it| it.strip_prefix("max-age=")?.parse().ok());
    // A year is as good as any longer time.
    Duration::from_secs(seconds.unwrap_or(0).min(31_536_000))
}

fn main() {
    let (clock, hand) = Clock::manual();
    let responses = Cache::<String, Response>::builder().max_capacity(10_000).clock(clock).build();

    println!("{:>6}  {:<11}response", "second", "request");
    for (seconds, url) in [
        (0, "/logo.svg"),
        (1, "/prices"),
        (2, "/basket"),
        (3, "/down"),
        (10, "/prices"),
        (11, "/basket"),
        (30, "/prices"),
        (300, "/logo.svg"),
        (700, "/logo.svg"),
    ] {
        hand.set(Duration::from_secs(seconds));
        let response = responses.entry_by_ref(url).or_load_with(|| {
            let response = fetch(url)?;
            let ttl = max_age(response.cache_control);
            Ok::<_, String>(Loaded::with_ttl(response, ttl))
        });
        match response {
            Err(error) => println!("{seconds:>6}  {url:<11}{error}"),
            Ok(entry) => {
                let how = match (entry.is_fresh(), entry.expires_in()) {
                    (true, Some(Duration::ZERO)) => "fetched, not kept".to_owned(),
                    (true, _) => format!("fetched, {}", entry.cache_control),
                    (false, _) => format!("from the cache, Age: {}", entry.age().as_secs()),
                };
                println!("{seconds:>6}  {url:<11}{:<13}{how}", entry.body);
            }
        }
    }
}
