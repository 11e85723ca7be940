//! The places of the items: chunks of slots, each with its links, its deadline and its value.
//!
//! ```text
//! chunks   [ 1024 slots ] [ 1024 slots ] [ released ] [ 300 slots, growing ]
//! roomy    3, 2, 0        a stack of the chunks that have room, each once
//! ```
//!
//! # Rules
//!
//! 1. A slot is vacant exactly if it has no value. A vacant slot is in no ring of the wheel, and
//!    keeps the number of the next vacant slot of its chunk in its links.
//! 2. A slot's generation is increased whenever its value leaves. An id is valid exactly if the
//!    slot that it names has its generation and a value. A slot whose generations are used up
//!    *retires*: it is never filled again. That is one slot in four thousand million items.
//! 3. A chunk is on the stack `roomy` exactly if it has room. A released chunk has. Its slots will
//!    begin with a generation that none of them had.
//! 4. Of the chunks without an item at most one keeps its memory: the one that became empty last.
//!    (Chunks with a retired slot keep theirs.) So memory follows the number of items, and an item
//!    that comes and goes at the edge of a chunk allocates nothing.
//!
//! Chunks do not move, so an insertion never copies more than one chunk that is still growing.

use super::id::TimerId;
use crate::clock::Timestamp;
use crate::links::{Links, NodeId};
use crate::macros::ensure;
use crate::primitives::seeded;
use crate::wheel::TimerStore;
use std::time::Duration;

/// Slots of a chunk. At 32 to 64 bytes each, a chunk is large enough that its own allocation does
/// not count, and small enough that one is allocated in a few microseconds.
const CHUNK: usize = 1024;

/// More chunks than this would need ids that the wheel reserves.
const MAX_CHUNKS: usize = (NodeId::FIRST_RESERVED.index() - 1) / CHUNK;

/// The usual tick, in nanoseconds. The compiler turns a division by this constant into a
/// multiplication. An item is divided at each look of the wheel.
const MILLISECOND: u64 = 1_000_000;

/// No vacant slot. Others are numbered from one.
const NONE: u32 = 0;

/// A slot of this generation has retired. The first generation is 1.
const LAST: u32 = u32::MAX;

/// Everything about an item is in one place, since a cancellation or an expiration needs it all.
/// (Links in an array of their own were faster in a fresh heap and slower in a used one: one more
/// page to be found.)
#[derive(Debug)]
struct Slot<T> {
    links: Links,
    deadline: u64,
    generation: u32,
    value: Option<T>,
}

#[derive(Debug)]
struct Chunk<T> {
    slots: Vec<Slot<T>>,
    /// The first vacant slot.
    free: u32,
    /// The number of items that it has room for.
    room: u32,
    /// The same while it has none: the number of slots that have not retired.
    most: u32,
    /// The generation of slots that have never been filled.
    base: u32,
}

impl<T> Chunk<T> {
    fn new(base: u32) -> Self {
        let most = if base == LAST { 0 } else { CHUNK as u32 };
        Self { slots: Vec::new(), free: NONE, room: most, most, base }
    }

    fn reserve(&mut self, slots: usize) {
        self.slots.reserve_exact(slots.saturating_sub(self.slots.len()));
    }

    fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Whether it has no item.
    fn is_empty(&self) -> bool {
        self.room == self.most
    }

    /// The greatest generation of a slot.
    fn newest(&self) -> u32 {
        self.slots.iter().map(|slot| slot.generation).fold(self.base, u32::max)
    }

    /// Fills a vacant slot. Returns its number and its generation.
    fn fill(&mut self, deadline: u64, value: T) -> (usize, u32) {
        self.room -= 1;
        let Some(index) = (self.free as usize).checked_sub(1) else {
            let (links, generation) = (Links::default(), self.base);
            self.slots.push(Slot { links, deadline, generation, value: Some(value) });
            return (self.slots.len() - 1, generation);
        };
        let slot = &mut self.slots[index];
        self.free = slot.links.number();
        slot.links.clear();
        slot.deadline = deadline;
        slot.value = Some(value);
        (index, slot.generation)
    }

    /// Takes the value out of a slot, which is vacant then, with its generation and deadline.
    #[inline]
    fn take(&mut self, index: usize) -> Option<(u32, u64, T)> {
        let slot = self.slots.get_mut(index)?;
        let value = slot.value.take()?;
        let (generation, deadline) = (slot.generation, slot.deadline);
        slot.generation += 1;
        if slot.generation == LAST && !seeded("slab-retires-none") {
            self.most -= 1;
        } else {
            self.room += 1;
            slot.links.set_number(self.free);
            self.free = index as u32 + 1;
        }
        Some((generation, deadline, value))
    }

