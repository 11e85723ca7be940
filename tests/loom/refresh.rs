//! Loom models of reloads: of one entry, against what overtakes them and against its end.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `reload_vs_insert` | a write during a reload stays, and each value leaves once | `loads-land-overtaken` |
//! | `reload_vs_remove` | what was removed is not brought back | `loads-land-overtaken` |
//! | `reload_vs_invalidate_all` | nor what was cleared | `loads-land-overtaken` |
//! | `reload_vs_expiry` | of a reload that prolongs a life and the expirer exactly one wins | `expirer-ignores-extensions` |
//! | `read_vs_read` | one of two readers triggers a reload | `every-read-reloads` |
//! | `reload_vs_make_stale` | what a call makes stale during a reload is stale after it | `stale-spares-reloads` |
//! | `load_vs_make_all_stale` | what a load brings meanwhile is stale, too, or is not kept | `stale-misses-loads` |
//! | `reload_vs_idle_read` | a read's idle time outlives the value that was read | `reloads-read-the-end-once` |
//! | `reload_vs_hooked_read` | the same where a read hook is asked | `gone-is-a-hit` |
//! | `wait_vs_insert` | who waits for a reload sees a value that is inserted meanwhile | `key-waits-are-not-woken` |
//! | `wait_vs_reload` | who waits for a reload wakes at its end | `key-waits-are-not-woken` |
//!
//! The entry has the value 1, is stale at 10 s and ends at 100 s; its reload brings the value 2.

use crate::support::engine_world::{Ledger, Plain, Store, Value, finish, model, race};
use cortado::{
    Builder, Expiry, Job, LoadLimits, Loaded, Loader, LoadingCache, Reloaded, RemovalCause,
};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

struct Upstream {
    ledger: &'static Ledger,
    prolongs: bool,
    asked: Arc<AtomicUsize>,
}

impl Loader<u8, Value> for Upstream {
    type Error = ();

    fn load(&self, _: &u8) -> Result<Loaded<Value>, ()> {
        let before = self.asked.fetch_add(1, Relaxed);
        Ok(Loaded::new(self.ledger.value(before as u8 + 1)))
    }

    fn reload(&self, _: &u8, old: &Value) -> Result<Reloaded<Value>, ()> {
        assert!(self.prolongs || old.number() == 1);
        self.asked.fetch_add(1, Relaxed);
        if self.prolongs {
            return Ok(Reloaded::not_modified());
        }
        Ok(Reloaded::new(self.ledger.value(2)))
    }
}

struct World {
    ledger: &'static Ledger,
    cache: LoadingCache<u8, Value, (), Plain>,
    asked: Arc<AtomicUsize>,
}

impl World {
    /// The cache, with the entry, at 20 s.
    fn new(prolongs: bool) -> Self {
        let world = Self::empty(prolongs);
        world.cache.insert(1, world.ledger.value(1));
        world.cache.run_pending_tasks();
        world.ledger.set_seconds(20);
        world
    }

    fn empty(prolongs: bool) -> Self {
        let ledger = Ledger::new();
        let asked = Arc::default();
        let upstream = Upstream { ledger, prolongs, asked: Arc::clone(&asked) };
        let builder: Builder<u8, Value> = ledger.listening_builder();
        let cache = builder
            .time_to_live(100 * SECOND)
            .refresh_after_write(10 * SECOND)
            .executor(|job: cortado::Job| job())
            .try_build_with_loader(upstream, Plain)
            .unwrap();
        Self { ledger, cache, asked }
    }

    /// Races a read that reloads against something else. Returns the value that is there at last.
    fn race(&self, other: impl FnOnce(&Store) + Send + 'static) -> Option<u8> {
        let cache = self.cache.cache().clone();
        race(
            || {
                let found = self.cache.cache().get_entry(&1);
                assert!(found.is_none_or(|found| matches!(found.number(), 1 | 3)));
            },
            [Box::new(move || other(&cache))],
        );
        self.cache.cache().peek(&1).map(|entry| entry.number())
    }

    fn settle(self, last: u8) {
        self.ledger.settle(self.cache.cache(), last);
    }
}

#[test]
fn reload_vs_insert() {
    model(|| {
        let world = World::new(false);
        let ledger = world.ledger;
        let last = world.race(move |cache| cache.insert(1, ledger.value(3)));
        assert_eq!(last, Some(3));
        // The value 2 was inside only if the insert came after it.
        if let Some(cause) = ledger.cause(2) {
            assert_eq!(cause, RemovalCause::Replaced);
        }
        assert_eq!(ledger.cause(1), Some(RemovalCause::Replaced));
        finish(world.cache.cache());
    });
}

#[test]
fn reload_vs_remove() {
    model(|| {
        let world = World::new(false);
        assert_eq!(world.race(|cache| cache.invalidate(&1)), None);
        finish(world.cache.cache());
    });
}

#[test]
fn reload_vs_invalidate_all() {
    model(|| {
        let world = World::new(false);
        assert_eq!(world.race(|cache| cache.invalidate_all()), None);
        finish(world.cache.cache());
    });
}

#[test]
fn reload_vs_expiry() {
    model(|| {
        let world = World::new(true);
        let ledger = world.ledger;
        let last = world.race(move |cache| {
            ledger.set_seconds(110);
            cache.run_pending_tasks_up_to(8);
        });
        let (asked, reloads) = (world.asked.load(Relaxed), world.cache.stats().reloads);
        if (asked, reloads) == (1, 1) {
            assert_eq!(last, Some(1), "prolonged and gone: {:?}", ledger.notices());
        } else {
            assert_eq!(last, None);
        }
        world.settle(1);
    });
}

