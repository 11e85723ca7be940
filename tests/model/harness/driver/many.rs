//! Operations on several keys. Before each key the removals so far are looked at: they may be the
//! cache's own choice.

use super::{Driver, attempt, expect_eq};
use crate::harness::case::*;
use crate::harness::oracle::Panics;
use crate::harness::subject::{By, Key, Value};
use std::cell::RefCell;

/// What the loader of many returns instead of values.
const REFUSED: &str = "refused";

/// What has come of a call of `try_get_many_with`, key by key.
#[derive(Default)]
struct Many {
    /// In the order of the keys, the ids of what was found.
    found: Vec<(u8, Option<u64>)>,
    read_panics: bool,
    /// The keys that the loader was asked for, with the ids of what it makes.
    asked: Vec<(u8, Option<u64>)>,
    extra: Option<(u8, u64)>,
    /// `None` if the loader panics or fails.
    kept: Option<Kept>,
}

/// Which of the loaded values may be kept.
#[derive(Clone, Copy, Debug)]
enum Kept {
    All,
    ButLast,
    None,
}

impl Many {
    /// Each key once that was not found.
    fn missing(&self) -> Vec<u8> {
        let mut missing = Vec::new();
        for (key, _) in self.found.iter().filter(|(_, found)| found.is_none()) {
            if !missing.contains(key) {
                missing.push(*key);
            }
        }
        missing
    }
}

fn ids(values: &[Option<Value>]) -> Vec<Option<u64>> {
    values.iter().map(|value| value.as_ref().map(|value| value.id)).collect()
}

impl Driver {
    pub(super) fn get_many(&mut self, keys: Keys) {
        let keys: Vec<By> = keys.all(&self.oracle.config).map(By).collect();
        let (cache, mut expected) = (self.cache.clone(), Vec::new());
        let got = attempt(|| {
            let keys = keys.iter().inspect(|key| {
                self.settle();
                expected.push(self.oracle.read(key.0));
            });
            cache.get_many(keys)
        });
        let expected: Result<Vec<_>, _> = expected.into_iter().collect();
        let expected = expected.ok().map(|recs| recs.iter().map(|r| r.map(|r| r.id)).collect());
        expect_eq!(self, got.map(|values| ids(&values)), expected, "get_many");
    }

    pub(super) fn insert_many(&mut self, keys: Keys, traits: Traits, term: Term) {
        let mut keys = keys.all(&self.oracle.config);
        let (cache, mut planned) = (self.cache.clone(), true);
        let done = attempt(|| {
            cache.insert_many(std::iter::from_fn(|| {
                self.settle();
                let (key, id) = (keys.next()?, self.id());
                planned = self.plan_insert(key, id, traits, term);
                Some((self.reports.key(key), self.loaded_value(id, traits, term)))
            }));
        });
        self.oracle.counts.panics += u64::from(!planned);
        expect_eq!(self, done.is_some(), planned, "insert_many happens");
    }

    pub(super) fn invalidate_many(&mut self, keys: Keys) {
        let keys: Vec<By> = keys.all(&self.oracle.config).map(By).collect();
        let cache = self.cache.clone();
        cache.invalidate_many(keys.iter().inspect(|key| {
            self.settle();
            self.overtake(key.0);
            self.oracle.remove(key.0, true);
        }));
    }

