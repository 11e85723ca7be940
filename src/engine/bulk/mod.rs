//! Operations on all entries.

mod clear;
mod end;
mod retain;
mod walk;
