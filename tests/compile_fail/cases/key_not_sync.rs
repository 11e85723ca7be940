//! A key is compared on any thread.
use cortado::Cache;
use std::cell::Cell;
use std::marker::PhantomData;

#[derive(PartialEq, Eq, Hash)]
struct Key(PhantomData<Cell<u8>>);

fn main() {
    let cache = Cache::<Key, u8>::new(1); //~ E0599
    drop(cache);
}
