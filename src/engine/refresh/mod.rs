//! Refresh: reads trigger reloads, which replace stale entries. `docs/refresh.md` describes it;
//! [`reloads`](super::reloads) has the state.

mod commit;
mod reload;
mod request;
mod stale;
mod waiting;

pub use reload::Answer;
