//! So may a value.
use cortado::Cache;

fn main() {
    let text = String::from("v");
    let cache = Cache::<u8, &str>::new(1);
    cache.insert(1, &text); //~ E0597
}
