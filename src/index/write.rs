//! Writing: look without a lock, then lock exactly what was seen.

use crate::epoch::Guard;

use super::bucket::{Bucket, Ctrl, SLOTS, tag_of};
use super::lock::{Held, HomeLock};
use super::memory::{Chain, Root, Spare, append};
use crate::links::NIL;
use crate::sync::ShortWait;
use crate::sync::{Spin, seeded};
use std::convert::Infallible;
use std::ptr;

/// With so many free slots a home bucket gives up an overflow that is empty: it will not need it
/// soon.
const ROOM: usize = if cfg!(cortado_loom) { 1 } else { 3 };

/// So often does [`try_lock_id`] look at a bucket that others keep changing.
const ATTEMPTS: u32 = if cfg!(cortado_loom) { 2 } else { 8 };

/// The bucket changed between a search and the attempt to lock it: search again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

/// What a scan of a chain came upon: the entry that matched, else the first free slot, else no slot
/// of the last bucket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'g> {
    pub(super) bucket: &'g Bucket,
    pub(super) slot: u32,
    /// The entry's, or [`NIL`].
    pub(super) id: u32,
}

impl Seen<'_> {
    pub(super) const NO_SLOT: u32 = u32::MAX;

    #[inline(always)]
    fn hit(&self) -> Option<u32> {
        (self.id != NIL).then_some(self.id)
    }
}

/// The result of a search, and what it was found in.
#[derive(Debug)]
#[must_use = "a search changes nothing"]
pub struct Found<'g> {
    home: &'g Bucket,
    version: Ctrl,
    tag: u32,
    seen: Seen<'g>,
}

/// See [`Index::search_in_passing`](super::Index::search_in_passing).
#[inline(always)]
pub fn search_in_passing<'g>(
    root: &'g Root,
    guard: &'g Guard,
    hash: u32,
    is_match: impl FnOnce(u32) -> bool,
) -> Option<Found<'g>> {
    let tag = tag_of(hash);
    let home = root.current(guard).home(hash);
    let (version, _) = Chain::open(home)?;
    if version.is_locked() {
        return None;
    }
    let tags = home.tags_beside(version);
    let (slot, id) = match tags.matching(tag).next() {
        Some(slot) => {
            let id = home.id(slot);
            if id == NIL || !is_match(id) {
                return None;
            }
            (slot as u32, id)
        }
        None if !version.overflows() => (tags.free().next()? as u32, NIL),
        None => return None,
    };
    Some(Found { home, version, tag: tag.into(), seen: Seen { bucket: home, slot, id } })
}

/// See [`Index::search`](super::Index::search).
pub fn search<'g>(
    root: &'g Root,
    guard: &'g Guard,
    hash: u32,
    is_match: impl FnMut(u32) -> bool,
) -> Found<'g> {
    let mut spin = Spin::default();
    let pause = || {
        spin.pause();
        Ok::<(), Infallible>(())
    };
    let Ok(found) = search_while(root, guard, hash, is_match, pause);
    found
}

/// Searches; `pause` is called while the bucket is locked, until it gives up.
#[inline(always)]
fn search_while<'g, E>(
    root: &'g Root,
    guard: &'g Guard,
    hash: u32,
    mut is_match: impl FnMut(u32) -> bool,
    mut pause: impl FnMut() -> Result<(), E>,
) -> Result<Found<'g>, E> {
    let tag = tag_of(hash);
    let mut table = root.current(guard);
    loop {
        let home = table.home(hash);
        match Chain::open(home) {
            None => table = table.successor(guard),
            Some((version, _)) if version.is_locked() => pause()?,
            Some((version, chain)) => {
                let seen = scan(home, chain, tag, &mut is_match);
                return Ok(Found { home, version, tag: tag.into(), seen });
            }
        }
    }
}

