//! Type-stable memory for nodes, named by `u32` ids.
//!
//! A [`RawPool`] knows strides and offsets, no `K` and no `V`: the index, the wheel, the policy and
//! the maintenance compile once for all caches. A [`Pool<K, V>`](Pool) is the same memory with its
//! types.
//!
//! # Layout
//! Chunk *c* holds 8 nodes for *c* < 8, and each further octave of eight chunks holds twice as many
//! per chunk as the one before, up to 2^22: at most an eighth of the pool is unused reserve. An id
//! has the chunk's number in its upper nine bits and the node's within it in the others: the way
//! from an id to its node is a shift, two loads that nearly always hit the first cache, a mask and
//! a multiplication. Nothing is asked on that way: an id whose chunk is not there, which nobody has
//! who does not err, leads to a node that never lives. Chunks are allocated zeroed and with no
//! special alignment, so that the system backs them page by page as nodes are used. A node is
//! [`Meta`](crate::node::Meta), then the pair of key and value at a fixed offset. In caches with an
//! idle time the nodes of a chunk are followed by as many words, their *caps*, which few reads
//! need. **Chunks keep their addresses until the cache and all its handles are gone**; keys and
//! values are dropped as soon as nobody can see them, and the memory of nodes that are free for a
//! while goes back to the system.
//!
//! # Rules
//! 1. A `Meta` is valid from its chunk's allocation to the pool's drop, whoever holds the id.
//! 2. Key (value) may be read while life bit `KEY` (`VALUE`) is set *and* the reader is protected:
//!    by a count in `refs`, or by an epoch guard pinned before the id was read from the index.
//! 3. The cache's own count is given up only after a grace period that began after the node left
//!    the index. So rule 2's guard is as good as a count.
//! 4. Whoever brings `refs` to zero owns key and value, drops them, and only then frees the id.
//! 5. Between allocation and publication a node belongs to the thread that allocated it.
//! 6. Key and value are written once, before publication or completion, never through a shared
//!    reference that someone else may hold.
//! 7. The memory of a node may be given back, and then reads as zeros, while its id is free and is
//!    nobody's but the giver's. Rule 1 holds all the same: a `Meta` of zeros is that of a node
//!    which never lived. Whoever looks at a free node by an old id may find it so or as its last
//!    life left it, and must not care: both have no life bits and no count. Nobody writes to a free
//!    node but its id's owner.
//!
//! # Free ids
//! Striped lists of free ids (Treiber stacks linked through `timer.next`), each head a (tag, id)
//! pair in one word: the tag grows with every change, so a head that was popped and pushed again
//! between a load and its compare-exchange is noticed. Nodes are never unmapped, so reading the
//! link of a node that was popped meanwhile is harmless. `timer.prev` of a free node says how many
//! there are from it on.
//!
//! # The reserve
//! A guard that is held for long, or a thread that loses its core under one, makes the pool many
//! times as large as it has to be afterwards. So maintenance passes move ids that were free for a
//! whole window of a quarter of a second from the lists to the *reserve*, some 128 per pass of a
//! caller's. It has them by *blocks* of neighbours (256 nodes, fewer if those would be 32 KiB or
//! more). A block whose ids are all there is given back: its pages are dropped, its ids stay. Who
//! finds the lists empty takes a few ids out of the reserve before new ones are made: of the lowest
//! block that has its memory, else of the lowest that was given back. As long as the reserve has
//! many ids in blocks that are not whole, passes also move some ids that *are* needed, which come
//! back as lower ones, so that what is in use gathers in few blocks.
//!
//! Taking from the lists, and giving to them, know nothing of that: neither has anything to count.
//! On Linux pages are dropped by `madvise`, elsewhere they stay; so do those of the first 2,000
//! nodes, whose chunks are smaller than a block, and all caps.

mod cap;
mod free;
mod handle;
mod raw;
mod reserve;
mod typed;
mod views;

pub use cap::Cap;
pub use handle::{Handle, RawHandle};
pub use raw::RawPool;
pub use reserve::Surplus;
pub use typed::{Draft, Local, Place, Pool};
pub use views::{FARTHEST, Timers};
