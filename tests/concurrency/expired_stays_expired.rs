//! What somebody has seen expired stays expired, whoever has an older reading of the clock in the
//! hand: a thread that is preempted between the reading and what is done by it. Here the reading
//! itself runs what others do meanwhile, so all of it happens at any place where an operation reads
//! the clock.

use crate::common::amid::{amid, clock, set_now};
use crate::common::audited::{Audited, audited};
use crate::common::must_end;
use cortado::{Cache, Expiry, Op};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How long entries live, and when key 1 ends.
const LIFE: u64 = 1000;
const BEFORE: u64 = LIFE - 1;
const KEY: u64 = 1;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What gives key 1 its life, and what prolongs it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lives {
    Idle,
    Policy,
    Plain,
}

#[derive(Clone)]
struct Hooks {
    lives: Lives,
    /// Creations and updates by the value 8, and loads of 9, of which they were asked.
    asks: Arc<[AtomicU64; 3]>,
}

impl Hooks {
    fn ask(&self, which: usize, value: u64) -> Option<Duration> {
        match value {
            8 => self.asks[which].fetch_add(1, SeqCst),
            9 => self.asks[2].fetch_add(1, SeqCst),
            _ => 0,
        };
        (self.lives != Lives::Idle).then_some(millis(LIFE))
    }
}

impl Expiry<u64, u64> for Hooks {
    fn expire_after_create(&self, _: &u64, value: &u64, _: Instant) -> Option<Duration> {
        self.ask(0, *value)
    }

    fn expire_after_update(
        &self,
        _: &u64,
        value: &u64,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.ask(1, *value)
    }
}

/// With a read hook as well.
struct Reading(Hooks);

impl Expiry<u64, u64> for Reading {
    fn expire_after_create(&self, key: &u64, value: &u64, now: Instant) -> Option<Duration> {
        self.0.expire_after_create(key, value, now)
    }

    fn expire_after_update(
        &self,
        key: &u64,
        value: &u64,
        now: Instant,
        left: Option<Duration>,
    ) -> Option<Duration> {
        self.0.expire_after_update(key, value, now, left)
    }

    fn expire_after_read(
        &self,
        _: &u64,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(millis(LIFE))
    }
}

type Numbers = Cache<u64, u64>;

/// With key 1 at 7, to the end of whose life a millisecond is left.
fn cache(lives: Lives) -> (Audited<u64, u64>, Hooks) {
    set_now(Duration::ZERO);
    let hooks = Hooks { lives, asks: Arc::default() };
    let builder = Cache::builder().clock(clock());
    let builder = match lives {
        Lives::Idle => builder.expire_after(hooks.clone()).time_to_idle(millis(LIFE)),
        Lives::Policy => builder.expire_after(Reading(hooks.clone())),
        Lives::Plain => builder.expire_after(hooks.clone()),
    };
    let cache = audited(builder.build());
    cache.insert(KEY, 7);
    // By this it is known which hooks are the trait's default.
    assert_eq!(cache.get(&KEY), Some(7));
    set_now(millis(BEFORE));
    (cache, hooks)
}

/// The answer of those that tell no value.
const HIT: u64 = 0;

/// What makes a life longer. It says what it has found.
type Prolong = fn(&Numbers) -> Option<u64>;

const PROLONGERS: [(&str, Lives, Prolong); 10] = [
    ("get, idle", Lives::Idle, |cache| cache.get(&KEY)),
    ("touch, idle", Lives::Idle, |cache| cache.touch(&KEY).then_some(HIT)),
    ("view, idle", Lives::Idle, |cache| cache.pin().get(&KEY).copied()),
    ("load, idle", Lives::Idle, |cache| Some(cache.get_with(KEY, || 9))),
    ("get, policy", Lives::Policy, |cache| cache.get(&KEY)),
    ("touch, policy", Lives::Policy, |cache| cache.touch(&KEY).then_some(HIT)),
    ("set_ttl, idle", Lives::Idle, |cache| cache.set_ttl(&KEY, millis(9 * LIFE)).then_some(HIT)),
    ("set_ttl", Lives::Plain, |cache| cache.set_ttl(&KEY, millis(9 * LIFE)).then_some(HIT)),
    ("persist", Lives::Plain, |cache| cache.persist(&KEY).then_some(HIT)),
    ("persist, policy", Lives::Policy, |cache| cache.persist(&KEY).then_some(HIT)),
];

/// What looks whether the entry lives. It says whether it does, and what is there afterwards if it
/// did not.
type Observe = fn(&Numbers, &Hooks) -> (bool, Option<u64>);

/// Whether it lived, for those who change nothing.
const fn only(lived: bool) -> (bool, Option<u64>) {
    (lived, None)
}

