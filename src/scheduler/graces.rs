//! The clients that wait for a grace period of the epoch, and when to look whether it is over.
//!
//! The end of a grace period wakes nobody. So one thread looks for all clients, often at first and
//! then less and less often, since a guard may be held for long.

use super::client::{Armed, ClientId};
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

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    grace: Grace,
    client: ClientId,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Graces {
    waiting: BTreeMap<Turn, Arc<Armed>>,
    vain_looks: u32,
    next_look: Timestamp,
}

impl Graces {
    pub fn new() -> Self {
        Self { waiting: BTreeMap::new(), vain_looks: 0, next_look: NEVER }
    }

    /// When to look again. [`NEVER`] if no client waits.
    pub fn next_look(&self) -> Timestamp {
        self.next_look
    }

    /// The first grace period that a client waits for.
    pub fn first(&self) -> Option<Grace> {
        self.waiting.first_key_value().map(|(turn, _)| turn.grace)
    }

    /// Has a client wait, unless it does.
    pub fn add(&mut self, client: ClientId, armed: &Arc<Armed>, grace: Grace, now: Timestamp) {
        if armed.grace().is_none() {
            armed.set_grace(Some(grace));
            self.waiting.insert(Turn { grace, client }, Arc::clone(armed));
            self.look_soon(now);
        }
    }

    /// The client is gone.
    pub fn remove(&mut self, client: ClientId, armed: &Armed) {
        if let Some(grace) = armed.grace() {
            self.waiting.remove(&Turn { grace, client });
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
    pub fn take_ended(&mut self, now: Timestamp) -> Vec<(ClientId, Arc<Armed>)> {
        let mut ended = Vec::new();
        while ended.len() < MOST_AT_ONCE
            && let Some(first) = self.waiting.first_entry()
            && first.key().grace.is_over()
        {
            let (turn, armed) = first.remove_entry();
            armed.set_grace(None);
            ended.push((turn.client, armed));
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
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_raw(0);

    fn grace(number: u64) -> Grace {
        Grace::from_word(number).unwrap()
    }

    /// That many grace periods from now.
    fn future(number: u64) -> Grace {
        grace(Grace::to_word(Some(crate::epoch::next_grace())) + number)
    }

    /// Looks in vain become rare: a guard may be held for long. A client that comes starts again.
    #[test]
    fn looks_in_vain_become_rare() {
        let mut graces = Graces::new();
        assert_eq!(graces.next_look(), NEVER);
        let mut now = START;
        graces.add(ClientId(0), &Armed::new().into(), grace(u64::MAX), now);
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
        graces.add(ClientId(1), &Armed::new().into(), grace(u64::MAX), before);
        assert_eq!(graces.next_look(), before.saturating_add(FIRST_DELAY));
    }

    /// A client that comes late with an early grace period does not wait behind others.
    #[test]
    fn grace_periods_decide_who_is_first() {
        let mut graces = Graces::new();
        let (early, late) = (crate::epoch::next_grace(), future(1_000_000));
        graces.add(ClientId(0), &Armed::new().into(), late, START);
        graces.add(ClientId(1), &Armed::new().into(), early, START);
        while !crate::epoch::hasten(early, 8) {}
        let ended = graces.take_ended(START);
        assert_eq!(ended.iter().map(|(client, _)| *client).collect::<Vec<_>>(), [ClientId(1)]);
        assert_eq!(graces.first(), Some(late));
    }

    /// Caches that are made and dropped while a guard is held leave nothing behind.
    #[test]
    fn who_is_gone_waits_no_more() {
        let mut graces = Graces::new();
        let (stays, goes) = (Arc::new(Armed::new()), Arc::new(Armed::new()));
        graces.add(ClientId(0), &stays, future(1_000_000), START);
        graces.add(ClientId(1), &goes, future(2_000_000), START);
        graces.add(ClientId(1), &goes, future(3_000_000), START);
        graces.remove(ClientId(1), &goes);
        assert_eq!(graces.waiting.len(), 1);
        graces.remove(ClientId(0), &stays);
        assert_eq!((graces.waiting.len(), graces.next_look()), (0, NEVER));
    }
}
