//! Where nodes go, which nodes duel, and which ones leave: the policy's part that nobody else
//! calls.

use super::memory::Leaver;
use super::policy::{Duel, Policy};
use super::store::{PolicyNode, PolicyStore, Region};
use crate::config::Eviction as Kind;
use crate::links::{Named, NodeId};
use crate::list::End;
use crate::sketch::blocks::Spread;

/// Maximum number of nodes that one call moves to bring regions back to their targets.
pub const MOVES: usize = 4;

impl Policy {
    /// The region where victims come from. In a plain LRU the main region has no room, so what is
    /// put there goes before all other nodes.
    pub(super) fn region_of_victims(&self) -> Region {
        if self.kind == Kind::Lru { Region::Window } else { Region::Probation }
    }

    /// Adds a node that is on no list. `spread` is its hash after
    /// [`Sketch::spread`](crate::sketch::Sketch::spread).
    pub(super) fn arrive(
        &mut self,
        store: &impl PolicyStore,
        Named { id, node }: Named<&impl PolicyNode>,
        spread: Spread,
    ) {
        self.newest = id;
        let leaver = if self.kind == Kind::TinyLfu { self.memory.take(spread) } else { None };
        if let Some(leaver) = leaver {
            self.targets.follow(leaver, node.weight().into());
        }
        // Alone in the probation of a full cache, it would be the next victim.
        let is_next_victim = self.regions.of(Region::Probation).list.back().is_none()
            && self.weight() + u64::from(node.weight()) > self.targets.max;
        let region = match leaver {
            Some(Leaver::Rejected) if !is_next_victim => Region::Probation,
            _ => Region::Window,
        };
        self.insert_into(store, id.with(node), region);
        self.rebalance(store);
    }

    /// Counts a request that hit a node in `from`, and links the node to the region where the hit
    /// sends it. It must be on no list.
    pub(super) fn hit(
        &mut self,
        store: &impl PolicyStore,
        node: Named<&impl PolicyNode>,
        from: Region,
    ) {
        if self.kind == Kind::TinyLfu {
            self.admission.sketch.increment(self.admission.sketch.spread(node.node.hash()));
        }
        let is_segmented = self.kind == Kind::SegmentedLru;
        let to = match from {
            Region::Probation => Region::Protected,
            Region::Window | Region::Weightless if is_segmented => Region::Protected,
            Region::Weightless => Region::Window,
            other => other,
        };
        self.insert_into(store, node, to);
        self.rebalance(store);
    }

    /// Puts a node that is on no list where it is the last to be chosen.
    pub(super) fn put_last(&mut self, store: &impl PolicyStore, id: NodeId) {
        let victims = self.region_of_victims();
        if victims == Region::Probation
            && self.regions.main_victim().is_none()
            && let Some(other) = self.regions.of(Region::Window).list.back()
        {
            // If the node were alone in the main region, it would be the next victim again.
            self.regions.move_to_front(store, other, Region::Probation);
        }
        let node = store.node(id);
        let to = match victims {
            _ if node.weight() == 0 => Region::Weightless,
            Region::Probation => Region::Protected,
            window => window,
        };
        self.regions.insert(store, id.with(node), to, End::Front);
    }

    /// Links a node that is on no list to the front of `region`, unless its weight requires another
    /// place.
    #[inline]
    fn insert_into(
        &mut self,
        store: &impl PolicyStore,
        Named { id, node }: Named<&impl PolicyNode>,
        region: Region,
    ) {
        let weight = u64::from(node.weight());
        let (to, end) = match region {
            _ if weight == 0 => (Region::Weightless, End::Front),
            Region::Window if weight > self.targets.window && self.kind != Kind::SegmentedLru => {
                (Region::Window, End::Back)
            }
            Region::Protected if weight > self.targets.protected => (Region::Probation, End::Front),
            region => (region, End::Front),
        };
        self.regions.insert(store, id.with(node), to, end);
    }

