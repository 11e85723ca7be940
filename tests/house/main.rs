//! The rules of this repository's own house, checked in its sources, tests, scripts and documents.
//!
//! * [`graph`], [`layers`]: which module uses which.
//! * [`rooms`]: in which folders the methods of the engine's states are.
//! * [`unsafety`]: where `unsafe` is, and what guards it.
//! * [`text`]: how long files and comments are; which seeds are listed.
//! * [`audits`]: every test ends in an audit of its caches.
//! * [`suites`]: the suites that scripts and documents name have tests.
#![cfg(not(cortado_loom))]

mod audits;
mod graph;
mod layers;
mod rooms;
mod sources;
mod suites;
mod text;
mod unsafety;
