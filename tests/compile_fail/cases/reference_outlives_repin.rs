//! To begin anew ends what was shown before.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, String>::new(1);
    let mut view = cache.pin();
    let value = view.get(&1);
    view.repin(); //~ E0502
    println!("{value:?}");
}
