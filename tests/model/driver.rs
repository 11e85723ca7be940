//! Runs a case on cache and oracle, and compares.

use super::case::*;
use super::oracle::{Counts, Leaving, NEVER, Oracle, Panics, Rec, nanos};
use super::subject::{By, Call, Key, Planned, Reports, Subject, Value, build};
use cortado::{CompResult, Entry, ManualClock, Op as Compute, Pending, RemovalCause, Removed};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

type Handle = Entry<Key, Value>;

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

/// How long writes may wait for the pass that sees to them, by the cache's clock.
const PASS_DELAY: u64 = 1_000_000;

/// Expirations that an operation does in passing, at the least.
const SHARE: usize = 16;

struct Driver {
    cache: Subject,
    hand: ManualClock,
    reports: Arc<Reports>,
    oracle: Oracle,
    /// An instant and the reading that it stands for.
    anchor: Option<(Instant, u64)>,
    kept: Vec<(Handle, Rec)>,
    next_id: u64,
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
    nanos(hand.now()).saturating_add(1).min(NEVER - 1)
}

/// What there is to see of an entry.
#[derive(Debug, PartialEq)]
struct Seen {
    id: u64,
    key: u8,
    age: Duration,
    left: Option<Duration>,
    weight: u32,
    fresh: bool,
}

impl Seen {
    fn of(entry: &Handle) -> Self {
        Self {
            id: entry.value().id,
            key: entry.key().number,
            age: entry.age(),
            left: entry.expires_in(),
            weight: entry.weight(),
            fresh: entry.is_fresh(),
        }
    }

