//! The policy's interface, and what it consists of. `queues` has the rest of it.

use super::admission::Admission;
use super::memory::Memory;
use super::regions::{Aside, Regions};
use super::store::{PolicyNode, PolicyStore, Region};
use super::targets::Targets;
use crate::config::Eviction as Kind;
use crate::hash::Hash32;
use crate::links::{Named, NodeId};
use crate::list::End;

/// The sketch grows from this many entries on, or when the cache is half full. Before that, no duel
/// is near, and the smallest sketch is enough.
const SKETCHED_ENTRIES: usize = 24;

/// The eviction policy; see the [module](super).
pub struct Policy {
    pub(super) kind: Kind,
    pub(super) regions: Regions,
    pub(super) targets: Targets,
    pub(super) admission: Admission,
    pub(super) memory: Memory,
    pub(super) duel: Duel,
    /// Whether the sketch grows with the entries.
    has_grown: bool,
    /// The node that was written last. A policy that rejects nothing evicts it after all others.
    pub(super) newest: NodeId,
}

/// The candidate that has won duels but not yet enough room. There may be none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Duel {
    /// The hash of its key, not its id: after an eviction, the id may name another key's node.
    pub candidate: Hash32,
    /// The weight that it has won.
    pub won: u64,
}

impl Policy {
    /// Creates a policy that keeps the weight within `max_weight`.
    pub(crate) fn of_kind(kind: Kind, max_weight: u64, seed: u64) -> Self {
        let window = match kind {
            Kind::TinyLfu => None,
            Kind::SegmentedLru => Some(0.02),
            Kind::Lru => Some(1.0),
        };
        Self::with_targets(kind, Targets::new(max_weight, window), seed)
    }

    pub(super) fn with_targets(kind: Kind, targets: Targets, seed: u64) -> Self {
        Self {
            kind,
            regions: Regions::default(),
            targets,
            admission: Admission::new(seed),
            memory: Memory::new(),
            duel: Duel::default(),
            has_grown: false,
            newest: NodeId::NONE,
        }
    }

    /// Whether an update counts as a use however short the time since the last use. That is so
    /// where no newcomer is rejected: the order of the last uses decides, and what was just written
    /// must not go first.
    #[inline]
    pub fn counts_every_update(&self) -> bool {
        self.kind != Kind::TinyLfu
    }

    /// The memory of its tables.
    pub fn bytes(&self) -> usize {
        self.admission.sketch.blocks.bytes() + self.memory.lines.bytes()
    }

    /// The weight of all nodes in the policy.
    pub fn weight(&self) -> u64 {
        self.regions.weight()
    }

