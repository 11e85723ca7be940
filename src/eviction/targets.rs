//! The target weights of window and protected region. The window's is the one knob of the policy.
//!
//! It begins at a 50th of the maximum, and follows the keys that come back (`memory`): a rejected
//! one widens the window by the weight of the new entry, a victim narrows it by as much. So the
//! window moves until one more entry of room is worth the same on either side. It stays between a
//! 100th of the maximum and all but a 50th of it, both at least 1 if there is room: a side without
//! entries would have no evictions to learn from. A share that is fixed stays as it is.
//!
//! A key that comes back has been evicted before, and is forgotten when it does. So there is at
//! most one step for each eviction, and none for a hit.

use super::memory::Leaver;

/// The first target of the window is this part of the maximum. A 20th does equally well, a fifth
/// loses 0.3 points of hit ratio more (`docs/notes/2026-11-29-eviction.md`).
const FIRST: u64 = 50;
/// The least target of the window is this part of the maximum.
const LEAST: u64 = 100;
/// The least that the window leaves to the main region is this part of the maximum.
const LEAST_OF_MAIN: u64 = 50;
/// The target of the protected region, as a share of the main region's target. Shares of 60 % and
/// 95 % lost 0.1 points of hit ratio more (`docs/notes/2026-11-29-eviction.md`).
const PROTECTED_SHARE: f64 = 0.8;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Targets {
    /// The maximum weight of all entries.
    pub max: u64,
    pub window: u64,
    pub protected: u64,
    /// The window's share of the maximum, if it is fixed.
    fixed: Option<f64>,
}

impl Targets {
    /// Targets whose window follows the keys that come back, unless its share is fixed.
    pub fn new(max: u64, fixed: Option<f64>) -> Self {
        let mut targets = Self { max, window: max / FIRST, protected: 0, fixed };
        targets.settle();
        targets
    }

    /// Changes the maximum. The window keeps its share of it, unless that is mostly rounding.
    pub fn set_max(&mut self, max: u64) {
        self.window = match self.max {
            ..LEAST => max / FIRST,
            // The window is within the old maximum, so that this is within the new one.
            of => (u128::from(self.window) * u128::from(max) / u128::from(of)) as u64,
        };
        self.max = max;
        self.settle();
    }

    /// Moves the window's target by the weight of an entry that has come back.
    pub fn follow(&mut self, leaver: Leaver, weight: u64) {
        self.window = match leaver {
            Leaver::Rejected => self.window.saturating_add(weight),
            Leaver::Victim => self.window.saturating_sub(weight),
        };
        self.settle();
    }

    /// Brings the window within its bounds, and the protected region in line with it.
    fn settle(&mut self) {
        let max = self.max;
        self.window = match self.fixed {
            Some(share) => ((max as f64 * share).round() as u64).clamp(max.min(1), max),
            None => {
                let least = (max / LEAST).max(1).min(max);
                let of_main = (max / LEAST_OF_MAIN).max(1);
                self.window.clamp(least, max.saturating_sub(of_main).max(least))
            }
        };
        let main = max - self.window;
        self.protected = ((main as f64 * PROTECTED_SHARE) as u64).min(main);
    }
}
