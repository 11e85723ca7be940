//! Delivery: telling the listener, and dropping what passes took out. `docs/notifications.md` says
//! which thread does it when. All of it runs user code, so no lock and no guard is held.

mod deliver;
mod pressure;
mod request;

pub use deliver::CALLER_NOTICES;
pub use request::Pending;
