//! A concurrent hash index: from the 32-bit hash of a key to the `u32` id of its node.
//!
//! Readers take no lock and write nothing. Writers lock one cache line for a few instructions. The
//! index sees neither keys nor values: whether an id is the one looked for is decided by a closure
//! of the caller, and **no closure ever runs while a lock is held**.
//!
//! ```text
//!            hash >> (32 - bits)                  one bucket, 64 bytes
//!  current ──► ┌──┬──┬──┬──┐    ┌────────┬─────────────────────────────┬──────────┬────────────┐
//!              │b0│b1│b2│b3│    │ 8 tags │ ctrl: version·MOVED·LOCKED· │ overflow │ 10 ids     │
//!              └──┴┬─┴──┴──┘    │        │       OVERFLOWS · 2 tags    │          │            │
//!        next ──► ┌┴─┬──┬──┐    └────────┴─────────────────────────────┴────┬─────┴────────────┘
//!                 │b2│b3│…                                                  └──► bucket ──► …
//! ```
//!
//! The bucket of a hash is its top bits. So bucket `i` splits into `2i` and `2i + 1` when the table
//! doubles, neighbours merge when it shrinks, and the order of a walk by hash survives both. A
//! slot's tag is the low byte of the hash (never 0, which marks an empty slot); the tags of a
//! bucket are compared all at once.
//!
//! # Rules
//!
//! 1. **Slots are stable.** From insertion to removal an entry stays in its slot; replacing changes
//!    the id in place. Removal frees the slot (tag 0, id 0); there are no tombstones. A key has at
//!    most one entry: `is_match` and `probe` must know a key by its node whether or not that node
//!    is gone. So a reader that misses need not look twice: an entry that was there all the time
//!    was in one slot all the time.
//! 2. **The id is the truth, the tag a hint.** A writer stores the id before the tag and clears it
//!    after, readers skip id 0, and the caller's closure looks at the node. The node is published
//!    by the id (release, acquire); so is the slot by the tag: who sees the tag of a slot's new
//!    entry cannot see the id of the one before it, and take a removed key for one that came back.
//! 3. **One lock.** All changes to a home bucket and its overflow are made by the holder of the
//!    home bucket's `LOCKED` bit; unlocking after a change gives it a new version. (Buckets that
//!    nobody can reach yet need no lock.)
//! 4. **Replace, then mark.** Whoever replaces or removes an id marks the old node gone only
//!    *after* the new id is stored or the slot cleared, or marks it without touching the index (an
//!    entry that expired).
//! 5. **Gone means look again, once.** A reader whose probe says [`Probe::Gone`] starts over in the
//!    same table, with the `MOVED` bit. By rule 4 and the acquire with which the probe read the
//!    mark, it now finds what has replaced the node, in this table or the next. If it finds the
//!    same node gone again, the mark came without a change: there is no entry. Each further round
//!    means that some writer has got on.
//! 6. **Look, then lock exactly that.** A writer notes the control word (when it is not locked),
//!    scans without a lock, and locks by a compare-exchange of just that word. If it succeeds, the
//!    scan is current: a change the scan missed would have been made under an earlier lock, whose
//!    end changed the version; a change by a later holder comes after the exchange that this one
//!    releases, so the scan, which lies before it, cannot have seen it. A search whose bucket keeps
//!    changing [compares ids instead](Index::search_exact): under the lock, whose holder is the
//!    only one to change them.
//! 7. **Moving.** One helper at a time moves buckets: the one that has the lock of
//!    [`Moving`](table::Moving). It locks a bucket, copies its ids into the next table, and unlocks
//!    it with `MOVED` set (release). From then on the bucket never changes; its contents stay for
//!    the readers that are in it. Everyone else who sees `MOVED` (acquire) goes to the next table.
//!    When all buckets have moved, `current` passes on. Until then no bucket of the next table
//!    moves. A helper that is held up keeps the table from being completed, and delays nobody's
//!    finds or writes.
//!    * *Growing:* a bucket's ids go into two that nobody else can reach.
//!    * *Shrinking:* several buckets become one. It is in use from when the first of them has
//!      moved, so the mover locks it, too, and what it puts there is a change (rule 3). There may
//!      be entries in it whose own bucket has not moved yet; nobody asks for them there.
//!    * **Lock order:** the moving, a bucket of the table, a bucket of the next table. Only the
//!      mover holds two buckets. Whoever holds one in the next table waits for nothing, so nobody
//!      waits in a circle.
//!    * A bucket that somebody else has locked may be [skipped](Patience::Skip): it stays as it is,
//!      and a later help moves it.
//! 8. **Tables** are reached only through `current` and `next`, by threads that are pinned in the
//!    default collector. A table is retired through the epoch, once, after `current` has passed on
//!    from it. Its `next` is retired later still. So a reference that was got under a guard is good
//!    as long as the guard. After the grace period a table belongs to the queue of
//!    [`Outgrown`](outgrown::Outgrown), and then to whoever takes it out, until it is put back or
//!    dropped. Without the epoch, tables are freed by the drop of the index only.
//! 9. **Overflow buckets** belong to their home bucket, and are reached through it: by those who
//!    have seen, under the pin they still hold, that it had not moved (a [`Chain`](memory::Chain)
//!    is the proof of that), or who hold its lock. A chain leaves its home once: with `MOVED`, or
//!    taken off (the pointer exchanged for null) by a holder of the lock while `OVERFLOWS` is not
//!    set, or with the table. It is then retired through the epoch, once, with the bucket unlocked.
//!    Whoever was pinned before may still be in it, and finds it empty if it was taken off. Taking
//!    off is a change: a search that has named a bucket of the chain cannot lock. Nothing is put
//!    into it afterwards, under the same lock either.
//! 10. **The memory of a table** is one allocation of zeros, in which the buckets begin at the
//!     first cache line. All-zero is an empty bucket. It is owned by its `Buckets` alone.
//! 11. **`OVERFLOWS` is no hint.** It is set before an entry's id is put into the overflow, and
//!     cleared after the last slot there, under the lock and with a new version. Who opens a home
//!     without it has seen a moment with no entry in the overflow, and need not go there; who has
//!     seen an id there (acquire) sees the bit. Writers look through the whole chain for a free
//!     slot. Without it, each bucket that was full some day would cost all later misses and inserts
//!     another line: after 60 turnovers of a cache that was every second one.
//!
//! # Atomics
//!
//! | word | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `Bucket::ids[i]` | lock holder | readers, writers | release / acquire | the node |
//! | `Bucket::tags` | lock holder | readers, writers | release / acquire | the slot's earlier ids (rule 2) |
//! | `Bucket::ctrl` | lock: exchange; tags, `OVERFLOWS`, unlock: stores of the holder | readers, writers, helpers | acquire / release | all changes under the lock; `MOVED`: the copies and `next` |
//! | `Bucket::overflow` | lock holder | whoever holds a `Chain` | appended: release / acquire; taken off: relaxed | the empty bucket; nothing |
//! | `Table::next` | `reserve`, once | everyone | release / acquire | the new table |
//! | `Table::moving` (a lock) | helpers | helpers | acquire / release | all copies, for `current` |
//! | `Outgrown::count` | the last helper; whoever drops the table | everyone | relaxed | nothing: when to look into the queue |
//! | `Root` (`current`) | the last helper | everyone | release / acquire | the table and all copies |
//!
//! # Why not …
//!
//! * *read-locked shards of `hashbrown::HashTable`*: a read costs two locked instructions on a line
//!   that all readers of the shard share. All threads on one key, one thread / two: 24 / 46 ns,
//!   where a prototype of lock-free buckets took 11 / 20, and 4.4 / 5.9 with the pin taken once.
//! * *buckets of six pointers*: ids of four bytes let ten fit in the line and need no `unsafe`.
//! * *a 32-bit control word and the last two tags in a word of their own*: one more load per read,
//!   and a version that a hot bucket wears through in a minute while a slow `Eq` holds a search up.
//! * *tombstones, moving entries to close gaps*: both make readers validate their misses.
//! * *a table of pointers to segments*, to grow piecemeal: one more dependent load per read.
//! * *a shared count of entries*: two threads inserting would take turns at its cache line. The
//!   caller knows the count, and says it to [`Index::reserve`].
//! * *shrinking in one step, whatever the factor*: the next table takes the new entries of buckets
//!   that have moved. If it is very small they make long chains of its few buckets before the rest
//!   has moved.
//! * *claims without a lock, for many helpers at once*: the only caller is a maintenance pass, one
//!   at a time. What was skipped would need a list that they share.
//!
//! What it costs: a table that was left keeps its memory until somebody calls [`Index::clear_away`]
//! often enough; a writer that keeps losing to other writers of its bucket searches anew each time.

