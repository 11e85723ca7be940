//! A computation's value outlives it.
use cortado::{Cache, Op};

fn main() {
    let cache = Cache::<u8, &'static str>::new(1);
    cache.entry(1).and_compute_with(|_| {
        let text = String::from("v");
        Op::Put(text.as_str()) //~ E0515
    });
}
