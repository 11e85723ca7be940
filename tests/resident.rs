//! The formula of the guide's page on memory, against what the process has in memory. Each test
//! runs in a process of its own, so that no other one's memory is counted.
#![cfg(all(target_os = "linux", not(cortado_loom)))]

use cortado::Cache;
use std::process::Command;
use std::sync::Arc;

/// As the page has it.
const fn bytes_per_entry<K, V>(pointed_to: usize, allocations: usize) -> usize {
    (75 + size_of::<(K, V)>() + pointed_to + 16 * allocations) * 9 / 8
}

#[test]
fn the_page_has_this_formula() {
    let page = include_str!("../docs/guide/memory.md");
    assert!(page.contains("(75 + size_of::<(K, V)>() + pointed_to + 16 * allocations) * 9 / 8"));
}

/// Runs a test in a process of its own.
fn alone(test: &str, run: fn()) {
    if std::env::var_os("CORTADO_ALONE").is_some() {
        return run();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let command = command.args(["--exact", test, "--nocapture"]).env("CORTADO_ALONE", "1");
    assert!(command.status().unwrap().success());
}

fn resident() -> usize {
    let numbers = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = numbers.split(' ').nth(1).unwrap().parse().unwrap();
    // Where a page has more, the figure is too small, and the tests fail.
    pages * 4096
}

/// No more than the formula says, and no less than two thirds of it.
fn check(measured: usize, expected: usize) {
    assert!(measured <= expected, "{measured} bytes are more than {expected}");
    assert!(measured >= expected * 2 / 3, "{measured} bytes are far fewer than {expected}");
}

#[test]
fn small_values() {
    alone("small_values", || {
        const ENTRIES: usize = 300_000;
        let before = resident();
        let cache: Cache<u64, u64> = Cache::new(ENTRIES as u64);
        // Twice as many as there is room for: those that were evicted are in memory no more.
        (0..2 * ENTRIES as u64).for_each(|key| cache.insert(key, key));
        cache.run_pending_tasks();
        check(resident() - before, ENTRIES * bytes_per_entry::<u64, u64>(0, 0));
        let own = cache.stats().own_bytes as usize;
        check(own, ENTRIES * bytes_per_entry::<u64, u64>(0, 0));
    });
}

#[test]
fn values_of_four_kilobytes_behind_an_arc() {
    alone("values_of_four_kilobytes_behind_an_arc", || {
        const ENTRIES: usize = 10_000;
        let before = resident();
        let cache: Cache<u64, Arc<[u8]>> = Cache::new(ENTRIES as u64);
        (0..2 * ENTRIES as u64).for_each(|key| cache.insert(key, Arc::from(vec![1; 4096])));
        cache.run_pending_tasks();
        let each = bytes_per_entry::<u64, Arc<[u8]>>(16 + 4096, 1);
        check(resident() - before, ENTRIES * each);
        let own = cache.stats().own_bytes as usize;
        check(own, ENTRIES * bytes_per_entry::<u64, Arc<[u8]>>(0, 0));
    });
}

#[test]
fn writes_under_a_view() {
    alone("writes_under_a_view", || {
        const ENTRIES: usize = 50_000;
        const WRITES: usize = 200_000;
        let value = |key: u64| format!("{key:0100}");
        let cache: Cache<u64, String> = Cache::new(ENTRIES as u64);
        (0..ENTRIES as u64).for_each(|key| cache.insert(key, value(key)));
        cache.run_pending_tasks();
        let before = resident();
        let view = cache.pin();
        (0..WRITES as u64).for_each(|write| cache.insert(write % ENTRIES as u64, value(write)));
        check(resident() - before, WRITES * bytes_per_entry::<u64, String>(100, 1));
        let stats = cache.stats();
        assert!(stats.pending_drops as usize > WRITES * 9 / 10);
        assert_eq!(stats.pending_drop_weight, stats.pending_drops);
        drop(view);
        while cache.stats().pending_drops > 0 {
            cache.run_pending_tasks();
        }
        assert_eq!(cache.stats().pending_drop_weight, 0);
    });
}