mod bucket;
mod exact;
mod find;
mod hint;
mod lock;
mod memory;
mod outgrown;
mod resize;
mod table;
mod tags;
mod walk;
mod write;

use crate::epoch::Guard;

pub use crate::sync::Patience;
pub use bucket::SLOTS;
pub use exact::{Exact, Search};
pub use find::{Glimpse, Probe};
pub use lock::Held;
pub use memory::{Spare, Spares};
pub use resize::moves_for;
pub use table::HashOf;
pub use write::{Changed, Found, Locked};

use hint::Hint;
use memory::Root;
use table::Table;

/// See the [module](self).
///
/// Every method wants the calling thread pinned with [`crate::epoch::pin`]; ids that it returns
/// or hands to closures name nodes that are not reclaimed before the guard is dropped, provided
/// that nodes are retired through the same collector after they were taken out.
#[derive(Debug)]
pub struct Index {
    root: Root,
    hint: Hint,
    /// The size of the first table: the index does not become smaller.
    least_bits: u32,
}

impl Index {
    /// An empty index with room for so many entries before it has to grow. It keeps that room.
    pub fn with_capacity(entries: usize) -> Self {
        let least_bits = table::bits_for(entries);
        let table = Table::new(least_bits);
        let hint = Hint::new(&table);
        Self { root: Root::new(table), hint, least_bits }
    }

