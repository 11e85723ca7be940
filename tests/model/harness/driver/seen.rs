//! What there is to see of an entry through its handle, and what the model says there should be.

use crate::harness::oracle::Rec;
use crate::harness::subject::{Key, Value};
use cortado::Entry;
use std::time::Duration;

pub(super) type Handle = Entry<Key, Value>;

/// What there is to see of an entry.
#[derive(Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) id: u64,
    pub(super) key: u8,
    age: Duration,
    left: Option<Duration>,
    weight: u32,
    fresh: bool,
}

impl Seen {
    pub(super) fn of(entry: &Handle) -> Self {
        Self {
            id: entry.value().id,
            key: entry.key().number,
            age: entry.age(),
            left: entry.expires_in(),
            weight: entry.weight(),
            fresh: entry.is_fresh(),
        }
    }

    pub(super) fn expected(rec: &Rec, now: u64, fresh: bool) -> Self {
        let (age, left) = (rec.age(now), rec.left(now));
        Self { id: rec.id, key: rec.key, age, left, weight: rec.traits.weight, fresh }
    }
}
