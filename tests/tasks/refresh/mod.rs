//! Refresh for tasks.

mod bench;
mod ended_meanwhile;
mod jobs;
mod joined;
mod limits;
mod loaders;
mod operations;
mod reloads;
