//! Operations that look and change no value: reads in every form, and iteration.

use super::seen::{Handle, Seen};
use super::{Driver, attempt, expect_eq};
use crate::harness::face::Subject;
use crate::harness::oracle::{NEVER, Rec};
use crate::harness::subject::By;
use std::time::Instant;

impl Driver {
    pub(super) fn read(&mut self, key: u8, get: impl FnOnce(&Subject, u8) -> Option<u64>) {
        let expected = self.oracle.read(key);
        let got = attempt(|| get(&self.cache, key));
        expect_eq!(self, got, expected.ok().map(|rec| rec.map(|rec| rec.id)), "a read");
    }

    /// A read that takes the entries that `salt` says, and is told their age.
    pub(super) fn get_if(&mut self, key: u8, salt: u64) {
        let accepts = |id: u64| !(id ^ salt).is_multiple_of(3);
        let now = self.oracle.now;
        let visible = self.oracle.visible(key).map(|rec| (rec.id, rec.age(now)));
        let expected = self.oracle.read_if(key, accepts);
        let mut judged = None;
        let got = attempt(|| {
            self.cache.get_if(&By(key), |value, times| {
                assert_eq!(judged, None, "an entry is judged twice");
                judged = Some((value.id, times.now - times.written));
                accepts(value.id)
            })
        });
        expect_eq!(self, judged, visible, "what is judged");
        let got = got.map(|value| value.map(|value| value.id));
        expect_eq!(self, got, expected.ok().map(|rec| rec.map(|rec| rec.id)), "get_if");
    }

    pub(super) fn get_entry(&mut self, key: u8, keep: bool) {
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

    pub(super) fn check_handle(&self, got: Option<&Handle>, expected: Option<&Rec>, what: &str) {
        let now = self.oracle.now;
        let expected = expected.map(|rec| Seen::expected(rec, now, false));
        expect_eq!(self, got.map(Seen::of), expected, what);
    }

    pub(super) fn check_seen(&mut self, key: u8, seen: Option<Seen>) {
        let now = self.oracle.now;
        let expected = self.oracle.visible(key).map(|rec| Seen::expected(&rec, now, false));
        expect_eq!(self, seen, expected, "peek");
    }

    pub(super) fn keep(&mut self, keep: bool, got: Option<Handle>, rec: Option<Rec>) {
        if let (true, Some(handle), Some(rec)) = (keep && self.kept.len() < 8, got, rec) {
            self.kept.push((handle, rec));
        }
    }

    pub(super) fn expires(&mut self, key: u8) {
        let visible = self.oracle.visible(key);
        let left = visible.map(|rec| rec.left(self.oracle.now));
        expect_eq!(self, self.cache.expires_in(&By(key)).into_options(), left, "expires_in");
        let at = visible.map(|rec| self.announced(rec.deadline));
        expect_eq!(self, self.cache.expires_at(&By(key)).into_options(), at, "expires_at");
    }

    /// A deadline as the interface shows it.
    pub(super) fn announced(&self, deadline: u64) -> Option<Instant> {
        (deadline != NEVER).then(|| self.instant(deadline))
    }

    pub(super) fn iterate(&mut self) {
        let now = self.oracle.now;
        let mut seen: Vec<_> = self.cache.entries().map(|entry| Seen::of(&entry)).collect();
        seen.sort_by_key(|seen| seen.key);
        let expected: Vec<_> =
            self.oracle.all_visible().iter().map(|rec| Seen::expected(rec, now, false)).collect();
        expect_eq!(self, seen, expected, "iter");
        let mut keys: Vec<_> = self.cache.keys().map(|key| key.number).collect();
        keys.sort_unstable();
        expect_eq!(self, keys, expected.iter().map(|seen| seen.key).collect::<Vec<_>>(), "keys");
        let pairs = self.cache.iter().map(|(key, value)| (key.number, value.id));
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        let both: Vec<_> = expected.iter().map(|seen| (seen.key, seen.id)).collect();
        expect_eq!(self, pairs, both, "pairs");
        let mut ids: Vec<_> = self.cache.values().map(|value| value.id).collect();
        let mut expected: Vec<_> = expected.iter().map(|seen| seen.id).collect();
        ids.sort_unstable();
        expected.sort_unstable();
        expect_eq!(self, ids, expected, "values");
    }
    /// The entries that end first, or last. Those that end together may come in any order.
    pub(super) fn in_order(&mut self, latest: bool, limit: usize) {
        let cache = &self.cache;
        let entries =
            if latest { cache.latest_to_expire(limit) } else { cache.soonest_to_expire(limit) };
        let mut expected = self.oracle.all_visible();
        expected.retain(|rec| latest || rec.deadline != NEVER);
        expected.sort_by_key(|rec| if latest { NEVER - rec.deadline } else { rec.deadline });
        expected.truncate(limit);
        let now = self.oracle.now;
        let lives = |rec: &Rec| rec.left(now);
        let seen: Vec<_> = entries.iter().map(|entry| entry.expires_in()).collect();
        expect_eq!(self, seen, expected.iter().map(lives).collect::<Vec<_>>(), "in order");
        for entry in &entries {
            let rec = self.oracle.visible(entry.key().number);
            self.check_handle(Some(entry), rec.as_ref(), "in order");
        }
    }
}
