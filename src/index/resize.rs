//! Growing and shrinking: a table of another size, and moving to it a few buckets at a time.

use std::mem;

use crate::epoch::Guard;

use super::bucket::{Bucket, tag_of};
use super::hint::Hint;
use super::lock::{Held, HomeLock};
use super::memory::{Chain, Root, append, retire_moved};
use super::table::{HashOf, LOAD, Table};
use super::tags::Slots;
use crate::sync::seeded;
use crate::sync::{Patience, ShortWait};

/// How many buckets to ask of [`Index::help`](super::Index::help) for so many additions to the
/// index.
///
/// A table of `n` buckets begins to grow when it is full, with `LOAD * n` entries. The next one,
/// twice as large, is full after `LOAD * n` more, and can grow only when all `n` have moved. So
/// each addition has to pay for `1 / LOAD` of a bucket.
///
/// A table that shrinks to `n` buckets has a quarter of the entries for which those have room, and
/// all is moved with `n` moves. At this rate that takes half as many additions as they have room
/// for.
pub fn moves_for(additions: usize) -> usize {
    // For additions that the pass hears of late, and helps that had to skip a bucket.
    const MARGIN: usize = 2;
    additions.saturating_mul(MARGIN).div_ceil(LOAD)
}

/// See [`Index::reserve`](super::Index::reserve).
pub fn reserve(root: &Root, guard: &Guard, entries: usize, least_bits: u32) -> bool {
    let table = root.current(guard);
    if table.next().get(guard).is_some() {
        return true;
    }
    let Some(bits) = table.bits_wanted(entries, least_bits) else { return false };
    table.next().install(Table::new(bits), guard);
    true
}

/// See [`Index::help`](super::Index::help).
pub fn help(
    (root, hint): (&Root, &Hint),
    guard: &Guard,
    store: &impl HashOf,
    buckets: usize,
    patience: Patience,
) -> bool {
    let table = root.current(guard);
    let Some(next) = table.next().get(guard) else {
        return false;
    };
    // Another helper is at it, and may have lost its core.
    let Some(mut moving) = table.moving(patience) else { return true };
    let len = table.buckets().len();
    if !moving.has_more(len) {
        return false;
    }
    // One wait for all, or a help that meets many locks would take long.
    let wait = &mut (patience, ShortWait::default());
    let mut move_one = |position| move_bucket((table, next), position, store, wait, guard);
    if seeded("index_moves_unlocked") {
        let claimed = (0..table.sources_of(next)).map_while(|_| moving.claim(len));
        let claimed = claimed.collect::<Vec<_>>();
        moving.moved += claimed.len();
        let is_last = moving.moved == len;
        drop(moving);
        let _ = claimed.into_iter().try_for_each(move_one);
        if is_last {
            root.advance(table, guard);
        }
        return !is_last;
    }
    let mut left = buckets.saturating_mul(table.sources_of(next));
    // Each at most once, so that a help ends while they stay locked.
    let mut held = mem::take(&mut moving.held);
    while left > 0
        && let Some(position) = held.pop().or_else(|| moving.claim(len))
    {
        left -= 1;
        match move_one(position) {
            Ok(()) => moving.moved += 1,
            Err(Held) if seeded("index_forgets_the_held") => moving.moved += 1,
            Err(Held) => moving.held.push(position),
        }
    }
    moving.held.append(&mut held);
    if moving.moved == len {
        root.advance(table, guard);
        hint.follow(root, guard);
    }
    moving.has_more(len)
}

/// Copies the entries of a bucket to where they belong in the next table, then marks it moved.
/// Changes nothing if somebody else has locked one of the buckets, and the caller does not wait.
fn move_bucket<'g>(
    (table, next): (&'g Table, &'g Table),
    position: usize,
    store: &impl HashOf,
    wait: &mut (Patience, ShortWait),
    guard: &'g Guard,
) -> Result<(), Held> {
    let lock = HomeLock::acquire(&table.buckets()[position], wait.0, &mut wait.1)?;
    let chain = Chain::locked(&lock);
    let copy = || match table.merges_into(next) {
        false => {
            split(chain, next, &next.buckets()[2 * position..][..2], store);
            Ok(())
        }
        true => merge(chain, &next.buckets()[position / table.sources_of(next)], wait),
    };
    if seeded("index_moved_before_copy") {
        retire_moved(lock, guard);
        return copy();
    }
    copy()?;
    retire_moved(lock, guard);
    Ok(())
}

/// Copies the entries of a bucket to the two that take its place, which nobody else can reach yet.
fn split(chain: Chain<'_>, next: &Table, halves: &[Bucket], store: &impl HashOf) {
    let mut halves = [Filling::new(&halves[0]), Filling::new(&halves[1])];
    for bucket in chain {
        for slot in bucket.tags().occupied() {
            let id = bucket.id(slot);
            let hash = store.hash(id);
            halves[next.position(hash) % 2].put(tag_of(hash), id);
        }
    }
}

/// Copies the entries of a bucket to the one that takes its place and that of its neighbours, in
/// which readers and writers may be already. No code of the user runs, so there is no half of a
/// copy.
fn merge(
    chain: Chain<'_>,
    target: &Bucket,
    (patience, short): &mut (Patience, ShortWait),
) -> Result<(), Held> {
    let slots = |bucket: &Bucket| bucket.tags().occupied();
    if chain.clone().all(|bucket| slots(bucket).next().is_none()) {
        return Ok(());
    }
    let mut lock = HomeLock::acquire(target, *patience, short)?;
    if !seeded("index_merge_unmarked") {
        lock.mark_changed();
    }
    let mut filling = Filling::new(target);
    for bucket in chain {
        for slot in slots(bucket) {
            filling.put(bucket.tags().get(slot), bucket.id(slot));
        }
    }
    Ok(())
}

/// A chain whose free slots are filled from the first on. Nobody else can reach it, or its home is
/// locked.
struct Filling<'t> {
    home: &'t Bucket,
    /// What comes after `bucket`.
    rest: Chain<'t>,
    bucket: &'t Bucket,
    free: Slots,
}

impl<'t> Filling<'t> {
    fn new(home: &'t Bucket) -> Self {
        let (_, mut rest) = Chain::open(home).expect("what is moved to has not moved");
        rest.next();
        Self { home, rest, bucket: home, free: home.tags().free() }
    }

    fn put(&mut self, tag: u8, id: u32) {
        loop {
            if let Some(slot) = self.free.next() {
                return self.bucket.put(slot, tag, id);
            }
            self.bucket = self.rest.next().unwrap_or_else(|| append(self.bucket));
            self.free = self.bucket.tags().free();
            // Before an id is put there (rule 11).
            self.home.set_overflows(true);
        }
    }
}
