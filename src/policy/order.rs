//! The entries in the order of their prospects, for inspection.

use super::admission::Admission;
use super::regions::Regions;
use super::store::{PolicyStore, Region};

/// Roughly in the order in which they would be evicted: window and probation from their ends, the
/// less frequent first, then protected, then those that are never evicted.
pub fn coldest<'a, S: PolicyStore + ?Sized>(
    regions: &'a Regions,
    admission: &'a Admission,
    store: &'a S,
) -> impl Iterator<Item = u32> + 'a {
    let heat = move |id| admission.frequency(admission.spread(store.hash(id)));
    let unproven = merge(
        regions.lane(Region::Probation).list.iter_back(store),
        regions.lane(Region::Window).list.iter_back(store),
        move |a, b| heat(a) <= heat(b),
    );
    unproven
        .chain(regions.lane(Region::Protected).list.iter_back(store))
        .chain(regions.lane(Region::Weightless).list.iter_back(store))
}

/// The other way round, but for those that are never evicted: they come last here too.
pub fn hottest<'a, S: PolicyStore + ?Sized>(
    regions: &'a Regions,
    admission: &'a Admission,
    store: &'a S,
) -> impl Iterator<Item = u32> + 'a {
    let heat = move |id| admission.frequency(admission.spread(store.hash(id)));
    let unproven = merge(
        regions.lane(Region::Probation).list.iter(store),
        regions.lane(Region::Window).list.iter(store),
        move |a, b| heat(a) > heat(b),
    );
    regions
        .lane(Region::Protected)
        .list
        .iter(store)
        .chain(unproven)
        .chain(regions.lane(Region::Weightless).list.iter(store))
}

/// Both sequences as one; where both have a next, `first_goes` of the two decides.
fn merge(
    first: impl Iterator<Item = u32>,
    second: impl Iterator<Item = u32>,
    first_goes: impl Fn(u32, u32) -> bool,
) -> impl Iterator<Item = u32> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(&a), Some(&b)) if !first_goes(a, b) => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}
