//! A cache of keys that live for ever takes no others in, by whatever name it goes.
use cortado::Cache;

fn shorten<'a>(cache: Cache<&'static str, u8>) -> Cache<&'a str, u8> {
    cache //~ lifetime may not live long enough
}

fn main() {
    drop(shorten(Cache::new(1)));
}
