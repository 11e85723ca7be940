//! Iterators over the nodes in the order of their prospects, for inspection.

use super::regions::Regions;
use super::store::{PolicyNode, PolicyStore, Region};
use crate::links::NodeId;
use crate::list::End;
use crate::sketch::Sketch;

/// The nodes by their prospects. From the back that is roughly the order in which the policy would
/// evict them:
///
/// 1. Window and probation, each from its end, merged so that the less frequent node comes first.
///    Without a sketch, which means without duels: probation, then the window.
/// 2. Protected, from its end.
/// 3. Nodes that are set aside, in no order.
/// 4. Nodes of weight 0, which are never evicted.
///
/// From the front: protected from its front, those set aside, window and probation merged so that
/// the more frequent node comes first, and those of weight 0.
pub fn ranked<'a>(
    regions: &'a Regions,
    sketch: Option<&'a Sketch>,
    store: &'a impl PolicyStore,
    end: End,
) -> impl Iterator<Item = NodeId> + 'a {
    let of = move |region| regions.of(region).list.iter(store, end);
    let heat = move |id| sketch.map_or(0, |it| it.frequency(it.spread(store.node(id).hash())));
    let hotter_first = end == End::Front;
    let unproven = merge(of(Region::Probation), of(Region::Window), move |a, b| {
        (heat(a) > heat(b)) == hotter_first
    });
    let proven = of(Region::Protected).chain(regions.aside.iter());
    let mut parts: [Box<dyn Iterator<Item = NodeId> + 'a>; 2] =
        [Box::new(unproven), Box::new(proven)];
    if hotter_first {
        parts.reverse();
    }
    parts.into_iter().flatten().chain(of(Region::Weightless))
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
