//! So does the expiry policy.
use cortado::{Cache, Expiry};
use std::cell::Cell;
use std::time::{Duration, Instant};

struct Counting(Cell<u32>);

impl Expiry<u8, u8> for Counting {
    fn expire_after_create(&self, _: &u8, _: &u8, _: Instant) -> Option<Duration> {
        self.0.set(self.0.get() + 1);
        None
    }
}

fn main() {
    let cache: Cache<u8, u8> = Cache::builder().expire_after(Counting(Cell::new(0))).build(); //~ E0277
    drop(cache);
}
