//! The recount of an eviction policy, and what tests see of it.

use crate::config::Eviction as Kind;
use crate::eviction::policy::Policy;
use crate::eviction::regions::{Aside, Regions};
use crate::eviction::store::{PolicyNode, PolicyStore, Region};
use crate::eviction::targets::Targets;
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::list::End;
use crate::macros::ensure;

impl Policy {
    /// A policy whose window finds its size by itself.
    pub fn new(max_weight: u64, seed: u64) -> Self {
        Self::of_kind(Kind::TinyLfu, max_weight, seed)
    }

    /// A policy whose window is a fixed share of `max_weight`. A share of 1.0 is plain LRU.
    pub fn with_fixed_window(max_weight: u64, seed: u64, share: f64) -> Self {
        let kind = if share < 1.0 { Kind::TinyLfu } else { Kind::Lru };
        Self::with_targets(kind, Targets::new(max_weight, Some(share)), seed)
    }

    pub fn segmented_lru(max_weight: u64, seed: u64) -> Self {
        Self::of_kind(Kind::SegmentedLru, max_weight, seed)
    }

    /// The present target weight of the window.
    pub fn window_target(&self) -> u64 {
        self.targets.window
    }

    /// The estimated number of recent requests for a key, at most 15.
    pub fn frequency(&self, hash: Hash32) -> u8 {
        self.admission.sketch.frequency(self.admission.sketch.spread(hash))
    }

    /// Whether the node is set aside.
    pub fn is_aside(&self, store: &impl PolicyStore, id: NodeId) -> bool {
        Aside::holds(store.node(id).links())
    }

    /// Checks the module's rules by a recount.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    pub fn validate(&self, store: &impl PolicyStore) -> Result<(), String> {
        self.regions.validate(store)?;
        self.memory.lines.validate().map_err(|error| format!("memory: {error}"))?;
        self.admission.sketch.validate()?;
        let Targets { max, window, protected, .. } = self.targets;
        ensure!(window + protected <= max, "{window} + {protected} of {max}");
        let has_main = self.regions.main_victim().is_some();
        let is_lru = self.kind == Kind::Lru;
        ensure!(!(is_lru && has_main), "the main region of an LRU is not empty");
        Ok(())
    }
}

impl Regions {
    /// Recounts lists, weights and region bytes.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    fn validate(&self, store: &impl PolicyStore) -> Result<(), String> {
        let mut total = 0;
        for region in [Region::Window, Region::Probation, Region::Protected, Region::Weightless] {
            let list = self.of(region);
            list.list.validate(store).map_err(|error| format!("{region:?}: {error}"))?;
            let mut weight = 0;
            for id in list.list.iter(store, End::Front) {
                let (said, own) = (store.node(id).region(), store.node(id).weight());
                ensure!(said == region, "{id} in {region:?} says {said:?}");
                let is_weightless = region == Region::Weightless;
                ensure!((own == 0) == is_weightless, "{id} in {region:?} weighs {own}");
                weight += u64::from(own);
            }
            ensure!(weight == list.weight, "{region:?} weighs {weight}, not {}", list.weight);
            total += weight;
        }
        let weight = self.weight() - self.aside.weight();
        ensure!(total == weight, "the nodes weigh {total}, not {weight}");
        self.aside.validate(store)
    }
}

impl Aside {
    /// Recounts the nodes and their weight.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    fn validate(&self, store: &impl PolicyStore) -> Result<(), String> {
        let mut weight = 0;
        for (place, id) in self.iter().enumerate() {
            let node = store.node(id);
            let links = node.links();
            ensure!(node.region() == Region::None, "{id} is aside and in {:?}", node.region());
            let says_so = Self::holds(links) && Self::place(links) == place;
            ensure!(says_so, "{id} is aside at {place} and does not say so");
            weight += u64::from(node.weight());
        }
        ensure!(weight == self.weight(), "{weight} is aside, {} counted", self.weight());
        Ok(())
    }
}
