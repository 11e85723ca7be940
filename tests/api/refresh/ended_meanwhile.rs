//! The call that runs a reload looks at the entry again when the loader has made nothing: by then
//! the entry may have ended, or another operation may have taken it out.

use super::bench::{Bench, HARD, SOFT};
use super::inline::stale;
use crate::common::audited::loading_audited;
use cortado::{
    Builder, Cache, Clock, LoadError, LoadLimits, Loaded, Loader, ManualClock, Reloaded,
    RemovalCause,
};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What happens to the entry while the loader works, in another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amid {
    Nothing,
    Deadline,
    Invalidation,
    Clearing,
    Write,
}

const ENDS: [Amid; 3] = [Amid::Deadline, Amid::Invalidation, Amid::Clearing];

/// Does it to the key 7.
fn meanwhile(amid: Amid, cache: &Cache<u32, u32>, advance: &dyn Fn()) {
    let cache = cache.clone();
    match amid {
        Amid::Nothing => {}
        Amid::Deadline => advance(),
        Amid::Invalidation => thread::spawn(move || cache.invalidate(&7)).join().unwrap(),
        Amid::Clearing => thread::spawn(move || cache.invalidate_all()).join().unwrap(),
        Amid::Write => thread::spawn(move || cache.insert(7, 50)).join().unwrap(),
    }
}

type Get = fn(&Bench) -> u32;

/// The calls that return what the stored loader makes.
const GETS: [(&str, Get); 3] = [
    ("get", |b| b.cache.get(&7).unwrap()),
    ("get_entry", |b| *b.cache.get_entry(&7).unwrap()),
    ("get_within", |b| {
        let limits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };
        b.cache.get_within(&7, limits).unwrap()
    }),
];

/// A stale entry, and what happens during the reload.
fn stale_until(amid: Amid) -> Bench {
    let b = stale();
    let (cache, hand) = (b.cache.cache().clone(), b.hand.clone());
    let act = move || meanwhile(amid, &cache, &|| hand.advance(HARD));
    *b.upstream.1.lock().unwrap() = Some(Box::new(act));
    b
}

#[test]
fn an_entry_that_ends_while_its_reload_makes_nothing_is_loaded() {
    for (name, get) in GETS {
        for amid in ENDS {
            for plan in [Err("down"), Err("panic"), Ok(Reloaded::not_modified())] {
                let b = stale_until(amid);
                b.plan(plan);
                assert_eq!(get(&b), 2, "{name}, {amid:?}, {plan:?}");
                assert_eq!(b.asked(), [(7, Some(1)), (7, None)], "{name}, {amid:?}, {plan:?}");
                let cause = match amid {
                    Amid::Deadline => RemovalCause::Expired,
                    _ => RemovalCause::Explicit,
                };
                assert_eq!(b.told(), [(7, 1, cause)], "{name}, {amid:?}, {plan:?}");
            }
        }
    }
}

#[test]
fn otherwise_a_reload_that_makes_nothing_returns_what_is_there() {
    for (name, get) in GETS {
        for (amid, left) in [(Amid::Nothing, 1), (Amid::Write, 50)] {
            for plan in [Err("down"), Err("panic"), Ok(Reloaded::not_modified())] {
                let b = stale_until(amid);
                b.plan(plan);
                assert_eq!((get(&b), b.asked()), (left, vec![(7, Some(1))]), "{name}, {amid:?}");
            }
        }
    }
}

/// The same as that of a key that never had a value.
#[test]
fn a_value_that_is_gone_is_loaded() {
    for (name, get) in GETS {
        let b = stale();
        b.plan(Ok(Reloaded::gone()));
        assert_eq!((get(&b), b.asked()), (2, vec![(7, Some(1)), (7, None)]), "{name}");
        assert_eq!(b.told(), [(7, 1, RemovalCause::Explicit)], "{name}");
        assert_eq!(b.cache.stats().reloads, 1, "{name}");
    }
}

#[test]
fn the_call_gets_the_error_of_the_load() {
    let (clock, hand) = Clock::manual();
    let works = hand.clone();
    let builder = Cache::builder().time_to_live(HARD).refresh_after_write(SOFT);
    let load = move |_: u32| {
        works.advance(HARD);
        Err::<Loaded<u32>, _>("down")
    };
    let cache = loading_audited(
        builder.executor(|job: cortado::Job| job()).clock(clock).build_with_loader(load),
    );
    let stale = || {
        cache.insert(7, 1);
        hand.advance(SOFT);
    };
    stale();
    assert_eq!(cache.get(&7), Err(Arc::new("down")));
    stale();
    assert_eq!(cache.get_entry(&7).map(|entry| *entry), Err(Arc::new("down")));
    stale();
    let limits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };
    assert_eq!(cache.get_within(&7, limits), Err(LoadError::Failed(Arc::new("down"))));
}