#[test]
fn read_vs_read() {
    model(|| {
        let world = World::new(true);
        let last = world.race(|cache| {
            assert_eq!(cache.get_entry(&1).map(|entry| entry.number()), Some(1));
        });
        assert_eq!((last, world.asked.load(Relaxed)), (Some(1), 1));
        world.settle(1);
    });
}

#[test]
fn reload_vs_make_stale() {
    model(|| {
        let world = World::new(true);
        let (asked, had_begun) = (Arc::clone(&world.asked), Arc::new(AtomicUsize::new(0)));
        let told = Arc::clone(&had_begun);
        let last = world.race(move |cache| {
            told.store(asked.load(Relaxed), Relaxed);
            assert!(cache.make_stale(&1));
        });
        assert_eq!(last, Some(1));
        // If the entry is not stale, it was reloaded after the call.
        assert!(world.cache.cache().get_entry(&1).is_some());
        assert!(world.asked.load(Relaxed) > had_begun.load(Relaxed), "it is fresh");
        world.settle(1);
    });
}

/// The load brings an entry that the walk may not meet.
#[test]
fn load_vs_make_all_stale() {
    model(|| {
        let world = World::empty(true);
        let (asked, had_begun) = (Arc::clone(&world.asked), Arc::new(AtomicUsize::new(0)));
        let told = Arc::clone(&had_begun);
        let cache = world.cache.cache().clone();
        race(
            || assert!(world.cache.get_entry(&1).is_ok_and(|entry| entry.number() == 1)),
            [Box::new(move || {
                told.store(asked.load(Relaxed), Relaxed);
                cache.make_all_stale();
            })],
        );
        assert!(world.cache.get_entry(&1).is_ok());
        assert!(world.asked.load(Relaxed) > had_begun.load(Relaxed), "it is fresh");
        finish(world.cache.cache());
    });
}

/// A read hook of the user's that changes nothing.
struct Leaves;

impl Expiry<u8, Value> for Leaves {
    fn expire_after_create(&self, _: &u8, _: &Value, _: Instant) -> Option<Duration> {
        None
    }

    fn expire_after_read(
        &self,
        _: &u8,
        _: &Value,
        _: Instant,
        current: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        current
    }
}

/// The reload replaces the value that the reader has found, and the life goes on from the read.
fn idle_time_goes_on(ledger: &'static Ledger, builder: Builder<u8, Value>) {
    let cache = builder
        .time_to_idle(100 * SECOND)
        .executor(|job: cortado::Job| job())
        .try_build_with_loader(Upstream { ledger, prolongs: false, asked: Arc::default() }, Plain)
        .unwrap();
    cache.insert(1, ledger.value(1));
    cache.run_pending_tasks();
    ledger.set_seconds(20);
    let reader = cache.cache().clone();
    race(
        || assert!(cache.refresh(&1)),
        [Box::new(move || assert!(reader.get_entry(&1).is_some()))],
    );
    assert_eq!(cache.cache().peek(&1).map(|entry| entry.number()), Some(2));
    assert_eq!(cache.cache().expires_in(&1).into_options(), Some(Some(100 * SECOND)));
    finish(cache.cache());
}

#[test]
fn reload_vs_idle_read() {
    model(|| {
        let ledger = Ledger::new();
        idle_time_goes_on(ledger, ledger.builder());
    });
}

/// The hook is asked about the old value, and again about the new one if that has come meanwhile.
#[test]
fn reload_vs_hooked_read() {
    model(|| {
        let ledger = Ledger::new();
        idle_time_goes_on(ledger, ledger.builder().expire_after(Leaves));
    });
}

/// A thread waits for the reload, whose job another one has.
fn wait(other: impl FnOnce(&Store, &'static Ledger, Job) + Send + 'static) {
    let ledger = Ledger::new();
    let jobs: &'static Mutex<Vec<Job>> = Box::leak(Box::default());
    let cache = ledger
        .builder()
        .refresh_after_write(10 * SECOND)
        .executor(|job| jobs.lock().unwrap().push(job))
        .try_build_with_loader(Upstream { ledger, prolongs: false, asked: Arc::default() }, Plain)
        .unwrap();
    cache.insert(1, ledger.value(1));
    cache.run_pending_tasks();
    ledger.set_seconds(20);
    assert!(cache.cache().get_entry(&1).is_some());
    let job = jobs.lock().unwrap().pop().expect("the read has triggered a reload");
    let store = cache.cache().clone();
    let limits = LoadLimits { soft: Duration::MAX, hard: Duration::MAX };
    race(
        || assert!(cache.get_within(&1, limits).is_ok()),
        [Box::new(move || other(&store, ledger, job))],
    );
    assert!(cache.cache().peek(&1).is_some_and(|entry| entry.number() > 1), "it has waited");
    jobs.lock().unwrap().clear();
    finish(cache.cache());
}

#[test]
fn wait_vs_insert() {
    model(|| {
        wait(|cache, ledger, job| {
            cache.insert(1, ledger.value(3));
            drop(job);
        });
    });
}

#[test]
fn wait_vs_reload() {
    model(|| wait(|_, _, job| job()));
}
