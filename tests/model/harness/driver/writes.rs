//! Operations that put values in and take them out.

use super::{Driver, attempt, expect_eq};
use crate::harness::case::{Term, Traits};
use crate::harness::subject::By;
use cortado::RemovalCause;

impl Driver {
    pub(super) fn insert(&mut self, key: u8, traits: Traits, term: Term) {
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

    pub(super) fn remove_if(&mut self, key: u8, condition: bool) {
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

    pub(super) fn retain(&mut self, salt: u64) {
        let mut judged = Vec::new();
        let keep = |id: u64| !(id ^ salt).is_multiple_of(3);
        self.cache.retain(|key, value| {
            judged.push((key.number, value.id));
            keep(value.id)
        });
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
}
