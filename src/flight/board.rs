//! The table of the flights in progress, by hash. Clients compare keys outside its locks.
//!
//! The board does not know keys: an entry is `Arc<F>`, and `F` holds whatever the client compares.
//! Comparing keys is user code and must not run under a lock. So a client takes a
//! [`snapshot`](Shard::snapshot) of the flights with its hash, and compares keys. It then registers
//! its own flight *on condition* that no other flight with that hash has been registered since the
//! snapshot. If one has, the client compares again.
//!
//! # Layout
//!
//! There are 64 shards, chosen by the top bits of the hash. Each is a cache line with a counter and
//! a mutex around a `hashbrown::HashTable` of (hash, serial, `Arc<F>`). Serials count the
//! registrations in the shard. A [`Version`] is the serial that the next registration will get, or
//! an earlier one. To the holder of a version, a flight of the same hash is new if its serial is
//! not below the version. Flights of other hashes in the shard, and removals, make no difference.
//!
//! The shards take 8 KiB. The first caller of [`shard`](Board::shard) allocates them. So a cache
//! without loads and computations has none, and [`is_idle`](Board::is_idle) says so.
//!
//! # Rules
//!
//! 1. [`try_insert`](Shard::try_insert), [`remove`](Shard::remove), [`lock_if`](Shard::lock_if) and
//!    [`lock_unless`](Shard::lock_unless) lock the shard for a few instructions and run no user
//!    code.
//! 2. A load or computation first registers its flight. *Then* it takes its key's bucket lock in
//!    the index, once, and looks at the entry. (A flight of the same key may have begun and ended
//!    between the snapshot and the registration. This lookup finds the result of that flight.)
//! 3. A writer that holds the bucket lock may ask [`is_idle`](Board::is_idle).
//!    * *Yes* means that no load or computation of this key has passed rule 2. A flight that is
//!      registering now will take the bucket lock later, and find the result of the write. If a
//!      flight has passed rule 2, the bucket lock makes its registration visible to the writer, and
//!      the shards themselves. So a relaxed load is enough.
//!    * A [`snapshot`](Shard::snapshot) asks it without that lock. A flight that it misses is new
//!      to the version. Who uses the answer without the version must have held the bucket lock
//!      since, or do with an older answer.
//!    * *No* may be stale, or concern another key of the shard. The writer then leaves the bucket,
//!      compares keys, and holds a [`ShardGuard`] to keep new flights of its key away.
//! 4. Lock order: shard before bucket. Under a bucket lock only `is_idle` is allowed.
//! 5. The client removes a flight before it lands it.
//!
//! # Atomics
//!
//! | atomic | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `Shard::flights` | holders of the shard's lock | writers under a bucket lock; snapshots | Relaxed | the number of flights; ordered by the bucket lock, rule 3 |
//!
//! # Alternatives that lost
//!
//! * A map by key: it would run the user's `Eq` and `Hash` under the shard's lock.
//! * One version for the whole shard, which also counts removals: computations of unrelated keys
//!   would make each other compare again.

use crossbeam_utils::CachePadded;
use hashbrown::HashTable;

use crate::hash::Hash32;
use crate::primitives::atomic::{AtomicUsize, Ordering::Relaxed};
use crate::primitives::plain::OnceLock;
use crate::primitives::{Arc, Mutex, MutexGuard, Patience, seeded};

/// This many top bits of the hash choose the shard.
#[cfg(not(cortado_loom))]
const SHARD_BITS: u32 = 6;
#[cfg(cortado_loom)]
const SHARD_BITS: u32 = 1;

/// So many buckets stay in a shard that has no flights any more: 51 KiB in 64 shards.
const KEPT: usize = 32;

/// Flights with this hash have been registered since the snapshot: the caller must compare again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

/// The state of a shard that a snapshot has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

struct Entry<F> {
    hash: Hash32,
    serial: u64,
    flight: Arc<F>,
}

pub struct Table<F> {
    next_serial: u64,
    entries: HashTable<Entry<F>>,
}

/// One part of a board, with all flights of certain hashes.
pub struct Shard<F> {
    flights: AtomicUsize,
    table: Mutex<Table<F>>,
}

/// See the [module](self).
pub struct Board<F> {
    shards: OnceLock<Shards<F>>,
}

type Shards<F> = Box<[CachePadded<Shard<F>>]>;

impl<F> Board<F> {
    /// Creates a board without flights.
    pub fn new() -> Self {
        let shards = OnceLock::new();
        if cfg!(cortado_loom) {
            // loom does not see that std's lock publishes them.
            let _ = shards.set(Self::new_shards());
        }
        Self { shards }
    }

    fn new_shards() -> Shards<F> {
        let shard = || Shard {
            flights: AtomicUsize::new(0),
            table: Mutex::new(Table { next_serial: 0, entries: HashTable::new() }),
        };
        (0..1 << SHARD_BITS).map(|_| CachePadded::new(shard())).collect()
    }

    /// The shard of a hash.
    #[inline]
    pub fn shard(&self, hash: Hash32) -> &Shard<F> {
        &self.shards.get_or_init(Self::new_shards)[number_of(hash)]
    }

    /// Whether no flight is registered in the shard of this hash. Rule 3 says when a caller may
    /// rely on the answer.
    #[inline]
    pub fn is_idle(&self, hash: Hash32) -> bool {
        self.shards.get().is_none_or(|shards| shards[number_of(hash)].is_idle())
    }

