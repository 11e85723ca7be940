//! What the index has outgrown does not stay until it grows again. In a program of its own: guards
//! of other tests would keep it.
#![cfg(not(cortado_loom))]

mod common;

use common::audited::audited;
use common::effort::share;
use cortado::{Cache, Clock};

/// Also where nothing ever leaves the cache, so that no node has to be released.
#[test]
fn outgrown_tables_go_by_inserts_alone() {
    let (clock, _hand) = Clock::manual();
    let cache = audited(Cache::<u64, u64>::builder().clock(clock).build());
    let (mut since, mut spans) = (None, Vec::new());
    for key in 0..share(1_000_000).max(250_000) {
        cache.insert(key, key);
        if cache.retired_tables() > 0 {
            since = since.or(Some(key));
        } else if let Some(since) = since.take() {
            spans.push(key - since);
        }
    }
    assert!(since.is_none() && spans.len() > 3, "{since:?} {spans:?}");
    assert!(spans.iter().all(|&span| span < 20_000), "kept for so many inserts: {spans:?}");
}
