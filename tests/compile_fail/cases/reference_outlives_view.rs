//! What a view shows is protected as long as the view is held.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let view = cache.pin();
    let value = view.get(&1);
    drop(view); //~ E0505
    println!("{value:?}");
}
