//! The clients that wait for a grace period of the epoch, and when to look whether it is over.
//!
//! The end of a grace period wakes nobody. So one thread looks for all clients, often at first and
//! then less and less often, since a guard may be held for long.

use super::{Armed, ClientId};
use crate::clock::{NEVER, Nanos, Timestamp};
use crate::epoch::Grace;
use crate::primitives::{Arc, seeded};
use std::collections::BTreeMap;

/// The time between two looks, at first.
const FIRST_DELAY: Nanos = Nanos::from_raw(2_000_000);
/// The longest time between two looks.
const LONGEST_DELAY: Nanos = Nanos::from_raw(1_000_000_000);
/// After this many looks in vain, the time between two looks doubles with each.
const EAGER_LOOKS: u32 = 4;
/// So many clients are armed at once, at most. The scheduler is locked meanwhile.
const MOST_AT_ONCE: usize = 256;

/// See the [module](self).
pub(super) struct Graces {
    /// The clients, by what each waits for.
    waiting: BTreeMap<(Grace, ClientId), Arc<Armed>>,
    vain_looks: u32,
    /// When to look again. [`NEVER`] if no client waits.
    pub next_look: Timestamp,
}

impl Graces {
    pub fn new() -> Self {
        Self { waiting: BTreeMap::new(), vain_looks: 0, next_look: NEVER }
    }

    /// The first grace period that a client waits for.
    pub fn first(&self) -> Option<Grace> {
        self.waiting.first_key_value().map(|(&(grace, _), _)| grace)
    }

    /// Has a client wait, unless it does.
    pub fn add(&mut self, armed: &Arc<Armed>, grace: Grace, now: Timestamp) {
        if armed.grace().is_none() {
            armed.set_grace(Some(grace));
            self.waiting.insert((grace, armed.id), Arc::clone(armed));
            self.look_soon(now);
        }
    }

    /// The client is gone.
    pub fn remove(&mut self, armed: &Armed) {
        if let Some(grace) = armed.grace() {
            self.waiting.remove(&(grace, armed.id));
            if self.waiting.is_empty() {
                self.next_look = NEVER;
            }
        }
    }

    fn look_soon(&mut self, now: Timestamp) {
        self.vain_looks = 0;
        self.next_look = self.next_look.min(now.saturating_add(FIRST_DELAY));
    }

    /// After a look in vain.
    pub fn look_later(&mut self, now: Timestamp) {
        let doublings = self.vain_looks.saturating_sub(EAGER_LOOKS).min(16);
        let doublings = if seeded("guards-are-polled") { 0 } else { doublings };
        let delay = Nanos::from_raw(FIRST_DELAY.raw() << doublings);
        self.vain_looks = self.vain_looks.saturating_add(1);
        self.next_look = now.saturating_add(delay.min(LONGEST_DELAY));
    }

    /// Takes out clients whose grace period is over.
    pub fn take_ended(&mut self, now: Timestamp) -> Vec<Arc<Armed>> {
        let mut ended = Vec::new();
        while ended.len() < MOST_AT_ONCE
            && let Some(first) = self.waiting.first_entry()
            && first.key().0.is_over()
        {
            let armed = first.remove();
            armed.set_grace(None);
            ended.push(armed);
        }
        if self.waiting.is_empty() {
            self.next_look = NEVER;
        } else if !ended.is_empty() {
            self.next_look = now;
            self.look_soon(now);
        }
        ended
    }
}

#[cfg(test)]
#[path = "../whitebox/graces.rs"]
mod tests;
