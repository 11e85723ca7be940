//! Type-stable memory for nodes, named by `u32` ids.
//!
//! A [`RawPool`] knows strides and offsets, no `K` and no `V`: the index, the wheel, the policy and the
//! maintenance compile once for all caches. A [`Pool<K, V>`](Pool) is the same memory with its types.
//!
//! # Layout
//! Chunk *c* holds 8 nodes for *c* < 8, and each further octave of eight chunks holds twice as many
//! per chunk as the one before, up to 2^22: at most an eighth of the pool is unused reserve. An id has
//! the chunk's number in its upper nine bits and the node's within it in the others: the way from an id
//! to its node is a shift, two loads that nearly always hit the first cache, a mask and a multiplication.
//! Chunks are allocated zeroed and with no special alignment, so that
//! the system backs them page by page as nodes are used. A node is [`Meta`](crate::node::Meta), then the pair of key and
//! value at a fixed offset. In caches with an idle time the nodes of a chunk are followed by as many words,
//! their *caps*, which few reads need. **Chunks are kept
//! until the cache and all its handles are gone**; keys and values are dropped as soon as nobody can
//! see them.
//!
//! # Rules
//! 1. A `Meta` is valid from its chunk's allocation to the pool's drop, whoever holds the id.
//! 2. Key (value) may be read while life bit `KEY` (`VALUE`) is set *and* the reader is protected: by a
//!    count in `refs`, or by an epoch guard pinned before the id was read from the index.
//! 3. The cache's own count is given up only after a grace period that began after the node left the
//!    index. So rule 2's guard is as good as a count.
//! 4. Whoever brings `refs` to zero owns key and value, drops them, and only then frees the id.
//! 5. Between allocation and publication a node belongs to the thread that allocated it.
//! 6. Key and value are written once, before publication or completion, never through a shared
//!    reference that someone else may hold.
//!
//! # Free ids
//! Striped lists of free ids (Treiber stacks linked through `timer.next`), each head a (tag, id)
//! pair in one word: the tag grows with every change, so a head that was popped and pushed again between
//! a load and its compare-exchange is noticed. Nodes are never unmapped, so reading the link of a node
//! that was popped meanwhile is harmless.

mod cap;
mod free;
mod handle;
mod raw;
mod reserve;
#[cfg_attr(cortado_loom, allow(dead_code))]
mod system;
mod typed;

pub use cap::Cap;
pub use handle::{Handle, RawHandle};
pub use raw::{FARTHEST, RawPool, Timers};
pub use reserve::Surplus;
pub use typed::{Draft, Local, Place, Pool};
