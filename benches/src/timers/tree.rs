//! An ordered map, whose keys are deadlines made unique by ids.

use super::Timers;
use std::collections::BTreeSet;

/// A B-tree and the deadlines by id.
pub struct Tree {
    tree: BTreeSet<(u64, u32)>,
    deadlines: Vec<u64>,
}

impl Timers for Tree {
    const NAME: &'static str = "BTreeSet";
    const LATENESS: u64 = 0;

    fn new(ids: u32) -> Self {
        Self { tree: BTreeSet::new(), deadlines: vec![0; ids as usize + 1] }
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) {
        self.deadlines[id as usize] = deadline;
        self.tree.insert((deadline, id));
    }

    #[inline]
    fn cancel(&mut self, id: u32) {
        self.tree.remove(&(self.deadlines[id as usize], id));
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        while let Some(first) = self.tree.first().copied().filter(|first| first.0 <= now) {
            self.tree.pop_first();
            due(first.1);
        }
    }
}