    /// Moves window and protected towards their targets.
    #[inline(always)]
    pub(super) fn rebalance(&mut self, store: &impl PolicyStore) {
        let over = self.regions.weight().saturating_sub(self.targets.max);
        // Every node in the window has weight, so `is_surplus` implies the first comparison.
        if self.regions.of(Region::Window).weight > self.targets.window + over
            || self.regions.of(Region::Protected).weight > self.targets.protected
        {
            self.move_surplus(store, over);
        }
    }

    #[inline(never)]
    fn move_surplus(&mut self, store: &impl PolicyStore, over: u64) {
        for _ in 0..MOVES {
            let window = self.regions.of(Region::Window).list.back();
            let protected = self.regions.of(Region::Protected);
            let id = match (window, protected.list.back()) {
                (Some(id), _) if self.is_surplus(u64::from(store.node(id).weight()), over) => id,
                (_, Some(id)) if protected.weight > self.targets.protected => id,
                _ => return,
            };
            self.regions.move_to_front(store, id, Region::Probation);
        }
    }

    /// Whether the window can give up a node of this weight without a duel. It can if there is room
    /// for all nodes, or if the rest of the window is enough for the coming duels.
    fn is_surplus(&self, weight: u64, over: u64) -> bool {
        let window = self.regions.of(Region::Window).weight;
        match over {
            0 => window > self.targets.window,
            _ => window - weight >= self.targets.window + over,
        }
    }

    /// Selects the node to evict, and remembers it. A candidate that has won enough room moves to
    /// probation. Without duels, the regions give up their nodes in turn, and the node that was
    /// written last stays if there is another one.
    pub(super) fn loser<'s, S: PolicyStore>(&mut self, store: &'s S) -> Option<Named<&'s S::Node>> {
        let with_node = |id: NodeId| id.with(store.node(id));
        if self.kind == Kind::SegmentedLru {
            let mut nodes = [Region::Probation, Region::Window, Region::Protected]
                .into_iter()
                .flat_map(|region| self.regions.of(region).list.iter(store, End::Back));
            let first = nodes.next();
            let loser = if first == Some(self.newest) { nodes.next().or(first) } else { first };
            return loser.map(with_node);
        }
        let window = self.regions.of(Region::Window);
        let (candidate, victim) = (window.list.back(), self.regions.main_victim());
        let has_room = window.weight <= self.targets.window;
        let (evicted, leaver) = match (candidate, victim) {
            (Some(candidate), Some(victim)) if !has_room => {
                return Some(self.duel(store, with_node(candidate), with_node(victim)));
            }
            (_, Some(victim)) => (with_node(victim), Leaver::Victim),
            (candidate, None) => (with_node(candidate?), Leaver::Rejected),
        };
        if self.kind == Kind::TinyLfu {
            self.memory.put(self.admission.sketch.spread(evicted.node.hash()), leaver);
        }
        Some(evicted)
    }

    /// The loser of a duel, which the memory keeps.
    #[inline]
    fn duel<'s, S: PolicyStore>(
        &mut self,
        store: &'s S,
        candidate: Named<&'s S::Node>,
        victim: Named<&'s S::Node>,
    ) -> Named<&'s S::Node> {
        let [c, v] = [candidate, victim].map(|it| self.admission.sketch.spread(it.node.hash()));
        if !self.admission.admits(c, v) {
            self.memory.put(c, Leaver::Rejected);
            return candidate;
        }
        let hash = candidate.node.hash();
        let before = if self.duel.candidate == hash { self.duel.won } else { 0 };
        let won = before + u64::from(victim.node.weight());
        self.duel = Duel { candidate: hash, won };
        if won >= u64::from(candidate.node.weight()) {
            self.duel = Duel::default();
            self.regions.move_to_front(store, candidate.id, Region::Probation);
        }
        self.memory.put(v, Leaver::Victim);
        victim
    }
}
