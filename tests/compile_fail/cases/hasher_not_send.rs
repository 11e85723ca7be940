//! The hasher goes where the cache goes.
use cortado::Cache;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::rc::Rc;

#[derive(Clone, Default)]
struct Hashing(BuildHasherDefault<DefaultHasher>, Rc<()>);

impl std::hash::BuildHasher for Hashing {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        self.0.build_hasher()
    }
}

fn main() {
    let cache: Cache<u8, u8, _> = Cache::builder().build_with_hasher(Hashing::default()); //~ E0277
    drop(cache);
}
