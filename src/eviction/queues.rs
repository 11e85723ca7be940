//! The queues under one set of rules: where nodes go, which nodes duel, and which rejected keys
//! return.
//!
//! The same code orders the entries of the cache and those of its [shadows](super::trial).

use super::admission::Admission;
use super::ghost::Ghost;
use super::regions::{End, Regions};
use super::rules::Rules;
use super::store::{PolicyNode, PolicyStore, Region};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::macros::ensure;
use crate::sketch::blocks::Spread;

/// Maximum number of nodes that one call moves to bring regions back to their targets.
pub const MOVES: usize = 4;

/// The target of the protected region, as a share of the main region's target. Shares of 60 % and
/// 95 % lost 0.1 points of hit ratio more (`docs/eviction.md`).
const PROTECTED_SHARE: f64 = 0.8;

/// The candidate that has won duels but not yet enough room. There may be none.
#[derive(Clone, Copy, Debug, Default)]
struct DuelProgress {
    /// The hash of its key, not its id: after an eviction, the id may name another key's node.
    candidate: Hash32,
    /// The weight that it has won.
    won: u64,
}

#[derive(Debug)]
pub struct Queues {
    pub regions: Regions,
    pub ghost: Ghost,
    rules: Rules,
    pub max_weight: u64,
    pub window_target: u64,
    protected_target: u64,
    duel: DuelProgress,
    /// The node that was written last. A segmented LRU evicts it after all others.
    pub newest: NodeId,
}

impl Queues {
    pub fn new(max_weight: u64, rules: Rules) -> Self {
        let mut queues = Self {
            regions: Regions::default(),
            ghost: Ghost::new(),
            rules,
            max_weight,
            window_target: 0,
            protected_target: 0,
            duel: DuelProgress::default(),
            newest: NodeId::NONE,
        };
        queues.retarget();
        queues
    }

    /// Whether the window is all there is: a plain LRU.
    fn is_lru(&self) -> bool {
        self.rules.window >= 1.0
    }

    /// Whether no newcomer is rejected.
    #[inline]
    pub fn keeps_newcomers(&self) -> bool {
        !self.rules.rejects_newcomers || self.is_lru()
    }

    /// The region where victims come from. In a plain LRU the main region has no room, so what is
    /// put there goes before all other nodes.
    pub fn region_of_victims(&self) -> Region {
        if self.is_lru() { Region::Window } else { Region::Probation }
    }

    /// Changes the maximum weight. If the weight is over it now, [`Queues::take_victim`] names the
    /// nodes to evict.
    pub fn set_max_weight(&mut self, max_weight: u64) {
        self.max_weight = max_weight;
        self.retarget();
    }

