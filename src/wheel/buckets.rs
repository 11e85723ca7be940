//! The buckets of all levels and their backlogs: rings of ids behind heads, with a bitmap per level
//! and one for the backlogs.
//!
//! ```text
//! head ──► a ──► b ──► c ──► head        and back; an empty ring is the head alone
//! ```
//!
//! A head is a pair of links in [`Buckets`]. Each head has an id of its own, at or above
//! [`NodeId::FIRST_RESERVED`], which encodes its level and bucket. So an id can be unlinked without
//! knowing its bucket. If both neighbours of the unlinked id are the same id, this is the head of a
//! ring that is now empty, and the ring's bit is cleared. Moving a whole ring changes only its two
//! ends.
//!
//! A bucket may have several rings, its *lanes*, to which its ids go by their numbers. All of them
//! are due together. Whoever follows a ring waits for memory at each step; whoever follows several
//! at once waits for them together. A wheel whose buckets are walked one id at a time needs one
//! lane.
//!
//! The heads of a level are allocated when its first id comes, since many wheels use one level or
//! two. A ring whose head is not there is empty.

use super::geometry::{Geometry, MAX_BUCKETS, Ring};
use crate::clock::Timestamp;
use crate::links::{Links, Named, NodeId};

/// Supplies the links and the deadline of an id to a wheel.
pub trait TimerStore {
    /// The links of `id` that belong to the wheel.
    fn links(&self, id: NodeId) -> &Links;

    /// The present deadline of `id`; `None` if `id` is never due. Instants are nanoseconds on a
    /// circle, and no value of `u64` is reserved. A store that represents "never" as `u64::MAX`
    /// must return `None` for it.
    fn deadline(&self, id: NodeId) -> Option<Timestamp>;
}

pub struct Buckets<const LANES: usize> {
    /// For each lane the rings of each level. The backlogs, one for each level, come after the
    /// levels of the first lane; nothing is at that place of the other lanes.
    levels: Box<[Rings]>,
}

/// The rings of one level, or all backlogs.
#[derive(Debug, Default)]
struct Rings {
    /// The bit of each ring that is not empty is set.
    occupied: u64,
    /// The heads, by index. Heads beyond the end are not allocated yet.
    heads: Box<[Links]>,
}

impl Rings {
    /// Allocates the heads of empty rings, as many as a level with this ring has at least: a power
    /// of two.
    #[cold]
    fn add_heads(&mut self, ring: Ring) {
        let (present, wanted) = (self.heads.len() as u32, (ring.index() + 1).next_power_of_two());
        let mut heads = std::mem::take(&mut self.heads).into_vec();
        heads.reserve_exact((wanted - present) as usize);
        heads.extend((present..wanted).map(|index| Ring::of(ring.level(), index).empty_head()));
        self.heads = heads.into();
    }
}

impl<const LANES: usize> Buckets<LANES> {
    pub fn new(geometry: &Geometry) -> Self {
        let levels = (geometry.levels().len() + 1) * LANES;
        Self { levels: (0..levels).map(|_| Rings::default()).collect() }
    }

    /// The ring of the ids that were in buckets of this level, and are due, or due to cascade, and
    /// not yet looked at.
    pub fn backlog(&self, level: usize) -> Ring {
        Ring::of(self.levels(), level as u32)
    }

    /// The numbers of the levels whose backlogs are not empty, as bits.
    #[inline]
    pub fn backlogs(&self) -> u64 {
        self.levels[self.levels()].occupied
    }

    fn levels(&self) -> usize {
        self.levels.len() / LANES - 1
    }

    /// The rings of a bucket, or the backlog. Rings of further lanes of a backlog are empty.
    pub fn lanes(&self, bucket: Ring) -> impl Iterator<Item = Ring> + use<LANES> {
        let distance = (self.levels() + 1) as u32 * MAX_BUCKETS;
        (0..LANES as u32).map(move |lane| Ring(bucket.0 + lane * distance))
    }

    /// The ring of a bucket that an id goes to.
    #[inline(always)]
    pub fn lane_of(&self, bucket: Ring, id: NodeId) -> Ring {
        let distance = (self.levels() + 1) as u32 * MAX_BUCKETS;
        Ring(bucket.0 + id.raw() % LANES as u32 * distance)
    }

    /// The buckets of a level that hold an id in some lane, as bits.
    #[inline]
    pub fn occupied(&self, level: usize) -> u64 {
        let others = (1..LANES).map(|lane| &self.levels[lane * (self.levels() + 1) + level]);
        others.fold(self.levels[level].occupied, |all, rings| all | rings.occupied)
    }

    pub fn first(&self, ring: Ring) -> Option<NodeId> {
        let next = self.head_of(ring)?.next();
        (next != ring.head()).then_some(next)
    }