    /// Gives back the memory behind the last slot that has an item or has retired. The vacant slots
    /// that are left are filled in the order of their places, so that a later call can give back
    /// more.
    fn shrink(&mut self) {
        let is_vacant = |slot: &Slot<T>| slot.value.is_none() && slot.generation != LAST;
        let last = self.slots.iter().rposition(|slot| !is_vacant(slot));
        let kept = last.map_or(0, |last| last + 1);
        // Ids of the slots that go stay invalid.
        let gone = self.slots.drain(kept..).map(|slot| slot.generation);
        self.base = gone.fold(self.base, u32::max);
        self.slots.shrink_to_fit();
        self.free = NONE;
        for (index, slot) in self.slots.iter().enumerate().rev() {
            if is_vacant(slot) {
                slot.links.set_number(self.free);
                self.free = index as u32 + 1;
            }
        }
    }
}

/// Divides by a tick of another length; rounded down and up. In its callers, the compiler would
/// merge this with the division by the constant, into the slow one.
#[cold]
#[inline(never)]
fn divide(nanos: u64, tick: u64) -> (u64, u64) {
    (nanos / tick, nanos.div_ceil(tick))
}

/// Where a slot is.
fn place(slot: NodeId) -> (usize, usize) {
    let number = slot.index().wrapping_sub(1);
    (number / CHUNK, number % CHUNK)
}

fn id_of(chunk: usize, index: usize) -> NodeId {
    NodeId::from_raw((chunk * CHUNK + index + 1) as u32)
}

/// See the [module](self).
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have room.
    roomy: Vec<u32>,
    /// The chunk without items that keeps its memory.
    spare: Option<u32>,
    len: usize,
    /// The generation of the slots of new chunks.
    base: u32,
    /// The length of a tick. The wheel counts in ticks, slots keep nanoseconds.
    tick: u64,
    /// The start of the last tick.
    last_tick: u64,
}

impl<T> Slab<T> {
    pub fn new(tick: Duration) -> Self {
        let tick = crate::clock::nanos(tick).raw();
        let last_tick = u64::MAX / tick * tick;
        let (chunks, roomy) = (Vec::new(), Vec::new());
        Self { chunks, roomy, spare: None, len: 0, base: 1, tick, last_tick }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The number of slots that have memory.
    pub fn capacity(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.slots.capacity()).sum()
    }

    /// The first tick that does not begin before `nanos`.
    #[inline]
    pub fn tick_at_or_after(&self, nanos: u64) -> Timestamp {
        // The last tick that begins is the last that there is, so that everything is due in the
        // end.
        let nanos = nanos.min(self.last_tick);
        Timestamp::from_raw(match self.tick {
            MILLISECOND => nanos.div_ceil(MILLISECOND),
            tick => divide(nanos, tick).1,
        })
    }

    /// The tick that contains `nanos`.
    #[inline]
    pub fn tick_of(&self, nanos: u64) -> Timestamp {
        Timestamp::from_raw(match self.tick {
            MILLISECOND => nanos / MILLISECOND,
            tick => divide(nanos, tick).0,
        })
    }

    /// The instant at which a tick begins.
    pub fn start_of(&self, tick: Timestamp) -> u64 {
        tick.raw().saturating_mul(self.tick)
    }

    pub fn tick(&self) -> u64 {
        self.tick
    }

    /// Puts a value into a vacant slot. Returns its links too, which are in no ring yet, and the
    /// slab itself, to be read.
    ///
    /// # Errors
    ///
    /// Gives the value back if there are as many as ids can name.
    #[inline]
    pub fn insert(&mut self, deadline: u64, value: T) -> Result<(TimerId, &Self, &Links), T> {
        if self.roomy.is_empty() {
            if self.chunks.len() == MAX_CHUNKS {
                return Err(value);
            }
            self.roomy.push(self.chunks.len() as u32);
            self.chunks.push(Chunk::new(self.base));
        }
        let number = self.roomy[self.roomy.len() - 1];
        let chunk = &mut self.chunks[number as usize];
        if chunk.is_empty() {
            if self.spare == Some(number) {
                self.spare = None;
            }
            // The first chunk grows with its queue. The others get their memory at once, unless a
            // reservation has given them some.
            if number > 0 && chunk.slots.capacity() == 0 {
                chunk.reserve(CHUNK);
            }
        }
        let (index, generation) = chunk.fill(deadline, value);
        if chunk.is_full() {
            self.roomy.pop();
        }
        self.len += 1;
        let id = TimerId::new(id_of(number as usize, index), generation);
        Ok((id, &*self, &self.chunks[number as usize].slots[index].links))
    }

