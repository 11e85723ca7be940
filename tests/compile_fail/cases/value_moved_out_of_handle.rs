//! Others may hold the same value.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let entry = cache.get_entry(&1).unwrap();
    let value: String = *entry; //~ E0507
    drop(value);
}
