//! Type-stable memory for nodes, named by ids.
//!
//! A [`RawPool`] knows strides and offsets, but neither `K` nor `V`. So the index, the wheel, the
//! policy and the maintenance are compiled once for all caches. A [`Pool<K, V>`](Pool) is the same
//! memory with its types.
//!
//! # Layout
//! The first chunk holds 16 nodes. Chunks double up to 2^13 nodes; from there on, two of each size
//! are followed by two of twice that size, up to 2^25. So in a pool of some 16,000 nodes or more,
//! at most a third of the memory is allocated but not in use yet; of large chunks, the system backs
//! that with no memory.
//!
//! An id has 31 bits. The upper six are the number of the chunk, the others the index of the node
//! in the chunk. The lookup from an id to its node takes a shift, two loads that nearly always hit
//! the L1 cache, a mask and a multiplication. The lookup is branch-free: an id in an unallocated
//! chunk (only a bug can produce one) resolves to a dead sentinel node.
//!
//! Chunks are allocated zeroed and without special alignment. So the system backs them with memory
//! page by page, as nodes are used. A node is a [`Meta`](crate::node::Meta), followed by the pair
//! of key and value at a fixed offset. In caches with an idle time or with refresh, the nodes of a
//! chunk are followed by one word per node for each *column* (`columns`) that the cache was
//! built with, such as the hard deadline. Few reads need a column.
//!
//! **Chunks keep their addresses until the cache and all its handles are gone.** Keys and values
//! are dropped as soon as no thread can see them. The memory of free nodes that are many goes back
//! to the system.
//!
//! # Rules
//! 1. A `Meta` is valid from its chunk's allocation to the pool's drop, for every thread that holds
//!    the id.
//! 2. A thread may read the key (value) while bit `KEY` (`VALUE`) of `Meta`'s `life` is set *and*
//!    the thread is protected. It is protected by a count in `refs`, or by an epoch guard pinned
//!    before the id was read from the index.
//! 3. The cache gives up its own count only after a grace period that began after the node left the
//!    index. So the guard of rule 2 protects as well as a count.
//! 4. The thread that brings `refs` to zero owns key and value. It drops them, and only then frees
//!    the id.
//! 5. Between allocation and publication a node belongs to one thread at a time: the thread that
//!    allocated it, or the thread to which the draft of the node was moved.
//! 6. Key and value are written once, before the node is published or given to the waiters of a
//!    load. They are never written through a shared reference that another thread may hold.
//! 7. The memory of a node may be given back to the system, and then reads as zeros. This may
//!    happen only while the node's id is free and belongs to the thread that gives it back. Rule 1
//!    still holds: a `Meta` of zeros is that of a node which never lived. A thread that looks at a
//!    free node through an old id may find zeros, or what the node's last life left there. The
//!    thread must treat both alike: both have no state bits and no count. Only the owner of the id
//!    writes to a free node.
//!
//! # Free ids
//! Free ids are in striped lists: Treiber stacks linked through `timer.next`. Each head is a (tag,
//! id) pair in one word. The tag grows with every change. So a compare-exchange fails if the head
//! was popped and pushed again since it was loaded. Nodes are never unmapped, so a thread may read
//! the link of a node that another thread has popped meanwhile. `timer.number` of a free node is
//! the number of ids from this node to the end of its list.
//!
//! # The reserve
//! While a thread holds a guard for long (it may have been preempted), removed nodes cannot be used
//! again, and the pool grows far beyond its usual need. Therefore maintenance passes that leave no
//! other work move ids from the lists to the *reserve*, whichever ids these are, while the lists
//! have more than an eighth of the ids outside the reserve, more than eight blocks have, and more
//! than 256 KiB. A pass
//! run by a caller moves at most 128 ids.
//!
//! The reserve keeps its ids by *blocks* of neighbours: 256 nodes, or fewer if 256 would be 32 KiB
//! or more. A block whose ids are all in the reserve is given back: its pages are dropped, its ids
//! stay. A thread that finds the lists empty takes a few ids out of the reserve before new ids are
//! made. It takes them from the lowest block that has its memory, else from the lowest block that
//! was given back. While the reserve has as many ids in incomplete blocks, passes move free ids
//! too, however few: they complete blocks, or allocations get lower ids in their place, and the
//! nodes in use gather in few blocks. (A tenth of two million entries stayed and were replaced
//! again and again. After four million replacements the process had 21 MiB in place of 29, and a
//! replacement took 480 ns in place of 590, since the nodes in use lie together.)
//!
//! Pops from the lists and pushes to them do no work for the reserve but that count in
//! `timer.number`.
//!
//! On Linux, pages are dropped by `madvise`. Elsewhere they stay. Two kinds of memory always stay:
//! that of the first chunks, which are smaller than a block and have fewer than 256 nodes together,
//! and all columns.

mod chunks;
mod columns;
mod free;
mod handle;
mod raw;
mod reserve;
mod typed;
mod views;

#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/pool_audit.rs"]
mod audit;

pub use columns::{Column, Columns, HardDeadline, RefreshMark};
pub use handle::{Draft, Handle, Local, OwnedDraft, RawHandle};
pub use raw::RawPool;
pub use typed::{NodeAddress, Pool};
pub use views::{FARTHEST, Timers};
