//! The table of flights that are in the air, by hash, with the keys compared outside the lock.
//!
//! The board knows no keys: an entry is `Arc<F>`, and `F` holds whatever the client compares.
//! Comparing keys is user code and runs under no lock. So a client takes a
//! [`snapshot`](Shard::snapshot) of the flights with its hash, compares, and then registers its own
//! *on condition* that no other flight with that hash has been registered since; if one has, it
//! compares again.
//!
//! # Layout
//!
//! 64 shards by the top bits of the hash, each a cache line with a counter and a mutex around a
//! `hashbrown::HashTable` of (hash, serial, `Arc<F>`). Serials count the registrations in the
//! shard; a [`Version`] is the serial that the next one will get. A flight of the same hash whose
//! serial is not below the version is news to the holder of the version. Other hashes of the shard,
//! and removals, disturb nobody.
//!
//! # Rules
//!
//! 1. [`try_insert`](Shard::try_insert), [`remove`](Shard::remove), [`lock_if`](Shard::lock_if) and
//!    [`lock_unless`](Shard::lock_unless) lock the shard for a few instructions and run no user
//!    code.
//! 2. A load or computation first registers its flight; *then* it takes its key's bucket lock in
//!    the index, once, and looks at what is there. (A flight of the same key may have begun and
//!    ended between the snapshot and the registration: the look finds what it left.)
//! 3. A writer that holds the bucket lock may ask [`is_idle`](Shard::is_idle). If it says yes, no
//!    load or computation of this key has passed rule 2: one that is registering now will take the
//!    bucket lock later and find what the writer did. The bucket lock makes the registration of one
//!    that has passed it visible here, so a relaxed load is enough. *No* may be stale or meant for
//!    another key of the shard; then the writer leaves the bucket, compares, and holds a
//!    [`ShardGuard`] to keep new flights of its key away.
//! 4. Order of locks: shard before bucket. Under a bucket lock only `is_idle` is allowed.
//! 5. The client removes a flight before it lands it.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `Shard::flights` | holders of the shard's lock | writers under a bucket lock | Relaxed | the number of flights; ordered by the bucket lock, rule 3 |
//!
//! # Alternatives that lost
//!
//! * A map by key: runs `Eq` and `Hash` of the user under the shard's lock.
//! * One version for the whole shard, also counting removals: computations of unrelated keys make
//!   each other compare again.

use crossbeam_utils::CachePadded;
use hashbrown::HashTable;

use crate::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::sync::{Arc, Mutex, MutexGuard, Patience, seeded};

#[cfg(not(cortado_loom))]
const SHARD_BITS: u32 = 6;
#[cfg(cortado_loom)]
const SHARD_BITS: u32 = 1;

/// Flights with the hash have been registered since the snapshot: compare again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

/// How much of a shard a snapshot has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

#[derive(Debug)]
struct Entry<F> {
    hash: u32,
    serial: u64,
    flight: Arc<F>,
}

#[derive(Debug)]
struct Table<F> {
    next_serial: u64,
    entries: HashTable<Entry<F>>,
}

/// The part of a board that a hash belongs to.
#[derive(Debug)]
pub struct Shard<F> {
    flights: AtomicUsize,
    table: Mutex<Table<F>>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Board<F> {
    shards: Box<[CachePadded<Shard<F>>]>,
}

impl<F> Default for Board<F> {
    fn default() -> Self {
        Self::new()
    }
}

impl<F> Board<F> {
    /// No flights.
    pub fn new() -> Self {
        let shard = || Shard {
            flights: AtomicUsize::new(0),
            table: Mutex::new(Table { next_serial: 0, entries: HashTable::new() }),
        };
        Self { shards: (0..1 << SHARD_BITS).map(|_| CachePadded::new(shard())).collect() }
    }

    /// The shard of a hash.
    #[inline]
    pub fn shard(&self, hash: u32) -> &Shard<F> {
        &self.shards[(hash >> (u32::BITS - SHARD_BITS)) as usize]
    }