    /// Changes the rules. This moves no nodes: later calls bring the regions to their new targets.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.retarget();
    }

    /// Adds a node that is on no list. `spread` is its hash after
    /// [`Sketch::spread`](crate::sketch::Sketch::spread).
    pub fn arrive<S: PolicyStore>(
        &mut self,
        store: &S,
        (id, node): (NodeId, S::Node<'_>),
        spread: Spread,
        admission: &mut Admission,
    ) {
        self.newest = id;
        let recalled = self.ghost.remove(spread) && {
            let victim = self.regions.main_victim();
            let victim = victim.map(|victim| admission.sketch.spread(store.hash(victim)));
            admission.recalls(spread, victim, self.rules.chance)
        };
        self.insert_into(
            store,
            (id, node),
            if recalled { self.rules.recall } else { Region::Window },
        );
        self.ghost.fit(self.regions.len());
        self.rebalance(store);
    }

    /// Links a node that was hit in `from` to the region where a hit sends it. The node must be on
    /// no list.
    pub fn hit<S: PolicyStore>(&mut self, store: &S, node: (NodeId, S::Node<'_>), from: Region) {
        let to = match from {
            Region::Probation => Region::Protected,
            Region::Window | Region::Weightless if !self.rules.rejects_newcomers => {
                Region::Protected
            }
            Region::Weightless => Region::Window,
            other => other,
        };
        self.insert_into(store, node, to);
        self.rebalance(store);
    }

    /// Removes a node and returns its former region.
    pub fn remove<S: PolicyStore>(&mut self, store: &S, node: S::Node<'_>) -> Region {
        let from = self.regions.remove(store, node);
        if from != Region::None {
            self.ghost.fit(self.regions.len());
        }
        from
    }

    /// If the weight is over the maximum, removes a node and returns it: the caller must evict it.
    pub fn take_victim(
        &mut self,
        store: &impl PolicyStore,
        admission: &mut Admission,
    ) -> Option<NodeId> {
        self.rebalance(store);
        if self.regions.weight() <= self.max_weight {
            return None;
        }
        let id = self.loser(store, admission)?;
        self.remove(store, store.node(id));
        Some(id)
    }

    /// Takes back a victim that cannot be evicted now, and puts it where it is the last to be
    /// chosen.
    pub fn readmit(&mut self, store: &impl PolicyStore, id: NodeId) {
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
        self.regions.insert(store, (id, node), to, End::Front);
        self.ghost.fit(self.regions.len());
    }

    /// Recounts lists and tables, and checks the targets.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    pub fn validate(&self, store: &impl PolicyStore) -> Result<(), String> {
        self.regions.validate(store)?;
        self.ghost.validate()?;
        let (window, protected, max) = (self.window_target, self.protected_target, self.max_weight);
        ensure!(window + protected <= max, "{window} + {protected} of {max}");
        let has_main = self.regions.main_victim().is_some();
        ensure!(!(self.is_lru() && has_main), "the main region of an LRU is not empty");
        Ok(())
    }

    /// Links a node that is on no list to the front of `region`, unless its weight requires another
    /// place.
    fn insert_into<S: PolicyStore>(
        &mut self,
        store: &S,
        (id, node): (NodeId, S::Node<'_>),
        region: Region,
    ) {
        let weight = u64::from(node.weight());
        let (to, end) = match region {
            _ if weight == 0 => (Region::Weightless, End::Front),
            Region::Window if weight > self.window_target && self.rules.rejects_newcomers => {
                (Region::Window, End::Back)
            }
            Region::Protected if weight > self.protected_target => (Region::Probation, End::Front),
            region => (region, End::Front),
        };
        self.regions.insert(store, (id, node), to, end);
    }

    /// Moves window and protected towards their targets.
    #[inline(always)]
    fn rebalance(&mut self, store: &impl PolicyStore) {
        let over = self.regions.weight().saturating_sub(self.max_weight);
        // Every node in the window has weight, so `is_surplus` implies the first comparison.
        if self.regions.of(Region::Window).weight > self.window_target + over
            || self.regions.of(Region::Protected).weight > self.protected_target
        {
            self.move_surplus(store, over);
        }
    }

    #[inline(never)]
    fn move_surplus(&mut self, store: &impl PolicyStore, over: u64) {
        for _ in 0..MOVES {
            let window = self.regions.of(Region::Window).list.back();
            let protected = self.regions.of(Region::Protected).list.back();
            let id = match (window, protected) {
                (Some(id), _) if self.is_surplus(u64::from(store.weight(id)), over) => id,
                (_, Some(id))
                    if self.regions.of(Region::Protected).weight > self.protected_target =>
                {
                    id
                }
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
            0 => window > self.window_target,
            _ => window - weight >= self.window_target + over,
        }
    }

    /// Selects the node to evict. A candidate that has won enough room moves to probation. Without
    /// duels, the regions give up their nodes in turn, and the node that was written last stays if
    /// there is another one.
    fn loser(&mut self, store: &impl PolicyStore, admission: &mut Admission) -> Option<NodeId> {
        if !self.rules.rejects_newcomers {
            let mut nodes = [Region::Probation, Region::Window, Region::Protected]
                .into_iter()
                .flat_map(|region| self.regions.of(region).list.iter_back(store));
            let first = nodes.next();
            return if first == Some(self.newest) { nodes.next().or(first) } else { first };
        }
        let (candidate, victim) =
            (self.regions.of(Region::Window).list.back(), self.regions.main_victim());
        let (Some(c), Some(v)) = (candidate, victim) else { return candidate.or(victim) };
        if self.regions.of(Region::Window).weight <= self.window_target {
            return victim;
        }
        let (of_c, of_v) = (store.node(c), store.node(v));
        let spread = admission.sketch.spread(of_c.hash());
        if !admission.admits(spread, admission.sketch.spread(of_v.hash())) {
            self.ghost.put(spread);
            return candidate;
        }
        let before = if self.duel.candidate == of_c.hash() { self.duel.won } else { 0 };
        let won = before + u64::from(of_v.weight());
        self.duel = DuelProgress { candidate: of_c.hash(), won };
        if won >= u64::from(of_c.weight()) {
            self.duel = DuelProgress::default();
            self.regions.move_to_front(store, c, Region::Probation);
        }
        victim
    }

    fn retarget(&mut self) {
        let window = (self.max_weight as f64 * self.rules.window).round() as u64;
        self.window_target = window.max(1).min(self.max_weight);
        let main = self.max_weight - self.window_target;
        self.protected_target = ((main as f64 * PROTECTED_SHARE) as u64).min(main);
    }
}
