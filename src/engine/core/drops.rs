//! Nodes without a count, whose keys and values wait to be dropped: destructors are user code, and
//! run outside of passes.

use crate::links::NodeId;
use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::queue::SegQueue;

/// See the [module](self).
pub struct Drops {
    batches: SegQueue<Vec<NodeId>>,
    nodes: AtomicUsize,
}

impl Drops {
    pub fn new() -> Self {
        Self { batches: SegQueue::new(), nodes: AtomicUsize::new(0) }
    }

    pub fn push(&self, batch: Vec<NodeId>) {
        // Before the push, so that the number never falls below zero.
        self.nodes.fetch_add(batch.len(), Relaxed);
        self.batches.push(batch);
    }

    /// Takes out the batch that has waited for longest.
    pub fn pop(&self) -> Option<Vec<NodeId>> {
        let batch = self.batches.pop()?;
        self.nodes.fetch_sub(batch.len(), Relaxed);
        Some(batch)
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// How many nodes wait, roughly.
    pub fn nodes(&self) -> usize {
        self.nodes.load(Relaxed)
    }
}
