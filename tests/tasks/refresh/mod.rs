//! Refresh for tasks.

mod bench;
mod jobs;
mod loaders;
mod reloads;
