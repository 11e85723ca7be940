//! What reads of a cache have to do beside finding the entry: set when the cache is built, and
//! again when the first read finds out that the policy's read hook is the trait's own.
//!
//! All words are relaxed. A read by the older mode asks a hook that changes nothing.

use crate::clock::NEVER;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// What an entry must have to live, from a reading of the clock on, for a view to rely on that
/// reading: 68.7 s.
const FAR: u64 = 1 << 36;

/// A read that would prolong an idle time by less than this part of it leaves it, and the cache
/// line, as it is: with an idle time of an hour, reads within 3.5 s of each other write once.
const TOLERANCE: u64 = 1024;

/// What there is to know of a cache when its reads are configured.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// How far a coarse reading may be behind; zero if there are only precise ones.
    pub margin: u64,
    /// The idle time.
    pub idle: Option<u64>,
    /// Whether a life of the idle time may begin at a coarse reading.
    pub idles_coarsely: bool,
    /// Whether each read is counted.
    pub counts: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct ReadMode {
    facts: Facts,
    /// Whether a read may change a lifetime.
    renews: AtomicBool,
    /// Whether the expiry policy is asked after a read.
    asks: AtomicBool,
    /// Whether nobody knows as yet whether its read hook is the trait's own.
    unknown: AtomicBool,
    /// Whether reads may prolong lives by the coarse clock: where an idle time is all that they
    /// prolong by, and that is long.
    coarsely: AtomicBool,
    /// How far after a coarse reading of the same call a deadline must be for the read to be a
    /// plain hit.
    reach: AtomicU64,
    /// The same after a reading that a view shares among lookups.
    shared_reach: AtomicU64,
}

impl ReadMode {
    /// For a cache with a policy, whose read hook may be anything, or without.
    pub fn new(facts: Facts, has_policy: bool) -> Self {
        let mode = Self {
            facts,
            renews: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            unknown: AtomicBool::new(has_policy),
            coarsely: AtomicBool::new(false),
            reach: AtomicU64::new(NEVER),
            shared_reach: AtomicU64::new(NEVER),
        };
        mode.set(has_policy);
        mode
    }

    fn set(&self, asks: bool) {
        let Facts { margin, idle, idles_coarsely, counts } = self.facts;
        let coarsely = !asks && idles_coarsely;
        // The life that a read does not prolong.
        let enough = match idle {
            _ if asks => NEVER,
            Some(idle) if coarsely => idle - idle / TOLERANCE,
            Some(_) => NEVER,
            None => 0,
        };
        let is_plain = !counts && enough != NEVER;
        // With no coarse clock each reading is worth having. And a life is prolonged from the
        // present on.
        let shares = is_plain && margin > 0 && enough == 0;
        self.asks.store(asks, Relaxed);
        self.renews.store(asks || idle.is_some(), Relaxed);
        self.coarsely.store(coarsely, Relaxed);
        self.reach.store(if is_plain { margin.max(enough) } else { NEVER }, Relaxed);
        self.shared_reach.store(if shares { margin.max(FAR) } else { NEVER }, Relaxed);
    }

    /// What the first read that asks finds out: if the hook is the trait's own, no other read has
    /// to.
    #[cold]
    pub fn learn(&self, is_default: bool) {
        self.unknown.store(false, Relaxed);
        if is_default {
            self.set(false);
        }
    }

    #[inline]
    pub fn renews(&self) -> bool {
        self.renews.load(Relaxed)
    }

    #[inline]
    pub fn asks(&self) -> bool {
        self.asks.load(Relaxed)
    }

    #[inline]
    pub fn is_unknown(&self) -> bool {
        self.unknown.load(Relaxed)
    }

    #[inline]
    pub fn coarsely(&self) -> bool {
        self.coarsely.load(Relaxed)
    }

    /// Where the reach of a coarse reading of the same call ends. Nothing is beyond the end of
    /// time.
    #[inline(always)]
    pub fn reach_at(&self, coarse: u64) -> u64 {
        coarse.saturating_add(self.reach.load(Relaxed))
    }

    /// Where the reach of a reading ends that a view shares among lookups.
    #[inline(always)]
    pub fn shared_reach_at(&self, coarse: u64) -> u64 {
        coarse.saturating_add(self.shared_reach.load(Relaxed))
    }
}

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const PLAIN: Facts = Facts { margin: SECOND, idle: None, idles_coarsely: false, counts: false };

    fn reaches(mode: &ReadMode) -> (u64, u64) {
        (mode.reach_at(0), mode.shared_reach_at(0))
    }

    #[test]
    fn a_reach_is_as_far_as_what_may_not_be_overlooked() {
        // The time 68.7 s that the guarantees state; a precise clock shares no reading.
        assert_eq!(reaches(&ReadMode::new(PLAIN, false)), (SECOND, 1 << 36));
        assert_eq!(ReadMode::new(Facts { margin: 0, ..PLAIN }, false).shared_reach_at(0), NEVER);
        let hour = 3600 * SECOND;
        let idle = Facts { idle: Some(hour), idles_coarsely: true, ..PLAIN };
        assert_eq!(reaches(&ReadMode::new(idle, false)), (hour - hour / TOLERANCE, NEVER));
        let short = Facts { idles_coarsely: false, ..idle };
        for far in [
            ReadMode::new(PLAIN, true),
            ReadMode::new(short, false),
            ReadMode::new(Facts { counts: true, ..PLAIN }, false),
        ] {
            assert_eq!(reaches(&far), (NEVER, NEVER));
        }
    }

    #[test]
    fn a_hook_that_is_the_traits_own_costs_nothing_once_known() {
        let hour = 3600 * SECOND;
        let idle = Facts { idle: Some(hour), idles_coarsely: true, ..PLAIN };
        for facts in [PLAIN, idle] {
            let mode = ReadMode::new(facts, true);
            assert!(mode.asks() && mode.renews() && mode.is_unknown() && !mode.coarsely());
            mode.learn(true);
            let plain = ReadMode::new(facts, false);
            assert_eq!(reaches(&mode), reaches(&plain));
            assert_eq!((mode.asks(), mode.is_unknown()), (false, false));
            assert_eq!((mode.renews(), mode.coarsely()), (plain.renews(), plain.coarsely()));
            let own = ReadMode::new(facts, true);
            own.learn(false);
            assert!(own.asks() && !own.is_unknown());
            assert_eq!(reaches(&own), (NEVER, NEVER));
        }
    }
}
