//! What operations, jobs of the executor and callers who ask for it do at their end: their share of
//! the maintenance, of the deliveries and of the reloads that wait to be handed on. It runs user
//! code, so no lock and no guard is held.

mod caller;
mod request;
mod tasks;

pub use request::Pending;
