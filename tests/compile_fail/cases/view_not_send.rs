//! A view stays on its thread.
use cortado::Cache;

fn main() {
    let cache = Cache::<u8, u8>::new(1);
    let view = cache.pin();
    std::thread::scope(|scope| {
        scope.spawn(move || view.get(&1).copied()); //~ E0277
    });
}
