//! Snapshots: the living entries of a cache as a stream of bytes, to be restored after a restart.
//!
//! [`Cache::save`] writes the entries with what is left of their lifetimes, and the time of day.
//! [`Snapshot::read`] reads and checks the whole stream. [`Cache::restore`] inserts the entries,
//! some at a time. The time between saving and restoring counts as time of their lives.
//!
//! Hashes are not in the stream: each cache has its own.

mod error;
mod format;

pub use error::SnapshotError;

use crate::cache::Cache;
use crate::clock::Nanos;
use crate::engine::Rest;
use crate::expiration::{Lease, Lifetime};
use crate::primitives::time::{Duration, SystemTime};
use format::{Frames, Head, SavedEntry, Sink};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::io::{Read, Write};

/// The entries of a cache, as [`Cache::save`] has written them, in the order in which they are
/// worth restoring.
///
/// ```
/// use cortado::{Cache, Snapshot};
/// use std::time::Duration;
///
/// let sessions: Cache<String, u32> = Cache::new(100);
/// sessions.insert_with_ttl("alice".to_owned(), 1, Duration::from_secs(60));
/// let mut bytes = Vec::new();
/// sessions.save(&mut bytes)?;
///
/// // In the next process:
/// let sessions: Cache<String, u32> = Cache::new(100);
/// let mut snapshot = Snapshot::read(bytes.as_slice())?;
/// sessions.restore(&mut snapshot, usize::MAX);
/// assert_eq!(sessions.get("alice"), Some(1));
/// assert!(sessions.expires_in("alice").due() <= Some(Duration::from_secs(60)));
/// # Ok::<(), cortado::SnapshotError>(())
/// ```
pub struct Snapshot<K, V> {
    saved_at: SystemTime,
    entries: VecDeque<SavedEntry<K, V>>,
}

impl<K, V> Snapshot<K, V> {
    /// When the entries were saved, by the clock of the machine that saved them.
    #[must_use]
    pub fn saved_at(&self) -> SystemTime {
        self.saved_at
    }

    /// The number of entries that are left to be restored, among them those whose lives have ended
    /// meanwhile.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entry is left to be restored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn empty() -> Self {
        Self { saved_at: SystemTime::UNIX_EPOCH, entries: VecDeque::new() }
    }
}

impl<K: DeserializeOwned, V: DeserializeOwned> Snapshot<K, V> {
    /// Reads a snapshot to its end, and checks all of it. The entries are in memory then, beside
    /// what the cache has.
    ///
    /// It reads in pieces of some 64 KiB, so a file needs no buffer around it. What follows the
    /// snapshot in the stream is not read.
    ///
    /// # Errors
    /// If the stream is not a snapshot, is one of another version of the format, is cut off or
    /// damaged, or if a key or a value does not decode as `K` or `V`. (Types that decode alike are
    /// not told apart.) [`salvage`](Self::salvage) takes what is whole.
    pub fn read(reader: impl Read) -> Result<Self, SnapshotError> {
        let (snapshot, error) = Self::salvage(reader);
        error.map_or(Ok(snapshot), Err)
    }

    /// Reads a snapshot up to its end or its first damage. Returns the entries of all pieces before
    /// that, and the error.
    ///
    /// The entries that are returned are whole: each piece of the stream has a checksum. If even
    /// the first piece is damaged, there are none, and [`saved_at`](Self::saved_at) is 1970.
    ///
    /// ```
    /// use cortado::{Cache, Snapshot, SnapshotError};
    ///
    /// let cache = Cache::new(10_000);
    /// cache.insert_many((0..10_000).map(|n| (n, "some text".repeat(10))));
    /// let mut bytes = Vec::new();
    /// cache.save(&mut bytes)?;
    /// bytes.truncate(bytes.len() / 2);
    ///
    /// assert!(matches!(Snapshot::<i32, String>::read(&*bytes), Err(SnapshotError::Truncated)));
    /// let (half, error) = Snapshot::<i32, String>::salvage(&*bytes);
    /// assert!(matches!(error, Some(SnapshotError::Truncated)));
    /// assert!((4_000..6_000).contains(&half.len()));
    /// # Ok::<(), SnapshotError>(())
    /// ```
    pub fn salvage(reader: impl Read) -> (Self, Option<SnapshotError>) {
        let mut snapshot = Self::empty();
        let error = snapshot.fill(reader).err();
        (snapshot, error)
    }

    fn fill(&mut self, reader: impl Read) -> Result<(), SnapshotError> {
        let (Head { saved_at }, mut frames) = Frames::open(reader)?;
        self.saved_at = saved_at;
        while frames.next_entries(&mut self.entries)? {}
        Ok(())
    }
}

