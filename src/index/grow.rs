//! Growing: a table twice as large, and moving to it a few buckets at a time.

use crate::epoch::Guard;

use super::bucket::{Bucket, SLOTS, tag_of};
use super::hint::Hint;
use super::lock::HomeLock;
use super::memory::{Chain, Root, append, retire_moved};
use super::table::{HashOf, Table};
use crate::sync::seeded;

/// See [`Index::reserve`](super::Index::reserve).
pub fn reserve(root: &Root, guard: &Guard, entries: usize) -> bool {
    let table = root.current(guard);
    if table.next().get(guard).is_some() {
        return true;
    }
    let grow = table.is_too_small_for(entries);
    if grow {
        table.next().install(table.doubled(), guard);
    }
    grow
}

/// See [`Index::help`](super::Index::help).
pub fn help(root: &Root, hint: &Hint, guard: &Guard, store: &impl HashOf, buckets: usize) -> bool {
    let table = root.current(guard);
    let Some(next) = table.next().get(guard) else {
        return false;
    };
    let claim = table.claim(buckets);
    if claim.is_empty() {
        return false;
    }
    let count = claim.len();
    for position in claim {
        move_bucket(table, position, next, store, guard);
    }
    if table.finish(count) {
        root.advance(table, guard);
        hint.follow(root, guard);
    }
    table.has_unclaimed()
}

/// Copies the entries of a bucket to the two that take its place, then marks it moved.
fn move_bucket(table: &Table, position: usize, next: &Table, store: &impl HashOf, guard: &Guard) {
    // A bucket has one claimant, so it has not moved.
    let Some(lock) = HomeLock::acquire(&table.buckets()[position]) else {
        return;
    };
    if seeded("index_moved_before_copy") {
        let chain = Chain::locked(&lock);
        retire_moved(lock, guard);
        return copy(chain, position, next, store);
    }
    copy(Chain::locked(&lock), position, next, store);
    retire_moved(lock, guard);
}

fn copy(chain: Chain<'_>, position: usize, next: &Table, store: &impl HashOf) {
    let halves = &next.buckets()[2 * position..][..2];
    let mut halves = [Filling::new(&halves[0]), Filling::new(&halves[1])];
    for bucket in chain {
        for slot in bucket.tags().occupied() {
            let id = bucket.id(slot);
            let hash = store.hash(id);
            halves[next.position(hash) % 2].put(tag_of(hash), id);
        }
    }
}

/// A bucket that nobody can reach yet, filled from its first slot on.
struct Filling<'t> {
    home: &'t Bucket,
    bucket: &'t Bucket,
    used: usize,
}

impl<'t> Filling<'t> {
    fn new(home: &'t Bucket) -> Self {
        Self { home, bucket: home, used: 0 }
    }

    fn put(&mut self, tag: u8, id: u32) {
        if self.used == SLOTS {
            (self.bucket, self.used) = (append(self.bucket), 0);
            self.home.set_overflows(true);
        }
        self.bucket.put(self.used, tag, id);
        self.used += 1;
    }
}
