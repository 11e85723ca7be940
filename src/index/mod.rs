//! A concurrent hash index. It maps the 32-bit hash of a key to the `u32` id of the key's node.
//!
//! Readers take no lock and write nothing. Writers lock one cache line for a few instructions. The
//! index sees neither keys nor values: a closure of the caller decides whether an id is the wanted
//! one. **No closure ever runs while a lock is held.**
//!
//! ```text
//!              hash >> (32 - bits)               one bucket, 64 bytes
//!  current ──► ┌──┬──┬──┬──┐    ┌────────────────┬─────────────────────┬──────────┬────────┐
//!              │b0│b1│b2│b3│    │ 8 fingerprints │ ctrl: version·MOVED·│ overflow │ 10 ids │
//!              └──┴┬─┴──┴──┘    │                │  LOCKED·OVERFLOWS·  │          │        │
//!                  │            │                │  2 fingerprints     │          │        │
//!        next ──► ┌┴─┬──┬──┐    └────────────────┴─────────────────────┴────┬─────┴────────┘
//!                 │b2│b3│…                                                  └──► bucket ──► …
//! ```
//!
//! The top bits of a hash select its bucket. This has three consequences:
//!
//! * bucket `i` splits into `2i` and `2i + 1` when the table doubles;
//! * neighbouring buckets merge when the table shrinks;
//! * the order of a walk by hash survives both.
//!
//! The fingerprint of a slot is the low byte of the hash, or 1 if that byte is 0: 0 marks an empty
//! slot. All fingerprints of a bucket are compared at once.
//!
//! # Rules
//!
//! 1. **Slots are stable.** An entry stays in its slot from insertion to removal. Replacing an
//!    entry changes the id in place. Removal frees the slot (fingerprint 0, id 0); there are no
//!    tombstones. A key has at most one entry: `is_match` and `probe` must recognise a key by its
//!    node, whether or not that node is gone. So a reader that misses need not look twice: an entry
//!    that was present all the time was in one slot all the time.
//! 2. **The id is authoritative, the fingerprint is a hint.** A writer stores the id before the
//!    fingerprint, and clears the id after the fingerprint. Readers skip id 0, and the caller's
//!    closure checks the node. The id publishes the node (release, acquire). In the same way the
//!    fingerprint publishes the slot: a reader that sees the fingerprint of a slot's new entry
//!    cannot see the id of the slot's previous entry. Otherwise the fingerprint of the new entry
//!    could lead a reader to the removed node of the previous one.
//! 3. **One lock per chain.** Only the holder of a home bucket's `LOCKED` bit changes the home
//!    bucket and its overflow. Unlocking after a change gives the bucket a new version. Buckets
//!    that no other thread can reach yet need no lock.
//! 4. **Replace, then mark.** A thread that replaces an id marks the old node gone only *after* it
//!    has stored the new id. A thread that removes an id may mark the node before or after it
//!    clears the slot, under the same lock.
//! 5. **Gone means look again, once.** A reader whose probe returns [`Probe::Gone`] starts over in
//!    the same table, beginning with the `MOVED` bit. By rule 4, and by the acquire with which the
//!    probe read the mark, the reader now finds the replacement of the node, in this table or the
//!    next. If it finds the same node gone again, nothing has replaced the node: the key has no
//!    entry. Each further round means that some writer has made progress.
//! 6. **Search, then lock that version.** A writer notes the control word (when it is not locked),
//!    scans without a lock, and locks by a compare-exchange from exactly that word. If the
//!    compare-exchange succeeds, the scan is current:
//!    * A change that the scan missed would have been made under an earlier lock. The end of that
//!      lock changed the version, so the compare-exchange would have failed.
//!    * A later holder makes its changes after a compare-exchange (acquire) that pairs with the
//!      unlock (release) of this holder. The scan precedes that unlock, so it cannot have seen
//!      them.
//!
//!    A search whose bucket keeps changing [compares ids instead](Index::search_exact). It does so
//!    under the lock, whose holder is the only thread that changes ids.
//! 7. **Moving.** One helper at a time moves buckets: the one that holds the lock of
//!    [`Moving`](table::Moving). The helper locks a bucket, copies its ids into the next table, and
//!    unlocks the bucket with `MOVED` set (release). From then on the bucket never changes; its
//!    contents stay for the readers that are in it. Every other thread that sees `MOVED` (acquire)
//!    goes to the next table. When all buckets have moved, `current` advances to the next table.
//!    Until then no bucket of the next table moves. A delayed helper delays the end of the move,
//!    but no other thread's finds or writes.
//!    * *Growing:* the ids of a bucket go into two buckets that no other thread can reach.
//!    * *Shrinking:* several buckets become one, the target. The target is in use as soon as the
//!      first of them has moved. So the helper locks the target too, and every id that it puts
//!      there is a change (rule 3). The target may hold entries whose own bucket has not moved yet;
//!      no thread looks for them there.
//!    * **Lock order:** a thread takes the lock of `Index::preparation` while it holds no other
//!      lock of the index, and takes none under it. Memory is allocated, zeroed and freed under it.
//!      The other locks are taken in this order: `Moving`, a bucket of the table, a bucket of the
//!      next table, `Index::retired`. Only the helper holds two buckets. The holder of a bucket in
//!      the next table waits for no lock, so no deadlock is possible.
//!    * The helper may [skip](Patience::Skip) a bucket that another thread has locked. The bucket
//!      stays as it is, and a later help moves it.
//! 8. **Tables** are reached only through `current` and `next`, by threads that are pinned by
//!    [`crate::epoch::pin`]. A table is retired once, after `current` has advanced past it. Its
//!    `next` is retired later still. A retired table belongs to [`Index::free_retired`], which
//!    frees it after a grace period. So a reference that was obtained under a guard is valid as
//!    long as the guard. Only the drop of the index frees tables without a grace period.
//! 9. **Overflow buckets** belong to their home bucket and are reached through it. Only two kinds
//!    of threads may reach them:
//!    * threads that have seen, under the pin they still hold, that the home bucket had not moved
//!      (a [`Chain`](memory::Chain) is the proof of that);
//!    * the holder of the home bucket's lock.
//!
//!    A chain leaves its home bucket once, in one of three ways: with `MOVED`; taken off (the
//!    pointer exchanged for null) by a holder of the lock while `OVERFLOWS` is not set; or with the
//!    table. In the first two cases it is then retired, once, with the bucket unlocked, and freed
//!    after a grace period. A thread that was pinned before may still be in the chain, and finds it
//!    empty if it was taken off. Taking a chain off is a change: a search that has found a bucket
//!    of the chain cannot lock. Nothing is put into the chain afterwards, not even under the same
//!    lock.
//! 10. **The memory of a table** is one allocation of zeros, in which the buckets begin at the
//!     first cache line. All-zero is an empty bucket. The table's `Buckets` alone owns the memory.
//! 11. **`OVERFLOWS` is not a hint.** It is set before an entry's id is put into the overflow, and
//!     cleared after the last slot there is freed. Both happen under the lock and with a new
//!     version.
//!     * A thread that opens a home bucket without the bit has seen a moment with no entry in the
//!       overflow, and need not go there.
//!     * A thread that has seen an id in the overflow (acquire) sees the bit.
//!     * Writers search the whole chain for a free slot.
//!
//!     Without the bit, each bucket that was ever full would cost all later misses and inserts
//!     another cache line. When the contents of a cache had been replaced 60 times, every second
//!     bucket had that cost.
//!
//! # Atomics
//!
//! | word | written by | read by | ordering | carries |
//! |---|---|---|---|---|
//! | `Bucket::ids[i]` | lock holder | readers, writers | release / acquire | the node |
//! | `Bucket::fingerprints` | lock holder | readers, writers | release / acquire | the slot's earlier ids (rule 2) |
//! | `Bucket::ctrl` | lock: exchange; fingerprints, `OVERFLOWS`, unlock: stores of the holder | readers, writers, helpers | acquire / release | all changes under the lock; `MOVED`: the copies and `next` |
//! | `Bucket::overflow` | lock holder | holders of a `Chain` | appended: release / acquire; taken off: relaxed | appended: the empty bucket; taken off: nothing |
//! | `Table::next` | `resize_for`, once | all threads | release / acquire | the new table |
//! | `Index::preparation` (a lock) | callers of `resize_for` | the same | acquire / release | zeroed memory, which they own until it is a table |
//! | `Table::moving` (a lock) | helpers | helpers | acquire / release | all copies, for `current` |
//! | `Index::retired` (a lock) | threads that retire or free | the same | acquire / release | what waits for its grace period |
//! | `Index::retired_count` | the same | all threads | relaxed | nothing: it tells when to take that lock |
//! | `Index::current` | the last helper | all threads | release / acquire | the table and all copies |
//!
//! # Alternatives that lost
//!
//! * *Read-locked shards of `hashbrown::HashTable`*: a read costs two locked instructions on a
//!   cache line that all readers of the shard share. All threads reading one key, one thread / two
//!   threads: 24 / 46 ns. A prototype of lock-free buckets took 11 / 20 ns, and 4.4 / 5.9 ns with
//!   the pin taken once.
//! * *Buckets of six pointers*: ids of four bytes let ten fit in the cache line, and need no
//!   `unsafe`.
//! * *A 32-bit control word, and the last two fingerprints in a word of their own*: a read would
//!   need one more load. And the version would wrap around within a minute in a hot bucket, while a
//!   slow `Eq` holds up a search.
//! * *Tombstones, or moving entries to close gaps*: both make readers validate their misses.
//! * *A table of pointers to segments*, to grow piecemeal: one more dependent load per read.
//! * *A shared count of entries*: two inserting threads would contend for its cache line. The
//!   caller knows the count and passes it to [`Index::resize_for`].
//! * *Shrinking in one step, by any factor*: the next table takes the new entries of buckets that
//!   have moved. If it is very small, these entries make long chains in its few buckets before the
//!   rest has moved.
//! * *Many helpers at once, which claim buckets without a lock*: the only caller is a maintenance
//!   pass, and passes run one at a time. Skipped buckets would need a list that the helpers share.
//!
//! The design has two costs. A retired table keeps its memory until passes have called
//! [`Index::free_retired`] often enough. A writer that keeps losing to other writers of its bucket
//! repeats its search each time.

mod bucket;
mod exact;
mod fingerprint;
mod memory;
mod read;
mod resize;
mod state;
mod table;
mod write;

pub use crate::primitives::Patience;
pub use bucket::BucketBusy;
pub use exact::{Exact, Search};
pub use fingerprint::SLOTS;
pub use memory::EmptyOverflow;
pub use read::{HomeLookup, Probe};
pub use resize::moves_for;
pub use state::Index;
pub use table::HashOf;
pub use write::{Changed, Found, Locked};
