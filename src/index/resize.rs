//! Growing and shrinking: creates a table of another size, and moves a few buckets to it at a time.

use std::mem;

use crate::epoch::Guard;
use crate::links::NodeId;

use super::bucket::{Bucket, BucketBusy, HomeLock, fingerprint_of};
use super::fingerprint::Slots;
use super::memory::{Chain, EmptyOverflow, Preparation, append};
use super::state::Index;
use super::table::{HashOf, LOAD, Table};
use crate::primitives::{Patience, Wait, seeded};

/// The number of buckets to request from [`Index::help`] for `additions` additions to the index.
///
/// A table of `n` buckets begins to grow when it is full, with `LOAD * n` entries. The next table
/// is twice as large, so it is full after `LOAD * n` more additions. It can grow only when all `n`
/// buckets have moved. So each addition has to pay for `1 / LOAD` of a bucket.
///
/// A table that shrinks to `n` buckets has a quarter of the entries for which those have room, and
/// `n` moves complete the shrinking. At this rate that takes half as many additions as those `n`
/// buckets have room for.
pub fn moves_for(additions: usize) -> usize {
    // A safety factor for additions that the pass learns of late, and for helps that had to skip a
    // bucket.
    const MARGIN: usize = 2;
    additions.saturating_mul(MARGIN).div_ceil(LOAD)
}

/// The number of bytes of a new table that one call zeroes. With the page faults that takes some
/// 100 µs.
const PIECE: usize = 1 << 18;

impl Index {
    /// Begins to grow if `entries` are too many for the table, or to shrink if they are far too
    /// few. Returns true if the index is resizing. Then either there is work for [`Index::help`],
    /// or the new table is still being zeroed, and the caller must call again.
    ///
    /// Cheap at any size: a call zeroes 256 KiB of the new table at most.
    ///
    /// Growing doubles the table. For a second doubling, the caller must call again when the first
    /// one is complete. The table shrinks when `entries` would not fill an eighth of a table half
    /// as large. The new table has four times the room that the entries need. One step shrinks the
    /// table by a factor of 16 at most, and never below the capacity given to
    /// [`with_capacity`](Self::with_capacity).
    ///
    /// To be called with each batch of additions that changes the number of entries, and followed
    /// by a [`help`](Self::help) of at least [`moves_for`] that many additions. Otherwise
    /// chains grow long.
    pub fn resize_for(&self, guard: &Guard, entries: usize) -> bool {
        let table = self.current(guard);
        if table.next.get(guard).is_some() {
            return true;
        }
        let mut preparation = self.preparation.lock();
        if table.next.get(guard).is_some() {
            // Another caller was first.
            return true;
        }
        let wanted = table.bits_wanted(entries, self.least_bits).map(|bits| 1 << bits);
        let begun = preparation.take().filter(|begun| is_of_use(begun.len, wanted, table, entries));
        let Some(begun) = begun.or_else(|| wanted.map(Preparation::new)) else { return false };
        match begun.zero(PIECE) {
            Ok(buckets) => table.next.install(Table::new(buckets), guard),
            Err(begun) => *preparation = Some(begun),
        }
        true
    }

    /// Moves up to `buckets` buckets to the next table, if there is one. Returns true if there are
    /// more buckets to move. Every maintenance pass should call it, with at least [`moves_for`] the
    /// additions that the pass has learned of.
    ///
    /// `buckets` counts buckets of the smaller of the two tables. When the table shrinks, all
    /// buckets that become the same one count as one: up to 16, which are nearly empty.
    ///
    /// With [`Patience::Skip`] it waits for no other thread. Buckets that other threads have locked
    /// are left to a later help. If another helper is at work, all buckets are left.
    ///
    /// If `store` panics, growing stays unfinished from then on; the index remains usable.
    pub fn help(
        &self,
        guard: &Guard,
        store: &impl HashOf,
        buckets: usize,
        patience: Patience,
    ) -> bool {
        let table = self.current(guard);
        let Some(next) = table.next.get(guard) else {
            return false;
        };
        // Another helper is at work, and may be preempted.
        let Some(mut moving) = table.moving.lock_with(patience) else { return true };
        let len = table.buckets.len();
        if !moving.has_more() {
            return false;
        }
        // One waiting budget for all buckets. Otherwise a help that meets many locks would take
        // long.
        let wait = &mut Wait::new(patience);
        let mut move_one = |position| {
            let overflow = move_bucket(table, next, position, store, wait)?;
            overflow.into_iter().for_each(|overflow| self.retire_overflow(overflow));
            Ok(())
        };
        if seeded("index-moves-unlocked") {
            let claimed: Vec<_> = moving.unclaimed.by_ref().take(table.sources_of(next)).collect();
            moving.moved += claimed.len();
            let is_last = moving.moved == len;
            drop(moving);
            let _ = claimed.into_iter().try_for_each(move_one);
            if is_last {
                self.advance(table, guard);
            }
            return !is_last;
        }
        let mut left = buckets.saturating_mul(table.sources_of(next));
        // Each of these is retried at most once, so that the help ends even if they stay locked.
        let mut held = mem::take(&mut moving.held);
        while left > 0
            && let Some(position) = held.pop().or_else(|| moving.unclaimed.next())
        {
            left -= 1;
            match move_one(position) {
                Ok(()) => moving.moved += 1,
                Err(BucketBusy) if seeded("index-forgets-the-held") => moving.moved += 1,
                Err(BucketBusy) => moving.held.push(position),
            }
        }
        moving.held.append(&mut held);
        if moving.moved == len {
            self.advance(table, guard);
            self.update_hint(guard);
        }
        moving.has_more()
    }
}

