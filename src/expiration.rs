//! From lifetimes to deadlines: how fixed, idle, variable and per-call lifetimes combine.
//!
//! An entry has a *cap*, the instant at which it ends even if it is read all the time, and a
//! *deadline*, which is the cap or the end of the idle time, whichever is earlier. Without an idle
//! time they are one and only the deadline is kept.

use crate::clock::NEVER;
use crate::sync::seeded;

/// The fixed lifetimes of a cache, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lifetimes {
    pub live: Option<u64>,
    pub idle: Option<u64>,
}

/// How a write says when its entry ends.
#[derive(Clone, Copy, Debug)]
pub enum Term {
    /// As the cache's policy says: `time_to_live` and the expiry hooks, the earliest wins.
    Policy,
    /// After so many nanoseconds, in place of the policy.
    For(u64),
    /// At this instant, in place of the policy.
    Until(u64),
}

impl Lifetimes {
    /// The cap of an entry created at `created` whose variable lifetime ends at `variable`.
    pub fn cap(&self, created: u64, variable: u64) -> u64 {
        match self.live {
            Some(live) => created.saturating_add(live).min(variable),
            None => variable,
        }
    }

    /// The cap after a read whose hook ends the variable lifetime at `variable`, of an entry with
    /// this cap so far: no later than the `time_to_live` allows, or than a term that took its
    /// place did. So it is never before the read itself.
    pub fn cap_after_read(&self, created: u64, cap: u64, variable: u64) -> u64 {
        match self.live {
            Some(live) => created.saturating_add(live).max(cap).min(variable),
            None => variable,
        }
    }

    /// The deadline at `now`, a write's or a read's present, of an entry with this cap.
    #[inline]
    pub fn deadline(&self, now: u64, cap: u64) -> u64 {
        match self.idle {
            Some(idle) => now.saturating_add(idle).min(cap),
            None => cap,
        }
    }
}

/// A lifetime that a hook returned, in nanoseconds; [`NEVER`] is for ever.
#[inline]
pub fn lifetime(lifetime: Option<std::time::Duration>) -> u64 {
    match lifetime.map(crate::clock::nanos) {
        Some(NEVER) if seeded("long-lifetimes-end") => NEVER >> 1,
        nanos => nanos.unwrap_or(NEVER),
    }
}

/// The instant at which a lifetime that a hook returned ends.
pub fn end(now: u64, returned: Option<std::time::Duration>) -> u64 {
    now.saturating_add(lifetime(returned))
}
