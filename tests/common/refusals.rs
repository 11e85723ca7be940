//! Which operations user code may not call, by where the cache calls it: the names are those of the
//! matrices of re-entrancy.
#![allow(dead_code, reason = "each test binary uses its part")]

use super::fuse::{MISSING, Place};

/// The inner operations that wait for a load of the key, and those that wait for a computation
/// only.
pub const JOIN: [&str; 9] = [
    "load",
    "load if",
    "load fails",
    "load nothing",
    "load many",
    "load by a guard",
    "compute",
    "replace",
    "upsert",
];
pub const WRITE: [&str; 8] = [
    "insert",
    "insert_many",
    "remove",
    "remove_if",
    "invalidate_many",
    "set_ttl",
    "retain",
    "invalidate some",
];

/// Whether that is what is documented not to work: what waits for the key that it is itself working
/// on, and a hook, weigher or condition that writes the key that it was asked about.
pub fn is_refused(place: Place, outer: &str, inner: &str) -> bool {
    let asked = [Place::Weigher, Place::Create, Place::Update, Place::Read, Place::Condition];
    let writes = JOIN.contains(&inner) || WRITE.contains(&inner);
    // The condition of a read writes what it likes: the read acts on the answer by returning only.
    let is_of_a_read = outer == "get if" && place == Place::Condition;
    let answers = asked.contains(&place) && writes && !is_of_a_read;
    // They judge other keys, too.
    let judges = ["retain", "invalidate some"].contains(&outer) && place == Place::Condition;
    let judged = judges && !["get", "get_many"].contains(&inner);
    (waits(outer, inner) || answers || judged) && !place.is_listener()
}

pub fn waits(outer: &str, inner: &str) -> bool {
    let computes = outer.starts_with("compute");
    // A load gives way to writes; a computation does not, nor to what writes to every key.
    (JOIN.contains(&inner) && (computes || outer.starts_with("load")))
        || (WRITE.contains(&inner) && computes)
}

/// Whether that must be refused: the place is inside of the load or the computation, and the inner
/// operation waits for it. A load waits only if there is no value; a removal may find nothing.
pub fn must_be_refused(place: Place, (outer, key): (&str, u64), inner: &str) -> bool {
    let is_inside = matches!(place, Place::Loader | Place::Compute);
    let is_load = inner.starts_with("load");
    let puts = JOIN.contains(&inner) || inner.starts_with("insert");
    is_inside && waits(outer, inner) && puts && (!is_load || key == MISSING)
}
