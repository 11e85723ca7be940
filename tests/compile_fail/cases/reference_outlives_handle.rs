//! A handle protects what it shows as long as it is there.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let value: &str = cache.get_entry(&1).unwrap().value(); //~ E0716
    println!("{value}");
}