/// Whether a preparation of `begun` buckets goes on. A growth goes on while the table is nearly
/// full, so that a number of entries that hovers around the limit does not begin it again and
/// again. A shrink goes on while the table wants to be no larger than that.
fn is_of_use(begun: usize, wanted: Option<usize>, table: &Table, entries: usize) -> bool {
    let len = table.buckets.len();
    if begun > len {
        return wanted == Some(begun) || entries > len * LOAD / 8 * 7;
    }
    wanted.is_some_and(|wanted| wanted <= begun)
}

/// Copies the entries of a bucket to their places in the next table, then marks the bucket moved.
/// Returns its overflow, which the caller must retire. Changes nothing if another thread has locked
/// one of the buckets, and the caller does not wait.
fn move_bucket<'g>(
    table: &'g Table,
    next: &'g Table,
    position: usize,
    store: &impl HashOf,
    wait: &mut Wait,
) -> Result<Option<EmptyOverflow>, BucketBusy> {
    let lock = HomeLock::acquire(&table.buckets[position], wait)?;
    let chain = Chain::locked(&lock);
    let copy = || match table.sources_of(next) {
        1 => {
            split(chain, next, &next.buckets[2 * position..][..2], store);
            Ok(())
        }
        sources => merge(chain, &next.buckets[position / sources], wait),
    };
    if seeded("index-moved-before-copy") {
        let overflow = EmptyOverflow::of_moved(lock);
        copy()?;
        return Ok(overflow);
    }
    copy()?;
    Ok(EmptyOverflow::of_moved(lock))
}

/// Copies the entries of a bucket to the two buckets that take its place. No other thread can reach
/// these two yet.
fn split(chain: Chain<'_>, next: &Table, halves: &[Bucket], store: &impl HashOf) {
    let mut halves = [Filling::new(&halves[0]), Filling::new(&halves[1])];
    for bucket in chain {
        for slot in bucket.fingerprints().occupied() {
            let id = bucket.id(slot);
            let hash = store.hash(id);
            halves[next.position(hash) % 2].put(fingerprint_of(hash), id);
        }
    }
}

/// Copies the entries of a bucket to the one that takes its place and that of its neighbours.
/// Readers and writers may already be in that bucket. No user code runs here, so a copy is never
/// left half done.
fn merge(chain: Chain<'_>, target: &Bucket, wait: &mut Wait) -> Result<(), BucketBusy> {
    let slots = |bucket: &Bucket| bucket.fingerprints().occupied();
    if chain.clone().all(|bucket| slots(bucket).next().is_none()) {
        return Ok(());
    }
    let mut lock = HomeLock::acquire(target, wait)?;
    if !seeded("index-merge-unmarked") {
        lock.mark_changed();
    }
    let mut filling = Filling::new(target);
    for bucket in chain {
        for slot in slots(bucket) {
            filling.put(bucket.fingerprints().get(slot), bucket.id(slot));
        }
    }
    Ok(())
}

/// A chain whose free slots are filled from the first one on. Either no other thread can reach the
/// chain, or its home bucket is locked.
struct Filling<'t> {
    home: &'t Bucket,
    /// The part of the chain after `bucket`.
    rest: Chain<'t>,
    bucket: &'t Bucket,
    free: Slots,
}

impl<'t> Filling<'t> {
    fn new(home: &'t Bucket) -> Self {
        let (_, mut rest) = Chain::open(home).expect("rule 7: the target has not moved");
        rest.next();
        Self { home, rest, bucket: home, free: home.fingerprints().free() }
    }

    fn put(&mut self, fingerprint: u8, id: NodeId) {
        loop {
            if let Some(slot) = self.free.next() {
                return self.bucket.put(slot, fingerprint, id);
            }
            self.bucket = self.rest.next().unwrap_or_else(|| append(self.bucket));
            self.free = self.bucket.fingerprints().free();
            // The bit must be set before an id is put into the overflow (rule 11).
            self.home.set_overflows(true);
        }
    }
}
