//! A view is one of a cache that is there.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let view = cache.pin();
    drop(cache); //~ E0505
    println!("{:?}", view.get(&1));
}
