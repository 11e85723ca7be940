//! Caches that live by the system's clock and are tended by the process's scheduler.
//!
//! * [`scheduled`]: caches that the background thread tends.
//! * [`deliverers`]: which threads run the listener and the destructors of removed values.
//! * [`system_clock`]: deadlines by the system's clock.
//! * [`reloads`]: reloads on the workers of the process.
//!
//! These tests hold views for a second, which holds back the reclamation of the whole process, or
//! stop the scheduler's thread, which all caches share. Other tests could take that for a fault, so
//! these have a program of their own. They themselves wait with patience.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod deliverers;
mod reloads;
mod scheduled;
mod system_clock;
