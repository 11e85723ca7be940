//! Loads by guards, which are kept over other operations: used, dropped, or overtaken by writes.

use super::loads::term;
use super::seen::Seen;
use super::{Driver, attempt, expect_eq};
use crate::harness::case::Traits;
use crate::harness::subject::{Key, Spread, Value};
use cortado::{LoadGuard, Loaded, TimedOut, future};
use std::time::Duration;

/// A guard that is kept.
pub(super) struct Held {
    guard: LoadGuard<Key, Value, Spread>,
    key: u8,
    /// The key was written, or everything was cleared, since the guard was taken.
    overtaken: bool,
}

/// So many are kept at most.
const MOST: usize = 4;

impl Driver {
    /// Whether a load of the key would wait for a guard: for ever, on this thread.
    pub(super) fn is_blocked(&self, key: u8) -> bool {
        self.guards.iter().any(|held| held.key == key && !held.overtaken)
    }

    pub(super) fn has_guards(&self) -> bool {
        !self.guards.is_empty()
    }

    /// A write of the key has taken effect.
    pub(super) fn overtake(&mut self, key: u8) {
        self.guards.iter_mut().filter(|held| held.key == key).for_each(|it| it.overtaken = true);
    }

    pub(super) fn overtake_all(&mut self) {
        self.guards.iter_mut().for_each(|held| held.overtaken = true);
    }

    /// Looks up a key whose load a guard has: that does not wait, and gets nothing.
    pub(super) fn times_out(&mut self, key: u8) {
        let found = self.oracle.read(key);
        assert!(matches!(found, Ok(None)), "operation {}: a guard for {found:?}", self.number);
        let k = self.reports.key(key);
        let asking = async |cache: &future::Cache<_, _, _>| cache.get_value_or_guard(&k).await;
        let result = self.cache.within(Duration::ZERO, asking);
        self.oracle.counts.special.timeouts += 1;
        let timed_out = matches!(result, Err(TimedOut));
        assert!(timed_out, "operation {}: the guard of key {key} blocks no load", self.number);
    }

    pub(super) fn take_guard(&mut self, key: u8) {
        if self.is_blocked(key) {
            return self.times_out(key);
        }
        let found = self.oracle.read(key);
        let (k, cache) = (self.reports.key(key), self.cache.clone());
        match (attempt(|| cache.get_value_or_guard(&k)), found) {
            (None, Err(_)) => {}
            (Some(Ok(value)), Ok(Some(rec))) => {
                expect_eq!(self, value.id, rec.id, "get_value_or_guard");
            }
            (Some(Err(guard)), Ok(None)) => {
                assert_eq!(guard.key().number, key);
                self.guards.push(Held { guard, key, overtaken: false });
                if self.guards.len() > MOST {
                    self.give_up(0);
                }
            }
            (got, found) => panic!("operation {}: {found:?}, but {got:?}", self.number),
        }
    }

    pub(super) fn use_guard(&mut self, nth: u8, traits: Traits, life: Option<Duration>) {
        if self.guards.is_empty() {
            return;
        }
        let Held { guard, key, overtaken } =
            self.guards.remove(usize::from(nth) % self.guards.len());
        let id = self.id();
        let value = self.reports.value(id, traits);
        let expected = self.loaded(key, id, traits, term(life), !overtaken);
        self.oracle.counts.loads += 1;
        self.oracle.counts.special.guards += 1;
        self.oracle.counts.special.overtaken += u64::from(overtaken);
        let entry = attempt(|| match life {
            None => guard.insert(value),
            Some(life) => guard.insert(Loaded::with_ttl(value, life)),
        });
        let expected =
            expected.map(|landed| Seen::expected(&landed.rec, self.oracle.now, landed.fresh));
        expect_eq!(self, entry.as_ref().map(Seen::of), expected, "a guard");
    }

    pub(super) fn drop_guard(&mut self, nth: u8) {
        if self.has_guards() {
            self.give_up(usize::from(nth) % self.guards.len());
        }
    }

    fn give_up(&mut self, nth: usize) {
        self.oracle.counts.load_failures += 1;
        drop(self.guards.remove(nth));
    }
}
