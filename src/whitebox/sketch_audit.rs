//! The audit of a sketch.

use super::blocks::{Blocks, CHUNK};
use super::{Sketch, Sweep};
use crate::macros::ensure;

impl Sketch {
    /// The size of all counters in bytes.
    pub fn bytes(&self) -> usize {
        self.blocks.count() * size_of::<[u64; 8]>()
    }

    /// Checks rules 2 and 3 of the module.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    pub fn validate(&self) -> Result<(), String> {
        self.blocks.validate()?;
        match self.sweep {
            Some(Sweep { next: 0, .. }) => Err("a sweep that has not begun".into()),
            _ => Ok(()),
        }
    }
}

impl<T: Copy> Blocks<T> {
    /// Recounts the blocks.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    pub fn validate(&self) -> Result<(), String> {
        let held: usize = self.chunks.iter().map(Vec::len).sum();
        let (count, mask, entries) = (self.count(), self.mask as usize, self.entries);
        let is_right = held == count && mask == count.next_power_of_two() - 1;
        ensure!(is_right, "{held} blocks, not {count} under {mask:#x}");
        let lens = self.chunks.iter().map(Vec::len).enumerate();
        for (number, len) in lens {
            let expected = count.saturating_sub(number * CHUNK).min(CHUNK);
            ensure!(len == expected, "{len} blocks in chunk {number} of {count} in all");
        }
        ensure!(count == (self.size_for)(entries), "{count} blocks for {entries} entries");
        Ok(())
    }
}