const OBSERVERS: [(&str, Observe); 19] = [
    ("get", |cache, _| only(cache.get(&KEY).is_some())),
    ("get_entry", |cache, _| only(cache.get_entry(&KEY).is_some())),
    ("view", |cache, _| only(cache.pin().get(&KEY).is_some())),
    ("touch", |cache, _| only(cache.touch(&KEY))),
    ("peek", |cache, _| only(cache.peek(&KEY).is_some())),
    ("contains_key", |cache, _| only(cache.contains_key(&KEY))),
    ("iter", |cache, _| only(cache.entries().next().is_some())),
    ("expires_in", |cache, _| only(cache.expires_in(&KEY).into_options().is_some())),
    ("expires_at", |cache, _| only(cache.expires_at(&KEY).into_options().is_some())),
    ("set_ttl", |cache, _| only(cache.set_ttl(&KEY, millis(LIFE)))),
    ("persist", |cache, _| only(cache.persist(&KEY))),
    ("remove", |cache, _| only(cache.remove(&KEY).is_some())),
    ("remove_if", |cache, _| {
        let asked = Cell::new(false);
        let condition = |_: &u64, _: &u64| {
            asked.set(true);
            false
        };
        assert_eq!(cache.remove_if(&KEY, condition), None);
        only(asked.get())
    }),
    ("retain", |cache, _| {
        let mut asked = false;
        cache.retain(|_, _| {
            asked = true;
            true
        });
        only(asked)
    }),
    ("computation", |cache, _| {
        let mut lived = false;
        cache.entry(KEY).and_compute_with(|entry| {
            lived = entry.is_some();
            assert_eq!(cache.contains_key(&KEY), lived, "inside of the computation");
            Op::Nop
        });
        only(lived)
    }),
    ("computed value", |cache, _| {
        let mut lived = false;
        cache.entry(KEY).and_compute_with(|entry| {
            lived = entry.is_some();
            Op::Put(8)
        });
        (lived, Some(8))
    }),
    ("insert", |cache, hooks| {
        cache.insert(KEY, 8);
        let [creates, updates, loads] = [0, 1, 2].map(|n| hooks.asks[n].load(SeqCst));
        // Once, or once more if there was another entry by then.
        assert!(
            (1..=1 + loads).contains(&(creates + updates)),
            "created {creates}, updated {updates}"
        );
        (updates == 1, Some(8))
    }),
    ("load", |cache, _| (cache.get_with(KEY, || 8) == 7, Some(8))),
    ("maintenance", |cache, _| {
        cache.run_pending_tasks();
        only(cache.entry_count() == 1)
    }),
];

/// Whoever was first: the entry cannot have been prolonged in time and be seen expired.
fn check(
    cache: &Numbers,
    what: &str,
    (lived, later): (bool, Option<u64>),
    prolonged: Option<u64>,
    told: bool,
) {
    if lived {
        return;
    }
    // A hook that was told of the read makes it a hit, if the entry was removed just then.
    let is_old = prolonged == Some(7) || (prolonged == Some(HIT) && later.is_none());
    assert!(told || !is_old, "{what}: prolonged, and seen expired");
    // A load that came later, if nothing else did.
    let there = if prolonged == Some(9) { prolonged } else { later };
    // Also for those whose reading is older still.
    for now in [LIFE, LIFE + 1, BEFORE, 1, LIFE] {
        set_now(millis(now));
        assert_eq!(cache.peek(&KEY).map(|entry| *entry), there, "{what}: peek at {now}");
        assert_eq!(cache.contains_key(&KEY), there.is_some(), "{what}: at {now}");
        assert_eq!(cache.entries().map(|entry| *entry).next(), there, "{what}: iter at {now}");
        assert_eq!(
            cache.expires_in(&KEY).into_options().is_some(),
            there.is_some(),
            "{what}: life at {now}"
        );
        assert_eq!(cache.get(&KEY), there, "{what}: get at {now}");
    }
}

/// Runs the table. The case says whether the entry was seen expired; `None` if the clock is not
/// read so often.
fn all(case: impl Fn(u32, usize, usize) -> Option<bool> + Send + 'static) {
    must_end(move || {
        for prolonger in 0..PROLONGERS.len() {
            for observer in 0..OBSERVERS.len() {
                let outcomes = (1..20).map_while(|nth| case(nth, prolonger, observer));
                let outcomes: Vec<bool> = outcomes.collect();
                assert!(!outcomes.is_empty(), "{prolonger}, {observer}: the clock is not read");
            }
        }
    });
}

#[test]
fn what_was_seen_expired_is_not_prolonged_by_an_older_reading() {
    all(|nth, prolonger, observer| {
        let ((outer, lives, prolong), (inner, observe)) =
            (PROLONGERS[prolonger], OBSERVERS[observer]);
        let (cache, hooks) = cache(lives);
        let other = (*cache).clone();
        let meanwhile = move || {
            set_now(millis(LIFE));
            observe(&other, &hooks)
        };
        let (prolonged, observed) = amid(nth, meanwhile, || prolong(&cache))?;
        let what = format!("{inner} in reading {nth} of {outer}");
        if let Some(observed) = observed {
            check(&cache, &what, observed, prolonged, lives == Lives::Policy);
        }
        Some(observed.is_some_and(|(lived, _)| !lived))
    });
}

#[test]
fn what_an_older_reading_has_prolonged_is_not_seen_expired() {
    all(|nth, prolonger, observer| {
        let ((inner, lives, prolong), (outer, observe)) =
            (PROLONGERS[prolonger], OBSERVERS[observer]);
        let (cache, hooks) = cache(lives);
        set_now(millis(LIFE));
        let other = (*cache).clone();
        let meanwhile = move || {
            set_now(millis(BEFORE));
            let prolonged = prolong(&other);
            set_now(millis(LIFE));
            prolonged
        };
        let (observed, prolonged) = amid(nth, meanwhile, || observe(&cache, &hooks))?;
        let what = format!("{inner} in reading {nth} of {outer}");
        check(&cache, &what, observed, prolonged.flatten(), false);
        Some(!observed.0)
    });
}
