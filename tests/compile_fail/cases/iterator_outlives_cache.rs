//! So is an iterator.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let values = cache.values();
    drop(cache); //~ E0505
    println!("{}", values.count());
}
