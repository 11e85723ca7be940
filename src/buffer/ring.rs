//! The stripes of a buffer, and a stripe of the read buffer or of the write buffer: a bounded queue
//! of weighted events, for many pushers and one drainer at a time. It keeps its account in one
//! word.
//!
//! ```text
//! account   63 ......... 52 51 ...... 42 41 ............ 0
//!           next position   count        sum of weights
//! slots     a power of two of slots, in segments; event 0 marks an empty slot
//! ```
//!
//! A pusher raises all three parts with one compare-exchange. That reserves a position, and the
//! pusher stores weight and event in the slot of that position. The drainer takes events out in the
//! order of their positions and empties the slots. The events that it took leave the account only
//! after they have been processed. Therefore the count is never below the number of events in the
//! slots. Nor is a slot given to another pusher before it was emptied.
//!
//! Pushers never wait. A pusher may be preempted between its two steps. It then holds back the
//! events behind its own, although their pushers have returned. A drainer that must take all events
//! waits for that pusher (`Patience::Wait`). Other drainers do not (`Patience::Skip`).
//!
//! A segment of slots is allocated by the first pusher that gets a position in it. So a ring that
//! nobody pushes into takes a cache line or two. A pusher may have to wait for another one that is
//! just storing the pointer to a new segment, once in the life of each segment.
//!
//! No part of the account can overflow into its neighbour:
//!
//! * The count is at most the capacity, which is at most 512.
//! * The sum is at most 512 weights of 32 bits.
//! * The position wraps at the top of the word, where no other part follows.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `account` | pushers, drainer, by read-modify-write only | both | Acquire by pushers, Release by the drainer | that a slot was emptied, to the pusher that gets it next |
//! | `Slot::event` | the position's pusher; the drainer | the drainer | Release and Acquire; Relaxed to empty it | the weight, and the data that the event refers to |
//! | `Slot::weight` | the position's pusher | the drainer | Relaxed | nothing: ordered by `event` |
//! | `segments` | the first pusher of each | both | Acquire and Release, by `OnceLock` | the empty slots |
//! | `head` | the drainer | the drainer | Relaxed | nothing: ordered by the maintenance lock |
//!
//! # Alternatives that lost
//!
//! * crossbeam's `ArrayQueue` with an account beside it: a push costs two read-modify-writes and a
//!   pop one. Here a push costs one and a pop none.
//! * No drain waits for a pusher: each ends at an event that is not stored yet. The memory bound
//!   would then depend on the moment at which the pusher in front gets its core back. So would the
//!   promise of `run_pending_tasks` to apply all earlier writes.

use crate::primitives::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::primitives::guarded::GuardedU32;
use crate::primitives::plain::OnceLock;
use crate::primitives::{Patience, Wait, ordering_unless_seeded, seeded, thread_stripe};
use crossbeam_utils::CachePadded;

/// The largest capacity of a ring, in events. The layout of the account depends on it.
pub const MAX_CAPACITY: usize = 512;

/// The slots of a segment, which takes 1 KiB. A ring of fewer slots has one segment of as many.
pub const SEGMENT: usize = if cfg!(cortado_loom) { 4 } else { 64 };

/// The count begins at this bit of the account.
const COUNT_SHIFT: u32 = 42;
/// The next position begins at this bit of the account.
const POSITION_SHIFT: u32 = 52;
/// This mask selects the sum of weights.
const WEIGHT: u64 = (1 << COUNT_SHIFT) - 1;
/// This mask selects the count, once it is shifted down.
const COUNT: u64 = (1 << (POSITION_SHIFT - COUNT_SHIFT)) - 1;
/// This is one event of weight 0 in the account, without a step of the position: a drain takes the
/// count and the weight back, but not the position.
const ONE: u64 = 1 << COUNT_SHIFT;

/// The account of a ring: how many events are pending, and what they weigh.
#[derive(Clone, Copy)]
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

    /// The account after a push of an event of this weight.
    #[inline]
    fn plus(self, weight: u32) -> Self {
        Self(self.0.wrapping_add(1 << POSITION_SHIFT | ONE | u64::from(weight)))
    }

    #[inline]
    fn position(self) -> usize {
        (self.0 >> POSITION_SHIFT) as usize
    }
}

#[derive(Default)]
struct Slot {
    event: AtomicU64,
    weight: AtomicU32,
}

type Segment = Box<[Slot]>;

fn new_segment(slots: usize) -> Segment {
    (0..slots.min(SEGMENT)).map(|_| Slot::default()).collect()
}

/// A ring of at most so many segments, a power of two; see the [module](self).
pub struct Ring<const SEGMENTS: usize> {
    account: AtomicU64,
    /// The position that the drainer takes next.
    head: GuardedU32,
    /// The number of slots, a power of two, minus one.
    mask: u32,
    capacity: u64,
    segments: [OnceLock<Segment>; SEGMENTS],
}

