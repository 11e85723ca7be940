//! A value is read on any thread, by reference.
use cortado::Cache;
use std::cell::Cell;

fn main() {
    let cache = Cache::<u8, Cell<u8>>::new(1); //~ E0599
    drop(cache);
}