    /// Home buckets in the current table.
    pub fn buckets(&self, guard: &Guard) -> usize {
        self.root.current(guard).buckets().len()
    }

    /// How many of them have an overflow, be it empty or not: for tests.
    pub fn overflows(&self, guard: &Guard) -> usize {
        self.root.current(guard).buckets().iter().filter(|bucket| bucket.has_overflow()).count()
    }

    /// Finds the node of a key. Lock-free.
    ///
    /// `probe` is asked about nodes with the tag of the hash. An entry that is there all the time
    /// is found, even while its id is replaced or its bucket moves.
    #[inline(always)]
    pub fn find(&self, guard: &Guard, hash: u32, probe: impl FnMut(u32) -> Probe) -> Option<u32> {
        find::find(&self.root, guard, hash, probe)
    }

    /// The node that is most likely the key's, or certainly none: what can be said without asking
    /// about nodes, and without a loop. [`find`](Self::find) settles the rest.
    #[inline(always)]
    pub fn glimpse(&self, guard: &Guard, hash: u32) -> Glimpse {
        find::glimpse(&self.root, guard, hash)
    }

    /// Begins to load the home bucket of a hash. Needs no guard: it follows no pointer.
    #[inline(always)]
    pub fn prefetch(&self, hash: u32) {
        self.hint.prefetch(hash);
    }

