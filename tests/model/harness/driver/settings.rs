//! Changes of the cache's settings.

use super::{Driver, expect_eq};
use crate::harness::oracle::{NEVER, nanos};
use std::time::Duration;

impl Driver {
    pub(super) fn set_capacity(&mut self, capacity: u64) {
        let bounded = self.oracle.config.max_capacity.is_some();
        expect_eq!(self, self.cache.set_max_capacity(capacity), bounded, "set_max_capacity");
        if bounded {
            self.oracle.config.max_capacity = Some(capacity);
            // The maintenance is to do the rest, in its own time.
            let lowered = self.oracle.weight() > capacity;
            self.lowered |= lowered;
            self.oracle.counts.special.lowered += u64::from(lowered);
        }
        self.check_policy();
    }

    pub(super) fn set_live(&mut self, live: Option<Duration>) {
        self.cache.set_time_to_live(live);
        self.oracle.live = live.map(nanos).filter(|live| *live != NEVER);
        self.check_policy();
    }

    pub(super) fn set_idle(&mut self, idle: Duration) {
        let idles = self.oracle.config.time_to_idle.is_some();
        expect_eq!(self, self.cache.set_time_to_idle(idle), idles, "set_time_to_idle");
        if idles {
            self.oracle.idle = Some(nanos(idle));
        }
        self.check_policy();
    }

    fn check_policy(&self) {
        let policy = self.cache.policy();
        let lifetime =
            |nanos: Option<u64>| nanos.filter(|nanos| *nanos != NEVER).map(Duration::from_nanos);
        let oracle = &self.oracle;
        expect_eq!(self, policy.max_capacity(), oracle.config.max_capacity, "the bound");
        expect_eq!(self, policy.time_to_live(), lifetime(oracle.live), "time_to_live");
        expect_eq!(self, policy.time_to_idle(), lifetime(oracle.idle), "time_to_idle");
    }
}
