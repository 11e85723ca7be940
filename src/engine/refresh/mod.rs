//! Refresh: reads trigger reloads, which replace stale entries. `docs/refresh.md` describes it;
//! [`reloads`](super::reloads) has the state.

mod by_call;
mod commit;
mod limits;
mod reload;
mod request;
mod running;
mod trigger;

pub use by_call::answer;
pub use limits::{QueuedLoad, QueuedOutcome, Waited};
pub use reload::{Answer, Panics};
