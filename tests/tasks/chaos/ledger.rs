//! Keys and values, and what became of them.

use crate::common::crowd::draw;
use cortado::{Equivalent, Job, ToKey};
use std::collections::VecDeque;
use std::fmt::Display;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// The payload of every panic that a program plans. It unwinds without a message.
struct Planned;

/// Runs what may end with a planned panic, and returns nothing then.
pub fn planned<T>(run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Planned>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

/// What happened to the value of this number, and how often.
#[derive(Clone, Copy, Default)]
pub struct Fate {
    pub announced: u32,
    pub dropped: u32,
}

/// The random numbers of a program, its keys and values, and its executor's queue.
pub struct Ledger {
    random: Mutex<u64>,
    /// How many destructors of a hundred values panic.
    pub explosive: u64,
    values: Mutex<Vec<Fate>>,
    /// Keys, and clones of values, that were made and have not been dropped.
    pub living_keys: AtomicI64,
    pub living_clones: AtomicI64,
    /// Destructors that have panicked.
    pub explosions: AtomicI64,
    jobs: Mutex<VecDeque<Job>>,
    /// Jobs whose panics have reached the executor. The cache may catch a panic of the executor.
    pub failed_jobs: AtomicU64,
    /// Planned panics of the listener that awaits, after what it was told of was noted.
    pub told_panics: AtomicU64,
    /// The thread of the program, and how often another one called user code.
    thread: ThreadId,
    pub strange_calls: AtomicU64,
    /// What has happened, if that is wanted.
    trace: Option<Mutex<Vec<String>>>,
}

impl Ledger {
    pub fn new(seed: u64, is_traced: bool) -> Self {
        let mut ledger = Self {
            random: Mutex::new(seed),
            explosive: 0,
            values: Mutex::default(),
            living_keys: AtomicI64::new(0),
            told_panics: AtomicU64::new(0),
            living_clones: AtomicI64::new(0),
            explosions: AtomicI64::new(0),
            jobs: Mutex::default(),
            failed_jobs: AtomicU64::new(0),
            thread: thread::current().id(),
            strange_calls: AtomicU64::new(0),
            trace: is_traced.then(Mutex::default),
        };
        ledger.explosive = ledger.one_of([0, 0, 10, 50]);
        ledger
    }

    /// A random number below the limit.
    pub fn below(&self, limit: u64) -> u64 {
        if thread::current().id() != self.thread {
            self.strange_calls.fetch_add(1, Relaxed);
        }
        draw(&mut self.random.lock().unwrap()) % limit
    }

    /// True once in so many times.
    pub fn once_in(&self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn one_of<T, const N: usize>(&self, choices: [T; N]) -> T {
        let number = self.below(N as u64) as usize;
        choices.into_iter().nth(number).expect("it is below the length")
    }

    pub fn seconds_below(&self, limit: u64) -> Duration {
        Duration::from_secs(self.below(limit))
    }

    /// [`may_panic`](Self::may_panic) of the listener that awaits, when it has noted a removal.
    pub fn may_panic_when_told(&self, times: u64) {
        if self.once_in(times) {
            self.told_panics.fetch_add(1, Relaxed);
            self.note("a planned panic of the listener");
            resume_unwind(Box::new(Planned));
        }
    }

    /// Panics once in so many times.
    pub fn may_panic(&self, times: u64) {
        if self.once_in(times) {
            self.note("a planned panic");
            resume_unwind(Box::new(Planned));
        }
    }

    pub fn note(&self, what: impl Display) {
        if let Some(trace) = &self.trace {
            trace.lock().unwrap().push(format!("{what}\n"));
        }
    }

    /// What has happened, a line each.
    pub fn trace(&self) -> String {
        self.trace.as_ref().map_or(String::new(), |trace| trace.lock().unwrap().concat())
    }

    pub fn key(self: &Arc<Self>, number: u64) -> Key {
        self.living_keys.fetch_add(1, Relaxed);
        let explodes = self.below(100) < self.explosive / 2;
        Key { number, explodes, ledger: Arc::clone(self) }
    }

    pub fn value(self: &Arc<Self>) -> Value {
        let mut values = self.values.lock().unwrap();
        let number = values.len();
        values.push(Fate::default());
        drop(values);
        let explodes = self.below(100) < self.explosive;
        self.note(format_args!("value {number} is made, explodes: {explodes}"));
        Value {
            number,
            weight: self.one_of([0, 1, 1, 2, 5, 20]),
            stale_after: self.seconds_below(20),
            life: self.seconds_below(60),
            explodes,
            is_clone: false,
            ledger: Arc::clone(self),
        }
    }

    /// Notes that the removal of this value was announced.
    pub fn announce(&self, value: &Value) {
        self.note(format_args!("value {} is announced", value.number));
        self.values.lock().unwrap()[value.number].announced += 1;
    }

    /// What happened to all values that were made.
    pub fn fates(&self) -> Vec<Fate> {
        self.values.lock().unwrap().clone()
    }

    pub fn submit(&self, job: Job) {
        self.jobs.lock().unwrap().push_back(job);
    }

    pub fn run_job(&self, job: Job) {
        self.note("a job runs");
        if planned(job).is_none() {
            self.note("its panic reaches the executor");
            self.failed_jobs.fetch_add(1, Relaxed);
        }
    }

    fn next_job(&self) -> Option<Job> {
        self.jobs.lock().unwrap().pop_front()
    }

    /// Runs the next job; false if there is none.
    pub fn run_next_job(&self) -> bool {
        self.next_job().map(|job| self.run_job(job)).is_some()
    }

    /// Runs the next job, or drops it now and then. What a job owns may explode when it is dropped.
    pub fn run_or_drop_job(&self) {
        let Some(job) = self.next_job() else { return };
        if !self.once_in(4) {
            return self.run_job(job);
        }
        self.note("a job is dropped");
        planned(|| drop(job));
    }
}

/// Panics, unless that would end the process.
fn explode() {
    if !thread::panicking() {
        resume_unwind(Box::new(Planned));
    }
}

/// A value whose destructor may panic. Its clones are counted apart, and theirs do not panic.
pub struct Value {
    pub number: usize,
    pub weight: u32,
    pub stale_after: Duration,
    pub life: Duration,
    explodes: bool,
    is_clone: bool,
    ledger: Arc<Ledger>,
}

impl Clone for Value {
    fn clone(&self) -> Self {
        self.ledger.living_clones.fetch_add(1, Relaxed);
        Self { explodes: false, is_clone: true, ledger: Arc::clone(&self.ledger), ..*self }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if self.is_clone {
            self.ledger.living_clones.fetch_sub(1, Relaxed);
            return;
        }
        self.ledger.note(format_args!("value {} is dropped", self.number));
        self.ledger.values.lock().unwrap()[self.number].dropped += 1;
        if self.explodes {
            self.ledger.explosions.fetch_add(1, Relaxed);
            explode();
        }
    }
}

/// A key whose clone may panic, and so may its destructor.
pub struct Key {
    pub number: u64,
    explodes: bool,
    ledger: Arc<Ledger>,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        if self.ledger.below(100) < self.ledger.explosive / 10 {
            self.ledger.note(format_args!("a clone of key {} panics", self.number));
            explode();
        }
        self.ledger.key(self.number)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.ledger.living_keys.fetch_sub(1, Relaxed);
        if self.explodes {
            self.ledger.note(format_args!("key {} explodes", self.number));
            self.ledger.explosions.fetch_add(1, Relaxed);
            explode();
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

/// Keys have three hashes, so that different ones collide.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.number % 3);
    }
}

/// A key to look up by, which makes a key if need be.
pub struct Name(pub u64, pub Arc<Ledger>);

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0 % 3);
    }
}

impl Equivalent<Key> for Name {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.number
    }
}

impl ToKey<Key> for Name {
    fn to_key(&self) -> Key {
        self.1.key(self.0)
    }
}