    fn expected(rec: &Rec, now: u64, fresh: bool) -> Self {
        let (age, left) = (rec.age(now), rec.left(now));
        Self { id: rec.id, key: rec.key, age, left, weight: rec.traits.weight, fresh }
    }
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
        if self.computing == 0 && !self.owed {
            self.check_bound();
        }
    }

    fn dispatch(&mut self, op: Op) {
        match op {
            Op::Get(key) => self.read(key, |cache, key| cache.get(&By(key)).map(|v| v.id)),
            Op::Pinned(key) => self.read(key, |cache, key| {
                let pinned = cache.pin();
                let pair = pinned.get_key_value(&By(key));
                pair.map(|(found, value)| {
                    assert_eq!(found.number, key);
                    value.id
                })
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
                let expected = self.oracle.remove(key, true).map(|rec| rec.id);
                expect_eq!(self, self.cache.remove(&By(key)).map(|v| v.id), expected, "remove");
            }
            Op::RemoveEntry { key, keep } => {
                let expected = self.oracle.remove(key, true);
                let removed = self.cache.remove_entry(&By(key));
                self.check_handle(removed.as_ref(), expected.as_ref(), "remove_entry");
                self.keep(keep, removed, expected);
            }
            Op::RemoveIf(key, condition) => self.remove_if(key, condition),
            Op::Invalidate(key) => {
                self.oracle.remove(key, true);
                self.cache.invalidate(&By(key));
            }
            Op::InvalidateAll => {
                self.oracle.clear();
                self.cache.invalidate_all();
            }
            Op::Retain(salt) => self.retain(u64::from(salt)),
            Op::Iterate => self.iterate(),
            Op::GetWith(key, traits, meanwhile) => self.load(key, traits, meanwhile, false),
            Op::OrInsertWith(key, traits, meanwhile) => self.load(key, traits, meanwhile, true),
            Op::Compute(key, decision, meanwhile) => self.compute(key, decision, meanwhile),
            Op::SetTtl(key, ttl) => {
                let cap = self.oracle.now.saturating_add(nanos(ttl));
                let expected = self.oracle.set_cap(key, cap);
                expect_eq!(self, self.cache.set_ttl(&By(key), ttl), expected, "set_ttl");
            }
            Op::SetExpiresAt(key, shift) => {
                let (until, instant) = self.until(shift);
                let expected = self.oracle.set_cap(key, until);
                let done = self.cache.set_expires_at(&By(key), instant);
                expect_eq!(self, done, expected, "set_expires_at");
            }
            Op::Persist(key) => {
                let expected = self.oracle.set_cap(key, NEVER);
                expect_eq!(self, self.cache.persist(&By(key)), expected, "persist");
            }
            Op::ExpiresIn(key) => self.expires(key),
            Op::RunPending => self.run_pending(),
            Op::RunWithin(units) => self.run_within(usize::from(units)),
            Op::Step(step) => self.step(step),
            Op::Close => self.close(),
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
}

/// Reads.
impl Driver {
    fn read(&mut self, key: u8, get: impl FnOnce(&Subject, u8) -> Option<u64>) {
        let expected = self.oracle.read(key);
        let got = attempt(|| get(&self.cache, key));
        expect_eq!(self, got, expected.ok().map(|rec| rec.map(|rec| rec.id)), "a read");
    }

    fn get_entry(&mut self, key: u8, keep: bool) {
        let expected = self.oracle.read(key);
        let got = attempt(|| self.cache.get_entry(&By(key)));
        match (got, expected) {
            (Some(got), Ok(expected)) => {
                self.check_handle(got.as_ref(), expected.as_ref(), "get_entry");
                self.keep(keep, got, expected);
            }
            (got, expected) => expect_eq!(self, got.is_none(), expected.is_err(), "a panic"),
        }
    }

    fn check_handle(&self, got: Option<&Handle>, expected: Option<&Rec>, what: &str) {
        let now = self.oracle.now;
        let expected = expected.map(|rec| Seen::expected(rec, now, false));
        expect_eq!(self, got.map(Seen::of), expected, what);
    }

    fn check_seen(&self, key: u8, seen: Option<Seen>) {
        let now = self.oracle.now;
        let expected = self.oracle.visible(key).map(|rec| Seen::expected(&rec, now, false));
        expect_eq!(self, seen, expected, "peek");
    }

    fn keep(&mut self, keep: bool, got: Option<Handle>, rec: Option<Rec>) {
        if let (true, Some(handle), Some(rec)) = (keep && self.kept.len() < 8, got, rec) {
            self.kept.push((handle, rec));
        }
    }

    fn expires(&self, key: u8) {
        let visible = self.oracle.visible(key);
        let left = visible.map(|rec| rec.left(self.oracle.now));
        expect_eq!(self, self.cache.expires_in(&By(key)), left, "expires_in");
        let at = visible.map(|rec| self.announced(rec.deadline));
        expect_eq!(self, self.cache.expires_at(&By(key)), at, "expires_at");
    }

    /// A deadline as the interface shows it.
    fn announced(&self, deadline: u64) -> Option<Instant> {
        (deadline != NEVER).then(|| self.instant(deadline))
    }

    fn iterate(&mut self) {
        let now = self.oracle.now;
        let mut seen: Vec<_> = self.cache.iter().map(|entry| Seen::of(&entry)).collect();
        seen.sort_by_key(|seen| seen.key);
        let expected: Vec<_> =
            self.oracle.all_visible().map(|rec| Seen::expected(rec, now, false)).collect();
        expect_eq!(self, seen, expected, "iter");
        let mut keys: Vec<_> = self.cache.keys().map(|key| key.number).collect();
        keys.sort_unstable();
        expect_eq!(self, keys, expected.iter().map(|seen| seen.key).collect::<Vec<_>>(), "keys");
        let mut ids: Vec<_> = self.cache.values().map(|value| value.id).collect();
        let mut expected: Vec<_> = expected.iter().map(|seen| seen.id).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        expect_eq!(self, ids, expected, "values");
    }
}

/// Writes.
impl Driver {
    fn insert(&mut self, key: u8, traits: Traits, term: Term) {
        let id = self.id();
        let planned = self.oracle.plan(key, id, traits, term);
        if let Ok(rec) = planned {
            self.oracle.put(rec);
        }
        let (k, value) = (self.reports.key(key), self.reports.value(id, traits));
        let done = attempt(|| match term {
            Term::Policy => self.cache.insert(k, value),
            Term::For(ttl) => self.cache.insert_with_ttl(k, value, ttl),
            Term::Until(shift) => self.cache.insert_until(k, value, self.until(shift).1),
        });
        self.oracle.counts.panics += u64::from(planned.is_err());
        expect_eq!(self, done.is_some(), planned.is_ok(), "insert happens");
    }

    fn remove_if(&mut self, key: u8, condition: bool) {
        let visible = self.oracle.visible(key).map(|rec| rec.id);
        let expected = self.oracle.remove(key, condition).map(|rec| rec.id);
        let mut judged = None;
        let removed = self.cache.remove_if(&By(key), |key_there, value| {
            assert_eq!((key_there.number, judged), (key, None));
            judged = Some(value.id);
            condition
        });
        expect_eq!(self, judged, visible, "remove_if judges");
        expect_eq!(self, removed.map(|value| value.id), expected, "remove_if");
    }

    fn retain(&mut self, salt: u64) {
        let mut judged = Vec::new();
        let keep = |id: u64| !(id ^ salt).is_multiple_of(3);
        self.cache.retain(|key, value| {
            judged.push((key.number, value.id));
            keep(value.id)
        });
        for (key, id) in judged {
            let there = self.oracle.visible(key).map(|rec| rec.id);
            expect_eq!(self, Some(id), there, "retain judges each living entry once");
            if !keep(id) {
                self.oracle.leave(key, RemovalCause::Explicit);
            }
        }
    }

    fn load(&mut self, key: u8, traits: Traits, meanwhile: WhileLoading, as_entry: bool) {
        let found = self.oracle.read(key);
        let id = self.id();
        let (k, value) = (self.reports.key(key), self.reports.value(id, traits));
        let cache = self.cache.clone();
        // Whether the loader was run, and if so, whether it ended and what it makes may be kept.
        let entered = Cell::new(None);
        self.nested += 1;
        let init = || {
            entered.set(Some(None));
            entered.set(Some(Some(self.while_loading(key, meanwhile))));
            value
        };
        let got = attempt(|| {
            if as_entry {
                let entry = cache.entry(k).or_insert_with(init);
                (entry.value().id, Some(Seen::of(&entry)))
            } else {
                (cache.get_with(k, init).id, None)
            }
        });
        self.nested -= 1;
        let expected = match (found, entered.get()) {
            (Err(Panics), None) => None,
            (Ok(Some(rec)), None) => Some((rec, false)),
            (Ok(None), Some(kept)) => self.loaded(key, id, traits, kept),
            (found, entered) => {
                panic!("operation {}: {found:?} but the loader: {entered:?}", self.number)
            }
        };
        let now = self.oracle.now;
        expect_eq!(self, got.as_ref().map(|got| got.0), expected.map(|e| e.0.id), "a load");
        if let (Some((_, Some(seen))), Some((rec, fresh))) = (got, expected) {
            expect_eq!(self, seen, Seen::expected(&rec, now, fresh), "or_insert_with");
        }
    }

    /// Inside the loader. False if what it makes must not be kept.
    fn while_loading(&mut self, key: u8, meanwhile: WhileLoading) -> bool {
        self.settle();
        let mut kept = true;
        match meanwhile {
            WhileLoading::Nothing => {}
            WhileLoading::Step(step) => self.perform(Op::Step(step)),
            WhileLoading::InsertSame(traits, term) => {
                let inserted = self.oracle.counts.insertions;
                self.perform(Op::Insert(key, traits, term));
                kept = self.oracle.counts.insertions == inserted;
            }
            WhileLoading::RemoveSame => {
                self.perform(Op::Remove(key));
                kept = false;
            }
            WhileLoading::InvalidateAll => {
                self.perform(Op::InvalidateAll);
                kept = false;
            }
            WhileLoading::Panic => {
                self.oracle.counts.load_failures += 1;
                resume_unwind(Box::new(Planned));
            }
        }
        self.oracle.counts.loads += 1;
        kept
    }

    /// What becomes of a loaded value: who is returned, and whether it is the loader's.
    fn loaded(
        &mut self,
        key: u8,
        id: u64,
        traits: Traits,
        kept: Option<bool>,
    ) -> Option<(Rec, bool)> {
        let kept = kept?;
        if traits.weigher_panics {
            return None;
        }
        if let Some(other) = self.oracle.visible(key) {
            return Some((other, false));
        }
        let rec = self.oracle.plan(key, id, traits, Term::Policy).ok()?;
        if kept {
            self.oracle.put(rec);
        }
        Some((rec, true))
    }

    fn compute(&mut self, key: u8, decision: Decision, meanwhile: WhileComputing) {
        let before = self.oracle.visible(key);
        let began = self.oracle.now;
        let id = self.id();
        let k = self.reports.key(key);
        let cache = self.cache.clone();
        (self.nested, self.computing) = (self.nested + 1, self.computing + 1);
        let result = attempt(|| {
            cache.entry(k).and_compute_with(|entry| {
                self.check_handle(entry.as_ref(), before.as_ref(), "a computation");
                self.while_computing(key, meanwhile);
                match decision {
                    Decision::Nop => Compute::Nop,
                    Decision::Remove => Compute::Remove,
                    Decision::Put(traits) => Compute::Put(self.reports.value(id, traits)),
                }
            })
        });
        (self.nested, self.computing) = (self.nested - 1, self.computing - 1);
        self.oracle.was_busy(key);
        let Some(result) = result else {
            self.owed = true;
            let planned = matches!(meanwhile, WhileComputing::Panic)
                || matches!(decision, Decision::Put(traits)
                    if self.oracle.plan(key, id, traits, Term::Policy).is_err());
            assert!(planned, "operation {}: a computation panics", self.number);
            return;
        };
        let now = self.oracle.now;
        let old = before.map(|rec| Seen::expected(&rec, began, false));
        let (what, entry, expected) = match (result, decision) {
            (CompResult::StillNone, Decision::Nop | Decision::Remove) => ("none", None, None),
            (CompResult::Unchanged(entry), Decision::Nop) => ("unchanged", Some(entry), old),
            (CompResult::Removed(entry), Decision::Remove) => {
                self.oracle.leave(key, RemovalCause::Explicit);
                ("removed", Some(entry), old)
            }
            (
                result @ (CompResult::Inserted(_) | CompResult::ReplacedWith(_)),
                Decision::Put(traits),
            ) => {
                let rec = self.oracle.plan(key, id, traits, Term::Policy).expect("no panic");
                let cleared = matches!(meanwhile, WhileComputing::InvalidateAll);
                self.oracle.put_computed(rec, cleared && before.is_some());
                let (entry, replaced) = match result {
                    CompResult::Inserted(entry) => (entry, false),
                    CompResult::ReplacedWith(entry) => (entry, true),
                    _ => unreachable!(),
                };
                expect_eq!(self, replaced, before.is_some(), "a computation replaces");
                ("put", Some(entry), Some(Seen::expected(&rec, now, true)))
            }
            (result, _) => panic!("operation {}: {decision:?} gave {result:?}", self.number),
        };
        if !matches!(decision, Decision::Put(_)) {
            expect_eq!(self, entry.is_some(), before.is_some(), what);
        }
        expect_eq!(self, entry.as_ref().map(Seen::of), expected, what);
    }

    fn while_computing(&mut self, key: u8, meanwhile: WhileComputing) {
        self.settle();
        match meanwhile {
            WhileComputing::Nothing => {}
            WhileComputing::Step(step) => self.perform(Op::Step(step)),
            WhileComputing::ReadSame => self.perform(Op::Get(key)),
            WhileComputing::InsertOther(other, _) if other == key => {}
            WhileComputing::InsertOther(other, traits) => {
                self.perform(Op::Insert(other, traits, Term::Policy));
            }
            WhileComputing::InvalidateAll => self.perform(Op::InvalidateAll),
            WhileComputing::Panic => resume_unwind(Box::new(Planned)),
        }
    }
}

/// Maintenance and time.
impl Driver {
    fn step(&mut self, step: Step) {
        match step {
            Step::By(Shift::Ahead(span)) => self.hand.advance(span),
            Step::By(Shift::Back(span)) => self.hand.set(self.hand.now().saturating_sub(span)),
            Step::ToDeadline(key, offset) => {
                let at = |rec: &Rec| rec.deadline.saturating_add_signed(i64::from(offset));
                self.ahead_to(self.oracle.at(key).filter(|rec| rec.deadline < NEVER).map(at));
            }
            Step::PastTick(key) => {
                let end = |rec: &Rec| self.oracle.tick_end(self.oracle.owed_from(rec));
                self.ahead_to(self.oracle.at(key).filter(|rec| rec.deadline < NEVER >> 1).map(end));
            }
        }
        self.oracle.set_clock(reading(&self.hand));
    }

    fn ahead_to(&self, time: Option<u64>) {
        if let Some(time) = time.filter(|&time| time > self.oracle.now && time < NEVER) {
            self.hand.set(Duration::from_nanos(time - 1));
        }
    }

    fn run_pending(&mut self) {
        if self.oracle.counts.operations.is_multiple_of(4) {
            self.cache.audit();
        } else {
            self.cache.run_pending_tasks();
        }
        self.settle();
        self.check_finished();
    }

    fn run_within(&mut self, units: usize) {
        let mut pending = self.cache.run_pending_tasks_within(units);
        let mut rounds = 0;
        // To the last notification, which tells what the slices have done.
        while pending.notifications > 0 || (units > 0 && !finished(&pending)) {
            rounds += 1;
            assert!(rounds < 1000, "operation {}: no end of {pending:?}", self.number);
            pending = self.cache.run_pending_tasks_within(units.max(1));
        }
        self.settle();
        let capacity = self.oracle.config.max_capacity.unwrap_or(u64::MAX);
        let excess = self.oracle.weight().saturating_sub(capacity);
        expect_eq!(self, pending.excess_weight, excess, "excess weight");
        if finished(&pending) {
            self.check_finished();
        }
    }

    fn close(&mut self) {
        self.oracle.clear();
        self.oracle.closed = true;
        self.cache.close();
        self.settle();
        self.check_finished();
        expect_eq!(self, self.cache.entry_count(), 0, "entries after close");
    }
}

/// Operations that take no share in the maintenance.
fn leaves_no_trace(op: Op) -> bool {
    matches!(op, Op::Peek(_) | Op::ContainsKey(_) | Op::Iterate | Op::ExpiresIn(_) | Op::Step(_))
}

/// Nothing left but memory that some thread may be reading.
fn finished(pending: &Pending) -> bool {
    let mut rest = *pending;
    rest.reclamations = 0;
    rest.is_done()
}

/// Comparisons.
impl Driver {
    /// Compares what hooks and listener have reported with what they should have.
    fn settle(&mut self) {
        let mut calls = std::mem::take(&mut *self.reports.calls.lock().unwrap());
        if self.nested > 0 {
            // A write that finds a load or computation in its way asks again.
            calls.dedup();
        }
        let expected: Vec<_> = std::mem::take(&mut self.oracle.calls)
            .into_iter()
            .map(|call| Call {
                hook: call.hook,
                key: call.key,
                id: call.id,
                now: self.instant(call.now),
                current: call.current,
                modified: call.modified.map(|modified| self.instant(modified)),
            })
            .collect();
        expect_eq!(self, calls, expected, "hook calls");
        let removed = std::mem::take(&mut *self.reports.removed.lock().unwrap());
        for removed in &removed {
            self.announced_removal(removed);
        }
        let missing = &self.oracle.leaving;
        assert!(missing.is_empty(), "operation {}: unannounced: {missing:?}", self.number as isize);
    }

    fn announced_removal(&mut self, removed: &Removed<Key, Value>) {
        let (id, key) = (removed.value().id, removed.key().number);
        let asked = self.oracle.leaving.iter().position(|leaving| leaving.rec.id == id);
        let leaving = match asked {
            Some(position) => self.oracle.leaving.remove(position),
            None => self.chosen(id, key, removed.cause()),
        };
        let Leaving { rec, cause, at, was_inside } = leaving;
        if self.anchor.is_none() {
            self.anchor = removed.deadline().map(|instant| (instant, rec.deadline));
        }
        expect_eq!(self, removed.cause(), cause, format_args!("the cause of {rec:?}"));
        expect_eq!(self, key, rec.key, "the key of a removal");
        expect_eq!(self, removed.deadline(), self.announced(rec.deadline), "the deadline");
        let late = (cause == RemovalCause::Expired)
            .then(|| Duration::from_nanos(at.saturating_sub(rec.deadline)));
        expect_eq!(self, removed.late_by(), late, format_args!("the lateness of {rec:?}"));
        expect_eq!(self, removed.age(), rec.age(at), format_args!("the age of {rec:?}"));
        expect_eq!(self, removed.weight(), rec.traits.weight, "the weight");
        self.oracle.counts.removed[cause as usize] += 1;
        if was_inside {
            self.oracle.peak -= rec.weight();
        }
    }

    /// A removal that nobody asked for: whether the cache may do that.
    fn chosen(&mut self, id: u64, key: u8, cause: RemovalCause) -> Leaving {
        let (now, number) = (self.oracle.now, self.number as isize);
        let rec = self.oracle.at(key).copied().filter(|rec| rec.id == id).unwrap_or_else(|| {
            panic!("operation {number}: value {id} of key {key} left ({cause:?}), but is not there")
        });
        let capacity = self.oracle.config.max_capacity.unwrap_or(u64::MAX);
        let allowed = if rec.cleared {
            cause == RemovalCause::Explicit
        } else if rec.deadline <= now {
            cause == RemovalCause::Expired
        } else {
            cause == RemovalCause::Size && rec.weight() > 0 && self.oracle.peak > capacity
        };
        assert!(
            allowed,
            "operation {number}: {rec:?} left as {cause:?} at {now}, weight {} of {capacity}",
            self.oracle.peak
        );
        self.oracle.inside[usize::from(key)] = None;
        Leaving { rec, cause, at: now, was_inside: true }
    }

    /// The bound holds after each operation but for a sixteenth, or one entry that is not applied.
    fn check_bound(&self) {
        if let Some(capacity) = self.oracle.config.max_capacity {
            let (weight, most) = (self.oracle.weight(), capacity + (capacity / 16).max(1));
            assert!(weight <= most, "operation {}: {weight} of {capacity}", self.number as isize);
        }
    }

    /// How many entries should have left by now though nobody asked for maintenance.
    fn late(&self) -> usize {
        let oracle = &self.oracle;
        let since = |rec: &Rec| oracle.tick_end(oracle.owed_from(rec)).saturating_add(PASS_DELAY);
        let ended = oracle.recs().filter(|rec| !rec.cleared && rec.deadline <= oracle.now);
        ended.filter(|rec| since(rec) <= oracle.now).count()
    }

    /// A cache in use expires entries within the tick, as many at a time as an operation's share of
    /// the maintenance allows.
    fn check_prompt(&self, before: usize) {
        let after = self.late();
        assert!(
            after == 0 || after + SHARE <= before,
            "operation {}: {after} of {before} entries that should have left are still there",
            self.number as isize
        );
    }

    /// What must hold when all maintenance is done.
    fn check_finished(&mut self) {
        self.oracle.was_finished();
        let oracle = &self.oracle;
        let number = self.number as isize;
        if self.computing == 0 {
            for rec in oracle.recs() {
                let now = oracle.now;
                assert!(!oracle.overdue(rec), "operation {number}: still there at {now}: {rec:?}");
            }
        }
        expect_eq!(self, self.cache.entry_count(), oracle.recs().count() as u64, "entry_count");
        let weight = oracle.weight();
        expect_eq!(self, self.cache.weighted_size(), weight, "weighted_size");
        let most = self.cache.max_capacity().unwrap_or(u64::MAX);
        assert!(weight <= most, "operation {number}: {weight} of {most} after maintenance");
        self.check_next_expiration();
        self.check_stats();
    }

    fn check_next_expiration(&self) {
        let oracle = &self.oracle;
        let timed = oracle.recs().filter(|rec| rec.deadline != NEVER);
        let Some(earliest) = timed.map(|rec| oracle.owed_from(rec)).min() else { return };
        let next = self.cache.next_expiration().map(nanos);
        let latest = (earliest - oracle.now.min(earliest)).saturating_add(oracle.tick_span());
        assert!(
            next.is_some_and(|next| next <= latest),
            "operation {}: the next expiration is at most {latest} away, not {next:?}",
            self.number as isize
        );
    }

    fn check_stats(&self) {
        let stats = self.cache.stats();
        let counts = &self.oracle.counts;
        expect_eq!(self, stats.entries, self.cache.entry_count(), "entries in the statistics");
        if !self.oracle.config.record_stats {
            expect_eq!(self, stats.hits + stats.misses + stats.insertions, 0, "unrecorded");
            return;
        }
        let kept = (stats.hits, stats.misses, stats.insertions, stats.loads, stats.load_failures);
        let expected =
            (counts.hits, counts.misses, counts.insertions, counts.loads, counts.load_failures);
        expect_eq!(self, kept, expected, "hits, misses, insertions, loads, failures");
        let removed = RemovalCause::ALL.map(|cause| stats.removed(cause));
        expect_eq!(self, removed, counts.removed, "removals by cause");
        expect_eq!(self, stats.listener_panics + stats.drop_panics, 0, "panics");
    }

    /// The end of the cache: nothing stays behind.
    fn finish(mut self, close: bool) -> Counts {
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
