//! What reads of a cache have to do beside finding the entry. This is decided when the cache is
//! built, and once more when the first read finds out that the policy's read hook is the trait's
//! own.
//!
//! All words are relaxed. A read that sees the older mode asks a hook that changes nothing.

use crate::clock::{Nanos, Timestamp};
use crate::primitives::Mutex;
use crate::primitives::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A read that would prolong a life by less than this part of the idle time leaves the deadline,
/// and the cache line, as they are. With an idle time of an hour, reads within 3.5 s of each other
/// write once.
const TOLERANCE: u64 = 1024;

/// Reads these flags.
macro_rules! accessors {
    ($($flag:ident),+) => {$(
        #[inline]
        pub fn $flag(&self) -> bool {
            self.$flag.load(Relaxed)
        }
    )+};
}

/// What the read mode depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// How far a coarse reading of the clock may be behind; zero if all readings are precise.
    pub margin: Nanos,
    /// The idle time.
    pub idle: Option<Nanos>,
    /// Whether an idle time may be counted from a coarse reading.
    pub idles_coarsely: bool,
    /// Whether each read is counted.
    pub counts: bool,
    /// Whether entries have a soft deadline, at which each read has to look.
    pub refreshes: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub struct ReadMode {
    facts: Mutex<Facts>,
    /// Whether a read may change a lifetime.
    renews: AtomicBool,
    /// Whether the expiry policy is asked after a read.
    asks: AtomicBool,
    /// Whether it is still unknown if the policy's read hook is the trait's default.
    is_unknown: AtomicBool,
    /// Whether reads may prolong lives by the coarse clock. That needs a long idle time and no
    /// read hook.
    coarsely: AtomicBool,
    /// How far beyond a coarse reading a deadline must lie for the read to be a plain hit.
    freshness: AtomicU64,
    /// How far it must lie for the read to be a hit that is counted or looks at the soft deadline,
    /// and is otherwise plain.
    counted_freshness: AtomicU64,
}

impl ReadMode {
    /// `asks`: whether the cache has a policy whose read hook may do something.
    pub fn new(facts: Facts, asks: bool) -> Self {
        let mode = Self {
            facts: Mutex::new(facts),
            renews: AtomicBool::new(false),
            asks: AtomicBool::new(false),
            is_unknown: AtomicBool::new(asks),
            coarsely: AtomicBool::new(false),
            freshness: AtomicU64::new(Nanos::FOREVER.raw()),
            counted_freshness: AtomicU64::new(Nanos::FOREVER.raw()),
        };
        mode.set(&facts, asks);
        mode
    }

    /// Follows a change of the idle time. `coarsely` says whether it may be counted from a coarse
    /// reading. `store` stores it where writes find it: of two changes, one is the last in both
    /// places.
    pub fn change_idle(&self, idle: Nanos, coarsely: bool, store: impl FnOnce()) {
        let mut facts = self.facts.lock();
        store();
        (facts.idle, facts.idles_coarsely) = (Some(idle), coarsely);
        self.set(&facts, self.asks());
    }

    fn set(&self, facts: &Facts, asks: bool) {
        let Facts { margin, idle, idles_coarsely, counts, refreshes } = *facts;
        let coarsely = !asks && idles_coarsely;
        // A read leaves a remaining life of more than this alone.
        let enough = match idle {
            _ if asks => Nanos::FOREVER,
            Some(idle) if coarsely => idle - idle / TOLERANCE,
            Some(_) => Nanos::FOREVER,
            None => Nanos::ZERO,
        };
        self.asks.store(asks, Relaxed);
        self.renews.store(asks || idle.is_some(), Relaxed);
        self.coarsely.store(coarsely, Relaxed);
        let freshness = margin.max(enough);
        let checks = counts || refreshes;
        let (plain, counted) =
            if checks { (Nanos::FOREVER, freshness) } else { (freshness, Nanos::FOREVER) };
        self.freshness.store(plain.raw(), Relaxed);
        self.counted_freshness.store(counted.raw(), Relaxed);
    }

