//! The engine: everything behind the one `Arc` of a [`Cache`](crate::Cache).
//!
//! [`Core`](maintenance) knows no `K` and no `V`. [`Engine`] adds what needs the types:
//! comparing keys, calling hooks, notifying listeners. A write has these parts, in this order:
//!
//! 1. the user code that it needs (hash, weigher, clock, hooks, equality), with no lock held;
//! 2. one short section under one bucket's lock (`write/commit`);
//! 3. an event into the write buffer (`maintenance/record`);
//! 4. outside of all locks, the writer's share of the maintenance (`maintenance/run`) and of the
//!    deliveries (`share`).
//!
//! An operation that may have to wait for a load or a computation is a sequence of steps
//! ([`flights`]).
//!
//! # User code
//!
//! | callback | held meanwhile | thread | how often | a panic |
//! |---|---|---|---|---|
//! | `Hash` of keys | nothing, or a view | the caller's | once per operation and key | reaches the caller; the operation has not begun (a bulk load: other keys may have been read) |
//! | `Eq` of keys | a guard | the caller's | once per candidate, again when entries with the same hash changed meanwhile | reaches the caller; the operation has not happened (`retain`: earlier removals stand) |
//! | weigher | nothing; a write of its own key panics | the caller's | once per value | the same |
//! | clock | nothing, or a guard | the caller's, the one that runs maintenance, or the scheduler's | a few times per operation | the same; from maintenance: before the pass began |
//! | expiry hooks of writes | nothing; a write of their own key panics | the caller's | once per operation; twice for a short lifetime by the system's clock; once more if the key's own entry changed meanwhile or the write had to wait | the same |
//! | read hook | a guard; a write of its own key panics | the caller's | once per read; twice if it shortens a long life, or gives a short one, by the system's clock; again, up to 16 times, if the lifetime was changed after the hook was told it. Once in all if it is the trait's default | reaches the caller; the entry is as before |
//! | loader (`get_with`, `or_insert_with`) | nothing; other loads and computations of the key wait | one of the callers' | once per load | reaches that caller; one of the waiters loads in its place |
//! | stored loader, in a reload | nothing; computations and writes overtake it | the executor's | once per reload | caught and counted; the old value stays |
//! | stored loader that awaits, in a load | nothing; other loads and computations of the key wait | the executor's | once per load | reaches the call that has begun the load; the others load in its place |
//! | refresh policy | nothing; a write of its own key panics | the caller's, or the reload's | once per value, once more if a reload finds it not modified | as the weigher; in a reload caught and counted |
//! | computation | nothing; every other write to the key waits | the caller's | once | reaches the caller; the entry is as before |
//! | future of a load or a computation | nothing; others wait as for the two above | the one that polls the operation | polled until it is ready, or dropped before | as for the two above; if it is dropped early, as for a panic |
//! | `remove_if`, `retain` conditions | nothing; a write of the key that they judge panics | the caller's | once per entry, once more if it changed meanwhile | reaches the caller; earlier removals stand |
//! | listener | nothing | see `docs/notifications.md`; one at a time | once per value | caught and counted; the next removal is delivered |
//! | future of a listener that awaits | nothing | the one that polls an operation; one future at a time | polled until it is ready | caught and counted; the next removal is delivered |
//! | `wake` of a waiting task | nothing | the one that ends the flight, or delivers | at most once per poll that waits | caught; the others are woken |
//! | `Clone` and `Drop` of wakers | nothing | the one that polls, drops or wakes the waiting operation | once per poll that waits | from `wake`: caught; otherwise reaches who polls or drops; the key is as before |
//! | `Drop` of keys and values | nothing | the thread that drops the last handle, or delivers | once | from a handle: reaches its dropper; from a delivery: caught and counted |
//! | `Clone` of values | a guard | the caller's | once per returned clone | reaches the caller; the cache is as after the operation |
//!
//! No callback runs under a lock, and no future is pending under one. A guard that is held keeps
//! memory of removed entries from being released. Each callback may call anything on the cache,
//! with two exceptions, which panic: a wait for the key that the callback itself is working on, and
//! a write of the key that a hook, weigher or condition was asked about. `docs/flights.md` has the
//! details.
//!
//! # Locks
//! maintenance → moving of the index → one shard of the flights → one bucket (while the index
//! moves: one of the old table, then one of the new). Each shard and each bucket is held for a few
//! instructions. The module of each lock says what it protects.

mod asked;
#[cfg(any(feature = "internals", cortado_loom))]
#[path = "../whitebox/audit.rs"]
mod audit;
mod base;
mod bulk;
mod conflict;
mod delivery;
mod event;
mod failures;
mod flights;
mod key_waits;
mod loads;
mod maintenance;
mod outcome;
mod read;
mod read_mode;
mod reentrancy;
mod refresh;
mod reloads;
#[cfg(feature = "serde")]
mod restore;
mod share;
mod step;
mod tasks;
mod typed;
mod write;

#[cfg(all(test, feature = "internals", not(cortado_loom)))]
pub use self::{
    delivery::{Notice, ToDrop},
    event::Event,
    maintenance::{Budget, Maintenance},
    reentrancy::frames,
};
pub use delivery::removed;
pub use loads::{NoLoadCondition, PendingLoad};
pub use maintenance::Core;
pub use reloads::TypedReloads;
#[cfg(feature = "serde")]
pub use restore::Rest;
pub use share::Pending;
pub use tasks::{as_task, made_before, race};
#[cfg(not(cortado_loom))]
pub use typed::schedule;
pub use typed::{Asking, Engine, Hooks, WithHasher};
