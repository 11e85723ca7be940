//! Values and a listener that note which threads drop them and run it.
#![allow(dead_code, reason = "each test binary uses its part")]

use super::HANG;
use super::audited::{Audited, audited};
use cortado::{Builder, Cache};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Instant;

/// Waits for what comes about by itself, or by what `holds` does.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG / 4, "{what}: it never holds");
        thread::yield_now();
    }
}

/// Who has run what, by thread and by its name.
#[derive(Clone, Default)]
pub struct Log {
    pub told: Arc<Mutex<Vec<(ThreadId, String)>>>,
    pub dropped: Arc<Mutex<Vec<(ThreadId, String)>>>,
}

fn note(log: &Mutex<Vec<(ThreadId, String)>>) {
    let thread = thread::current();
    log.lock().unwrap().push((thread.id(), thread.name().unwrap_or_default().to_owned()));
}

impl Log {
    /// How many notifications and destructors there were.
    pub fn counts(&self) -> (u64, u64) {
        let count = |log: &Mutex<Vec<_>>| log.lock().unwrap().len() as u64;
        (count(&self.told), count(&self.dropped))
    }

    /// All threads that have run anything.
    pub fn threads(&self) -> Vec<(ThreadId, String)> {
        let (told, dropped) = (self.told.lock().unwrap(), self.dropped.lock().unwrap());
        told.iter().chain(dropped.iter()).cloned().collect()
    }
}

/// A value whose destructor notes its thread.
pub struct Noted(pub Log);

impl Drop for Noted {
    fn drop(&mut self) {
        note(&self.0.dropped);
    }
}

pub type Notes = Audited<u64, Noted>;

/// A cache whose listener notes its thread.
pub fn noting(configure: impl FnOnce(Builder<u64, Noted>) -> Builder<u64, Noted>) -> (Notes, Log) {
    let log = Log::default();
    let listens = log.clone();
    let builder = Cache::builder().record_stats(true);
    let builder = builder.removal_listener(move |_| note(&listens.told));
    (audited(configure(builder).build()), log)
}
