//! Delivery: notifying listeners, and dropping the keys and values that passes took out.
//! `docs/notifications.md` says which thread does it when. All of it runs user code, so no lock and
//! no guard is held.

mod budget;
mod deliver;
mod pressure;
mod receive;
mod request;
mod tasks;

pub use receive::Receiver;
pub use request::Pending;
