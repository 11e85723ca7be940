//! Programs of policy operations, everything recounted after each step.

use super::store::Store;
use cortado::internals::links::NodeId;
use cortado::internals::list::End;
use cortado::internals::policy::{Policy, PolicyStore, Region};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub enum Op {
    Add {
        key: u64,
        weight: u32,
    },
    /// The entry is named by its rank among those alive.
    Replace {
        rank: usize,
        weight: u32,
    },
    /// The update of an entry whose request is not to be counted again.
    Swap {
        rank: usize,
        weight: Option<u32>,
    },
    Access {
        rank: usize,
    },
    Remove {
        rank: usize,
    },
    /// An entry removed before its update arrived.
    ReplaceRemoved {
        rank: usize,
        weight: u32,
    },
    Evict,
    EvictOne,
    Readmit,
    /// The next victim cannot be evicted until it is restored.
    SetAside,
    /// Does nothing to an entry that is not set aside.
    Restore {
        rank: usize,
    },
    SetMax(u64),
}

impl Op {
    /// Bytes of an operation in [`Op::decode`].
    #[allow(dead_code, reason = "for the fuzzer")]
    pub const LEN: usize = 3;

    /// The operation that bytes stand for: any bytes stand for one.
    #[allow(dead_code, reason = "for the fuzzer")]
    pub fn decode([kind, a, b]: [u8; Self::LEN]) -> Self {
        let rank = usize::from(a);
        let weight = match b {
            0..8 => 0,
            8..128 => 1,
            128..255 => u32::from(b) - 127,
            255 => u32::MAX,
        };
        match kind % 16 {
            0..6 => Self::Add { key: u64::from(a), weight },
            6..9 => Self::Access { rank },
            9 => Self::Replace { rank, weight },
            10 => Self::Swap { rank, weight: b.is_multiple_of(4).then_some(weight) },
            11 if b < 64 => Self::ReplaceRemoved { rank, weight: u32::from(b) },
            11 if b < 192 => Self::Remove { rank },
            11 => Self::SetMax(u64::from(a)),
            12 if b < 64 => Self::SetAside,
            12 if b < 192 => Self::Restore { rank },
            12 => Self::Readmit,
            13 => Self::EvictOne,
            _ => Self::Evict,
        }
    }
}

/// A policy, its store, and what should be in it: id, key and weight.
pub struct Program {
    store: Store,
    policy: Policy,
    alive: BTreeMap<NodeId, (u64, u32)>,
    victims: Vec<u64>,
}

impl Program {
    pub fn new(policy: Policy) -> Self {
        Self { store: Store::new(), policy, alive: BTreeMap::new(), victims: Vec::new() }
    }

