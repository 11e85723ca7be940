//! So is the place of a key.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let place = cache.entry(1);
    drop(cache); //~ E0505
    place.or_insert_with(String::new);
}
