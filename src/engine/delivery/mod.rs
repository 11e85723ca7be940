//! Delivery: the queue of removals, the listeners or the receiver that hear of them, and the keys
//! and values that passes took out and that wait to be dropped.
//! `docs/notifications.md` says which thread delivers when. All of it runs user code, so no lock
//! and no guard is held.

mod deliver;
mod listeners;
mod notices;
mod receiving;

pub use deliver::{Delivered, DeliveryBudget};
pub use listeners::{Listener, Listeners, removed};
pub use notices::{Client, Deliver, Notice, Notices, ToDrop};
