//! What becomes of memory: keys, values, nodes, and the handles on them.
//!
//! * [`reclaim`]: keys and values that have left the cache are released.
//! * [`drops`]: every key and every value is dropped once.
//! * [`handles`]: handles and pinned references keep what they show.
//! * [`giving_back`]: nodes that nobody needs give their memory back.
//! * [`stuck_callbacks`]: a stuck callback holds back no memory.
//!
//! All of them wait for the guards of other tests with patience. Tests that cannot are programs of
//! their own: `held_guards` and `small_frees` watch the allocator, `outgrown_tables` and `passes`
//! count what is released at once.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod drops;
mod giving_back;
mod handles;
mod reclaim;
mod stuck_callbacks;