impl<const SEGMENTS: usize> Ring<SEGMENTS> {
    /// Creates an empty ring for `capacity` events, at most [`MAX_CAPACITY`].
    pub fn new(capacity: usize) -> Self {
        let slots = capacity.next_power_of_two();
        debug_assert!((1..=MAX_CAPACITY.min(SEGMENTS * SEGMENT)).contains(&slots));
        let segments: [OnceLock<Segment>; SEGMENTS] = std::array::from_fn(|_| OnceLock::new());
        if cfg!(cortado_loom) {
            // No model looks at the allocation, and loom's atomics are counted.
            let all = segments.iter().take(slots.div_ceil(SEGMENT));
            all.for_each(|segment| drop(segment.set(new_segment(slots))));
        }
        Self {
            account: AtomicU64::new(0),
            head: GuardedU32::new(0),
            mask: slots as u32 - 1,
            capacity: capacity as u64,
            segments,
        }
    }

    #[inline]
    pub fn account(&self) -> Account {
        Account(self.account.load(Relaxed))
    }

    /// Stores an event, which must not be 0. Returns the account before and after the push, or
    /// `None` if the ring is full.
    #[inline]
    pub fn push(&self, event: u64, weight: u32) -> Option<(Account, Account)> {
        let (before, now) = self.reserve(weight)?;
        self.store(before, event, weight);
        Some((before, now))
    }

    /// The first step of a push: takes the next position.
    #[inline(always)]
    pub(super) fn reserve(&self, weight: u32) -> Option<(Account, Account)> {
        let mut before = self.account();
        loop {
            if before.count() == self.capacity {
                if seeded("write-refusal-keeps-reservation") {
                    self.account.fetch_add(ONE, Relaxed);
                }
                return None;
            }
            let now = before.plus(weight);
            match self.account.compare_exchange_weak(before.0, now.0, Acquire, Relaxed) {
                Ok(_) => return Some((before, now)),
                Err(other) => before = Account(other),
            }
        }
    }

    /// The second step: stores the event at the position that was next in `before`.
    #[inline(always)]
    pub(super) fn store(&self, before: Account, event: u64, weight: u32) {
        debug_assert_ne!(event, 0, "event 0 marks an empty slot");
        let slot = self.slot_to_fill(before.position());
        slot.weight.store(weight, Relaxed);
        let order = ordering_unless_seeded("write-publish-relaxed", Release);
        slot.event.store(event, order);
    }

    /// Takes out at most `limit` events, which stay part of the account until the caller
    /// [releases](Self::release) what this returns. Only the drainer calls this.
    ///
    /// It is not inlined into the pass, where it would have no registers of its own.
    #[inline(never)]
    #[must_use = "the batch is part of the account until it is released"]
    pub fn take_batch(&self, limit: usize, patience: Patience, events: &mut Vec<u64>) -> Account {
        events.reserve(limit.min(self.account().count() as usize));
        let first = self.head.load(Relaxed);
        let mut head = first;
        let mut account = 0;
        while (head.wrapping_sub(first) as usize) < limit {
            let next = self.next(head as usize, account >> COUNT_SHIFT, patience);
            let Some((slot, event)) = next else { break };
            account += ONE | u64::from(slot.weight.load(Relaxed));
            slot.event.store(0, Relaxed);
            events.push(event);
            head = head.wrapping_add(1);
        }
        if head != first {
            self.head.store(head, Relaxed);
        }
        Account(account)
    }

    /// Subtracts a batch from the account. Returns whether more events are pending.
    pub fn release(&self, taken: Account) -> bool {
        // For an empty batch a load is enough: it comes after the push that requested this pass.
        let before = if taken.0 == 0 {
            self.account()
        } else {
            Account(self.account.fetch_sub(taken.0, Release))
        };
        before.count() != taken.count()
    }

    /// Returns the event at `position`, the next one in line, after this batch has taken `taken`
    /// events. Returns `None` if the ring holds no more events.
    ///
    /// The slot may be reserved but still empty. `Patience::Wait` then waits for its pusher,
    /// because other pushers may have stored events behind it and returned. `Patience::Skip` soon
    /// gives up and leaves this event, and all events behind it, to another drain.
    #[inline]
    fn next(&self, position: usize, taken: u64, patience: Patience) -> Option<(&Slot, u64)> {
        let mut wait = Wait::new(patience);
        loop {
            // Without a segment, its first pusher has yet to store it, if there is one.
            let slot = self
                .segment(position)
                .get()
                .map(|slots| &slots[position & self.mask as usize & (SEGMENT - 1)]);
            match slot.map_or(0, |slot| slot.event.load(Acquire)) {
                0 if self.account().count() <= taken || seeded("write-drain-ends-at-a-gap") => {
                    return None;
                }
                0 if wait.pause() => {}
                0 => return None,
                event => return slot.map(|slot| (slot, event)),
            }
        }
    }

    /// The memory of the segments that are allocated.
    fn bytes(&self) -> usize {
        let segments = self.segments.iter().filter_map(OnceLock::get);
        segments.map(|slots| size_of_val(&**slots)).sum()
    }

