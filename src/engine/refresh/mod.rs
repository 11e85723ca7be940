//! Refresh: reads trigger reloads, which replace entries by their successors. `docs/refresh.md` has
//! the whole of it; [`reloads`](super::reloads) has the state.

mod by_call;
mod commit;
mod limits;
mod reload;
mod request;
mod trigger;

pub use by_call::answer;
pub use limits::{QueuedLoad, Ran, Waited};
pub use reload::{Answer, ReloadEnd, Running, Starter};
