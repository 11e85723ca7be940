//! Loads of one key, in the midst of which other operations are performed.

use super::seen::{Handle, Seen};
use super::{Driver, attempt, expect_eq};
use crate::harness::case::*;
use crate::harness::loading::{Got, load};
use crate::harness::oracle::{Panics, Rec};
use crate::harness::subject::{Planned, Value};
use cortado::Loaded;
use std::cell::Cell;
use std::panic::resume_unwind;
use std::time::Duration;

/// What a load comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landed {
    pub(super) rec: Rec,
    pub(super) fresh: bool,
    pub(super) replaced: bool,
}

impl Driver {
    pub(super) fn load(&mut self, key: u8, traits: Traits, how: Loading, meanwhile: WhileLoading) {
        if self.is_blocked(key) {
            return self.times_out(key);
        }
        let found = self.oracle.read(key);
        let id = self.id();
        let (k, value) = (self.reports.key(key), self.reports.value(id, traits));
        let cache = self.cache.clone();
        // Whether the loader was run, and if so, whether it ended and what it makes may be kept.
        let entered = Cell::new(None);
        self.nested += 1;
        let init = || {
            entered.set(Some(None));
            entered.set(Some(Some(self.while_loading(key, meanwhile, how.makes))));
            how.makes.then_some(value)
        };
        let got = attempt(|| load(&cache, k, how, init));
        self.nested -= 1;
        let term = term(how.loaded.flatten());
        let expected = match (found, entered.get()) {
            (Err(Panics), None) => None,
            (Ok(Some(rec)), None) => Some(Some(Landed { rec, fresh: false, replaced: false })),
            (Ok(None), Some(Some(_))) if !how.makes => Some(None),
            (Ok(None), Some(kept)) => {
                kept.and_then(|kept| self.loaded(key, id, traits, term, kept)).map(Some)
            }
            (found, entered) => {
                panic!("operation {}: {found:?} but the loader: {entered:?}", self.number)
            }
        };
        let now = self.oracle.now;
        match (got, expected) {
            (None, None) | (Some(None), Some(None)) => {}
            (Some(Some(Got::Value(value))), Some(Some(landed))) => {
                expect_eq!(self, value.id, landed.rec.id, "a load");
            }
            (Some(Some(Got::Handle(entry))), Some(Some(landed))) => {
                let expected = Seen::expected(&landed.rec, now, landed.fresh);
                expect_eq!(self, Seen::of(&entry), expected, "a load by entry");
                expect_eq!(self, entry.is_old_value_replaced(), landed.replaced, "a load");
            }
            (got, expected) => {
                let got = got.map(|got| got.is_some());
                panic!("operation {}: {expected:?}, but (value) {got:?}", self.number)
            }
        }
    }

