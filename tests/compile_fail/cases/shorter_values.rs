//! The same of values.
use cortado::Cache;

fn shorten<'a>(cache: &'a Cache<u8, &'static str>, _: &'a str) -> &'a Cache<u8, &'a str> {
    cache //~ lifetime may not live long enough
}

fn main() {
    shorten(&Cache::new(1), "");
}