    /// The number of nodes in the policy, including nodes of weight 0.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    pub fn max_weight(&self) -> u64 {
        self.targets.max
    }

    /// Changes the maximum weight. If the weight is over it now, [`Policy::take_victim`] returns
    /// the nodes to evict.
    pub fn set_max_weight(&mut self, max_weight: u64) {
        self.targets.set_max(max_weight);
    }

    /// Adds a new node. This counts as a request that missed. The caller passes the node that the
    /// store would return.
    pub fn add(&mut self, store: &impl PolicyStore, node: Named<&impl PolicyNode>) {
        let hash = node.node.hash();
        let spread = self.admission.sketch.spread(hash);
        if self.kind == Kind::TinyLfu {
            self.admission.sketch.increment(spread);
        }
        self.arrive(store, node, spread);
        self.fit();
        if !self.has_grown && self.kind == Kind::TinyLfu {
            self.grow_from_now_on(store);
        }
    }

    /// Puts `new`, an update of the same key, in the place of `old`, and counts a request that hit.
    /// If `old` is not in the policy, adds `new` as a new node. If `old` is set aside, this
    /// counts as a hit in the region that victims come from.
    pub fn replace(&mut self, store: &impl PolicyStore, old: NodeId, new: NodeId) {
        self.newest = new;
        match self.regions.remove(store, store.node(old)) {
            Region::None if self.regions.aside.remove(store, store.node(old)) => {
                self.hit(store, new.with(store.node(new)), self.region_of_victims());
            }
            Region::None => self.add(store, new.with(store.node(new))),
            region => self.hit(store, new.with(store.node(new)), region),
        }
    }

    /// Puts `new`, an update of the same key, in the place of `old`, without counting a request.
    /// Returns false, and does nothing, if `old` is not in the policy or if the two nodes differ in
    /// weight. The caller passes the nodes that the store would return.
    #[inline]
    pub fn replace_uncounted(
        &mut self,
        store: &impl PolicyStore,
        old: &impl PolicyNode,
        Named { id: new, node }: Named<&impl PolicyNode>,
    ) -> bool {
        old.weight() == node.weight() && self.regions.replace(store, old, new.with(node))
    }

    /// Puts `new`, which a reload has made, in the place of `old`, without counting a request. If
    /// exactly one of the two has weight 0, `new` goes to the front of the list for new nodes of
    /// its kind. If `old` is in no region, this is [`replace`](Self::replace), which counts.
    pub fn replace_reloaded(&mut self, store: &impl PolicyStore, old: NodeId, new: NodeId) {
        let (from, to) = (store.node(old), store.node(new));
        if self.newest == old {
            self.newest = new;
        }
        let (regions, region) = (&mut self.regions, from.region());
        let (before, after) = (from.weight(), to.weight());
        let has_room = (before == 0) == (after == 0);
        if has_room && regions.replace(store, from, new.with(to)) {
            return regions.reweigh(region, before, after);
        }
        match regions.remove(store, from) {
            Region::None => self.replace(store, old, new),
            _ if after == 0 => {
                regions.insert(store, new.with(to), Region::Weightless, End::Front);
            }
            Region::Weightless => regions.insert(store, new.with(to), Region::Window, End::Front),
            region => regions.insert(store, new.with(to), region, End::Front),
        }
    }

    /// Prefetches the frequency counters and the memory of a key that is about to be added or
    /// evicted.
    #[inline]
    pub fn prefetch(&self, hash: Hash32) {
        let spread = self.admission.sketch.spread(hash);
        self.admission.sketch.prefetch(spread);
        self.memory.prefetch(spread);
    }

    /// Prefetches the frequency counters of a key that is about to be counted.
    #[inline]
    pub fn prefetch_frequency(&self, hash: Hash32) {
        self.admission.sketch.prefetch(self.admission.sketch.spread(hash));
    }

    /// The next candidate and the next victim of the main region.
    #[inline]
    pub fn next_contenders(&self) -> [Option<NodeId>; 2] {
        [self.regions.of(Region::Window).list.back(), self.regions.main_victim()]
    }

    /// Records a hit. All hits since the node's last record, however many, count as one request. A
    /// node that is set aside, or not in the policy, is ignored.
    pub fn record_hit(&mut self, store: &impl PolicyStore, id: NodeId) {
        let node = store.node(id);
        match self.regions.remove(store, node) {
            Region::None => {}
            region => self.hit(store, id.with(node), region),
        }
    }

    /// Removes a node, if it is in the policy.
    #[inline]
    pub fn remove(&mut self, store: &impl PolicyStore, node: &impl PolicyNode) {
        // A victim that was taken is in the policy no more.
        if node.region() != Region::None || Aside::holds(node.links()) {
            self.remove_held(store, node);
        }
    }

    fn remove_held(&mut self, store: &impl PolicyStore, node: &impl PolicyNode) {
        if self.regions.remove(store, node) != Region::None
            || self.regions.aside.remove(store, node)
        {
            self.fit();
        }
    }

    /// If the weight is over the maximum, removes a node from the policy and returns it: the caller
    /// must evict it.
    #[inline]
    pub fn take_victim<'s, S: PolicyStore>(&mut self, store: &'s S) -> Option<Named<&'s S::Node>> {
        self.rebalance(store);
        if self.weight() <= self.max_weight() {
            return None;
        }
        let loser = self.loser(store)?;
        self.regions.remove(store, loser.node);
        self.fit();
        Some(loser)
    }

    /// Takes back a victim that cannot be evicted now, and puts it where it is the last to be
    /// chosen.
    ///
    /// The caller must bound its attempts: if no node can be evicted, `take_victim` returns all of
    /// them in turn. (A segmented LRU may choose the node before those of the window, and before
    /// the one that was written last.)
    pub fn readmit(&mut self, store: &impl PolicyStore, id: NodeId) {
        self.forget(store, id);
        self.put_last(store, id);
        self.fit();
    }

    /// Takes back a victim that cannot be evicted until [`restore`](Self::restore) is called. Until
    /// then it counts, and `take_victim` does not return it.
    pub fn set_aside(&mut self, store: &impl PolicyStore, id: NodeId) {
        self.forget(store, id);
        self.regions.aside.insert(store, id);
        self.fit();
    }

    /// Forgets that a node was evicted, because it stays.
    fn forget(&mut self, store: &impl PolicyStore, id: NodeId) {
        let _ = self.memory.take(self.admission.sketch.spread(store.node(id).hash()));
    }

    /// [Readmits](Self::readmit) a node, if it is set aside.
    pub fn restore(&mut self, store: &impl PolicyStore, id: NodeId) {
        if self.regions.aside.remove(store, store.node(id)) {
            self.readmit(store, id);
        }
    }

    /// The nodes: from the front, those with the best prospects first; from the back, roughly in
    /// the order in which the policy would evict them.
    pub fn ranked<'a>(
        &'a self,
        store: &'a impl PolicyStore,
        end: End,
    ) -> impl Iterator<Item = NodeId> + 'a {
        let duelling_sketch = (self.kind == Kind::TinyLfu).then_some(&self.admission.sketch);
        self.regions.ranked(duelling_sketch, store, end)
    }

    /// Adjusts sketch and memory to the number of entries, after each change of that by one.
    #[inline]
    fn fit(&mut self) {
        let len = self.regions.len();
        if self.has_grown {
            self.admission.sketch.fit(len);
        }
        if self.kind == Kind::TinyLfu {
            self.memory.fit(len);
        }
    }

    /// Lets the sketch grow from now on, if it is time. The new one has the counts of the present
    /// entries, of which there are few. Otherwise each block would begin with those of all.
    #[cold]
    #[inline(never)]
    fn grow_from_now_on(&mut self, store: &impl PolicyStore) {
        let len = self.regions.len();
        self.has_grown = len >= SKETCHED_ENTRIES || self.weight() >= self.max_weight() / 2;
        if !self.has_grown {
            return;
        }
        let small = self.admission.sketch.replace_by_empty();
        let sketch = &mut self.admission.sketch;
        (1..=len).for_each(|entries| sketch.fit(entries));
        for region in [Region::Window, Region::Probation, Region::Protected] {
            for id in self.regions.of(region).list.iter(store, End::Front) {
                let spread = sketch.spread(store.node(id).hash());
                (0..small.frequency(spread)).for_each(|_| sketch.increment(spread));
            }
        }
    }
}
