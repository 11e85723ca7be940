//! Refresh for tasks.

mod bench;
mod jobs;
mod limits;
mod loaders;
mod operations;
mod reloads;
