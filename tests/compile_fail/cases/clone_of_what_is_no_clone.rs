//! To get a value by value takes a clone.
use cortado::Cache;

struct Single;

fn main() {
    let cache = Cache::<u8, Single>::new(1);
    cache.insert(1, Single);
    assert!(cache.get_entry(&1).is_some());
    drop(cache.get(&1)); //~ E0277
}
