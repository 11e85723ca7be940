//! The smaller mechanisms, each by itself, without a cache.
//!
//! * [`list`]: the intrusive list against `VecDeque`.
//! * [`buffers`], [`drain`]: read and write buffer; the drain status.
//! * [`outbox`], [`flight`]: the queue of notifications; single flight.
//! * [`pool`], [`pool_reserve`]: ids and their nodes; free ids and their memory.
//! * [`scheduler`], [`executor`]: the background threads. One test waits until the process's own
//!   executor has no thread left, so no test here may make a scheduled cache.
//! * [`damage`]: the recounts of list, wheel, index and policy notice damage.
#![cfg(not(cortado_loom))]

#[path = "../policy/store.rs"]
mod policy_store;
#[path = "../wheel/model/store.rs"]
mod timers;

mod buffers;
mod damage;
mod drain;
mod executor;
mod flight;
mod list;
mod outbox;
mod pool;
mod pool_reserve;
mod scheduler;
