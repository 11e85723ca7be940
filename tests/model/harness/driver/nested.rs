//! Computations, in the midst of which other operations are performed.

use super::loads::term;
use super::seen::{Handle, Seen};
use super::{Driver, attempt, expect_eq};
use crate::harness::case::*;
use crate::harness::oracle::Rec;
use crate::harness::subject::{Key, Planned, Value};
use cortado::{CompResult, Op as Compute, RemovalCause};
use std::panic::resume_unwind;
use std::time::Duration;

impl Driver {
    /// `fallibly`: by the method whose closure may fail.
    pub(super) fn compute(
        &mut self,
        key: u8,
        decision: Decision,
        meanwhile: WhileComputing,
        fallibly: bool,
    ) {
        if self.is_blocked(key) {
            return self.times_out(key);
        }
        let before = self.oracle.visible(key);
        let began = self.oracle.now;
        let id = self.id();
        let k = self.reports.key(key);
        let cache = self.cache.clone();
        (self.nested, self.computing) = (self.nested + 1, self.computing + 1);
        let result = attempt(|| {
            let mut decide = |entry: Option<Handle>| {
                self.check_handle(entry.as_ref(), before.as_ref(), "a computation");
                self.while_computing(key, meanwhile);
                match decision {
                    Decision::Nop => Ok(Compute::Nop),
                    Decision::Remove => Ok(Compute::Remove),
                    Decision::Put(traits, None) => Ok(Compute::Put(self.reports.value(id, traits))),
                    Decision::Put(traits, life) => {
                        Ok(Compute::PutLoaded(self.loaded_value(id, traits, term(life))))
                    }
                    Decision::Fail => Err("it fails"),
                }
            };
            if fallibly {
                cache.entry_by_ref(&k).and_try_compute_with(decide)
            } else {
                Ok(cache.entry(k).and_compute_with(|entry| decide(entry).expect("it cannot fail")))
            }
        });
        (self.nested, self.computing) = (self.nested - 1, self.computing - 1);
        self.oracle.was_busy(key);
        let Some(result) = result else {
            let put = if let Decision::Put(traits, life) = decision {
                Some((traits, life))
            } else {
                None
            };
            return self.check_planned(key, id, put, meanwhile);
        };
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                self.owed = true;
                return expect_eq!(self, (error, decision), ("it fails", Decision::Fail), "error");
            }
        };
        self.check_computed(key, id, (before, began), (decision, meanwhile), result);
    }

    /// A computation has panicked: because it was to do so, or because a callback does.
    fn check_planned(
        &mut self,
        key: u8,
        id: u64,
        put: Option<(Traits, Option<Duration>)>,
        meanwhile: WhileComputing,
    ) {
        self.owed = true;
        let mut panics = |(traits, life)| self.oracle.plan(key, id, traits, term(life)).is_err();
        let planned = matches!(meanwhile, WhileComputing::Panic) || put.is_some_and(&mut panics);
        assert!(planned, "operation {}: a computation panics", self.number);
    }

    fn check_computed(
        &mut self,
        key: u8,
        id: u64,
        (before, began): (Option<Rec>, u64),
        (decision, meanwhile): (Decision, WhileComputing),
        result: CompResult<Key, Value>,
    ) {
        let now = self.oracle.now;
        let old = before.map(|rec| Seen::expected(&rec, began, false));
        let (what, entry, expected) = match (result, decision) {
            (CompResult::StillNone(_), Decision::Nop | Decision::Remove) => ("none", None, None),
            (CompResult::Unchanged(entry), Decision::Nop) => ("unchanged", Some(entry), old),
            (CompResult::Removed(entry), Decision::Remove) => {
                self.oracle.leave(key, RemovalCause::Explicit);
                ("removed", Some(entry), old)
            }
            (
                result @ (CompResult::Inserted(_) | CompResult::ReplacedWith(_)),
                Decision::Put(traits, life),
            ) => {
                let rec = self.put_computed((key, id, traits, life), before, meanwhile);
                let (entry, replaced) = match result {
                    CompResult::Inserted(entry) => (entry, false),
                    CompResult::ReplacedWith(entry) => (entry, true),
                    _ => unreachable!(),
                };
                expect_eq!(self, replaced, before.is_some(), "a computation replaces");
                expect_eq!(self, entry.is_old_value_replaced(), replaced, "its entry says so");
                ("put", Some(entry), Some(Seen::expected(&rec, now, true)))
            }
            (result, _) => panic!("operation {}: {decision:?} gave {result:?}", self.number),
        };
        if !matches!(decision, Decision::Put(..)) {
            expect_eq!(self, entry.is_some(), before.is_some(), what);
        }
        expect_eq!(self, entry.as_ref().map(Seen::of), expected, what);
    }

    /// What a computation has put, which saw `before`.
    fn put_computed(
        &mut self,
        (key, id, traits, life): (u8, u64, Traits, Option<Duration>),
        before: Option<Rec>,
        meanwhile: WhileComputing,
    ) -> Rec {
        let rec = self.oracle.plan(key, id, traits, term(life)).expect("no panic");
        let cleared = matches!(meanwhile, WhileComputing::InvalidateAll);
        self.oracle.put_computed(rec, cleared && before.is_some());
        rec
    }

    pub(super) fn upsert(&mut self, key: u8, traits: Traits, meanwhile: WhileComputing) {
        if self.is_blocked(key) {
            return self.times_out(key);
        }
        let before = self.oracle.visible(key);
        let (id, k, cache) = (self.id(), self.reports.key(key), self.cache.clone());
        (self.nested, self.computing) = (self.nested + 1, self.computing + 1);
        let result = attempt(|| {
            cache.entry(k).and_upsert_with(|entry| {
                self.check_handle(entry.as_ref(), before.as_ref(), "an upsert");
                self.while_computing(key, meanwhile);
                self.reports.value(id, traits)
            })
        });
        (self.nested, self.computing) = (self.nested - 1, self.computing - 1);
        self.oracle.was_busy(key);
        let Some(entry) = result else {
            return self.check_planned(key, id, Some((traits, None)), meanwhile);
        };
        let rec = self.put_computed((key, id, traits, None), before, meanwhile);
        expect_eq!(self, Seen::of(&entry), Seen::expected(&rec, self.oracle.now, true), "upsert");
        expect_eq!(self, entry.is_old_value_replaced(), before.is_some(), "an upsert replaces");
    }

    pub(super) fn replace(&mut self, key: u8, traits: Traits, life: Option<Duration>) {
        if self.is_blocked(key) {
            return self.times_out(key);
        }
        let before = self.oracle.visible(key);
        let (id, k) = (self.id(), self.reports.key(key));
        let value = self.reports.value(id, traits);
        let result = attempt(|| match life {
            None => self.cache.replace(k, value),
            Some(ttl) => self.cache.replace_with_ttl(k, value, ttl),
        });
        self.oracle.was_busy(key);
        match (result, before) {
            (None, Some(_)) => {
                self.check_planned(key, id, Some((traits, life)), WhileComputing::Nothing);
            }
            (Some(Ok(old)), Some(_)) => {
                self.check_handle(Some(&old), before.as_ref(), "replace");
                self.put_computed((key, id, traits, life), before, WhileComputing::Nothing);
            }
            (Some(Err(value)), None) => expect_eq!(self, value.id, id, "the value comes back"),
            (result, _) => panic!("operation {}: {before:?}, but {result:?}", self.number),
        }
    }

    pub(super) fn while_computing(&mut self, key: u8, meanwhile: WhileComputing) {
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