    /// Keys whose load a guard has are left out: this call would wait.
    pub(super) fn load_many(
        &mut self,
        keys: Keys,
        traits: Traits,
        made: ManyMade,
        meanwhile: WhileLoading,
    ) {
        let keys = keys.all(&self.oracle.config);
        let keys: Vec<u8> = keys.filter(|key| !self.is_blocked(*key)).collect();
        let (cache, nested) = (self.cache.clone(), self.nested);
        let state = RefCell::new((&mut *self, Many::default()));
        let result = attempt(|| {
            let keys = keys.iter().map(|&key| {
                let (driver, many) = &mut *state.borrow_mut();
                driver.settle();
                match driver.oracle.read(key) {
                    Ok(rec) => many.found.push((key, rec.map(|rec| rec.id))),
                    Err(Panics) => many.read_panics = true,
                }
                driver.reports.key(key)
            });
            cache.try_get_many_with(keys, |asked| {
                let (driver, many) = &mut *state.borrow_mut();
                driver.nested += 1;
                many.asked = asked.iter().map(|key| (key.number, None)).collect();
                let made = driver.make_many(many, traits, made, meanwhile);
                driver.nested -= 1;
                made.ok_or(REFUSED)
            })
        });
        let (_, many) = state.into_inner();
        // A loader that panics does not get so far.
        self.nested = nested;
        if many.read_panics {
            return expect_eq!(self, result.is_none(), true, "a read hook panics");
        }
        let asked: Vec<u8> = many.asked.iter().map(|(key, _)| *key).collect();
        expect_eq!(self, asked, many.missing(), "the keys that are loaded");
        if !asked.is_empty() && many.kept.is_none() {
            let got = result.map(|result| result.err().map(|error| *error));
            let panics = matches!(meanwhile, WhileLoading::Panic);
            let expected = (!panics).then_some(Some(REFUSED));
            return expect_eq!(self, got, expected, "a loader of many that makes nothing");
        }
        let landed = self.land_many(&many, traits);
        let got = result.map(|values| ids(&values.expect("no error")));
        let expected: Option<Vec<_>> = landed.map(|landed| {
            let loaded = |key| landed.iter().find(|it| it.0 == key).map(|it| it.1);
            many.found.iter().map(|&(key, found)| found.or_else(|| loaded(key))).collect()
        });
        expect_eq!(self, got, expected, "try_get_many_with");
    }

    /// Inside the loader. Returns the pairs; `None` if it fails.
    fn make_many(
        &mut self,
        many: &mut Many,
        traits: Traits,
        made: ManyMade,
        meanwhile: WhileLoading,
    ) -> Option<Vec<(Key, Value)>> {
        // The last key is the first to be committed: what is written under it now is still there.
        let last = many.asked.last().expect("a loader is asked for keys").0;
        let is_asked = |key| many.asked.iter().any(|(asked, _)| *asked == key);
        let meanwhile = match meanwhile {
            WhileLoading::LoadOther(other, _) if is_asked(other) => WhileLoading::Nothing,
            other => other,
        };
        let kept = match (self.while_loading(last, meanwhile, !made.fails), meanwhile) {
            (true, _) => Kept::All,
            (false, WhileLoading::InvalidateAll) => Kept::None,
            (false, _) => Kept::ButLast,
        };
        if made.fails {
            return None;
        }
        many.kept = Some(kept);
        let extra = made.extra.filter(|key| !is_asked(*key));
        let mut pairs = Vec::new();
        for (nth, (key, id)) in many.asked.iter_mut().enumerate() {
            if made.mask >> (nth % 4) & 1 != 0 {
                let new = self.id();
                *id = Some(new);
                pairs.push((self.reports.key(*key), self.reports.value(new, traits)));
            }
        }
        if let Some(key) = extra {
            let id = self.id();
            many.extra = Some((key, id));
            pairs.push((self.reports.key(key), self.reports.value(id, traits)));
        }
        Some(pairs)
    }

    /// What becomes of the loaded values, the last one first: keys, and the ids that are returned.
    /// `None` if a callback panics.
    fn land_many(&mut self, many: &Many, traits: Traits) -> Option<Vec<(u8, u64)>> {
        let mut landed = Vec::new();
        for (nth, &(key, id)) in many.asked.iter().enumerate().rev() {
            let Some(id) = id else { continue };
            let kept = match many.kept {
                Some(Kept::All) => true,
                Some(Kept::ButLast) => nth + 1 < many.asked.len(),
                Some(Kept::None) | None => false,
            };
            self.oracle.counts.special.of_many += 1;
            landed.push((key, self.loaded(key, id, traits, Term::Policy, kept)?.rec.id));
        }
        match many.extra {
            Some((key, id)) if !self.plan_insert(key, id, traits, Term::Policy) => None,
            _ => Some(landed),
        }
    }
}
