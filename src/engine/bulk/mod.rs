//! Operations on all entries.

mod clear;
mod end;
mod load_many;
mod ranking;
mod retain;
mod walk;
