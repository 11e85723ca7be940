//! What the benchmark programs share: the caches behind one trait, keys and values, figures,
//! reports.
//!
//! A measured loop is compiled for each cache: [`subject::Subject`] is used through generics only,
//! so that no indirect call is part of a reading of ten nanoseconds.
#![allow(missing_docs, reason = "public for the programs of this package only")]

pub mod cpu;
pub mod figure;
pub mod footprint;
pub mod heap;
pub mod key;
pub mod machine;
pub mod report;
pub mod subject;
pub mod threads;
pub mod timers;
pub mod value;
pub mod workload;