impl<K, V> fmt::Debug for Snapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("saved_at", &self.saved_at)
            .field("len", &self.len())
            .finish()
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Serialize,
    V: Serialize,
    S: BuildHasher,
{
    /// Writes the living entries with what is left of their lifetimes, and the time of day. Returns
    /// the number of entries.
    ///
    /// *Order*: a cache with a bound writes first what its policy would keep longest, so that what
    /// is restored first is worth most. A cache without a bound has no order.
    ///
    /// *Consistency*: as an iteration. An entry that is there throughout is written, with a value
    /// that it had during the call.
    ///
    /// *Format*: MessagePack (in which `Some(None)` is read as `None`) with the names of fields, in
    /// pieces of some 64 KiB with a checksum each, in a stream with a version. The stream is
    /// for the next process of the same program: before cortado 1.0 it is no contract between
    /// minor versions. Write it to a file of another name, and rename that when this has
    /// returned, so that a crash leaves the last one whole.
    ///
    /// *Blocking*: does the maintenance first, with the listener and destructors that it runs,
    /// holds passes up while it lists the entries, and waits for the writer. Reads and writes
    /// of the cache go on. In a task, call it where blocking
    /// is allowed, through [`sync`](crate::future::Cache::sync).
    ///
    /// *Memory*: one piece of the stream. For a cache with a bound also a list of its entries: 16
    /// to 48 bytes for each, the most while the list grows. An entry that leaves meanwhile is freed
    /// when the call has come to it. A cache without a bound needs no list: the call goes from
    /// bucket to bucket.
    ///
    /// # Errors
    /// If the writer fails, or a key or a value cannot be serialized.
    pub fn save(&self, writer: impl Write) -> Result<u64, SnapshotError> {
        self.inner.run_pending();
        let (saved_at, now) = (SystemTime::now(), self.inner.core.ticker.now());
        let mut sink = Sink::open(writer, Head { saved_at })?;
        for node in self.inner.best_first() {
            let Some((node, rest)) = self.inner.rest_of(node, now) else { continue };
            sink.push(node.key(), node.value(), rest)?;
        }
        sink.close()
    }
}

impl<K, V, S> Cache<K, V, S>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Send + Sync + 'static,
    S: BuildHasher,
{
    /// Inserts entries of a snapshot, at most `limit` of them, in its order, and takes them out of
    /// the snapshot. Returns how many were inserted: zero when there is nothing left to restore, or
    /// the cache has no room for the next entry. (The entries left over are those that the old
    /// cache valued least.) Entries that are passed over do not count.
    ///
    /// A service restores a portion between other things, or on a thread that sleeps between the
    /// portions, so that it answers meanwhile.
    ///
    /// *Lifetimes*: an entry lives for its remaining lifetime when it was saved, minus the
    /// wall-clock time since then ([`SystemTime`]; if it was set back, none), as if it were
    /// inserted with [`insert_with_ttl`](Self::insert_with_ttl). An entry that never expires
    /// gets the lifetime that the present settings give a new entry. If an idle time has ended
    /// meanwhile, the entry is not restored; otherwise its idle time starts again. The
    /// remaining time until an entry is stale is kept; if it has passed, the entry is stale at
    /// once.
    ///
    /// *Order*: the order by which the policy evicts begins anew, as if the entries had just been
    /// inserted.
    ///
    /// *Invalidations*: a snapshot does not know what was invalidated since it was saved, also
    /// between two portions: that comes back. Restore all of it before the service takes
    /// invalidations, or let lifetimes bound what that may do.
    ///
    /// *Other entries*: a key that has an entry, a load or a computation keeps it: that one is
    /// newer. The present capacity, weigher and eviction policy hold.
    ///
    /// *Callbacks*: those of an insert. Near the bound the weigher is asked twice.
    ///
    /// *Blocking*: as [`insert`](Self::insert); it waits for no load.
    ///
    /// ```
    /// use cortado::{Cache, Snapshot};
    ///
    /// let cache = Cache::new(10_000);
    /// cache.insert_many((0..10_000).map(|n| (n, n)));
    /// let mut bytes = Vec::new();
    /// assert_eq!(cache.save(&mut bytes)?, 10_000);
    ///
    /// let cache: Cache<i32, i32> = Cache::new(10_000);
    /// let mut snapshot = Snapshot::read(&*bytes)?;
    /// let mut portions = 0;
    /// while cache.restore(&mut snapshot, 1_000) > 0 {
    ///     portions += 1; // a service would sleep, or serve
    /// }
    /// assert_eq!((portions, snapshot.len()), (10, 0));
    /// # Ok::<(), cortado::SnapshotError>(())
    /// ```
    pub fn restore(&self, snapshot: &mut Snapshot<K, V>, limit: usize) -> usize {
        let down = SystemTime::now().duration_since(snapshot.saved_at).unwrap_or_default();
        let mut restored = 0;
        while restored < limit
            && let Some(next) = snapshot.entries.front()
            && !self.inner.has_no_room(&next.key, &next.value)
            && let Some(entry) = snapshot.entries.pop_front()
        {
            let Some(lease) = lease_after(entry.rest, down) else { continue };
            let key = self.inner.owned(entry.key);
            restored += usize::from(self.inner.put_if_absent(key, entry.value, lease));
        }
        restored
    }
}

/// The lease with which an entry goes on after its cache was `down` for so long; `None` if its life
/// has ended meanwhile.
fn lease_after(rest: Rest, down: Duration) -> Option<Lease> {
    let left = |rest: Nanos| rest.to_duration().checked_sub(down).filter(|left| !left.is_zero());
    let lifetime = match rest.life {
        Nanos::FOREVER => Lifetime::Policy,
        life => Lifetime::For(crate::clock::nanos(left(life)?)),
    };
    if rest.idle != Nanos::FOREVER {
        left(rest.idle)?;
    }
    let fresh = |rest: Nanos| crate::clock::nanos(left(rest).unwrap_or_default());
    let refresh = (rest.fresh != Nanos::FOREVER).then(|| fresh(rest.fresh));
    Some(Lease { lifetime, refresh })
}

#[cfg(all(test, not(cortado_loom)))]
mod tests;
