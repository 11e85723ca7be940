//! How much memory a cache takes: a bound in bytes from the guide's formula, what the process has
//! in memory then, and what a view holds back.
//!
//! ```text
//! cargo run --release --example memory           # of 64 MiB
//! cargo run --release --example memory 512       # of 512 MiB
//! ```
//!
//! Pasted into a crate of its own, it needs this:
//!
//! ```toml
//! [dependencies]
//! cortado = "0.1"
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use cortado::Cache;
use std::process::ExitCode;
use std::sync::Arc;

type Pages = Cache<u64, Arc<[u8]>>;

const MIB: usize = 1 << 20;

/// A page's weight is what the formula of the guide says of it: the node with its place in index
/// and policy, the key and the pointer, and the allocation behind that.
fn weight(page: &Arc<[u8]>) -> u32 {
    u32::try_from(75 + size_of::<(u64, Arc<[u8]>)>() + 16 + page.len() + 16).unwrap_or(u32::MAX)
}

/// Pages of 500 to 4,500 bytes.
fn page(number: u64) -> Arc<[u8]> {
    let length = 500 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 4_001;
    Arc::from(vec![1; usize::try_from(length).unwrap_or(0)])
}

/// What the process has in memory, where Linux says it.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<usize>().ok()? * 1024)
}

fn print(what: &str, pages: &Pages) {
    let stats = pages.stats();
    let in_memory = resident().map_or("?".to_owned(), |bytes| (bytes / MIB).to_string());
    println!(
        "{what}: {} pages, weight {} MiB; {} MiB for nodes, index, policy and buffers; {} removed pages of \
         {} MiB are still there; the process has {in_memory} MiB",
        stats.entries,
        stats.weight as usize / MIB,
        stats.own_bytes as usize / MIB,
        stats.pending_drops,
        stats.pending_drop_weight as usize / MIB,
    );
}

fn main() -> ExitCode {
    let limit = std::env::args().nth(1).map_or(Ok(64), |it| it.parse::<usize>());
    let Ok(limit @ 1..=1_000_000) = limit else {
        println!("not a number of MiB from 1 to 1,000,000");
        return ExitCode::FAILURE;
    };
    // The ninth part is for free nodes, overflow buckets and fragmentation.
    let capacity = (limit * MIB) as u64 * 8 / 9;
    let pages: Pages =
        Cache::builder().max_capacity(capacity).weigher(|_, page| weight(page)).build();
    print("empty", &pages);
    let fits = capacity / 2_600;
    (0..2 * fits).for_each(|number| pages.insert(number, page(number)));
    pages.run_pending_tasks();
    print("full", &pages);

    let view = pages.pin();
    let keys: Vec<u64> = pages.keys().take(1_000).collect();
    keys.iter().for_each(|&key| pages.insert(key, page(key)));
    pages.run_pending_tasks();
    print(&format!("{} written over under a view", keys.len()), &pages);
    drop(view);
    while pages.stats().pending_drops > 0 {
        pages.run_pending_tasks();
    }
    print("without the view", &pages);
    ExitCode::SUCCESS
}
