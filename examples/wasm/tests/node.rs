//! A cache that runs on `wasm32-unknown-unknown`, in Node.
#![cfg(all(target_family = "wasm", target_os = "unknown"))]

use cortado::metrics::Exporter;
use cortado::{Cache, Clock, Expiry, Instant, Loaded, RemovalCause, Snapshot, expire};
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wasm_bindgen_test::wasm_bindgen_test;

const MINUTE: Duration = Duration::from_secs(60);

#[wasm_bindgen_test]
fn lifetimes_of_the_cache_and_of_the_call() {
    let (clock, hand) = Clock::manual();
    let cache: Cache<&str, u32> = Cache::builder().time_to_live(MINUTE).clock(clock).build();
    cache.insert("minute", 1);
    cache.insert_with_ttl("second", 2, Duration::from_secs(1));
    hand.advance(Duration::from_secs(1));
    assert_eq!((cache.get("minute"), cache.get("second")), (Some(1), None));
    hand.advance(MINUTE);
    assert_eq!(cache.get("minute"), None);
}

#[wasm_bindgen_test]
fn the_clock_of_the_host_goes_on() {
    let cache: Cache<&str, u32> = Cache::new(10);
    let until = Instant::now() + Duration::from_millis(20);
    cache.insert_until("k", 1, until);
    assert_eq!(cache.get("k"), Some(1));
    while Instant::now() < until {}
    assert_eq!(cache.get("k"), None);
}

/// Lifetimes by the clock of the host: of the cache, of the call, and of what a load has found.
#[wasm_bindgen_test]
fn lifetimes_end_by_the_clock_of_the_host() {
    let short = Duration::from_millis(20);
    let cache: Cache<&str, u32> = Cache::builder().time_to_live(short).build();
    cache.insert("cache", 1);
    cache.insert_with_ttl("call", 2, short);
    cache.insert_with_ttl("minute", 3, MINUTE);
    let until = Instant::now() + short;
    assert_eq!(cache.load("load", || Loaded::new(4).until(until)), 4);
    let of = |key| cache.get(key);
    assert_eq!(["cache", "call", "minute", "load"].map(of), [Some(1), Some(2), Some(3), Some(4)]);
    let end = Instant::now() + short;
    while Instant::now() < end {}
    assert_eq!(["cache", "call", "minute", "load"].map(of), [None, None, Some(3), None]);
}

/// The hooks of a policy take the time of the operation.
#[wasm_bindgen_test]
fn hooks_take_the_time() {
    #[derive(Clone, Default)]
    struct Times(Arc<Mutex<Vec<Instant>>>);
    impl Expiry<u32, u32> for Times {
        fn expire_after_create(&self, _: &u32, _: &u32, now: Instant) -> Option<Duration> {
            self.0.lock().unwrap().push(now);
            Some(MINUTE)
        }
    }
    let (clock, hand) = Clock::manual();
    let times = Times::default();
    let cache = Cache::builder().expire_after(times.clone()).clock(clock).build();
    cache.insert(1, 1);
    hand.advance(MINUTE / 2);
    cache.insert(2, 2);
    let times = times.0.lock().unwrap();
    assert_eq!(times[1] - times[0], MINUTE / 2);
    assert_eq!(cache.expires_in(&1).due(), Some(MINUTE / 2));
}

#[wasm_bindgen_test]
fn entries_are_saved_and_restored() {
    let cache: Cache<u32, String> = Cache::new(10);
    cache.insert_with_ttl(1, "one".to_owned(), MINUTE);
    let mut bytes = Vec::new();
    assert_eq!(cache.save(&mut bytes).unwrap(), 1);
    let cache: Cache<u32, String> = Cache::new(10);
    let mut snapshot = Snapshot::read(bytes.as_slice()).unwrap();
    assert_eq!(cache.restore(&mut snapshot, 10), 1);
    assert_eq!(cache.get(&1).as_deref(), Some("one"));
    assert!(cache.expires_in(&1).due().is_some_and(|left| left <= MINUTE));
}