    /// How many flights are registered; exact when nobody is at it.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.flights.load(Relaxed)).sum()
    }

    /// Whether no flight is registered; exact when nobody is at it.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_idle())
    }
}

impl<F> Shard<F> {
    /// Whether no flight is registered here; see rule 3 for who may rely on it.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.flights.load(Relaxed) == 0
    }

    /// The flights with this hash, for the caller to compare keys.
    pub fn snapshot(&self, hash: u32) -> (Version, Vec<Arc<F>>) {
        let table = self.table.lock();
        let flights = table.of(hash).map(|entry| Arc::clone(&entry.flight)).collect();
        (Version(table.next_serial), flights)
    }

    /// Registers a flight, after the caller has compared its key with those of the snapshot.
    ///
    /// # Errors
    ///
    /// If flights with this hash have been registered since.
    pub fn try_insert(&self, hash: u32, flight: Arc<F>, seen: Version) -> Result<(), Changed> {
        let mut table = self.table.lock();
        if table.has_news(hash, seen) && !seeded("board_registers_over_news") {
            return Err(Changed);
        }
        let serial = table.next_serial;
        table.next_serial += 1;
        let entry = Entry { hash, serial, flight };
        table.entries.insert_unique(spread(hash), entry, |entry| spread(entry.hash));
        self.flights.store(table.entries.len(), Relaxed);
        Ok(())
    }

    /// Takes a flight off the board, and tells whether it was there.
    pub fn remove(&self, hash: u32, flight: &Arc<F>) -> bool {
        let mut table = self.table.lock();
        let same = |entry: &Entry<F>| entry.hash == hash && Arc::ptr_eq(&entry.flight, flight);
        let Ok(entry) = table.entries.find_entry(spread(hash), same) else {
            return false;
        };
        let (removed, _) = entry.remove();
        let left = if seeded("board_removal_idles_the_shard") { 0 } else { table.entries.len() };
        self.flights.store(left, Relaxed);
        drop(table);
        drop(removed);
        true
    }

    /// Keeps registrations out of the shard as long as the guard lives, unless flights with this
    /// hash have been registered since the snapshot.
    pub fn lock_if(&self, hash: u32, seen: Version) -> Option<ShardGuard<'_, F>> {
        let table = self.table.lock();
        (!table.has_news(hash, seen) || seeded("board_lock_ignores_news"))
            .then(|| ShardGuard { _table: table })
    }

    /// Keeps registrations out of the shard as long as the guard lives, unless `is_in_the_way` says
    /// so of a flight with this hash, or somebody has the lock and the caller does not wait. It
    /// is asked under the lock: no user code, no waiting. No reference to a flight leaves the
    /// lock, whose drop would be the last and run destructors wherever the caller stands.
    pub fn lock_unless(
        &self,
        hash: u32,
        patience: Patience,
        is_in_the_way: impl Fn(&F) -> bool,
    ) -> Option<ShardGuard<'_, F>> {
        let table = match patience {
            Patience::Wait => self.table.lock(),
            Patience::Skip => self.table.try_lock()?,
        };
        let free = !table.of(hash).any(|entry| is_in_the_way(&entry.flight));
        free.then(|| ShardGuard { _table: table })
    }
}

/// Keeps flights from being registered or removed. No user code may run meanwhile.
#[derive(Debug)]
#[must_use]
pub struct ShardGuard<'a, F> {
    _table: MutexGuard<'a, Table<F>>,
}

impl<F> Table<F> {
    fn of(&self, hash: u32) -> impl Iterator<Item = &Entry<F>> {
        self.entries.iter_hash(spread(hash)).filter(move |entry| entry.hash == hash)
    }

    fn has_news(&self, hash: u32, seen: Version) -> bool {
        self.of(hash).any(|entry| entry.serial >= seen.0)
    }
}

/// hashbrown takes its tags from the top of 64 bits and its positions from the bottom.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}