fn scan<'g>(
    home: &'g Bucket,
    chain: Chain<'g>,
    tag: u8,
    is_match: &mut impl FnMut(u32) -> bool,
) -> Seen<'g> {
    let mut seen = Seen { bucket: home, slot: Seen::NO_SLOT, id: NIL };
    for bucket in chain {
        let tags = bucket.tags();
        for slot in tags.matching(tag) {
            let id = bucket.id(slot);
            if id != NIL && is_match(id) {
                return Seen { bucket, slot: slot as u32, id };
            }
        }
        if seen.slot == Seen::NO_SLOT {
            let slot = tags.free().next().map_or(Seen::NO_SLOT, |slot| slot as u32);
            seen = Seen { bucket, slot, id: NIL };
        }
    }
    seen
}

/// See [`Index::lock_id`](super::Index::lock_id).
#[inline(always)]
pub fn lock_id<'g>(root: &'g Root, guard: &'g Guard, hash: u32, id: u32) -> Option<Locked<'g>> {
    let first = search_in_passing(root, guard, hash, |other| other == id);
    if let Some(found) = first {
        found.id()?;
        if let Ok(locked) = found.lock() {
            return Some(locked);
        }
    }
    lock_id_at_length(root, guard, hash, id)
}

#[cold]
#[inline(never)]
fn lock_id_at_length<'g>(
    root: &'g Root,
    guard: &'g Guard,
    hash: u32,
    id: u32,
) -> Option<Locked<'g>> {
    loop {
        let found = search(root, guard, hash, |other| other == id);
        found.id()?;
        if let Ok(locked) = found.lock() {
            return Some(locked);
        }
    }
}

/// See [`Index::try_lock_id`](super::Index::try_lock_id).
#[inline(always)]
pub fn try_lock_id<'g>(
    root: &'g Root,
    guard: &'g Guard,
    hash: u32,
    id: u32,
) -> Result<Option<Locked<'g>>, Held> {
    let first = search_in_passing(root, guard, hash, |other| other == id);
    if let Some(found) = first {
        if found.id().is_none() {
            return Ok(None);
        }
        if let Ok(locked) = found.lock() {
            return Ok(Some(locked));
        }
    }
    try_lock_id_at_length(root, guard, hash, id)
}

#[cold]
#[inline(never)]
fn try_lock_id_at_length<'g>(
    root: &'g Root,
    guard: &'g Guard,
    hash: u32,
    id: u32,
) -> Result<Option<Locked<'g>>, Held> {
    let mut wait = ShortWait::default();
    for _ in 0..ATTEMPTS {
        let found = search_while(
            root,
            guard,
            hash,
            |other| other == id,
            || if wait.pause() { Ok(()) } else { Err(Held) },
        );
        let found = match found {
            Err(Held) if seeded("index_held_is_absent") => return Ok(None),
            found => found?,
        };
        if found.id().is_none() {
            return Ok(None);
        }
        if let Ok(locked) = found.lock() {
            return Ok(Some(locked));
        }
    }
    Err(Held)
}

impl<'g> Found<'g> {
    /// The id that matched, when it was looked at.
    #[inline(always)]
    pub fn id(&self) -> Option<u32> {
        self.seen.hit()
    }

    /// Locks the bucket, if it has not changed since the search began: what was found (or not
    /// found) is then so until the lock is dropped.
    ///
    /// # Errors
    ///
    /// [`Changed`] if anything in the bucket was changed, or is just being.
    #[inline(always)]
    pub fn lock(self) -> Result<Locked<'g>, Changed> {
        let Self { home, version, tag, seen } = self;
        let lock = HomeLock::exactly(home, version).ok_or(Changed)?;
        Ok(Locked { lock, tag, seen })
    }
}

/// A locked bucket, with the place of the entry that was searched for. Dropping it unlocks.
///
/// Whoever holds one runs no code of the user, waits for nothing, and locks no second bucket.
#[derive(Debug)]
#[must_use = "dropping it unlocks"]
pub struct Locked<'g> {
    lock: HomeLock<'g>,
    tag: u32,
    seen: Seen<'g>,
}

