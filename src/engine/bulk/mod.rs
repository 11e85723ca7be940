//! Operations on all entries.

mod clear;
mod end;
mod load_many;
mod retain;
mod walk;
