//! The weigher runs on several threads at once.
use cortado::Cache;
use std::cell::Cell;

fn main() {
    let calls = Cell::new(0);
    let cache: Cache<u8, u8> = Cache::builder()
        .weigher(move |_, _| { //~ E0277
            calls.set(calls.get() + 1);
            1
        })
        .build();
    drop(cache);
}
