//! A temporary view is gone at the end of the statement.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let value = cache.pin().get(&1); //~ E0716
    println!("{value:?}");
}
