//! Runs a case on cache and oracle, and compares.

mod checks;
mod guards;
mod loads;
mod maintenance;
mod many;
mod nested;
mod reads;
mod removals;
mod seen;
mod settings;
mod writes;

use super::case::*;
use super::face::Subject;
use super::oracle::{Counts, FIRST, NEVER, Oracle, Rec, nanos};
use super::subject::{By, Planned, Reports, Value, build};
use cortado::{Loaded, ManualClock};
use guards::Held;
use seen::{Handle, Seen};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Executes the case.
///
/// # Panics
/// If the cache does anything that the documents do not say. Returns what happened, that of nested
/// operations included.
pub fn run(case: &Case) -> Counts {
    let mut driver = Driver::new(&case.config);
    driver.calibrate();
    for (number, &op) in case.ops.iter().enumerate() {
        driver.number = number;
        driver.perform(op);
    }
    driver.number = usize::MAX;
    driver.finish(case.ops.len().is_multiple_of(2))
}

struct Driver {
    cache: Subject,
    hand: ManualClock,
    reports: Arc<Reports>,
    oracle: Oracle,
    /// An instant and the reading that it stands for.
    anchor: Option<(Instant, u64)>,
    kept: Vec<(Handle, Rec)>,
    next_id: u64,
    guards: Vec<Held>,
    /// The bound was lowered, and the maintenance has not yet been asked for since.
    lowered: bool,
    /// Which operation is under way, for messages.
    number: usize,
    /// How many loads and computations are on the stack.
    nested: usize,
    /// Computations alone: the maintenance cannot do all it should.
    computing: usize,
    /// A computation has panicked that may have kept back an eviction; the next operation with a
    /// share in the maintenance does it.
    owed: bool,
}

/// What `f` returns, or `None` if it panics as the case wants.
fn attempt<T>(f: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => Some(value),
        Err(panic) if panic.is::<Planned>() => None,
        Err(panic) => resume_unwind(panic),
    }
}

/// The cache's reading: one more than the clock's, as zero has a meaning of its own.
fn reading(hand: &ManualClock) -> u64 {
    nanos(hand.now()).saturating_add(FIRST).min(NEVER - 1)
}

/// Operations that take no share in the maintenance.
fn leaves_no_trace(op: Op) -> bool {
    use Op::{ContainsKey, DropGuard, ExpiresIn, InOrder, Iterate, Peek, SetIdle, SetLive, Step};
    matches!(
        op,
        Peek(_)
            | ContainsKey(_)
            | Iterate
            | InOrder { .. }
            | ExpiresIn(_)
            | Step(_)
            | SetLive(_)
            | SetIdle(_)
            | DropGuard(_)
            | Op::SetCapacity(_)
    )
}

/// Fails with the number of the operation.
macro_rules! expect_eq {
    ($driver:expr, $left:expr, $right:expr, $what:expr) => {
        match (&$left, &$right) {
            (left, right) => assert!(
                left == right,
                "operation {}: {}: the cache has {left:?}, the model {right:?}",
                $driver.number as isize,
                $what
            ),
        }
    };
}
use expect_eq;

impl Driver {
    fn new(config: &Config) -> Self {
        let reports = Arc::<Reports>::default();
        let (cache, hand) = build(config, &reports);
        let oracle = Oracle::new(*config, reading(&hand));
        Self {
            cache,
            hand,
            reports,
            oracle,
            anchor: None,
            kept: Vec::new(),
            guards: Vec::new(),
            lowered: false,
            next_id: 1,
            number: 0,
            nested: 0,
            computing: 0,
            owed: false,
        }
    }

    /// Learns which instant stands for which reading, from the deadline of a first value.
    fn calibrate(&mut self) {
        let traits = Traits {
            create: None,
            update: Rule::Keep,
            read: Rule::Keep,
            weight: 1,
            weigher_panics: false,
        };
        self.perform(Op::Insert(0, traits, Term::For(Duration::from_secs(3600))));
        self.perform(Op::Remove(0));
        assert!(self.anchor.is_some(), "the first removal tells its deadline");
    }

    fn instant(&self, reading: u64) -> Instant {
        let (instant, base) = self.anchor.expect("calibrated");
        if reading >= base {
            instant + Duration::from_nanos(reading - base)
        } else {
            instant - Duration::from_nanos(base - reading)
        }
    }

    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// One operation, and everything that follows from it.
    fn perform(&mut self, op: Op) {
        self.oracle.counts.operations += 1;
        self.oracle.peak = self.oracle.weight();
        self.owed &= leaves_no_trace(op);
        let (now, late, uses) = (self.oracle.now, self.late(), self.oracle.uses());
        self.dispatch(op);
        self.settle();
        let used = self.nested == 0 && self.oracle.uses() > uses;
        if used && self.oracle.now == now {
            self.check_prompt(late);
        }
        if self.computing == 0 && !self.owed && !self.lowered {
            self.check_bound();
        }
    }