#[test]
fn the_entry_tells_that_the_call_has_made_it() {
    let facts = |b: &Bench| {
        let entry = b.cache.get_entry(&7).unwrap();
        (*entry, entry.is_fresh(), entry.is_old_value_replaced(), entry.age())
    };
    let b = stale();
    assert_eq!(facts(&b), (2, true, true, Duration::ZERO));
    assert_eq!(facts(&b), (2, false, false, Duration::ZERO));
    let b = stale();
    b.plan(Ok(Reloaded::not_modified()));
    assert_eq!(facts(&b), (1, false, false, Duration::ZERO));
    let b = stale();
    b.plan(Err("down"));
    assert_eq!(facts(&b), (1, false, false, SOFT));
    let b = stale_until(Amid::Write);
    assert_eq!(facts(&b), (50, false, false, Duration::ZERO));
    // A new entry, since the old one has ended.
    let b = stale_until(Amid::Deadline);
    assert_eq!(facts(&b), (2, true, false, Duration::ZERO));
}

fn builder() -> Builder<u32, u32> {
    Cache::builder()
        .time_to_live(HARD)
        .refresh_after_write(SOFT)
        .executor(|job: cortado::Job| job())
}

/// A clock that passes the hard deadline at its nth reading from [`arm`](Self::arm) on.
#[derive(Clone, Default)]
struct Jumping(Arc<AtomicU64>, Arc<AtomicI64>);

impl Jumping {
    fn clock(&self) -> Clock {
        let Self(now, left) = self.clone();
        Clock::custom(move || {
            if left.fetch_sub(1, SeqCst) == 1 {
                now.fetch_add(HARD.as_secs(), SeqCst);
            }
            Duration::from_secs(now.load(SeqCst))
        })
    }

    /// Makes what is there stale.
    fn arm(&self, nth: i64) {
        self.0.fetch_add(SOFT.as_secs(), SeqCst);
        self.1.store(nth, SeqCst);
    }
}

/// Whether it ends before the read, before the reload begins, or later: the loader runs once.
#[test]
fn an_entry_that_ends_before_its_reload_begins_is_loaded() {
    for nth in 1..16 {
        let time = Jumping::default();
        let load = |_: u32| Ok::<_, ()>(Loaded::new(2));
        let cache = loading_audited(builder().clock(time.clock()).build_with_loader(load));
        cache.insert(7, 1);
        time.arm(nth);
        assert_eq!(cache.get(&7), Ok(2), "reading {nth}");
        cache.insert(7, 1);
        time.arm(nth);
        assert_eq!(cache.get_entry(&7).map(|entry| *entry), Ok(2), "reading {nth}");
    }
}

/// Whether or not maintenance has met the ended entry. (The loader says "gone".)
#[test]
fn an_entry_that_ended_before_it_was_gone_counts_nowhere() {
    for maintained in [false, true] {
        let (clock, hand) = Clock::manual();
        let itself = Arc::new(Mutex::new(None::<Cache<u32, u32>>));
        let of_loader = Arc::clone(&itself);
        let builder = Cache::builder().time_to_live(HARD).refresh_after_write(SOFT);
        let builder = builder.executor(|job: cortado::Job| job()).clock(clock);
        let cache = loading_audited(builder.build_with_loader(Gone(hand.clone(), of_loader)));
        cache.insert(7, 1);
        hand.advance(SOFT);
        *itself.lock().unwrap() = maintained.then(|| cache.cache().clone());
        assert_eq!(cache.cache().get(&7), Some(1));
        let stats = cache.stats();
        assert_eq!((stats.reloads, stats.reload_failures), (0, 0), "{maintained}");
        drop(itself.lock().unwrap().take());
    }
}

/// A reload says "gone" after the entry has ended.
struct Gone(ManualClock, Arc<Mutex<Option<Cache<u32, u32>>>>);

impl Loader<u32, u32> for Gone {
    type Error = ();

    fn load(&self, _: &u32) -> Result<Loaded<u32>, ()> {
        Err(())
    }

    fn reload(&self, _: &u32, _: &u32) -> Result<Reloaded<u32>, ()> {
        self.0.advance(HARD);
        self.1.lock().unwrap().iter().for_each(|cache| cache.run_pending_tasks());
        Ok(Reloaded::gone())
    }
}

/// A change of a lifetime that finds no living entry overtakes nothing, whether or not maintenance
/// has met the ended one.
#[test]
fn a_lifetime_of_nothing_overtakes_no_reload() {
    for (ttl, maintained) in [(SOFT, false), (Duration::ZERO, false), (Duration::ZERO, true)] {
        let b = stale();
        let (cache, hand) = (b.cache.cache().clone(), b.hand.clone());
        *b.upstream.1.lock().unwrap() = Some(Box::new(move || {
            hand.advance(HARD);
            if maintained {
                cache.run_pending_tasks();
            }
            assert!(!cache.set_ttl(&7, ttl));
        }));
        assert_eq!(b.cache.get(&7), Ok(2), "{ttl:?} {maintained}");
        assert_eq!(b.cache.cache().get(&7), Some(2), "{ttl:?} {maintained}");
    }
}
