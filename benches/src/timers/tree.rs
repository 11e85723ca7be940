//! An ordered map, whose keys are deadlines made unique by ids.

use super::Timers;
use std::collections::BTreeSet;

/// A B-tree.
pub struct Tree(BTreeSet<(u64, u32)>);

impl Timers for Tree {
    const NAME: &'static str = "BTreeSet";
    const LATENESS: u64 = 0;

    type Key = (u64, u32);

    fn new(_: u32) -> Self {
        Self(BTreeSet::new())
    }

    #[inline]
    fn schedule(&mut self, id: u32, deadline: u64) -> (u64, u32) {
        self.0.insert((deadline, id));
        (deadline, id)
    }

    #[inline]
    fn cancel(&mut self, key: (u64, u32)) {
        self.0.remove(&key);
    }

    fn expire(&mut self, now: u64, due: &mut impl FnMut(u32)) {
        while let Some(first) = self.0.first().copied().filter(|first| first.0 <= now) {
            self.0.pop_first();
            due(first.1);
        }
    }
}
