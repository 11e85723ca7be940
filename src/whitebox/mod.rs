//! Tests of whole caches that look inside: at thresholds, at columns, at an audit that must fail,
//! at a pass that is held up, at nodes that guards hold back, at entries that computations use, at
//! reloads that come to nothing, at the marks of bulk loads, at what outlives a cache. They stand
//! above everything else and may reach through every room. Audits and recounts lie beside them;
//! each is a module of what it recounts.

mod audit_negative;
mod bulk_marks;
mod columns;
mod in_use;
#[path = "../../tests/common/neighbour.rs"]
mod neighbour;
mod outlived;
mod stalled_pass;
mod thresholds;
mod yields;

use crate::cache::Cache;
use crate::primitives::plain::{Mutex, MutexGuard, PoisonError};

/// Serialises the tests that wait for the epoch, so that their guards do not delay each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
