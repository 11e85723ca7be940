//! What the listener keeps, it keeps by handle.
use cortado::Cache;
use std::sync::Mutex;

static LAST: Mutex<Option<&'static String>> = Mutex::new(None);

fn main() {
    let cache: Cache<u8, String> = Cache::builder()
        .removal_listener(|removed| *LAST.lock().unwrap() = Some(removed.value())) //~ E0597
        .build();
    drop(cache);
}