    /// The links of the slot that `id` names, which is vacant or holds the item of this id.
    #[inline]
    pub fn links_of(&self, id: TimerId) -> Option<&Links> {
        let (number, index) = place(id.slot());
        let slot = self.chunks.get(number)?.slots.get(index)?;
        let is_right = slot.generation == id.generation() || seeded("timer-confuses-ids");
        is_right.then_some(&slot.links)
    }

    /// Takes the value out of a slot whose links are in no ring. The slot is vacant then. Returns
    /// the id and the deadline that the item had, too.
    #[inline(always)]
    pub fn remove_named(&mut self, slot: NodeId) -> Option<(TimerId, u64, T)> {
        let (number, index) = place(slot);
        let chunk = self.chunks.get_mut(number)?;
        let was_full = chunk.is_full();
        let (generation, deadline, value) = chunk.take(index)?;
        self.len -= 1;
        if was_full && !chunk.is_full() && !seeded("slab-forgets-room") {
            self.roomy.push(number as u32);
        }
        if chunk.is_empty() {
            self.keep_as_spare(number as u32);
        }
        Some((TimerId::new(slot, generation), deadline, value))
    }

    /// This chunk has become empty. The one that was the spare until now gives back its memory.
    fn keep_as_spare(&mut self, number: u32) {
        if let Some(other) = self.spare.replace(number)
            && other != number
            && !seeded("slab-keeps-empty-chunks")
        {
            self.chunks[other as usize].shrink();
        }
    }

    /// Ensures that the next insertions, `additional` in all, allocate nothing for items.
    ///
    /// # Panics
    ///
    /// Panics if ids cannot name so many items.
    pub fn reserve(&mut self, additional: usize) {
        assert!(additional <= MAX_CHUNKS * CHUNK - self.len, "capacity overflow");
        let mut missing = additional;
        // In the order in which they will be filled.
        for at in (0..self.roomy.len()).rev() {
            let chunk = &mut self.chunks[self.roomy[at] as usize];
            let used = CHUNK - chunk.room as usize;
            if missing > 0 {
                chunk.reserve(CHUNK.min(used + missing));
            }
            missing = missing.saturating_sub(CHUNK - used);
        }
        while missing > 0 && self.chunks.len() < MAX_CHUNKS {
            let mut chunk = Chunk::new(self.base);
            chunk.reserve(missing.min(CHUNK));
            missing = missing.saturating_sub(CHUNK);
            self.roomy.insert(0, self.chunks.len() as u32);
            self.chunks.push(chunk);
        }
    }

