//! What each public operation means: reads, writes, loads, computations, iteration and clearing, on
//! one thread or a few.
//!
//! * [`expiry`]: when entries end, and what each operation does with one that has ended.
//! * [`events`]: callbacks, clearing, computing and the end of a cache.
//! * [`matrix`]: all operations in every configuration of bound, lifetime and scheduler.
//! * [`lifetimes`], [`lifetimes_by_closure`], [`ready_made_policies`]: lifetimes in combination;
//!   the builder's closures; the ready-made policies.
//! * [`clocks`], [`extremes`]: clocks that stand, jump or go back; the ends of all ranges.
//! * [`loads`], [`load_joiners`]: loads, what overtakes them, and who joins them.
//! * [`bulk_loading`], [`bulk_failures`]: loads of several keys, and of some that fail.
//! * [`load_guards`], [`shared_outcomes`]: loads by a guard; loads that come to no value.
//! * [`entry_api`]: the operations of a key's place.
//! * [`replace`], [`inspection`]: `replace` and `drain`; looks at the whole cache.
//! * [`settings_at_run_time`], [`eviction_policies`], [`zero_lives`]: changes of bound and
//!   lifetimes; who is refused and who leaves; lifetimes of zero.
//! * [`several_listeners`]: listeners of both kinds, and causes.
//! * [`iteration`], [`views`], [`collisions`]: iteration and `retain`; views; keys of one hash.
//! * [`clearing`]: `invalidate_all`, and maintenance in slices.
//! * [`metrics`]: what the exporter publishes.
//! * [`snapshots`]: saving and restoring.
//! * [`formats`]: what is printed of the cache's types.
//! * [`regressions`], [`found_by_model`]: defects, each with the program that shows it.
//!
//! No test here may hold a view for long. [`clearing`] counts slices of maintenance, which wait for
//! the guards of the whole process. Tests that do hold one are in `real_time`.
#![cfg(not(cortado_loom))]

#[path = "../common/mod.rs"]
mod common;

mod bulk_failures;
mod bulk_loading;
mod clearing;
mod clocks;
mod collisions;
mod conditional_reads;
mod entry_api;
mod events;
mod eviction_policies;
mod expiry;
mod extremes;
mod formats;
mod found_by_model;
mod inspection;
mod iteration;
mod lifetimes;
mod lifetimes_by_closure;
mod load_guards;
mod load_joiners;
mod loaded_values;
mod loads;
mod loads_in_time;
mod metrics;
mod ready_made_policies;
mod refresh;
mod regressions;
mod replace;
mod settings_at_run_time;
mod several_listeners;
mod shared_outcomes;
mod snapshots;
mod views;
mod zero_lives;

/// The operations in every configuration of [`common::for_each_config`].
mod matrix {
    mod expiring;
    mod loading;
    mod reading;
    mod writing;
}