/// With a recorder of the crate metrics that does nothing: publishing and spans do not panic.
#[wasm_bindgen_test]
fn statistics_are_published_and_loads_have_spans() {
    let cache: Cache<u32, u32> = Cache::builder().name("pages").record_stats(true).build();
    assert_eq!(cache.get_with(1, || 7), 7);
    Exporter::new("pages").publish(&cache.stats());
    assert_eq!(cache.stats().load_times().count(), 1);
}

#[wasm_bindgen_test]
fn a_policy_gives_each_entry_its_lifetime() {
    let (clock, hand) = Clock::manual();
    let policy = expire::on_write(|_: &&str, seconds: &u64| Some(Duration::from_secs(*seconds)));
    let cache = Cache::builder().expire_after(policy).clock(clock).build();
    cache.insert("short", 1);
    cache.insert("long", 3);
    hand.advance(Duration::from_secs(2));
    assert_eq!((cache.get("short"), cache.get("long")), (None, Some(3)));
}

#[wasm_bindgen_test]
fn a_value_is_loaded_once() {
    let cache: Cache<&str, u32> = Cache::new(10);
    let loads = Cell::new(0);
    for _ in 0..3 {
        let value = cache.get_with("k", || {
            loads.set(loads.get() + 1);
            7
        });
        assert_eq!(value, 7);
    }
    assert_eq!(loads.get(), 1);
}

#[wasm_bindgen_test]
fn a_clock_of_the_users_own() {
    let cache: Cache<&str, u32> =
        Cache::builder().time_to_live(MINUTE).clock(Clock::custom(|| MINUTE)).build();
    cache.insert("k", 1);
    assert_eq!(cache.get("k"), Some(1));
}

/// There are no threads: operations run the listener.
#[wasm_bindgen_test]
fn listeners_run_in_operations() {
    let (clock, hand) = Clock::manual();
    let causes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&causes);
    let cache: Cache<u32, u32> = Cache::builder()
        .time_to_live(MINUTE)
        .clock(clock)
        .removal_listener(move |removed| seen.lock().unwrap().push(removed.cause()))
        .build();
    cache.insert(1, 1);
    cache.insert(1, 2);
    cache.insert(2, 2);
    cache.remove(&2);
    hand.advance(MINUTE);
    cache.run_pending_tasks();
    let expected = [RemovalCause::Replaced, RemovalCause::Explicit, RemovalCause::Expired];
    assert_eq!(*causes.lock().unwrap(), expected);
}

/// A reload runs in the call that finds the stale value.
#[wasm_bindgen_test]
fn stale_values_are_reloaded_at_once() {
    let (clock, hand) = Clock::manual();
    let versions = Mutex::new(0);
    let cache = Cache::builder().refresh_after_write(MINUTE).clock(clock).build_with_loader(
        move |_: &'static str| {
            let mut version = versions.lock().unwrap();
            *version += 1;
            Ok::<_, ()>(Loaded::new(*version))
        },
    );
    assert_eq!(cache.get(&"k"), Ok(1));
    hand.advance(MINUTE);
    let _ = cache.get(&"k");
    assert_eq!(cache.get(&"k"), Ok(2));
}

#[wasm_bindgen_test]
async fn a_cache_for_tasks() {
    let cache: cortado::future::Cache<&str, u32> = cortado::future::Cache::new(10);
    let value = cache.get_with("k", async { 7 }).await;
    assert_eq!((value, cache.get("k").await), (7, Some(7)));
}

#[wasm_bindgen_test]
fn a_scheduler_is_refused() {
    let refused = Cache::<u32, u32>::builder().scheduler(true).try_build();
    assert_eq!(refused.unwrap_err().setting(), "scheduler");
}

/// The keys of hashers come from the host, so each cache has its entries in an order of its own.
#[wasm_bindgen_test]
fn hashers_have_random_keys() {
    let orders: HashSet<Vec<u32>> = (0..8)
        .map(|_| {
            let cache: Cache<u32, u32> = Cache::new(100);
            (0..64).for_each(|key| cache.insert(key, key));
            cache.iter().map(|(key, _)| *key).collect()
        })
        .collect();
    assert_eq!(orders.len(), 8);
}
