//! The listener may be called after the function that made the cache has returned.
use cortado::Cache;
use std::sync::atomic::{AtomicU32, Ordering};

fn main() {
    let count = AtomicU32::new(0);
    let counting = &count; //~ E0597
    let cache: Cache<u8, u8> = Cache::builder()
        .removal_listener(move |_| _ = counting.fetch_add(1, Ordering::Relaxed))
        .build();
    drop(cache);
}
