//! A stripe of the write buffer: a bounded queue of weighted events, for many pushers and one
//! drainer at a time, that keeps account of itself in one word.
//!
//! ```text
//! account   63 ......... 52 51 ...... 42 41 ............ 0
//!           place of next    count        sum of weights
//! slots     a power of two of them; an event of 0 is none
//! ```
//!
//! A pusher raises all three parts by one compare-exchange, and has a place of its own, into which
//! it stores weight and event. The drainer takes events out in the order of their places and
//! empties the slots; what it has taken leaves the account when it has been dealt with. So the
//! count is never below what the slots hold, and a place is given to somebody else only after it
//! was emptied. Pushers wait for nobody. A pusher that is between its two steps and off its core
//! holds back what others have put behind it and returned. A drainer that has to have all of it
//! waits for that pusher. Others, which merely pass by, do not.
//!
//! No part can overflow into its neighbour: the count is at most the capacity, which is at most
//! 512, the sum at most 512 weights of 32 bits, and the place wraps at the top, where nothing is.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `account` | pushers, drainer, by read-modify-write only | both | Acquire by pushers, Release by the drainer | a slot that was emptied, to whom its place is given next |
//! | `Slot::event` | the place's pusher; the drainer | the drainer | Release and Acquire; Relaxed to empty it | the weight, and what the event is about |
//! | `Slot::weight` | the place's pusher | the drainer | Relaxed | by `event` |
//! | `head` | the drainer | the drainer | Relaxed | by the maintenance lock |
//!
//! # Alternatives that lost
//!
//! * crossbeam's `ArrayQueue` and an account beside it: two read-modify-writes for a push and one
//!   for a pop, where this has one and none.
//! * A drain that ends at an event that is not there yet: the bound, and the promise that
//!   `run_pending_tasks` applies what was written before, hung on when the thread in front got its
//!   core back.

use crate::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::sync::carried::CarriedU32;
use crate::sync::{Patience, ShortWait, Spin, seeded};

/// Most events that a ring can hold.
pub const MAX_CAPACITY: usize = 512;

const COUNT_SHIFT: u32 = 42;
const PLACE_SHIFT: u32 = 52;
const WEIGHT: u64 = (1 << COUNT_SHIFT) - 1;
const COUNT: u64 = (1 << (PLACE_SHIFT - COUNT_SHIFT)) - 1;
/// One event, in the parts that it leaves again.
const ONE: u64 = 1 << COUNT_SHIFT;

/// How much waits in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account(u64);

impl Account {
    #[inline]
    pub fn count(self) -> u64 {
        self.0 >> COUNT_SHIFT & COUNT
    }

    #[inline]
    pub fn weight(self) -> u64 {
        self.0 & WEIGHT
    }

    /// With another event of this weight.
    #[inline]
    fn plus(self, weight: u32) -> Self {
        Self(self.0.wrapping_add(1 << PLACE_SHIFT | ONE | u64::from(weight)))
    }

    #[inline]
    fn place(self) -> usize {
        (self.0 >> PLACE_SHIFT) as usize
    }
}

#[derive(Debug)]
struct Slot {
    event: AtomicU64,
    weight: AtomicU32,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Ring {
    account: AtomicU64,
    /// Where the drainer is.
    head: CarriedU32,
    capacity: u64,
    slots: Box<[Slot]>,
}

impl Ring {
    /// An empty ring for so many events, at most [`MAX_CAPACITY`].
    pub fn new(capacity: usize) -> Self {
        debug_assert!((1..=MAX_CAPACITY).contains(&capacity));
        let slot = || Slot { event: AtomicU64::new(0), weight: AtomicU32::new(0) };
        Self {
            account: AtomicU64::new(0),
            head: CarriedU32::new(0),
            capacity: capacity as u64,
            slots: std::iter::repeat_with(slot).take(capacity.next_power_of_two()).collect(),
        }
    }

    #[inline]
    pub fn account(&self) -> Account {
        Account(self.account.load(Relaxed))
    }

    /// Stores an event, which is not 0, and says what waited before; `None` if the ring is full.
    #[inline]
    pub fn push(&self, event: u64, weight: u32) -> Option<(Account, Account)> {
        debug_assert_ne!(event, 0, "no event");
        let mut before = self.account();
        loop {
            if before.count() == self.capacity {
                if seeded("write_refusal_keeps_reservation") {
                    self.account.fetch_add(ONE, Relaxed);
                }
                return None;
            }
            let now = before.plus(weight);
            match self.account.compare_exchange_weak(before.0, now.0, Acquire, Relaxed) {
                Ok(_) => {
                    let slot = self.slot(before.place());
                    slot.weight.store(weight, Relaxed);
                    let order = if seeded("write_publish_relaxed") { Relaxed } else { Release };
                    slot.event.store(event, order);
                    return Some((before, now));
                }
                Err(other) => before = Account(other),
            }
        }
    }

    /// Takes out at most `limit` events, which stay part of the account. By the drainer.
    ///
    /// Not compiled into the pass, in which it would have no registers of its own.
    #[inline(never)]
    pub fn take(&self, limit: usize, patience: Patience, events: &mut Vec<u64>) -> Taken<'_> {
        events.reserve(limit.min(self.slots.len()));
        let first = self.head.load(Relaxed);
        let mut head = first;
        let mut account = 0;
        while (head.wrapping_sub(first) as usize) < limit {
            let slot = self.slot(head as usize);
            let Some(event) = self.next(slot, account >> COUNT_SHIFT, patience) else { break };
            account += ONE | u64::from(slot.weight.load(Relaxed));
            slot.event.store(0, Relaxed);
            events.push(event);
            head = head.wrapping_add(1);
        }
        if head != first {
            self.head.store(head, Relaxed);
        }
        Taken { ring: self, account }
    }

    /// The event in the slot that is next in line, when so many before it have been taken. If its
    /// place has been given to somebody, it is waited for: others may have put theirs behind it
    /// and returned. A drainer without patience leaves it, and all behind it, to another drain.
    #[inline]
    fn next(&self, slot: &Slot, taken: u64, patience: Patience) -> Option<u64> {
        let (mut spin, mut short) = (Spin::default(), ShortWait::default());
        loop {
            match slot.event.load(Acquire) {
                0 if self.account().count() <= taken || seeded("write_drain_ends_at_a_gap") => {
                    return None;
                }
                0 if patience == Patience::Wait => spin.pause(),
                0 if short.pause() => {}
                0 => return None,
                event => return Some(event),
            }
        }
    }

    #[inline]
    fn slot(&self, place: usize) -> &Slot {
        &self.slots[place & (self.slots.len() - 1)]
    }
}

/// What was taken out of a ring but is still part of its account.
pub struct Taken<'a> {
    ring: &'a Ring,
    account: u64,
}

impl Taken<'_> {
    /// Takes it off the account, and says whether there is more.
    pub fn settle(&mut self) -> bool {
        let taken = std::mem::take(&mut self.account);
        // Nothing taken: a load is enough, as a push that this pass was asked for came before it.
        let before = if taken == 0 {
            self.ring.account()
        } else {
            Account(self.ring.account.fetch_sub(taken, Release))
        };
        before.count() != taken >> COUNT_SHIFT
    }
}

impl Drop for Taken<'_> {
    /// After a panic of whoever was to deal with it.
    fn drop(&mut self) {
        if self.account != 0 {
            self.settle();
        }
    }
}
