//! The listener is called by whoever runs maintenance.
use cortado::Cache;
use std::rc::Rc;

fn main() {
    let count = Rc::new(());
    let cache: Cache<u8, u8> = Cache::builder()
        .removal_listener(move |_| drop(Rc::clone(&count))) //~ E0277
        .build();
    drop(cache);
}