    /// Visits all flights that are registered, each under its shard's lock.
    pub fn for_each(&self, mut visit: impl FnMut(&Arc<F>)) {
        for shard in self.all() {
            shard.table.lock().entries.iter().for_each(|entry| visit(&entry.flight));
        }
    }

    fn all(&self) -> impl Iterator<Item = &CachePadded<Shard<F>>> {
        self.shards.get().into_iter().flatten()
    }

    /// How many flights are registered. Exact while no flight is being registered or removed.
    pub fn len(&self) -> usize {
        self.all().map(|shard| shard.flights.load(Relaxed)).sum()
    }

    /// Whether no flight is registered. Exact while no flight is being registered or removed.
    pub fn is_empty(&self) -> bool {
        self.all().all(|shard| shard.is_idle())
    }
}

/// The number of a hash's shard.
#[inline]
fn number_of(hash: Hash32) -> usize {
    (hash.raw() >> (u32::BITS - SHARD_BITS)) as usize
}

impl<F> Shard<F> {
    /// Whether no flight is registered in this shard.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.flights.load(Relaxed) == 0
    }

    /// The flights with this hash, so that the caller can compare keys. Does not lock the shard if
    /// there are none: a flight that is missed then is new to the holder of the version.
    pub fn snapshot(&self, hash: Hash32) -> (Version, Vec<Arc<F>>) {
        if self.is_idle() {
            return (Version(0), Vec::new());
        }
        let table = self.table.lock();
        let version = Version(table.next_serial);
        if table.entries.is_empty() {
            return (version, Vec::new());
        }
        let flights = table.of(hash).map(|entry| Arc::clone(&entry.flight)).collect();
        (version, flights)
    }

    /// Registers a flight. The caller has compared its key with those of the snapshot `seen`.
    ///
    /// # Errors
    ///
    /// Fails if flights with this hash have been registered since the snapshot.
    pub fn try_insert(&self, hash: Hash32, flight: Arc<F>, seen: Version) -> Result<(), Changed> {
        let mut table = self.table.lock();
        if table.has_news(hash, seen) && !seeded("board-registers-over-news") {
            return Err(Changed);
        }
        let serial = table.next_serial;
        table.next_serial += 1;
        let entry = Entry { hash, serial, flight };
        table.entries.insert_unique(spread(hash), entry, |entry| spread(entry.hash));
        self.flights.store(table.entries.len(), Relaxed);
        Ok(())
    }

    /// Removes a flight. Returns whether it was registered.
    pub fn remove(&self, hash: Hash32, flight: &Arc<F>) -> bool {
        let mut table = self.table.lock();
        let same = |entry: &Entry<F>| entry.hash == hash && Arc::ptr_eq(&entry.flight, flight);
        let Ok(entry) = table.entries.find_entry(spread(hash), same) else {
            return false;
        };
        let (removed, _) = entry.remove();
        let left = if seeded("board-removal-idles-the-shard") { 0 } else { table.entries.len() };
        self.flights.store(left, Relaxed);
        let unused = table.take_unused();
        drop(table);
        drop((removed, unused));
        true
    }

    /// Keeps registrations out of the shard as long as the guard lives. Returns `None` if flights
    /// with this hash have been registered since the snapshot.
    pub fn lock_if(&self, hash: Hash32, seen: Version) -> Option<ShardGuard<'_, F>> {
        let table = self.table.lock();
        (!table.has_news(hash, seen) || seeded("board-lock-ignores-news")).then_some(table)
    }

    /// Keeps registrations out of the shard as long as the guard lives. Returns `None` if
    /// `is_in_the_way` returns true for a flight with this hash. With [`Patience::Skip`] it also
    /// returns `None` if another thread holds the lock.
    ///
    /// `is_in_the_way` is called under the lock, for each flight with this hash: it must run no
    /// user code and must not wait. No reference to a flight leaves the lock: it might be the last
    /// one, and its drop would run destructors while the caller holds locks.
    pub fn lock_unless(
        &self,
        hash: Hash32,
        patience: Patience,
        is_in_the_way: impl Fn(&F) -> bool,
    ) -> Option<ShardGuard<'_, F>> {
        let table = match patience {
            Patience::Wait => self.table.lock(),
            Patience::Skip => self.table.try_lock()?,
        };
        // Every flight is examined, even after one that is in the way.
        let in_the_way = table.of(hash).filter(|entry| is_in_the_way(&entry.flight)).count();
        (in_the_way == 0).then_some(table)
    }
}

/// Keeps flights from being registered or removed. No user code may run while this guard lives.
pub type ShardGuard<'a, F> = MutexGuard<'a, Table<F>>;

impl<F> Table<F> {
    fn of(&self, hash: Hash32) -> impl Iterator<Item = &Entry<F>> {
        self.entries.iter_hash(spread(hash)).filter(move |entry| entry.hash == hash)
    }

    /// Takes out the memory of a table that was large and is empty.
    fn take_unused(&mut self) -> Option<HashTable<Entry<F>>> {
        let is_unused = self.entries.is_empty() && self.entries.num_buckets() > KEPT;
        is_unused.then(|| std::mem::take(&mut self.entries))
    }

    fn has_news(&self, hash: Hash32, seen: Version) -> bool {
        self.of(hash).any(|entry| entry.serial >= seen.0)
    }
}

/// Spreads the hash over 64 bits: hashbrown takes its tags from the top and its positions from the
/// bottom. The factor is 2^64 divided by the golden ratio.
pub fn spread(hash: Hash32) -> u64 {
    u64::from(hash.raw()).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[cfg(all(test, not(cortado_loom)))]
#[path = "../whitebox/board.rs"]
mod tests;
