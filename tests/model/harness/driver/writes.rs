//! Operations that put values in and take them out.

use super::{Driver, attempt, expect_eq};
use crate::harness::case::{Term, Traits};
use crate::harness::oracle::Rec;
use crate::harness::subject::{By, Key, Value};
use cortado::RemovalCause;

impl Driver {
    pub(super) fn insert(&mut self, key: u8, traits: Traits, term: Term) {
        let id = self.id();
        let planned = self.plan_insert(key, id, traits, term);
        let (k, value) = (self.reports.key(key), self.reports.value(id, traits));
        let done = attempt(|| match term {
            Term::Policy => self.cache.insert(k, value),
            Term::For(ttl) => self.cache.insert_with_ttl(k, value, ttl),
            Term::Until(shift) => self.cache.insert_until(k, value, self.until(shift).1),
        });
        self.oracle.counts.panics += u64::from(!planned);
        expect_eq!(self, done.is_some(), planned, "insert happens");
    }

    /// What the model has after an insert. False if a callback panics.
    pub(super) fn plan_insert(&mut self, key: u8, id: u64, traits: Traits, term: Term) -> bool {
        let Ok(rec) = self.oracle.plan(key, id, traits, term) else { return false };
        self.overtake(key);
        self.oracle.put(rec);
        true
    }

    /// The removal of a key, whether or not it has an entry.
    pub(super) fn plan_removal(&mut self, key: u8) -> Option<Rec> {
        self.overtake(key);
        self.oracle.remove(key, true)
    }

    pub(super) fn remove_if(&mut self, key: u8, condition: bool) {
        let visible = self.oracle.visible(key).map(|rec| rec.id);
        self.overtake(key);
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

    /// By `retain` or by its opposite.
    pub(super) fn retain(&mut self, salt: u64, opposite: bool) {
        let mut judged = Vec::new();
        let keep = |id: u64| !(id ^ salt).is_multiple_of(3);
        let mut keeps = |key: &Key, value: &Value| {
            judged.push((key.number, value.id));
            keep(value.id)
        };
        if opposite {
            let result = self.cache.invalidate_entries_if(|key, value| !keeps(key, value));
            assert!(result.is_ok());
        } else {
            self.cache.retain(keeps);
        }
        // It has found what has ended.
        let _ = self.oracle.all_visible();
        for (key, id) in judged {
            let there = self.oracle.visible(key).map(|rec| rec.id);
            expect_eq!(self, Some(id), there, "retain judges each living entry once");
            if !keep(id) {
                self.oracle.leave(key, RemovalCause::Explicit);
            }
        }
    }
    /// Takes up to so many entries out.
    pub(super) fn drain(&mut self, limit: usize) {
        let cache = self.cache.clone();
        let mut drained = 0;
        let taken = cache.entries().filter_map(|entry| cache.remove_entry(&By(entry.key().number)));
        for entry in taken.take(limit) {
            let key = entry.key().number;
            let expected = self.oracle.remove(key, true);
            self.check_handle(Some(&entry), expected.as_ref(), "a drain");
            self.settle();
            drained += 1;
            self.oracle.counts.special.drained += 1;
        }
        // It has found what has ended, or this does.
        self.iterate();
        let rest = self.oracle.all_visible().len();
        let complete = drained == limit || rest == 0;
        assert!(complete, "operation {}: a drain of {drained} leaves {rest}", self.number);
    }
}