    /// Looks for an entry in order to change it: [`Found::lock`] is the next step, and if that
    /// finds the bucket changed, another search.
    ///
    /// `is_match` compares keys, and runs without a lock. Waits while the bucket is locked.
    #[inline]
    pub fn search<'g>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        is_match: impl FnMut(u32) -> bool,
    ) -> Found<'g> {
        write::search(&self.root, guard, hash, is_match)
    }

    /// [`search`](Self::search) where one look at the home bucket is enough: the entry is the first
    /// with its tag, or there is none with it and no entry in the overflow. Nearly always; else
    /// `None`. Waits for nothing.
    #[inline(always)]
    pub fn search_in_passing<'g>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        is_match: impl FnOnce(u32) -> bool,
    ) -> Option<Found<'g>> {
        write::search_in_passing(&self.root, guard, hash, is_match)
    }

    /// Looks for an entry in order to change it, whatever happens to its neighbours meanwhile:
    /// [`Exact::lock`] fails only if an entry of this very hash has come or gone. For a second
    /// attempt.
    ///
    /// `is_match` compares keys, and runs without a lock. Waits while the bucket is locked.
    pub fn search_exact<'g, H: HashOf>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        store: &'g H,
        is_match: impl FnMut(u32) -> bool,
    ) -> Exact<'g, H> {
        exact::search_exact(&self.root, guard, hash, store, is_match)
    }

    /// Locks the bucket that holds this very id, which was inserted under this hash; `None` if the
    /// index does not have it.
    #[inline]
    pub fn lock_id<'g>(&'g self, guard: &'g Guard, hash: u32, id: u32) -> Option<Locked<'g>> {
        write::lock_id(&self.root, guard, hash, id)
    }

    /// [`lock_id`](Self::lock_id) for those who must not wait for a writer that has lost its core:
    /// gives up after a moment of spinning, and never yields.
    ///
    /// # Errors
    ///
    /// [`Held`] if somebody else has locked the bucket, or keeps changing it. Whether the index has
    /// the id is not known then.
    #[inline(always)]
    pub fn try_lock_id<'g>(
        &'g self,
        guard: &'g Guard,
        hash: u32,
        id: u32,
    ) -> Result<Option<Locked<'g>>, Held> {
        write::try_lock_id(&self.root, guard, hash, id)
    }

    /// Begins to grow if so many entries are too many for the table, or to shrink if they are far
    /// too few; true if the index is moving, that is, if there is work for [`Index::help`]. Cheap,
    /// whatever the size.
    ///
    /// Growing doubles the table; for a second doubling, call it again when the first is done. The
    /// table shrinks when so many entries would not fill an eighth of one half as large: to four
    /// times the room that they need, by a factor of 16 at a time, and never below what
    /// [`with_capacity`](Self::with_capacity) was asked for.
    ///
    /// To be called with each batch of additions, and followed by a [`help`](Self::help) of at
    /// least [`moves_for`] that many, or chains grow long.
    pub fn reserve(&self, guard: &Guard, entries: usize) -> bool {
        resize::reserve(&self.root, guard, entries, self.least_bits)
    }

    /// Whether there is work for [`Index::help`].
    pub fn is_moving(&self, guard: &Guard) -> bool {
        self.root.current(guard).next().get(guard).is_some()
    }

    /// Moves up to `buckets` buckets to the next table, if there is one; true if more are to be
    /// taken up. Meant to be called in every maintenance pass, with at least [`moves_for`] of the
    /// additions that the pass came to know.
    ///
    /// They are buckets of the smaller of the two tables. When the table shrinks, all that become
    /// the same one count as one: up to 16, which are nearly empty.
    ///
    /// With [`Patience::Skip`] it waits for nobody. What others have locked is left to a later
    /// help, and so is everything if another helper is at work.
    ///
    /// Should `store` panic, growing stays unfinished from then on; the index remains usable.
    #[inline]
    pub fn help(
        &self,
        guard: &Guard,
        store: &impl HashOf,
        buckets: usize,
        patience: Patience,
    ) -> bool {
        resize::help((&self.root, &self.hint), guard, store, buckets, patience)
    }

    /// Whether the index is moving, and a bucket was left because another thread held it.
    pub fn is_held_up(&self, guard: &Guard) -> bool {
        self.root.current(guard).is_held_up()
    }

    /// Tables that the index has moved from and that still have memory.
    pub fn outgrown(&self) -> usize {
        self.root.outgrown().count()
    }

    /// Gives a piece of such a table's memory back to the system; true if there is more. When the
    /// last buckets have moved, the epoch has to get on before there is something to give.
    pub fn clear_away(&self) -> bool {
        self.root.outgrown().clear_away()
    }

    /// Appends the ids of one bucket to `out`: those whose hashes begin at `cursor`. Returns the
    /// cursor of the bucket after it, or `None` at the end.
    ///
    /// A walk begins with cursor 0 and goes on with what it was returned, under the same guard or
    /// another. Weakly consistent: an id that is in the index throughout the walk is visited
    /// exactly once, whether the index grows or shrinks; one that comes or goes meanwhile at
    /// most once.
    pub fn collect(
        &self,
        guard: &Guard,
        store: &impl HashOf,
        cursor: u64,
        out: &mut Vec<u32>,
    ) -> Option<u64> {
        walk::collect(&self.root, guard, store, cursor, out)
    }

    /// Recounts every invariant, and the entries. Only when nobody is writing.
    ///
    /// # Errors
    ///
    /// What is wrong: an id twice, in the wrong bucket or with the wrong tag, a lock left behind,
    /// an entry in the next table before its bucket has moved.
    pub fn validate(&self, guard: &Guard, store: &impl HashOf) -> Result<usize, String> {
        walk::validate(&self.root, guard, store)
    }
}
