//! What the other cases get wrong, done right: this one compiles.

use cortado::{Cache, Clock, Expiry, Removed};
use std::collections::hash_map::RandomState;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

struct Minute;

impl Expiry<String, u8> for Minute {
    fn expire_after_create(&self, _: &String, _: &u8, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(60))
    }
}

fn main() {
    let last: Arc<Mutex<Option<Removed<String, u8>>>> = Arc::default();
    let keep = Arc::clone(&last);
    let cache: Cache<String, u8, RandomState> = Cache::builder()
        .weigher(|key: &String, _| key.len() as u32)
        .expire_after(Minute)
        .clock(Clock::custom(|| Duration::from_secs(1)))
        .removal_listener(move |removed| *keep.lock().unwrap() = Some(removed))
        .build_with_hasher(RandomState::new());
    let borrowed = String::from("k");
    cache.insert(borrowed.clone(), 1);
    std::thread::scope(|scope| {
        scope.spawn(|| cache.get(borrowed.as_str()));
        scope.spawn(|| cache.pin().get("k").copied());
    });
    let mut view = cache.pin();
    assert!(view.get("k").is_some());
    view.repin();
    let entry = cache.get_entry("k").unwrap();
    let loaded = cache.entry("l".to_owned()).or_insert_with(|| borrowed.len() as u8);
    drop(view);
    let sum: u8 = cache.entries().map(|entry| *entry).sum();
    drop(cache);
    std::thread::spawn(move || assert!(*entry + *loaded <= sum)).join().unwrap();
}
