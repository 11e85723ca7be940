//! A value is dropped on any thread.
use cortado::Cache;
use std::sync::MutexGuard;

fn main() {
    let cache = Cache::<u8, MutexGuard<'static, u8>>::new(1); //~ E0599
    drop(cache);
}