    /// Runs a program and says whose keys were evicted.
    pub fn run(mut self, ops: &[Op]) -> Vec<u64> {
        for op in ops {
            self.step(op);
            self.check();
        }
        while let Some(id) = self.victim() {
            self.store.free(id);
        }
        self.check();
        self.victims
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Add { key, weight } => {
                let id = self.create(key, weight);
                self.policy.add(&self.store, id.with(self.store.node(id)));
            }
            Op::Access { rank } => {
                if let Some((id, _)) = self.nth(rank) {
                    self.policy.record_hit(&self.store, id);
                }
            }
            Op::Remove { rank } => drop(self.remove(rank)),
            Op::Swap { rank, weight } => self.swap(rank, weight),
            Op::Replace { rank, weight } => {
                if let Some((old, key)) = self.nth(rank) {
                    let new = self.create(key, weight);
                    self.policy.replace(&self.store, old, new);
                    self.alive.remove(&old);
                    self.store.free(old);
                }
            }
            Op::ReplaceRemoved { rank, weight } => {
                if let Some(key) = self.remove(rank) {
                    // The old node waits for its grace period while the new one is used.
                    let old = self.store.alloc(key, 1);
                    let new = self.create(key, weight);
                    self.policy.record_hit(&self.store, old);
                    self.policy.remove(&self.store, self.store.node(old));
                    self.policy.replace(&self.store, old, new);
                    self.store.free(old);
                }
            }
            Op::Evict => {
                while let Some(id) = self.victim() {
                    self.store.free(id);
                }
                let aside = self.alive.iter().filter(|&(&id, _)| self.is_aside(id));
                let aside: u64 = aside.map(|(_, &(_, weight))| u64::from(weight)).sum();
                assert!(self.policy.weight() <= self.policy.max_weight().max(aside));
            }
            Op::EvictOne => {
                if let Some(id) = self.victim() {
                    self.store.free(id);
                }
            }
            Op::Readmit => self.readmit(),
            Op::SetAside => {
                if let Some(id) = self.policy.take_victim(&self.store).map(|it| it.id) {
                    self.policy.set_aside(&self.store, id);
                    assert!(self.is_aside(id));
                }
            }
            Op::Restore { rank } => {
                if let Some((id, _)) = self.nth(rank) {
                    let (before, was_aside) = (self.store.region(id), self.is_aside(id));
                    self.policy.restore(&self.store, id);
                    assert!(was_aside || self.store.region(id) == before, "{id} was not aside");
                    assert!(!self.is_aside(id));
                }
            }
            Op::SetMax(max) => self.policy.set_max_weight(max),
        }
    }

    /// In place if the weight stays the same, as it does where none is given.
    fn swap(&mut self, rank: usize, weight: Option<u32>) {
        let Some((old, key)) = self.nth(rank) else { return };
        let before = self.alive[&old].1;
        let new = self.create(key, weight.unwrap_or(before));
        let (region, was_aside) = (self.store.region(old), self.is_aside(old));
        let nodes = (self.store.node(old), new.with(self.store.node(new)));
        let swapped = self.policy.replace_uncounted(&self.store, nodes.0, nodes.1);
        assert_eq!(swapped, self.alive[&new].1 == before && !was_aside);
        if swapped {
            assert_eq!(self.store.region(new), region, "in the same place");
        } else {
            self.policy.replace(&self.store, old, new);
        }
        self.alive.remove(&old);
        self.store.free(old);
    }

    fn readmit(&mut self) {
        let Some(id) = self.policy.take_victim(&self.store).map(|it| it.id) else { return };
        self.policy.readmit(&self.store, id);
        self.check();
        let others = self
            .alive
            .iter()
            .any(|(&other, &(_, weight))| other != id && weight > 0 && !self.is_aside(other));
        if let Some(next) = self.victim() {
            assert!(next != id || !others, "{id} is chosen again at once");
            self.store.free(next);
        }
    }

    /// The next victim, taken out of the books.
    fn victim(&mut self) -> Option<NodeId> {
        let over = self.policy.weight() > self.policy.max_weight();
        let victim = self.policy.take_victim(&self.store).map(|it| it.id);
        let is_candidate = |(&id, &(_, weight)): (&NodeId, &(u64, u32))| {
            weight > 0 && (Some(id) == victim || !self.is_aside(id))
        };
        assert_eq!(
            victim.is_some(),
            over && self.alive.iter().any(is_candidate),
            "a victim if and only if the weight is over the maximum"
        );
        let id = victim?;
        assert!(!self.is_aside(id), "{id} cannot be evicted");
        let (key, weight) = self.alive.remove(&id).expect("the victim is alive");
        assert_ne!(weight, 0, "the eviction of {id} makes no room");
        self.victims.push(key);
        Some(id)
    }

    fn create(&mut self, key: u64, weight: u32) -> NodeId {
        let id = self.store.alloc(key, weight);
        self.alive.insert(id, (key, weight));
        id
    }

    fn remove(&mut self, rank: usize) -> Option<u64> {
        let (id, key) = self.nth(rank)?;
        self.policy.remove(&self.store, self.store.node(id));
        self.alive.remove(&id);
        self.store.free(id);
        Some(key)
    }

    fn is_aside(&self, id: NodeId) -> bool {
        self.policy.is_aside(&self.store, id)
    }

    fn nth(&self, rank: usize) -> Option<(NodeId, u64)> {
        let rank = rank.checked_rem(self.alive.len())?;
        self.alive.iter().nth(rank).map(|(&id, &(key, _))| (id, key))
    }

    fn check(&self) {
        self.policy.validate(&self.store).unwrap();
        let weight: u64 = self.alive.values().map(|&(_, weight)| u64::from(weight)).sum();
        assert_eq!((self.policy.weight(), self.policy.len()), (weight, self.alive.len()));
        for &id in self.alive.keys() {
            let is_held = self.store.region(id) != Region::None;
            assert_ne!(is_held, self.is_aside(id), "{id} is on no list, or on one and aside");
        }
        let all: Vec<NodeId> = self.alive.keys().copied().collect();
        let mut coldest: Vec<NodeId> = self.policy.ranked(&self.store, End::Back).collect();
        let mut hottest: Vec<NodeId> = self.policy.ranked(&self.store, End::Front).collect();
        coldest.sort_unstable();
        hottest.sort_unstable();
        assert_eq!((&coldest, &hottest), (&all, &all), "each once in either order");
    }
}
