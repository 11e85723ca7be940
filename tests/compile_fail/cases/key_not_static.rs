//! A key may be dropped after the cache: by a handle that somebody keeps.
use cortado::Cache;

fn main() {
    let text = String::from("k");
    let cache = Cache::<&str, u8>::new(1);
    cache.insert(&text, 1); //~ E0597
}
