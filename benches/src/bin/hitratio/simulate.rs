//! The policy without a cache: what it names goes, at once and in order. Quick, and the same each
//! time.
//!
//! What the cache's buffers leave of the reads is modelled: records and writes are applied in
//! batches, and a node's reads are recorded once in an era. Entries that are due leave before the
//! next request.

use crate::options::Mode;
use crate::play::Tally;
use crate::traces::{Access, FOREVER};
use cortado::internals::hash::Hash32;
use cortado::internals::links::{Links, NodeId};
use cortado::internals::policy::{Policy, PolicyNode, PolicyStore, Region};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};

/// No reads are recorded while more than such a part of the capacity is free.
const FREE_SHARE: u64 = 8;
/// Read records that wait for a pass.
const READS: usize = 32;
/// Writes that wait for a pass: such a part of the capacity, but no more than [`MOST_WRITES`].
const WRITES_SHARE: u64 = 32;
const MOST_WRITES: u64 = 64;

#[derive(Debug, Default)]
struct Node {
    links: Links,
    region: Cell<Region>,
    key: u64,
    hash: Hash32,
    weight: u32,
    record_period: u64,
    due: u64,
}

#[derive(Debug)]
struct Store(Vec<Node>);

impl PolicyStore for Store {
    type Node = Node;

    fn node(&self, id: NodeId) -> &Node {
        &self.0[id.index()]
    }
}

impl PolicyNode for Node {
    fn links(&self) -> &Links {
        &self.links
    }

    fn weight(&self) -> u32 {
        self.weight
    }

    fn hash(&self) -> Hash32 {
        self.hash
    }

    fn region(&self) -> Region {
        self.region.get()
    }

    fn set_region(&self, region: Region) {
        self.region.set(region);
    }
}

/// See the [module](self).
pub struct Simulation {
    policy: Policy,
    store: Store,
    free: Vec<NodeId>,
    index: HashMap<u64, NodeId>,
    timed: bool,
    /// Who ends when.
    due: BTreeSet<(u64, NodeId)>,
    reads: Vec<NodeId>,
    /// Who is new, and in whose place, if there is one.
    writes: Vec<(NodeId, NodeId)>,
    most_reads: usize,
    most_writes: usize,
    era_share: u64,
    record_period: u64,
    /// Reads recorded, and entries evicted, in this period.
    recorded: u64,
    evicted: u64,
}

impl Simulation {
    pub fn new(policy: Policy, mode: Mode, era_share: u64) -> Self {
        let buffered = era_share > 0;
        let writes = (policy.max_weight() / WRITES_SHARE).clamp(1, MOST_WRITES) as usize;
        Self {
            policy,
            // Id 0 names no node.
            store: Store(vec![Node::default()]),
            free: Vec::new(),
            index: HashMap::new(),
            timed: mode == Mode::Ttl,
            due: BTreeSet::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            most_reads: if buffered { READS } else { 1 },
            most_writes: if buffered { writes } else { 1 },
            era_share,
            record_period: 1,
            recorded: 0,
            evicted: 0,
        }
    }

    pub fn run(mut self, accesses: &[Access]) -> Tally {
        let mut tally = Tally::default();
        for access in accesses {
            if self.timed {
                self.expire(access.at);
            }
            let found = self.index.get(&access.key).copied();
            if !access.update {
                tally.count(access, found.is_some());
            }
            match found {
                Some(id) if !access.update => self.read(id),
                old => self.write(access, old),
            }
        }
        tally
    }

    fn read(&mut self, id: NodeId) {
        let free = self.policy.max_weight().saturating_sub(self.policy.weight());
        if self.era_share > 0 && free > self.policy.max_weight() / FREE_SHARE {
            return;
        }
        let node = &mut self.store.0[id.index()];
        if self.era_share == 0 || node.record_period != self.record_period {
            node.record_period = self.record_period;
            self.reads.push(id);
            if self.reads.len() >= self.most_reads {
                self.pass();
            }
        }
    }

    fn write(&mut self, access: &Access, old: Option<NodeId>) {
        if self.timed && access.ttl == 0 {
            old.into_iter().for_each(|old| self.remove(old));
            return;
        }
        if let Some(old) = old {
            self.due.remove(&(self.store.0[old.index()].due, old));
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.store.0.push(Node::default());
            NodeId::from_raw((self.store.0.len() - 1) as u32)
        });
        let due = if self.timed && access.ttl != FOREVER {
            access.at + u64::from(access.ttl)
        } else {
            u64::MAX
        };
        let Access { key, weight, .. } = *access;
        self.store.0[id.index()] = Node { key, weight, hash: hash(key), due, ..Node::default() };
        self.index.insert(key, id);
        if due != u64::MAX {
            self.due.insert((due, id));
        }
        self.writes.push((id, old.unwrap_or(NodeId::NONE)));
        if self.writes.len() >= self.most_writes {
            self.pass();
        }
    }

    /// Takes a node out of everything.
    fn remove(&mut self, id: NodeId) {
        let node = &self.store.0[id.index()];
        if self.index.get(&node.key) == Some(&id) {
            self.index.remove(&node.key);
        }
        self.due.remove(&(node.due, id));
        self.reads.retain(|&other| other != id);
        if let Some(place) = self.writes.iter().position(|&(new, _)| new == id) {
            let (_, old) = self.writes.remove(place);
            self.discard(old);
        }
        self.discard(id);
    }

    /// Takes a node from the policy, if it is there, and frees it, if there is one.
    fn discard(&mut self, id: NodeId) {
        if id != NodeId::NONE {
            self.policy.remove(&self.store, self.store.node(id));
            self.free.push(id);
        }
    }

    fn expire(&mut self, now: u64) {
        while let Some(&(due, id)) = self.due.first()
            && due <= now
        {
            self.remove(id);
        }
    }

    fn pass(&mut self) {
        self.recorded += self.reads.len() as u64;
        let mut late = Vec::new();
        for id in std::mem::take(&mut self.reads) {
            if self.store.node(id).region() == Region::None {
                late.push(id);
            } else {
                self.policy.record_hit(&self.store, id);
            }
        }
        for (id, old) in std::mem::take(&mut self.writes) {
            if old == NodeId::NONE {
                self.policy.add(&self.store, id.with(self.store.node(id)));
            } else {
                self.policy.replace(&self.store, old, id);
                self.discard(old);
            }
        }
        for id in late {
            self.policy.record_hit(&self.store, id);
        }
        while let Some(id) = self.policy.take_victim(&self.store).map(|it| it.id) {
            self.remove(id);
            self.evicted += 1;
        }
        if self.is_period_over() {
            (self.recorded, self.evicted) = (0, 0);
            self.record_period += 1;
        }
    }

    /// The rule of the cache, for any share.
    fn is_period_over(&self) -> bool {
        let entries = self.policy.len() as u64;
        (self.recorded * self.era_share > entries && self.evicted * 64 > entries)
            || self.evicted * self.era_share > entries
    }
}

/// Well mixed, as the cache's hashes are: the finaliser of splitmix64.
fn hash(key: u64) -> Hash32 {
    let mut x = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    Hash32::from_raw(((x ^ x >> 31) >> 32) as u32)
}