    /// Gives back the memory that holds no item. Items do not move, so vacant slots between them
    /// stay. The first chunks are filled first from now on.
    pub fn shrink_to_fit(&mut self) {
        self.chunks.iter_mut().for_each(Chunk::shrink);
        self.spare = None;
        self.roomy.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Makes the slots of new chunks begin with this generation, for tests.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn begin_with(&mut self, generation: u32) {
        self.base = generation;
    }

    /// Whether `id` is that of an item.
    pub fn contains(&self, id: TimerId) -> bool {
        self.get(id).is_some()
    }

    #[inline]
    pub fn get(&self, id: TimerId) -> Option<&T> {
        let (number, index) = place(id.slot());
        let slot = self.chunks.get(number)?.slots.get(index)?;
        slot.value.as_ref().filter(|_| slot.generation == id.generation())
    }

    #[inline]
    pub fn get_mut(&mut self, id: TimerId) -> Option<&mut T> {
        let (number, index) = place(id.slot());
        let slot = self.chunks.get_mut(number)?.slots.get_mut(index)?;
        slot.value.as_mut().filter(|_| slot.generation == id.generation())
    }

    /// The deadline in nanoseconds.
    pub fn deadline_of(&self, id: TimerId) -> Option<u64> {
        self.contains(id).then(|| self.slot(id.slot()).deadline)
    }

    pub fn set_deadline(&mut self, slot: NodeId, deadline: u64) {
        let (number, index) = place(slot);
        self.chunks[number].slots[index].deadline = deadline;
    }

    /// The id and the deadline of the item in `slot`; `None` if it is vacant.
    pub fn named(&self, id: NodeId) -> Option<(TimerId, u64)> {
        let (number, index) = place(id);
        let slot = self.chunks.get(number)?.slots.get(index)?;
        slot.value.as_ref()?;
        Some((TimerId::new(id, slot.generation), slot.deadline))
    }

    /// The id of the item in `slot`, and the item, to be changed.
    pub fn named_mut(&mut self, id: NodeId) -> Option<(TimerId, &mut T)> {
        let (number, index) = place(id);
        let slot = self.chunks.get_mut(number)?.slots.get_mut(index)?;
        Some((TimerId::new(id, slot.generation), slot.value.as_mut()?))
    }

    #[inline]
    fn slot(&self, id: NodeId) -> &Slot<T> {
        let (number, index) = place(id);
        &self.chunks[number].slots[index]
    }

    /// Takes everything out, in no order that means anything: ids, deadlines and values.
    pub fn take(&mut self) -> impl Iterator<Item = (TimerId, u64, T)> + use<T> {
        let mut full = Vec::new();
        self.roomy.clear();
        self.spare = None;
        self.len = 0;
        for (number, chunk) in self.chunks.iter_mut().enumerate() {
            // The generations go on, so that ids stay invalid. Slots of the last one retire.
            let is_used = !chunk.slots.is_empty();
            let next = chunk.newest().saturating_add(u32::from(is_used));
            if next != LAST {
                self.roomy.push(number as u32);
            }
            full.push(std::mem::replace(chunk, Chunk::new(next)));
        }
        full.into_iter().enumerate().flat_map(|(number, chunk)| {
            chunk.slots.into_iter().enumerate().filter_map(move |(index, slot)| {
                let id = TimerId::new(id_of(number, index), slot.generation);
                Some((id, slot.deadline, slot.value?))
            })
        })
    }

    /// All items: ids, deadlines and values.
    pub fn iter(&self) -> impl Iterator<Item = (TimerId, u64, &T)> {
        self.chunks.iter().enumerate().flat_map(|(number, chunk)| {
            chunk.slots.iter().enumerate().filter_map(move |(index, slot)| {
                let id = TimerId::new(id_of(number, index), slot.generation);
                Some((id, slot.deadline, slot.value.as_ref()?))
            })
        })
    }

    /// Recounts every slot.
    ///
    /// # Errors
    ///
    /// Describes the first rule of the module that is broken.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn validate(&self) -> Result<(), String> {
        let (mut len, mut roomy, mut empty) = (0, Vec::new(), 0);
        for (number, chunk) in self.chunks.iter().enumerate() {
            let live = chunk.slots.iter().filter(|slot| slot.value.is_some()).count();
            let retired = if chunk.base == LAST {
                CHUNK
            } else {
                chunk.slots.iter().filter(|slot| slot.generation == LAST).count()
            };
            let (mut vacant, mut next) = (0, chunk.free);
            while let Some(index) = (next as usize).checked_sub(1) {
                let slot = chunk.slots.get(index).ok_or(format!("chunk {number}: slot {index}"))?;
                (vacant, next) = (vacant + 1, slot.links.number());
                let is_vacant = slot.value.is_none() && slot.generation != LAST;
                ensure!(is_vacant && vacant <= CHUNK, "chunk {number}: slot {index} is not vacant");
            }
            let slots = if chunk.base == LAST { CHUNK } else { chunk.slots.len() };
            let (room, most) = (CHUNK - retired - live, CHUNK - retired);
            let counts = (room, most, live + retired + vacant);
            let expected = (chunk.room as usize, chunk.most as usize, slots);
            ensure!(counts == expected, "chunk {number}: {counts:?}, not {expected:?}");
            if !chunk.is_full() {
                roomy.push(number as u32);
            }
            empty += usize::from(live + retired == 0 && !chunk.slots.is_empty());
            len += live;
        }
        let mut stack = self.roomy.clone();
        stack.sort_unstable();
        let is_right = stack == roomy && len == self.len && empty <= 1;
        ensure!(is_right, "{len} items, roomy {roomy:?}, {empty} empty: {stack:?}");
        Ok(())
    }
}

impl<T> TimerStore for Slab<T> {
    #[inline]
    fn links(&self, id: NodeId) -> &Links {
        &self.slot(id).links
    }

    #[inline]
    fn deadline(&self, id: NodeId) -> Option<Timestamp> {
        Some(self.tick_at_or_after(self.slot(id).deadline))
    }
}
