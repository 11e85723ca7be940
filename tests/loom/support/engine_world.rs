//! What the models of whole caches have in common: a runner that explores only where threads race,
//! and a ledger of what became of each value.
//!
//! The assertions of a model stand outside of callbacks: the cache catches a listener's panic.
#![allow(dead_code)]

use super::explore;
use cortado::internals::sync::{set_thread_stripe, thread};
use cortado::{Builder, Cache, Clock, RemovalCause};
use std::hash::{BuildHasher, Hasher};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Runs a model, which says by [`race`] where the executions differ.
pub fn model(check: impl Fn() + Send + Sync + 'static) {
    model_at(("LOOM_ENGINE_PREEMPTIONS", 1), check);
}

/// The same with so many preemptions as the variable says, or the number beside it.
pub fn model_at(preemptions: (&str, usize), check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 20_000;
    builder.expect_explicit_explore = true;
    explore::explore(builder, preemptions, check);
}

/// Runs `first` on this thread and `others` on theirs, each with a stripe of its own in the
/// buffers, in all interleavings; what comes before and after runs once.
pub fn race<const N: usize>(first: impl FnOnce(), others: [Box<dyn FnOnce() + Send>; N]) {
    loom::explore();
    let mut stripe = 0;
    let threads = others.map(|other| {
        stripe += 1;
        thread::spawn(move || {
            set_thread_stripe(stripe);
            other();
        })
    });
    first();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    loom::stop_exploring();
}

/// Hashes a small key to its own place: the top bits choose bucket and shard.
#[derive(Clone, Copy, Default)]
pub struct Plain;

#[derive(Default)]
pub struct PlainHasher(u64);

impl BuildHasher for Plain {
    type Hasher = PlainHasher;

    fn build_hasher(&self) -> PlainHasher {
        PlainHasher::default()
    }
}

impl Hasher for PlainHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }
}

/// What became of the values of one execution. None of its locks is held where loom may switch
/// threads.
#[derive(Default)]
pub struct Ledger {
    dropped: [AtomicUsize; 8],
    notices: Mutex<Vec<(u8, RemovalCause)>>,
    listening: AtomicUsize,
    overlaps: AtomicUsize,
    now: AtomicU64,
}

impl Ledger {
    /// One that outlives the execution, for values that a seeded bug leaves dangling.
    pub fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    pub fn value(&'static self, number: u8) -> Value {
        Value { number, ledger: self }
    }

    pub fn dropped(&self, number: u8) -> usize {
        self.dropped[usize::from(number)].load(Relaxed)
    }

    pub fn notices(&self) -> Vec<(u8, RemovalCause)> {
        self.notices.lock().unwrap().clone()
    }

    /// The one cause with which the value left; none if it has not.
    pub fn cause(&self, number: u8) -> Option<RemovalCause> {
        let notices = self.notices();
        let mut causes = notices.iter().filter(|(value, _)| *value == number);
        let cause = causes.next().map(|(_, cause)| *cause);
        assert_eq!(causes.next(), None, "announced twice: {notices:?}");
        cause
    }

    pub fn set_seconds(&self, seconds: u64) {
        self.now.store(seconds, Relaxed);
    }

    /// A builder of caches that keep this ledger, by a clock that [`Ledger::set_seconds`] moves.
    pub fn builder(&'static self) -> Builder<u8, Value> {
        let now = move || Duration::from_secs(self.now.load(Relaxed));
        Cache::builder().clock(Clock::custom(now))
    }

    /// [`Ledger::builder`], with a listener.
    pub fn listening_builder(&'static self) -> Builder<u8, Value> {
        self.builder().removal_listener(move |removed| {
            let inside = self.listening.fetch_add(1, Relaxed);
            self.overlaps.fetch_add(inside, Relaxed);
            // Where another thread may come in between.
            thread::yield_now();
            self.notices.lock().unwrap().push((removed.value().number, removed.cause()));
            self.listening.fetch_sub(1, Relaxed);
        })
    }

    /// At the end of an execution: the cache adds up, each of the values `1..=last` is in it or was
    /// announced once and dropped once.
    pub fn settle(&self, cache: &Store, last: u8) {
        let listens = self.overlaps.load(Relaxed);
        assert_eq!(listens, 0, "two notices were delivered at a time");
        finish(cache);
        let there: Vec<u8> = cache.entries().map(|entry| entry.number()).collect();
        for number in 1..=last {
            let stays = there.iter().filter(|there| **there == number).count();
            assert_eq!(self.cause(number).is_none(), stays == 1, "{number}: {there:?}");
            assert_eq!(self.dropped(number), 1 - stays, "{number}, {:?}", self.notices());
        }
    }
}

pub type Store = Cache<u8, Value, Plain>;

/// Finishes all maintenance, reclamation included, and audits. It gives way, for threads that were
/// joined have their locals still to drop, the epoch's among them.
pub fn finish<V: Send + Sync + 'static>(cache: &Cache<u8, V, Plain>) {
    for _ in 0..8 {
        thread::yield_now();
        cache.run_pending_tasks();
        if cache.run_pending_tasks_up_to(64).reclamations == 0 {
            break;
        }
    }
    cache.audit();
}

/// A value that notices what is done to it after its drop.
pub struct Value {
    number: u8,
    ledger: &'static Ledger,
}

impl Value {
    pub fn number(&self) -> u8 {
        assert_eq!(
            self.ledger.dropped(self.number),
            0,
            "value {} is used after its drop",
            self.number
        );
        self.number
    }
}

impl Clone for Value {
    /// Clones are not followed.
    fn clone(&self) -> Self {
        Self { number: 0, ledger: self.ledger }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.ledger.dropped[usize::from(self.number)].fetch_add(1, Relaxed);
    }
}
