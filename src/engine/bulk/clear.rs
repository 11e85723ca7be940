//! `invalidate_all`.

use crate::engine::Engine;
use crate::engine::maintenance::PATIENT_UNITS;
use crate::node::GENERATIONS;
use crate::primitives::seeded;

/// Nodes carry 14 bits of the generation, so this many clearings may wait for their sweep. (A node
/// that is being published while the next one is counted may be one older.)
const MAX_UNSWEPT: u64 = GENERATIONS - 64;
/// Beyond a quarter of [`MAX_UNSWEPT`], each clearing sweeps this share of the cache. The sweep
/// that is under way then ends within another quarter of the clearings, and the next sweep within
/// the third.
const SWEEP_SHARE: u64 = MAX_UNSWEPT / 4;

impl<K: Eq, V> Engine<K, V> {
    pub fn invalidate_all(&self) {
        let core = &self.core;
        // Nothing was published since the last call, and no load would have to be overtaken.
        if core.hot.is_blank() && core.flights.is_empty() && !seeded("each-clearing-counts") {
            return self.after_write();
        }
        self.clear();
        self.after_write();
    }

    /// Begins a new generation. It delivers nothing and is not held back.
    pub(super) fn clear(&self) {
        let core = &self.core;
        if core.unswept() > MAX_UNSWEPT / 4 {
            self.sweep_share();
        }
        while !core.next_generation(MAX_UNSWEPT) {
            // The bits must not wrap around to a generation of which nodes are left.
            while core.pass_of_units(PATIENT_UNITS).work {}
        }
        core.require_pass();
        core.wake_scheduler();
    }

    /// Does a share of the sweep: clearings come faster than passes sweep.
    #[cold]
    fn sweep_share(&self) {
        let buckets = self.core.index.buckets(&crate::epoch::pin()) as u64;
        let units = (self.core.entries() + buckets).div_ceil(SWEEP_SHARE);
        let _ = self.core.pass_of_units(u32::try_from(units).unwrap_or(u32::MAX));
    }
}
