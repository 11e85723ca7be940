//! Maintenance that a caller asks for: all that is due, or so many units of it.

use crate::engine::Engine;
use crate::engine::delivery::DeliveryBudget;
use crate::engine::maintenance::{Budget, Core, PATIENT_UNITS};
use crate::engine::reentrancy;
use crate::primitives::seeded;
use std::time::Duration;

/// A request waits for at most so many grace periods. Nodes that are dead when its work is done
/// wait for one of two, and tables that the index has moved from for one more. (Without a bound, a
/// listener that writes would keep the request for ever.)
const MOST_GRACES: u32 = 4;

/// What a budgeted [`run_pending_tasks`](crate::Cache::run_pending_tasks_up_to) left undone.
///
/// ```
/// use cortado::{Cache, Clock};
/// use std::time::Duration;
///
/// let (clock, hand) = Clock::manual();
/// let cache = Cache::builder().time_to_live(Duration::from_secs(1)).clock(clock).build();
/// cache.insert_many((0..1_000).map(|n| (n, n)));
/// hand.advance(Duration::from_secs(5));
/// let pending = cache.run_pending_tasks_up_to(100);
/// assert!(pending.expirations && !pending.is_done());
/// assert_eq!((pending.excess_weight, pending.notifications), (0, 0));
/// println!("{} entries and tables wait for their memory to be released", pending.reclamations);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pending {
    /// Entries are due that have not been removed.
    pub expirations: bool,
    /// By how much the weight exceeds the capacity.
    pub excess_weight: u64,
    /// Removals that the listener has not been called for. In a cache with a receiver
    /// ([`Builder::removals`](crate::Builder::removals)) always 0: only the receiver takes them.
    pub notifications: usize,
    /// Removed entries, and outgrown tables of the index, whose memory has not been released: some
    /// thread may still be reading them.
    pub reclamations: usize,
    /// Other work: recorded writes (but not those of this call's listeners), a growing index, the
    /// sweep after an `invalidate_all`, memory to be given back.
    pub other: bool,
}

impl Pending {
    /// Whether nothing is left.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self == Self::default()
    }
}

impl<K, V> Engine<K, V> {
    /// See [`Core::run_pending`].
    pub fn run_pending(&self) {
        self.core.drop_caught(self.hand_reloads_on());
        self.core.run_pending();
    }

    /// See [`Core::run_pending_within`].
    pub fn run_pending_within(&self, units: usize) -> Pending {
        self.core.drop_caught(self.hand_reloads_on());
        self.core.run_pending_within(units)
    }
}

impl Core {
    /// Finishes all maintenance that is due now; see
    /// [`Cache::run_pending_tasks`](crate::Cache::run_pending_tasks).
    pub fn run_pending(&self) {
        let mut few_units = self.notices.most_units(PATIENT_UNITS);
        if few_units.is_some() {
            // What waits already takes part of the limit.
            self.deliver_at_most(DeliveryBudget::ALL);
        }
        let (mut excess, mut graces) = (u64::MAX, MOST_GRACES);
        // Each pass takes out a portion of what was spilled before.
        let mut owed = self.spilled_writes();
        let mut is_exact = false;
        // While other threads write, nodes are freed again and again.
        let mut trims = self.most_trims();
        loop {
            // A pass looks at the current tick once, when all earlier writes are on the wheel.
            let exact = owed == 0 && !is_exact;
            let budget = Budget {
                exact,
                strict: few_units.is_some(),
                ..Budget::of_units(few_units.unwrap_or(PATIENT_UNITS))
            };
            let left = self.pass_within(budget);
            is_exact |= exact;
            if left.excess > excess && owed == 0 {
                // Passes of few units do not keep up with writers.
                few_units = None;
            }
            excess = left.excess;
            // A listener that writes causes more. Its writes are for later operations.
            self.deliver_at_most(DeliveryBudget::of_units(self.notices.outbox.len()));
            owed = owed.saturating_sub(self.spill_portion());
            let has_surplus = self.has_surplus();
            // A pass that leaves other work gives nothing back.
            trims = trims.saturating_sub(usize::from(has_surplus && !left.work));
            if left.work || owed > 0 || !is_exact || (has_surplus && trims > 0) {
                continue;
            }
            if graces == 0 || !self.hasten_grace(u32::MAX) {
                return;
            }
            graces -= 1;
        }
    }

    /// Up to `units` units of maintenance, and as many announcements.
    pub fn run_pending_within(&self, units: usize) -> Pending {
        let left = self.pass_of_units(u32::try_from(units).unwrap_or(u32::MAX));
        self.deliver_at_most(DeliveryBudget::of_units(units));
        let is_received = self.notices.receiving().is_some();
        Pending {
            expirations: left.expirations,
            excess_weight: left.excess,
            // What a receiver has not taken is not this call's to deliver.
            notifications: if is_received { 0 } else { self.notices.outbox.len() },
            reclamations: self.unreclaimed() + self.index.retired_tables(),
            other: left.writes || left.work || left.blocked || self.has_surplus(),
        }
    }

    /// Announces everything, and waits for what another thread is announcing. A call from within a
    /// callback, a load, a computation, an announcement or a destructor of any cache does not wait:
    /// two threads might wait for each other.
    pub fn announce_all(&self) {
        // A receiver takes its time, and may be this very thread.
        let is_received = self.notices.receiving().is_some();
        let waits = !is_received && !reentrancy::is_anything_under_way();
        self.deliver_at_most(DeliveryBudget::ALL);
        let notices = &self.notices;
        while waits && !notices.outbox.is_idle() && !seeded("close-does-not-wait") {
            let limit = if seeded("close-spins") { Duration::ZERO } else { Duration::MAX };
            notices.outbox.waiters().wait_until(limit, || !notices.outbox.is_delivering());
            self.deliver_at_most(DeliveryBudget::ALL);
        }
    }
}