    /// A load that replaces the entries that `salt` says.
    pub(super) fn load_if(&mut self, key: u8, traits: Traits, salt: u8, meanwhile: WhileLoading) {
        if self.is_blocked(key) {
            return self.times_out(key);
        }
        let replaces = |id: u64| !(id ^ u64::from(salt)).is_multiple_of(3);
        // By `load_if`, and with a lifetime.
        let (by_load_if, life) = (salt & 64 != 0, (salt & 32 != 0).then_some(LIFE));
        let term = term(life.filter(|_| by_load_if));
        let before = self.oracle.visible(key);
        let found = self.oracle.read_if(key, |id| !replaces(id));
        let id = self.id();
        let (k, value) = (self.reports.key(key), self.reports.value(id, traits));
        let cache = self.cache.clone();
        let (entered, mut judged) = (Cell::new(None), Vec::new());
        self.nested += 1;
        let mut init = |old: Option<Option<Handle>>| {
            // The load has looked again. A read hook may have ended the life that the read found.
            self.oracle.claim(key);
            if let Some(old) = old {
                // The read may have run maintenance.
                self.settle();
                let there = self.oracle.visible(key);
                self.check_handle(old.as_ref(), there.as_ref(), "what a load replaces");
            }
            entered.set(Some(None));
            entered.set(Some(Some(self.while_loading(key, meanwhile, true))));
        };
        let mut condition = |value: &Value| {
            judged.push(value.id);
            replaces(value.id)
        };
        let got = attempt(|| {
            if by_load_if {
                let load = |old| {
                    init(Some(old));
                    Ok::<_, ()>(Some(match life {
                        None => Loaded::new(value),
                        Some(life) => Loaded::with_ttl(value, life),
                    }))
                };
                let value = cache.load_if(&k, load, |value, _| condition(value));
                return Got::Value(value.ok().flatten().expect("the loader makes a value"));
            }
            let load = || {
                init(None);
                value
            };
            Got::Handle(cache.entry(k).or_insert_with_if(load, condition))
        });
        self.nested -= 1;
        let mut expected_judged: Vec<u64> = Vec::new();
        expected_judged.extend(before.map(|rec| rec.id));
        let expected = match (found, entered.get()) {
            (Err(Panics), None) => None,
            (Ok(Some(rec)), None) if !replaces(rec.id) => {
                Some(Landed { rec, fresh: false, replaced: false })
            }
            (Ok(_), Some(kept)) if before.is_none_or(|rec| replaces(rec.id)) => {
                kept.and_then(|kept| {
                    let judge = |id| {
                        if !expected_judged.contains(&id) {
                            expected_judged.push(id);
                        }
                        replaces(id)
                    };
                    self.loaded_if(key, (id, traits, term), kept, judge)
                })
            }
            (found, entered) => {
                panic!("operation {}: {found:?} but the loader: {entered:?}", self.number)
            }
        };
        expect_eq!(self, judged, expected_judged, "what is judged");
        let now = self.oracle.now;
        match (got, expected) {
            (Some(Got::Value(value)), Some(it)) => {
                expect_eq!(self, value.id, it.rec.id, "load_if");
            }
            (Some(Got::Handle(entry)), Some(it)) => {
                let seen = (Seen::of(&entry), entry.is_old_value_replaced());
                let expected = (Seen::expected(&it.rec, now, it.fresh), it.replaced);
                expect_eq!(self, seen, expected, "or_insert_with_if");
            }
            (got, expected) => expect_eq!(self, got.is_some(), expected.is_some(), "it panics"),
        }
    }

    /// Inside the loader. False if what it makes must not be kept.
    pub(super) fn while_loading(&mut self, key: u8, meanwhile: WhileLoading, makes: bool) -> bool {
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
            WhileLoading::LoadOther(other, _) if other == key => {}
            WhileLoading::LoadOther(other, traits) => {
                self.perform(Op::Load(other, traits, NESTED, WhileLoading::Nothing));
            }
            WhileLoading::Panic => {
                self.oracle.counts.load_failures += 1;
                resume_unwind(Box::new(Planned));
            }
        }
        if makes {
            self.oracle.counts.loads += 1;
        } else {
            self.oracle.counts.load_failures += 1;
            self.oracle.counts.special.without_value += 1;
        }
        kept
    }

    /// What becomes of a loaded value: who is returned, and whether it is the loader's.
    pub(super) fn loaded(
        &mut self,
        key: u8,
        id: u64,
        traits: Traits,
        term: Term,
        kept: bool,
    ) -> Option<Landed> {
        self.loaded_if(key, (id, traits, term), kept, |_| false)
    }

    /// The same, where it replaces the entries for which `replaces` holds.
    fn loaded_if(
        &mut self,
        key: u8,
        (id, traits, term): (u64, Traits, Term),
        kept: bool,
        replaces: impl FnOnce(u64) -> bool,
    ) -> Option<Landed> {
        if traits.weigher_panics {
            return None;
        }
        let there = self.oracle.visible(key);
        if let Some(rec) = there.filter(|rec| !replaces(rec.id)) {
            return Some(Landed { rec, fresh: false, replaced: false });
        }
        let rec = self.oracle.plan(key, id, traits, term).ok()?;
        if kept {
            self.oracle.put(rec);
        }
        let replaced = kept && there.is_some();
        self.oracle.counts.special.replacing += u64::from(replaced);
        Some(Landed { rec, fresh: true, replaced })
    }
}

/// The lifetime that a load with a condition gives.
const LIFE: Duration = Duration::from_secs(2);

const NESTED: Loading =
    Loading { kind: Kind::None, by_entry: true, by_ref: true, loaded: Some(None), makes: true };

pub(super) fn term(life: Option<Duration>) -> Term {
    life.map_or(Term::Policy, Term::For)
}
