//! A cache that is bounded in bytes, and whose bound changes while it is in use.
//!
//! ```text
//! cargo run --example weights
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::{Cache, RemovalCause};

const MIB: u64 = 1 << 20;

/// What an entry costs beside the bytes of its key and body.
const BOOKKEEPING: usize = 128;

fn main() {
    let bodies = Cache::<String, Vec<u8>>::builder()
        .max_capacity(16 * MIB)
        .weigher(|path, body| {
            (path.len() + body.capacity() + BOOKKEEPING).try_into().unwrap_or(u32::MAX)
        })
        .record_stats(true)
        .build();
    let show = |what: &str| {
        // Sizes are those of the last maintenance pass.
        bodies.run_pending_tasks();
        let bound = bodies.policy().max_capacity().unwrap_or_default();
        println!(
            "{what:<36}{:>6} entries{:>8.2} of {:>2} MiB{:>6} left for want of room",
            bodies.entry_count(),
            bodies.weighted_size() as f64 / MIB as f64,
            bound / MIB,
            bodies.stats().removed(RemovalCause::Size),
        );
    };

    for n in 0..200 {
        bodies.insert(format!("/page/{n}"), vec![0; 4_000]);
    }
    show("200 pages of 4 kB");
    for n in 0..100 {
        bodies.insert(format!("/image/{n}"), vec![0; 100_000]);
    }
    show("and 100 images of 100 kB");
    for n in 0..10 {
        bodies.insert(format!("/film/{n}"), vec![0; 3_000_000]);
    }
    show("and 10 films of 3 MB");
    bodies.insert("/archive".to_owned(), vec![0; 20_000_000]);
    show("an archive of 20 MB is not stored");
    assert!(!bodies.contains_key("/archive"));
    bodies.set_max_capacity(4 * MIB);
    show("memory is short: 4 MiB from now on");
    bodies.set_max_capacity(16 * MIB);
    show("and 16 MiB again");
}
