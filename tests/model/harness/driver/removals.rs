//! What hooks and listener have reported, held against what they should have. What the cache
//! chooses for itself (evictions, when it removes what has expired) is learnt here, if it may.

use super::{Driver, expect_eq};
use crate::harness::oracle::Leaving;
use crate::harness::subject::{By, Call, Key, Value};
use cortado::{RemovalCause, Removed};
use std::time::Duration;

impl Driver {
    /// Compares what hooks and listener have reported with what they should have.
    pub(super) fn settle(&mut self) {
        let calls = std::mem::take(&mut *self.reports.calls.lock().unwrap());
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
        if self.nested > 0 {
            self.deliver_elsewhere();
        }
        let removed = std::mem::take(&mut *self.reports.removed.lock().unwrap());
        if self.oracle.config.listens_twice {
            let again = std::mem::take(&mut *self.reports.again.lock().unwrap());
            let told = removed.iter().map(|it| (it.key().number, it.value().id, it.cause()));
            expect_eq!(self, again, told.collect::<Vec<_>>(), "the second listener");
        }
        for removed in &removed {
            self.announced_removal(removed);
        }
        let missing = &self.oracle.leaving;
        assert!(missing.is_empty(), "operation {}: unannounced: {missing:?}", self.number as isize);
    }

    /// Inside a load or a computation nothing is delivered on this thread. Another one does it in
    /// passing, by an operation on a key that is never there.
    fn deliver_elsewhere(&self) {
        let cache = &self.cache;
        if cache.stats().pending_notifications == 0 {
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while cache.stats().pending_notifications > 0 {
                    cache.invalidate(&By(u8::MAX));
                }
            });
        });
    }

    pub(super) fn announced_removal(&mut self, removed: &Removed<Key, Value>) {
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
    pub(super) fn chosen(&mut self, id: u64, key: u8, cause: RemovalCause) -> Leaving {
        let (now, number) = (self.oracle.now, self.number as isize);
        let rec = self.oracle.at(key).copied().filter(|rec| rec.id == id).unwrap_or_else(|| {
            panic!("operation {number}: value {id} of key {key} left ({cause:?}), but is not there")
        });
        let capacity = self.oracle.config.max_capacity.unwrap_or(u64::MAX);
        let allowed = if rec.cleared {
            cause == RemovalCause::Explicit
        } else if rec.claimed || rec.deadline <= now {
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
        Leaving { rec, cause, at: self.oracle.left_at(&rec, cause), was_inside: true }
    }
}