    /// Takes in what the first read found out: if the hook is the trait's default, no other read
    /// asks it.
    #[cold]
    pub fn learn(&self, is_default: bool) {
        let facts = self.facts.lock();
        self.is_unknown.store(false, Relaxed);
        if is_default {
            self.set(&facts, false);
        }
    }

    accessors!(renews, asks, is_unknown, coarsely);

    /// A read at `coarse` is a plain hit if the deadline lies beyond this instant. No deadline lies
    /// beyond the end of time.
    #[inline(always)]
    pub fn freshness_bound(&self, coarse: Timestamp) -> Timestamp {
        coarse.saturating_add(Nanos::from_raw(self.freshness.load(Relaxed)))
    }

    /// The same for a hit that is counted or looks at the soft deadline, and is otherwise plain.
    #[inline]
    pub fn counted_freshness_bound(&self, coarse: Timestamp) -> Timestamp {
        coarse.saturating_add(Nanos::from_raw(self.counted_freshness.load(Relaxed)))
    }
}

#[cfg(all(test, not(cortado_loom)))]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_raw(1_000_000_000);
    const HOUR: Nanos = Nanos::from_raw(3600 * SECOND.raw());
    const PLAIN: Facts = Facts {
        margin: SECOND,
        idle: None,
        idles_coarsely: false,
        counts: false,
        refreshes: false,
    };

    fn freshness(mode: &ReadMode) -> Nanos {
        let start = Timestamp::from_raw(0);
        mode.freshness_bound(start) - start
    }

    #[test]
    fn plain_hits_need_more_life_than_may_be_overlooked() {
        assert_eq!(freshness(&ReadMode::new(PLAIN, false)), SECOND);
        assert_eq!(
            freshness(&ReadMode::new(Facts { margin: Nanos::ZERO, ..PLAIN }, false)),
            Nanos::ZERO
        );
        let idle = Facts { idle: Some(HOUR), idles_coarsely: true, ..PLAIN };
        assert_eq!(freshness(&ReadMode::new(idle, false)), HOUR - HOUR / TOLERANCE);
        let short = Facts { idles_coarsely: false, ..idle };
        for never_plain in [
            ReadMode::new(PLAIN, true),
            ReadMode::new(short, false),
            ReadMode::new(Facts { counts: true, ..PLAIN }, false),
            ReadMode::new(Facts { refreshes: true, ..PLAIN }, false),
        ] {
            assert_eq!(freshness(&never_plain), Nanos::FOREVER);
        }
        let start = Timestamp::from_raw(0);
        for checking in [Facts { counts: true, ..PLAIN }, Facts { refreshes: true, ..PLAIN }] {
            let mode = ReadMode::new(checking, false);
            assert_eq!(mode.counted_freshness_bound(start) - start, SECOND);
        }
        let plain = ReadMode::new(PLAIN, false);
        assert_eq!(plain.counted_freshness_bound(start) - start, Nanos::FOREVER);
    }

    #[test]
    fn a_hook_that_is_the_traits_own_costs_nothing_once_known() {
        let idle = Facts { idle: Some(HOUR), idles_coarsely: true, ..PLAIN };
        for facts in [PLAIN, idle] {
            let mode = ReadMode::new(facts, true);
            assert!(mode.asks() && mode.renews() && mode.is_unknown() && !mode.coarsely());
            mode.learn(true);
            let plain = ReadMode::new(facts, false);
            assert_eq!(freshness(&mode), freshness(&plain));
            assert_eq!((mode.asks(), mode.is_unknown()), (false, false));
            assert_eq!((mode.renews(), mode.coarsely()), (plain.renews(), plain.coarsely()));
            let own = ReadMode::new(facts, true);
            own.learn(false);
            assert!(own.asks() && !own.is_unknown());
            assert_eq!(freshness(&own), Nanos::FOREVER);
        }
    }
}
