//! Refresh for tasks.

mod bench;
mod ended_meanwhile;
mod executors;
mod jobs;
mod limits;
mod loaders;
mod operations;
mod reloads;
mod turns;
