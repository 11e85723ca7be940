//! The engine: everything behind the one `Arc` of a [`Cache`](crate::Cache).
//!
//! [`Core`] knows no `K` and no `V`; [`Engine`] adds what does: keys to compare, hooks to ask, a
//! listener to tell. An operation of the face is, in order: the user's code that it needs (hash,
//! weigher, clock, hooks, equality, each with no lock held), one short section under one bucket's
//! lock (`commit`), an event into the write buffer, and then, outside of everything, its share of
//! the maintenance (`run`) and of the deliveries (`deliver`).
//!
//! # User code
//!
//! | callback | held meanwhile | thread | how often | a panic |
//! |---|---|---|---|---|
//! | `Hash`, `Eq` of keys | a guard | the caller's | hash once per operation, equality per candidate, again when entries with the same hash changed meanwhile | reaches the caller; the operation has not happened (`retain`: earlier removals stand) |
//! | weigher | nothing; a write of its own key panics | the caller's | once per value | the same |
//! | clock | nothing, or a guard | the caller's, or whoever runs maintenance, or the scheduler's | a few times per operation | the same; from maintenance: before the pass began |
//! | expiry hooks of writes | nothing; a write of their own key panics | the caller's | once per operation; twice for a short lifetime by the system's clock; once more if the key's own entry changed meanwhile | the same |
//! | read hook | a guard; a write of its own key panics | the caller's | once per read; twice if it shortens a long life, or gives a short one, by the system's clock. Once in all if it is the trait's own | reaches the caller; the entry is as before |
//! | loader (`get_with`, `or_insert_with`) | nothing; other loads and computations of the key wait | one of the callers' | once per load | reaches that caller; one of those who waited loads in its place |
//! | computation | nothing; every other write to the key waits | the caller's | once | reaches the caller; the entry is as before |
//! | `remove_if`, `retain` conditions | nothing; a write of the key that they judge panics | the caller's | once per entry, once more if it changed meanwhile | reaches the caller; earlier removals stand |
//! | listener | nothing | see `docs/notifications.md`; one at a time | once per value | caught and counted; the next removal is delivered |
//! | `Drop` of keys and values | nothing | whoever drops the last handle, or delivers | once | from a handle: reaches its dropper; from a delivery: caught and counted |
//! | `Clone` of values | a guard | the caller's | once per returned clone | reaches the caller; the cache is as after the operation |
//!
//! No lock is ever held. A guard that is held keeps memory of removed entries from being released.
//! Each callback may call anything on the cache, with two exceptions, which panic: what waits for
//! the key that it is itself working on, and a hook, weigher or condition that writes the key that
//! it was asked about. `docs/flights.md` has the details.
//!
//! # Locks
//! maintenance → moving of the index → one shard of the flights → one bucket (a mover: one of the
//! old table, then one of the new). Each but the first is held for a few instructions. What each
//! protects is said where it is.

#[cfg(any(feature = "internals", cortado_loom))]
mod audit;
mod bulk;
mod claim;
mod core;
mod delivery;
mod event;
mod flights;
mod loads;
mod maintenance;
mod read;
mod read_mode;
mod reentrancy;
mod typed;
mod write;

#[cfg(all(test, feature = "internals", not(cortado_loom)))]
pub use self::core::{Core, Maintenance};
pub use delivery::Pending;
pub use typed::{Engine, Hooks};
