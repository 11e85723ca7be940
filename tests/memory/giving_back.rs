//! Memory of nodes that nobody needs any more is given back, piece by piece, and taken again when
//! it is needed. In counts of nodes.

use crate::common::audited::{Audited, audited};
use cortado::internals::hash::Hash32;
use cortado::internals::pool::{Column, Columns, Pool};
use cortado::{Cache, Clock};
use std::collections::HashSet;
use std::time::{Duration, Instant};

const CAPACITY: u64 = 1000;
const WRITES: u64 = 100_000;

fn cache() -> Audited<u64, String> {
    let (clock, _hand) = Clock::manual();
    let builder = Cache::builder().max_capacity(CAPACITY).time_to_idle(Duration::from_secs(3600));
    audited(builder.clock(clock).build())
}

/// Makes the pool large: nothing that is replaced while the view is held can be used again.
fn swell(cache: &Cache<u64, String>, round: u64) {
    let view = cache.pin();
    std::thread::scope(|scope| {
        scope.spawn(|| (0..WRITES).for_each(|n| cache.insert(n % 2000, format!("{round} {n}"))));
    });
    drop(view);
}

/// Runs the maintenance until nothing is held back.
fn settle(cache: &Cache<u64, String>) {
    let begun = Instant::now();
    while cache.run_pending_tasks_up_to(10_000).reclamations > 0 {
        assert!(begun.elapsed() < crate::common::HANG, "held back for ever");
        std::thread::yield_now();
    }
}

#[test]
fn what_a_view_made_of_the_pool_is_given_back_after_it() {
    let cache = cache();
    for round in 0..3 {
        swell(&cache, round);
        settle(&cache);
        let made = cache.pool().ids().count() as u64;
        assert!(made > WRITES * 9 / 10, "{made} nodes: nothing was held back");
        cache.run_pending_tasks();
        let left = made - cache.pool().parked() as u64;
        assert!(left < made / 8, "round {round}: {left} nodes of {made} keep their memory");
        cache.audit();
        // Those that live are as they were.
        let seen =
            cache.entries().filter(|entry| entry.value().starts_with(&format!("{round} "))).count();
        assert_eq!(seen as u64, cache.entry_count());
    }
    // The second and third rounds had what the first gave back.
    let made = cache.pool().ids().count() as u64;
    assert!(made < WRITES * 5 / 4 + 20_000, "{made} nodes after three rounds of {WRITES}");
}

/// The passes that expire them do not count among those that give back.
#[test]
fn a_request_gives_back_what_it_has_expired() {
    const ENTRIES: usize = 300_000;
    let (clock, hand) = Clock::manual();
    let cache = audited(Cache::builder().clock(clock).build());
    let life = Duration::from_secs(60);
    (0..ENTRIES).for_each(|key| cache.insert_with_ttl(key, key.to_string(), life));
    cache.run_pending_tasks();
    hand.advance(2 * life);
    let begun = Instant::now();
    cache.run_pending_tasks();
    // Another test's guard may have held it back.
    while cache.run_pending_tasks_up_to(1).reclamations > 0 {
        assert!(begun.elapsed() < crate::common::HANG, "held back for ever");
        std::thread::yield_now();
        cache.run_pending_tasks();
    }
    // As many as are kept at hand stay, and as many in blocks that are not complete.
    let left = cache.pool().ids().count() - cache.pool().parked();
    assert!(left <= 4096, "{left} nodes of {ENTRIES} keep their memory");
}

#[test]
fn a_pass_looks_at_a_few_only() {
    let pool: Pool<u64, String> = Pool::new(Columns::NONE.with(Column::HardDeadline));
    let drafts: Vec<_> = (0..50_000).map(|key| pool.draft(Hash32::FIRST.with(key))).collect();
    drop(drafts);
    let raw = pool.raw();
    let mut calls = 0;
    while raw.trim(1000) {
        calls += 1;
        assert!(raw.parked() <= 1000 * calls + 256, "{} after {calls} calls", raw.parked());
    }
    assert!(calls >= 43, "{calls} calls for 50,000 nodes");
    assert!(raw.parked() > 40_000, "{} given back", raw.parked());

    // Each id is one node's, wherever it was.
    let drafts: Vec<_> = (0..60_000).map(|key| pool.draft(Hash32::FIRST.with(key))).collect();
    let shared: Vec<_> = drafts.iter().map(|draft| draft.share()).collect();
    assert_eq!(shared.iter().map(|node| node.id()).collect::<HashSet<_>>().len(), 60_000);
    assert!(drafts.iter().zip(0..).all(|(draft, key)| *draft.key() == key));
    assert_eq!(raw.parked(), 0);
    assert_eq!(raw.ids().count(), 60_000);
}

/// What stays at hand of large nodes is bounded in bytes.
fn stays<const N: usize>() -> usize {
    let builder = Cache::<u32, [u8; N]>::builder().clock(Clock::manual().0);
    let cache = audited(builder.build());
    (0..40).for_each(|key| cache.insert(key, [1; N]));
    let made = cache.pool().ids().count();
    cache.invalidate_all();
    let begun = Instant::now();
    // Another test's guard may have held it back.
    while cache.run_pending_tasks_up_to(1000).reclamations > 0 {
        assert!(begun.elapsed() < crate::common::HANG, "held back for ever");
        std::thread::yield_now();
    }
    cache.run_pending_tasks();
    (made - cache.pool().parked()) * N
}

#[test]
fn few_large_nodes_stay() {
    // A test's stack is too small for these values.
    let large = std::thread::Builder::new().stack_size(1 << 26);
    let stays = || [stays::<40_000>(), stays::<100_000>(), stays::<500_000>()];
    let stay = large.spawn(stays).expect("a thread").join().expect("no panic");
    assert!(stay.iter().all(|bytes| *bytes <= 1 << 18), "{stay:?} bytes");
}

/// A cache that nothing was written to has nodes all the same: those of loads that failed.
#[test]
fn nodes_of_loads_that_failed_are_given_back() {
    let cache: Audited<u64, u64> = audited(Cache::new(100_000));
    let failed = cache.try_get_many_with(0..10_000, |_| Err::<Vec<(u64, u64)>, _>("it is down"));
    assert!(failed.is_err());
    for rounds in 0.. {
        if cache.run_pending_tasks_up_to(100).is_done() {
            break;
        }
        assert!(rounds < 10_000, "it never ends");
    }
}
