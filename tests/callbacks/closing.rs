//! `close` of a cache whose listener puts values back: it returns, and says how many were refused.

use crate::common::audited::{Audited, audited};
use crate::common::{HANG, kept, must_end};
use cortado::{Cache, Op, Removed};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

const ENTRIES: u64 = 100;

type Arcs = Cache<u64, Arc<u64>>;

/// How the listener puts a value back.
type PutBack = (&'static str, fn(&Arcs, u64, Arc<u64>));

const PUT_BACK: [PutBack; 4] = [
    ("insert", |cache, key, value| cache.insert(key, value)),
    ("get_with", |cache, key, value| _ = cache.get_with(key, || value)),
    ("computation", |cache, key, value| {
        cache.entry(key).and_compute_with(|_| Op::Put(value));
    }),
    // It also asks for the maintenance, which is the closer's.
    ("insert and close", |cache, key, value| {
        cache.insert(key, value);
        cache.run_pending_tasks();
        cache.close();
    }),
];

struct Subject {
    cache: Audited<u64, Arc<u64>>,
    told: Arc<AtomicU64>,
    value: Arc<u64>,
}

fn subject(scheduled: bool, put_back: fn(&Arcs, u64, Arc<u64>)) -> Subject {
    let slot: &'static OnceLock<Arcs> = kept(OnceLock::new());
    let (told, value) = (Arc::new(AtomicU64::new(0)), Arc::new(7));
    let counts = Arc::clone(&told);
    let listener = move |removed: Removed<u64, Arc<u64>>| {
        counts.fetch_add(1, SeqCst);
        let cache = slot.get().expect("set before the first use");
        put_back(cache, *removed.key(), Arc::clone(removed.value()));
    };
    let builder = Cache::builder().scheduler(scheduled).record_stats(true);
    let cache = audited(builder.removal_listener(listener).build());
    assert!(slot.set((*cache).clone()).is_ok());
    (0..ENTRIES).for_each(|key| cache.insert(key, Arc::clone(&value)));
    Subject { cache, told, value }
}

impl Subject {
    /// Nothing is left of the values but the test's own, in the end.
    fn check(&self, name: &str) {
        let begun = Instant::now();
        while Arc::strong_count(&self.value) > 1 {
            assert!(begun.elapsed() < HANG / 2, "{name}: values are left");
            self.cache.run_pending_tasks();
            std::thread::yield_now();
        }
        assert_eq!((self.cache.entries().count(), self.cache.entry_count()), (0, 0), "{name}");
        assert_eq!(self.cache.stats().listener_panics, 0, "{name}");
    }
}

#[test]
fn what_the_listener_puts_back_is_refused_and_counted() {
    for (name, put_back) in PUT_BACK {
        for scheduled in [false, true] {
            must_end(move || {
                let subject = subject(scheduled, put_back);
                subject.cache.close();
                assert_eq!(subject.told.load(SeqCst), ENTRIES, "{name}: announced once");
                let stats = subject.cache.stats();
                assert_eq!(stats.refused_after_close, ENTRIES, "{name}");
                assert_eq!(stats.pending_notifications, 0, "{name}");
                subject.check(name);
            });
        }
    }
}

/// What others insert is announced, each of which the listener puts back once.
#[test]
fn what_others_insert_into_a_closed_cache_is_announced() {
    for (name, put_back) in PUT_BACK {
        must_end(move || {
            let subject = subject(false, put_back);
            subject.cache.close();
            for key in 0..10 {
                put_back(&subject.cache, key, Arc::clone(&subject.value));
            }
            subject.cache.run_pending_tasks();
            assert_eq!(subject.told.load(SeqCst), ENTRIES + 10, "{name}");
            assert_eq!(subject.cache.stats().refused_after_close, ENTRIES + 10, "{name}");
            subject.check(name);
        });
    }
}

#[test]
fn several_threads_may_close_while_others_insert() {
    must_end(|| {
        for _ in 0..50 {
            let subject = subject(false, PUT_BACK[0].1);
            let cache = &subject.cache;
            std::thread::scope(|scope| {
                for thread in 1..=2 {
                    let value = &subject.value;
                    let first = thread * 1000;
                    scope.spawn(move || {
                        (first..first + 100).for_each(|key| cache.insert(key, Arc::clone(value)));
                    });
                    scope.spawn(|| cache.close());
                }
            });
            cache.close();
            assert_eq!(subject.told.load(SeqCst), ENTRIES + 200);
            subject.check("threads");
        }
    });
}
