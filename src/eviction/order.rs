//! Iterators over the nodes in the order of their prospects, for inspection.

use super::regions::Regions;
use super::store::{PolicyStore, Region};
use crate::links::NodeId;
use crate::sketch::Sketch;

/// The nodes, roughly in the order in which the policy would evict them:
///
/// 1. Window and probation, each from its end, merged so that the less frequent node comes first.
///    Without a sketch, which means without duels: probation, then the window.
/// 2. Protected, from its end.
/// 3. Nodes that are set aside, in no order.
/// 4. Nodes of weight 0, which are never evicted.
pub fn coldest<'a>(
    regions: &'a Regions,
    sketch: Option<&'a Sketch>,
    store: &'a impl PolicyStore,
) -> impl Iterator<Item = NodeId> + 'a {
    let heat = heat(sketch, store);
    let unproven = merge(
        regions.of(Region::Probation).list.iter_back(store),
        regions.of(Region::Window).list.iter_back(store),
        move |a, b| heat(a) <= heat(b),
    );
    unproven
        .chain(regions.of(Region::Protected).list.iter_back(store))
        .chain(regions.aside.iter())
        .chain(regions.of(Region::Weightless).list.iter_back(store))
}

/// Roughly the reverse order of [`coldest`], except that the nodes of weight 0 come last here too.
pub fn hottest<'a>(
    regions: &'a Regions,
    sketch: Option<&'a Sketch>,
    store: &'a impl PolicyStore,
) -> impl Iterator<Item = NodeId> + 'a {
    let heat = heat(sketch, store);
    let unproven = merge(
        regions.of(Region::Probation).list.iter(store),
        regions.of(Region::Window).list.iter(store),
        move |a, b| heat(a) > heat(b),
    );
    regions
        .of(Region::Protected)
        .list
        .iter(store)
        .chain(regions.aside.iter())
        .chain(unproven)
        .chain(regions.of(Region::Weightless).list.iter(store))
}

/// How often the nodes' keys were requested; the same for all without a sketch.
fn heat<'a>(
    sketch: Option<&'a Sketch>,
    store: &'a impl PolicyStore,
) -> impl Fn(NodeId) -> u8 + Copy + 'a {
    move |id| sketch.map_or(0, |sketch| sketch.frequency(sketch.spread(store.hash(id))))
}

/// Merges two sequences. If both have a next element, `first_goes` compares the two and decides
/// whether the element of the first sequence comes first.
fn merge(
    first: impl Iterator<Item = NodeId>,
    second: impl Iterator<Item = NodeId>,
    first_goes: impl Fn(NodeId, NodeId) -> bool,
) -> impl Iterator<Item = NodeId> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some(&a), Some(&b)) if !first_goes(a, b) => second.next(),
        (Some(_), _) => first.next(),
        (None, _) => second.next(),
    })
}