    fn dispatch(&mut self, op: Op) {
        match op {
            Op::Get(key) => self.read(key, |cache, key| cache.get(&By(key)).map(|v| v.id)),
            Op::GetIf(key, salt) => self.get_if(key, u64::from(salt)),
            Op::Pinned(key) => self.read(key, |cache, key| {
                let pinned = cache.pin();
                pinned.get(&By(key)).map(|value| value.id)
            }),
            Op::GetEntry { key, keep } => self.get_entry(key, keep),
            Op::Peek(key) => {
                let seen = self.cache.peek(&By(key)).map(|entry| Seen::of(&entry));
                self.check_seen(key, seen);
            }
            Op::ContainsKey(key) => {
                let there = self.cache.contains_key(&By(key));
                expect_eq!(self, there, self.oracle.visible(key).is_some(), "contains_key");
            }
            Op::Touch(key) => {
                let expected = self.oracle.read(key);
                let touched = attempt(|| self.cache.touch(&By(key)));
                expect_eq!(self, touched, expected.ok().map(|rec| rec.is_some()), "touch");
            }
            Op::Insert(key, traits, term) => self.insert(key, traits, term),
            Op::Remove(key) => {
                let expected = self.plan_removal(key).map(|rec| rec.id);
                expect_eq!(self, self.cache.remove(&By(key)).map(|v| v.id), expected, "remove");
            }
            Op::RemoveEntry { key, keep } => {
                let expected = self.plan_removal(key);
                let removed = self.cache.remove_entry(&By(key));
                self.check_handle(removed.as_ref(), expected.as_ref(), "remove_entry");
                self.keep(keep, removed, expected);
            }
            Op::RemoveIf(key, condition) => self.remove_if(key, condition),
            Op::Invalidate(key) => {
                self.plan_removal(key);
                self.cache.invalidate(&By(key));
            }
            Op::InvalidateAll => {
                self.overtake_all();
                self.oracle.clear();
                self.cache.invalidate_all();
            }
            Op::Retain(salt) => self.retain(u64::from(salt), false),
            Op::InvalidateIf(salt) => self.retain(u64::from(salt), true),
            Op::Iterate => self.iterate(),
            Op::Load(key, traits, how, meanwhile) => self.load(key, traits, how, meanwhile),
            Op::LoadIf(key, traits, salt, meanwhile) => self.load_if(key, traits, salt, meanwhile),
            Op::Compute(key, decision, meanwhile) => self.compute(key, decision, meanwhile, false),
            Op::SetTtl(key, ttl) => {
                let cap = self.oracle.now.saturating_add(nanos(ttl));
                let expected = self.oracle.set_hard_deadline(key, cap);
                expect_eq!(self, self.cache.set_ttl(&By(key), ttl), expected, "set_ttl");
            }
            Op::SetExpiresAt(key, shift) => {
                let (until, instant) = self.until(shift);
                let expected = self.oracle.set_hard_deadline(key, until);
                let done = self.cache.set_expires_at(&By(key), instant);
                expect_eq!(self, done, expected, "set_expires_at");
            }
            Op::Persist(key) => {
                let expected = self.oracle.set_hard_deadline(key, NEVER);
                expect_eq!(self, self.cache.persist(&By(key)), expected, "persist");
            }
            Op::ExpiresIn(key) => self.expires(key),
            Op::RunPending => self.run_pending(),
            Op::RunWithin(units) => self.run_within(usize::from(units)),
            Op::Step(step) => self.step(step),
            Op::Close => self.close(),
            other => self.dispatch_more(other),
        }
    }

    fn dispatch_more(&mut self, op: Op) {
        match op {
            Op::Drain(limit) => self.drain(limit),
            Op::InOrder { latest, limit } => self.in_order(latest, limit),
            Op::TryCompute(key, decision, meanwhile) => {
                self.compute(key, decision, meanwhile, true);
            }
            Op::Upsert(key, traits, meanwhile) => self.upsert(key, traits, meanwhile),
            Op::Replace(key, traits, life) => self.replace(key, traits, life),
            Op::TakeGuard(key) => self.take_guard(key),
            Op::UseGuard(nth, traits, life) => self.use_guard(nth, traits, life),
            Op::DropGuard(nth) => self.drop_guard(nth),
            Op::GetMany(keys) => self.get_many(keys),
            Op::LoadMany(keys, traits, made, meanwhile) => {
                self.load_many(keys, traits, made, meanwhile);
            }
            Op::InsertMany(keys, traits, term) => self.insert_many(keys, traits, term),
            Op::InvalidateMany(keys) => self.invalidate_many(keys),
            Op::SetCapacity(capacity) => self.set_capacity(capacity),
            Op::SetLive(live) => self.set_live(live),
            Op::SetIdle(idle) => self.set_idle(idle),
            _ => unreachable!("dispatched before"),
        }
    }

    /// The reading that a shift means, and its instant. Far ahead, beyond what the clock can hold.
    fn until(&self, shift: Shift) -> (u64, Instant) {
        let until = shift.from(self.oracle.now);
        if until == NEVER {
            return (until, self.instant(1 << 63) + Duration::from_secs(1000 * 365 * 86_400));
        }
        (until, self.instant(until))
    }

    /// A value with this term.
    fn loaded_value(&self, id: u64, traits: Traits, term: Term) -> Loaded<Value> {
        let value = self.reports.value(id, traits);
        match term {
            Term::Policy => Loaded::new(value),
            Term::For(ttl) => Loaded::with_ttl(value, ttl),
            Term::Until(shift) => Loaded::new(value).until(self.until(shift).1),
        }
    }

    /// The end of the cache: nothing stays behind.
    fn finish(mut self, close: bool) -> Counts {
        while self.has_guards() {
            self.perform(Op::DropGuard(0));
        }
        self.cache.audit();
        self.settle();
        self.check_finished();
        if close {
            self.perform(Op::Close);
        }
        self.cache.audit();
        let Self { cache, reports, kept, oracle, .. } = self;
        drop(cache);
        let unasked = reports.removed.lock().unwrap().len();
        assert_eq!(unasked, 0, "the drop of a cache announces nothing");
        for (handle, rec) in &kept {
            assert_eq!((handle.value().id, handle.key().number), (rec.id, rec.key));
        }
        drop(kept);
        let alive = reports.alive.load(Ordering::Relaxed);
        assert_eq!(alive, 0, "keys and values are left behind");
        oracle.counts
    }
}
