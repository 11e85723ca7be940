//! What a program checks at its end.

use super::ledger::Ledger;
use super::program::Program;
use super::subject::{Bench, Listener};
use crate::hand::Task;
use cortado::{Overflow, RemovalCause, Stats};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Checks the cache before its end: first while it is open, and then, in some programs, closed.
/// Returns its statistics.
pub fn check(program: &mut Program<'_>) -> Stats {
    let bench = program.bench;
    finish(program);
    bench.threads().audit();
    check_sums(bench);
    if bench.config.is_closed {
        bench.note("the cache is closed");
        Task::new(bench.tasks.close()).run();
        finish(program);
        assert_eq!(bench.threads().entry_count(), 0, "entries of a closed cache");
    }
    let stats = bench.threads().stats();
    check_counts(bench, &stats);
    stats
}

/// Runs all jobs, does all maintenance, which may hand reloads on, and receives what that
/// announces.
fn finish(program: &mut Program<'_>) {
    loop {
        while program.bench.run_next_job() {}
        Task::new(program.bench.tasks.run_pending_tasks()).run();
        program.receive();
        if !program.bench.run_next_job() {
            return;
        }
    }
}

/// Counts and weights are sums over the entries.
fn check_sums(bench: &Bench) {
    let cache = bench.threads();
    let weights: Vec<u64> = cache.entries().map(|entry| u64::from(entry.weight())).collect();
    let counted = (cache.entry_count(), cache.weighted_size());
    assert_eq!(counted, (weights.len() as u64, weights.iter().sum()), "entries and weights");
}

/// Every removal was announced once, unless it was discarded, or refused by a closed cache.
fn check_counts(bench: &Bench, stats: &Stats) {
    let config = &bench.config;
    let fates = bench.fates();
    assert!(fates.iter().all(|fate| fate.announced <= 1), "a removal was announced twice");
    let announced = fates.iter().filter(|fate| fate.announced == 1).count() as u64;
    let (discarded, refused) = (stats.discarded_notifications, stats.refused_after_close);
    let removed: u64 = RemovalCause::ALL.iter().map(|cause| stats.removed(*cause)).sum();
    let lost = removed.checked_sub(announced + discarded + refused);
    let lost = lost.expect("what was announced or not was removed");
    // A key that panics between the queue and the listener that awaits takes the announcement with
    // it, and counts as a panic of the listener.
    let may_lose = match config.listener {
        Listener::Awaiting => stats.listener_panics - bench.ledger.told_panics.load(Relaxed),
        _ => 0,
    };
    assert!(lost <= may_lose, "{lost} of {removed} removals were not announced, {stats:?}");
    if !matches!(config.limit, Some((_, Overflow::Discard))) {
        assert_eq!(discarded, 0, "discarded, though nothing may be");
    }
    assert_eq!(stats.pending_notifications, 0, "pending notifications");
    assert_eq!(stats.reloads_under_way, 0, "reloads under way");
    assert_eq!(stats.insertions, removed + stats.entries, "inserted; removed or there");
}

/// So many keys and values a panic of a destructor may leak: those of a bulk load.
const MOST_LEAKS: i64 = 4;

/// Checks what is left when the cache is gone.
pub fn check_nothing_is_left(ledger: &Arc<Ledger>) {
    let fates = ledger.fates();
    for (number, fate) in fates.iter().enumerate() {
        assert!(fate.dropped <= 1, "value {number} was dropped {} times", fate.dropped);
    }
    // A destructor that panics may leak what an operation holds beside it, and nothing else.
    let kept = fates.iter().filter(|fate| fate.dropped == 0).count() as i64;
    let leaks = kept + ledger.living_keys.load(Relaxed) + ledger.living_clones.load(Relaxed);
    let explosions = ledger.explosions.load(Relaxed);
    assert!((0..=MOST_LEAKS * explosions).contains(&leaks), "{leaks} leaks by {explosions} panics");
    assert_eq!(ledger.failed_jobs.load(Relaxed), 0, "jobs whose panics reach the executor");
    assert_eq!(ledger.strange_calls.load(Relaxed), 0, "calls of user code by other threads");
}