    pub fn next(&self, store: &impl TimerStore, ring: Ring, id: NodeId) -> Option<NodeId> {
        let next = self.links(store, id).next();
        (next != ring.head()).then_some(next)
    }

    /// The last id of a ring.
    pub fn last(&self, ring: Ring) -> Option<NodeId> {
        let last = self.head_of(ring)?.prev();
        (last != ring.head()).then_some(last)
    }

    /// The id before this one, if it is not the first of its ring.
    pub fn before(&self, store: &impl TimerStore, id: NodeId) -> Option<NodeId> {
        let before = self.links(store, id).prev();
        (before < NodeId::FIRST_RESERVED).then_some(before)
    }

    /// Appends an unlinked id to `ring`.
    #[inline(always)]
    pub fn push(
        &mut self,
        store: &impl TimerStore,
        ring: Ring,
        Named { id, node: links }: Named<&Links>,
    ) {
        debug_assert!(id.may_name_node(), "{id:#x} names no node");
        debug_assert!(!is_linked(links), "{id} is in a ring already");
        let rings = self.open(ring);
        rings.occupied |= ring.bit();
        let head = &rings.heads[ring.index() as usize];
        let last = head.prev();
        links.set_prev(last);
        links.set_next(ring.head());
        head.set_prev(id);
        self.links(store, last).set_next(id);
    }

    /// Removes the id that owns `links` from its ring, whichever that is.
    #[inline(always)]
    pub fn unlink(&mut self, store: &impl TimerStore, links: &Links) {
        let [prev, next] = links.unlink(|id| self.links(store, id));
        if prev == next {
            self.unmark(Ring::of_head(next));
        }
    }

    /// Puts the unlinked id `new` in the place of the linked id that owns `links`.
    #[inline]
    pub fn replace(&mut self, store: &impl TimerStore, links: &Links, new: Named<&Links>) {
        debug_assert!(!is_linked(new.node), "{} is in a ring already", new.id);
        links.replace(|id| self.links(store, id), new);
    }

    /// Appends all ids of a bucket to the backlog of its level. The bucket must not be empty.
    pub fn splice(&mut self, store: &impl TimerStore, bucket: Ring) {
        let backlog = self.backlog(bucket.level());
        self.open(backlog).occupied |= backlog.bit();
        for ring in self.lanes(bucket) {
            if !self.is_marked(ring) {
                continue;
            }
            let head = self.head(ring);
            let (first, last) = (head.next(), head.prev());
            self.join(store, self.head(backlog).prev(), first);
            self.join(store, last, backlog.head());
            self.empty(ring);
        }
    }

    pub fn empty(&mut self, ring: Ring) {
        let head = self.head(ring);
        head.set_prev(ring.head());
        head.set_next(ring.head());
        self.unmark(ring);
    }

    /// Makes `first` the first id of a backlog, without a look at the links of those before it,
    /// which have been moved. `None` empties it.
    pub fn begin_with(&mut self, store: &impl TimerStore, backlog: Ring, first: Option<NodeId>) {
        match first {
            Some(first) => self.join(store, backlog.head(), first),
            None => self.empty(backlog),
        }
    }

    pub fn is_marked(&self, ring: Ring) -> bool {
        self.levels[ring.level()].occupied & ring.bit() != 0
    }

    /// The head of a ring, if it is allocated.
    pub fn head_of(&self, ring: Ring) -> Option<&Links> {
        self.levels[ring.level()].heads.get(ring.index() as usize)
    }

    /// The head of a ring that has been [opened](Self::open).
    #[inline]
    fn head(&self, ring: Ring) -> &Links {
        &self.levels[ring.level()].heads[ring.index() as usize]
    }

    /// The rings of a level, of which this one has its head from now on.
    #[inline(always)]
    fn open(&mut self, ring: Ring) -> &mut Rings {
        let rings = &mut self.levels[ring.level()];
        if ring.index() as usize >= rings.heads.len() {
            rings.add_heads(ring);
        }
        rings
    }

    #[inline(always)]
    pub fn links<'a>(&'a self, store: &'a impl TimerStore, id: NodeId) -> &'a Links {
        match id.raw().checked_sub(NodeId::FIRST_RESERVED.raw()) {
            Some(number) => self.head(Ring(number)),
            None => store.links(id),
        }
    }

    #[inline(always)]
    fn join(&self, store: &impl TimerStore, before: NodeId, after: NodeId) {
        self.links(store, before).set_next(after);
        self.links(store, after).set_prev(before);
    }

    fn unmark(&mut self, ring: Ring) {
        self.levels[ring.level()].occupied &= !ring.bit();
    }
}

/// Whether the id that owns `links` is in a ring.
#[inline]
pub fn is_linked(links: &Links) -> bool {
    links.next() != NodeId::NONE
}
