//! A key goes where the cache goes.
use cortado::Cache;
use std::rc::Rc;

fn main() {
    let cache = Cache::<Rc<u8>, u8>::new(1); //~ E0599
    drop(cache);
}