impl<'g> Locked<'g> {
    pub(super) fn of(lock: HomeLock<'g>, tag: u8, seen: Seen<'g>) -> Self {
        Self { lock, tag: tag.into(), seen }
    }

    /// The entry's id, if it is in the index.
    #[inline(always)]
    pub fn id(&self) -> Option<u32> {
        self.seen.hit()
    }

    /// Adds the entry. The node must be complete: readers may come upon it at once.
    ///
    /// # Panics
    ///
    /// If the entry is there already.
    #[inline(always)]
    pub fn insert(&mut self, id: u32) {
        assert!(self.seen.id == NIL, "there is an entry already");
        debug_assert_ne!(id, NIL);
        if self.seen.slot == Seen::NO_SLOT {
            self.seen = Seen { bucket: append(self.seen.bucket), slot: 0, id: NIL };
        }
        self.lock.mark_changed();
        if self.is_in_overflow() && !seeded("index_overflow_marked_late") {
            self.lock.home().set_overflows(true);
        }
        self.seen.bucket.put(self.seen.slot as usize, self.tag as u8, id);
        self.seen.id = id;
        if self.is_in_overflow() && seeded("index_overflow_marked_late") {
            self.lock.home().set_overflows(true);
        }
    }

    /// Puts a new id in the place of the old one, which is returned. The node must be complete, and
    /// the old one may be marked gone only now (rule 4 of the [module](super)).
    ///
    /// # Panics
    ///
    /// If there is no entry.
    #[inline(always)]
    pub fn replace(&mut self, id: u32) -> u32 {
        debug_assert_ne!(id, NIL);
        let old = self.seen.hit().expect("there is no entry");
        self.lock.mark_changed();
        self.seen.bucket.replace(self.seen.slot as usize, id);
        self.seen.id = id;
        old
    }

    /// Takes the entry out and returns its id.
    ///
    /// # Panics
    ///
    /// If there is no entry.
    #[inline(always)]
    pub fn remove(&mut self) -> u32 {
        let old = self.seen.hit().expect("there is no entry");
        self.lock.mark_changed();
        self.seen.bucket.clear(self.seen.slot as usize);
        self.seen.id = NIL;
        if self.is_in_overflow() {
            self.settle_overflow();
        }
        old
    }

    /// Takes the overflow off, to be retired after the lock, if there is nothing in it and the home
    /// bucket has room for some more. Whoever removes entries in great number should ask for
    /// it: each bucket having been full some day, all would have one in the end.
    #[inline(always)]
    pub fn take_spare(&mut self) -> Option<Spare> {
        let home = self.lock.home();
        let is_spare = home.has_overflow() && !home.ctrl().overflows();
        if is_spare && !seeded("index_keeps_its_overflows") { self.take_overflow() } else { None }
    }

    #[cold]
    fn take_overflow(&mut self) -> Option<Spare> {
        let home = self.lock.home();
        let tags = home.tags();
        let slot = tags.free().next().filter(|_| tags.occupied().count() + ROOM <= SLOTS)?;
        self.lock.mark_changed();
        if self.is_in_overflow() {
            // Nothing is put into what was taken off.
            self.seen = Seen { bucket: home, slot: slot as u32, id: NIL };
        }
        Spare::take(&self.lock)
    }

    #[inline(always)]
    fn is_in_overflow(&self) -> bool {
        !ptr::eq(self.seen.bucket, self.lock.home())
    }

    /// After a removal from the overflow.
    #[cold]
    fn settle_overflow(&mut self) {
        let overflow = Chain::locked(&self.lock).skip(1);
        if overflow.flat_map(|bucket| bucket.tags().occupied()).next().is_none() {
            self.lock.home().set_overflows(false);
        }
    }
}
