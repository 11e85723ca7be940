//! The clients that wait for a grace period of the epoch, and when to look whether it is over.
//!
//! The end of a grace period wakes nobody. So one thread looks for all clients, often at first and
//! then less and less often, since a guard may be held for long.

use super::client::{Armed, ClientId};
use crate::clock::{NEVER, Nanos, Timestamp};
use crate::epoch::Grace;
use crate::primitives::{Arc, seeded};
use std::collections::VecDeque;

/// The time between two looks, at first.
const FIRST_DELAY: Nanos = Nanos::from_raw(2_000_000);
/// The longest time between two looks.
const LONGEST_DELAY: Nanos = Nanos::from_raw(1_000_000_000);
/// After this many looks in vain, the time between two looks doubles with each.
const EAGER_LOOKS: u32 = 4;
/// So many clients are armed at once, at most. The scheduler is locked meanwhile.
const MOST_AT_ONCE: usize = 256;

/// A client that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub grace: Grace,
    pub id: ClientId,
    pub armed: Arc<Armed>,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Graces {
    /// In the order of their coming. That is the order of their grace periods, but for clients
    /// that came at the same time.
    waiting: VecDeque<Waiting>,
    vain_looks: u32,
    next_look: Timestamp,
}

impl Graces {
    pub fn new() -> Self {
        Self { waiting: VecDeque::new(), vain_looks: 0, next_look: NEVER }
    }

    /// When to look again. [`NEVER`] if no client waits.
    pub fn next_look(&self) -> Timestamp {
        self.next_look
    }

    /// The first grace period that a client waits for.
    pub fn first(&self) -> Grace {
        self.waiting.front().map_or(Grace::NEVER, |first| first.grace)
    }

    pub fn push(&mut self, client: Waiting, now: Timestamp) {
        self.waiting.push_back(client);
        self.look_soon(now);
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
    pub fn take_ended(&mut self, now: Timestamp) -> Vec<Waiting> {
        let is_over = |waiting: &&Waiting| waiting.grace.is_over();
        let ended = self.waiting.iter().take(MOST_AT_ONCE).take_while(is_over).count();
        let ended = self.waiting.drain(..ended).collect::<Vec<_>>();
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
mod tests {
    use super::*;

    /// Looks in vain become rare: a guard may be held for long. A client that comes starts again.
    #[test]
    fn looks_in_vain_become_rare() {
        let mut graces = Graces::new();
        assert_eq!(graces.next_look(), NEVER);
        let mut now = Timestamp::from_raw(0);
        let client =
            || Waiting { grace: Grace::NEVER, id: ClientId(0), armed: Armed::new().into() };
        graces.push(client(), now);
        let mut delays = Vec::new();
        while now < Timestamp::from_raw(20_000_000_000) {
            assert!(graces.take_ended(now).is_empty());
            graces.look_later(now);
            delays.push((graces.next_look() - now).raw() / 1_000_000);
            now = graces.next_look();
        }
        let first = [2, 2, 2, 2, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000];
        assert_eq!(delays[..first.len()], first);
        assert_eq!(delays.last(), Some(&1000));
        let before = Timestamp::from_raw(now.raw() - LONGEST_DELAY.raw() / 2);
        graces.push(client(), before);
        assert_eq!(graces.next_look(), before.saturating_add(FIRST_DELAY));
    }
}