    #[inline(always)]
    fn segment(&self, position: usize) -> &OnceLock<Segment> {
        // The second mask tells the compiler that there is such a segment.
        &self.segments[((position & self.mask as usize) / SEGMENT) & (SEGMENTS - 1)]
    }

    #[inline(always)]
    fn slot_to_fill(&self, position: usize) -> &Slot {
        let segment = self.segment(position);
        let slots = match segment.get() {
            Some(slots) => slots,
            None => self.allocate(segment),
        };
        &slots[position & self.mask as usize & (SEGMENT - 1)]
    }

    #[cold]
    fn allocate<'s>(&self, segment: &'s OnceLock<Segment>) -> &'s Segment {
        segment.get_or_init(|| new_segment(self.mask as usize + 1))
    }
}

/// There are at most this many stripes: more would only lengthen the drain.
const MAX_STRIPES: usize = 16;

/// The number of hardware threads, rounded up to a power of two. The system is asked once per
/// process. The model checker gets two: the smallest number that is more than one.
///
/// Tests and benches set `CORTADO_STRIPES` to run as on a machine with more or fewer threads.
pub fn stripe_count() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    let forced = || std::env::var("CORTADO_STRIPES").ok()?.parse().ok();
    let count = || {
        let forced = if cfg!(feature = "internals") { forced() } else { None };
        forced.unwrap_or_else(crate::system::cores).clamp(1, MAX_STRIPES).next_power_of_two()
    };
    if cfg!(cortado_loom) { 2 } else { *COUNT.get_or_init(count) }
}

/// A ring that the first push into it allocates.
type Stripe<const SEGMENTS: usize> = OnceLock<Box<CachePadded<Ring<SEGMENTS>>>>;

/// Cache-padded stripes. Each thread pushes into its own; one drainer visits all.
///
/// A drain must find each event that was pushed before the drain was requested. It does: the thread
/// that allocates a ring does so before it pushes and requests, so whoever sees the request sees
/// the ring.
pub(super) struct Stripes<const SEGMENTS: usize> {
    /// The stripes, each allocated when a thread first pushes into it. The first push of all
    /// allocates the places.
    places: OnceLock<Box<[Stripe<SEGMENTS>]>>,
    /// The number of places, a power of two.
    pub(super) len: usize,
    /// How many events each stripe can hold.
    pub(super) ring_capacity: usize,
    /// The stripe at which the next [`rotate`](Self::rotate) begins. Only the drainer uses it.
    first: AtomicUsize,
}

impl<const SEGMENTS: usize> Stripes<SEGMENTS> {
    /// `len` stripes, a power of two, with room for `ring_capacity` events each.
    pub(super) fn new(len: usize, ring_capacity: usize) -> Self {
        debug_assert!(len.is_power_of_two());
        let places = OnceLock::new();
        let stripes = Self { places, len, ring_capacity, first: AtomicUsize::new(0) };
        if cfg!(cortado_loom) {
            // loom does not see that std's lock publishes a ring.
            (0..len).for_each(|number| {
                let _ = stripes.allocate(number);
            });
        }
        stripes
    }

    /// The stripe of the calling thread, the same one at each call.
    #[inline(always)]
    pub(super) fn mine(&self) -> &Ring<SEGMENTS> {
        let own = thread_stripe();
        let place = self.places.get().map(|places| &places[own & (places.len() - 1)]);
        match place.and_then(OnceLock::get) {
            Some(ring) => ring,
            None => self.allocate(own & (self.len - 1)),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<&Ring<SEGMENTS>> {
        self.places.get()?[number].get().map(|ring| &***ring)
    }

    #[cold]
    fn allocate(&self, number: usize) -> &Ring<SEGMENTS> {
        let places = || (0..self.len).map(|_| OnceLock::new()).collect();
        let ring = || Box::new(CachePadded::new(Ring::new(self.ring_capacity)));
        self.places.get_or_init(places)[number].get_or_init(ring)
    }

    /// The stripes that some thread has pushed into. Each call begins with another stripe, so that
    /// a drain with a limit starves none.
    pub(super) fn rotate(&self) -> impl Iterator<Item = &Ring<SEGMENTS>> {
        let first = self.first.load(Relaxed);
        self.first.store(first.wrapping_add(1), Relaxed);
        (0..self.len).filter_map(move |step| self.get(first.wrapping_add(step) & (self.len - 1)))
    }

    /// The memory of the stripes that some thread has pushed into.
    pub(super) fn bytes(&self) -> usize {
        let stripes = (0..self.len).filter_map(|number| self.get(number));
        stripes.map(|ring| size_of::<CachePadded<Ring<SEGMENTS>>>() + ring.bytes()).sum()
    }

    /// How many events all stripes can hold together.
    pub(super) fn capacity(&self) -> usize {
        self.len * self.ring_capacity
    }
}
