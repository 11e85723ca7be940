//! Refresh: reads trigger reloads, which replace stale entries. `docs/refresh.md` describes it;
//! [`reloads`](super::reloads) has the state.

mod reload;
mod request;

pub use reload::ReloadResult;
