//! Keys are looked up by what compares with them.
use cortado::Cache;

fn main() {
    let cache = Cache::<String, u8>::new(1);
    assert!(cache.get("k").is_none());
    assert!(cache.get(&1_u8).is_none()); //~ E0277
}
