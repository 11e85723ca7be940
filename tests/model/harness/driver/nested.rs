//! Loads and computations: operations in the midst of which others are performed.

use super::seen::Seen;
use super::{Driver, attempt, expect_eq};
use crate::harness::case::*;
use crate::harness::oracle::{Panics, Rec};
use crate::harness::subject::Planned;
use cortado::{CompResult, Op as Compute, RemovalCause};
use std::cell::Cell;
use std::panic::resume_unwind;

impl Driver {
    pub(super) fn load(
        &mut self,
        key: u8,
        traits: Traits,
        meanwhile: WhileLoading,
        as_entry: bool,
    ) {
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
    pub(super) fn while_loading(&mut self, key: u8, meanwhile: WhileLoading) -> bool {
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
    pub(super) fn loaded(
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

    pub(super) fn compute(&mut self, key: u8, decision: Decision, meanwhile: WhileComputing) {
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
            (CompResult::StillNone(_), Decision::Nop | Decision::Remove) => ("none", None, None),
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
