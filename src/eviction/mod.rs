//! The eviction policy: W-TinyLFU, an admission window before a segmented LRU main region. The
//! window's target follows the keys that come back after they were evicted.
//!
//! The policy is single-threaded data behind the maintenance lock. It sees nodes through a
//! [`PolicyStore`]: links, weight, hash, and a byte that says which list holds the node. It knows
//! no key, no value, no clock and no cache. It evicts nothing itself: it chooses victims.
//!
//! ```text
//!            add                        candidate (the window's last)      ┌── hit ──► protected (LRU)
//!             │     ┌──────────────┐    duels the victim (main's last)     │               │ over 80 %
//!             ├───► │ window (LRU) │ ──► more frequent: in, victim out ──► probation (LRU) ◄┘
//!             │     └──────────────┘     else: candidate out               │
//!             │                                                            └──► victim
//!             └── memory of leavers: was it rejected a short while ago? The window grows, and the key
//!                 goes to probation. Was it a victim? The window shrinks.
//! ```
//!
//! A *duel* is TinyLFU's admission test. `queues` implements the diagram, `targets` the sizes of
//! the regions, and `memory` has the fingerprints of what left. `docs/eviction.md` has the reasons,
//! and which test shows each rule. `docs/notes/2026-11-29-eviction.md` has the measurements.
//!
//! # Rules
//!
//! 1. **Regions.** A node is on the list that its region byte names, and on no other list. A node
//!    with [`Region::None`] is on no list. Lists, their weights and the region bytes change
//!    together, in `regions` only. A victim that a computation uses, or whose bucket another thread
//!    holds, may be *set aside*. It then is in no region and is not named again, until it is
//!    restored.
//! 2. **Weight.** The weights of window, probation and protected, and of the nodes that are set
//!    aside, add up to [`Policy::weight`]. A node's weight is fixed while it is linked: an update
//!    of the key is another node.
//! 3. **Bound.** [`Policy::take_victim`] returns a victim whenever the weight is over the maximum,
//!    unless all nodes with weight are set aside. Once it has returned `None`, the weight is within
//!    the maximum, unless the nodes set aside exceed it by themselves. Each victim has weight.
//!    Nodes of weight 0 are on a list of their own. They leave by expiry or removal only.
//! 4. **Targets.** The window and the protected region have target weights. A change of a target
//!    moves no nodes. While the window is below its target, evictions come from the main region,
//!    and newcomers take their room. Above its target it gives up nodes to probation; while the
//!    weight is over the maximum, it keeps as much above its target for the coming duels. The
//!    protected region below its target grows by hits on probation; above its target, it gives up
//!    nodes to probation. Both together give up at most [`MOVES`] nodes at each call.
//! 5. **Room by weight.** A candidate must beat victims until their weight makes room for its own.
//!    The candidate is evicted at the first victim that it does not beat. A node that is heavier
//!    than the window's target goes to the end of the window. So it duels at once instead of
//!    flushing the window.
//! 6. **A segmented LRU** rejects nothing: no duels, no memory, and heavy nodes enter at the front
//!    like others. Its window is a 50th of the maximum, and a hit there moves the node to
//!    protected. Its victim is the last node of probation; if that is empty, of the window; if that
//!    is empty too, of protected. The node that was written last is a victim only if it is the only
//!    one left. An **LRU** has a window of the whole maximum, and no main region, duels or memory.
//!    Neither counts requests.
//! 7. **Bounded work.** Every call except the iterators and `validate` moves at most 2 + [`MOVES`]
//!    nodes. It touches at most 28 cache lines of the sketch and of the memory, 16 of them only
//!    while the sketch ages, and eight only with fewer than 16 entries. The rest of the work waits
//!    for the next call. Exception: one call, when the sketch begins to grow, counts up to 24
//!    entries anew.
//! 8. **Determinism.** The same seed and the same calls give the same victims. The seed should be
//!    secret. It decides which keys share counters, and which losing candidates are admitted by
//!    chance.

mod admission;
mod memory;
mod policy;
mod queues;
#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/recount_policy.rs"]
mod recount;
mod regions;
mod store;
mod targets;

pub use policy::Policy;
pub use queues::MOVES;
pub use store::{PolicyNode, PolicyStore, Region};
