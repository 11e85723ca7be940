//! Others may be reading it.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let mut entry = cache.get_entry(&1).unwrap();
    entry.push('!'); //~ E0596
}
