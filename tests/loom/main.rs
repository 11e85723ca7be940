//! Loom models of the lock-free parts and of whole caches. Without `--cfg cortado_loom` the program
//! is empty. `.ci/loom` runs it, and proves by seeded bugs that each model can fail.
//!
//! * [`buffers`], [`drain`], [`outbox`]: the queues between callers and passes.
//! * [`flight`], [`tasks`]: single flight, by threads and by tasks.
//! * [`index`], [`index_resize`]: the index, also while its buckets move.
//! * [`grace`]: grace periods of the epoch.
//! * [`pool`]: free ids.
//! * [`scheduler`], [`executor`]: the background threads.
//! * [`engine`], [`outcomes`], [`refresh`]: whole caches; loads that come to nothing, and guards;
//!   loads that wait in an executor; reloads.
//! * [`timers`]: jobs, their thread, and the end of both.
//!
//! Each model sets its own limits in [`support`]; environment variables give the preemptions.
#![cfg(cortado_loom)]

mod buffers;
mod drain;
mod engine;
mod executor;
mod flight;
mod grace;
mod index;
mod index_resize;
mod outbox;
mod outcomes;
mod pool;
mod refresh;
mod scheduler;
mod support;
mod tasks;
mod timers;
