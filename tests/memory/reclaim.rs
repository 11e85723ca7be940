//! What has left the cache is released: keys and values, soon after nobody can see them.

use crate::common::audited::audited;
use crate::common::crowd::counted;
use cortado::{Cache, Clock, Entry, Op, Removed};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);
/// How long to wait for what must come. Only a failure takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many there are.
#[derive(Clone, Debug, Default)]
struct Alive(Arc<AtomicI64>);

impl Alive {
    fn count(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn token(&self) -> Token {
        self.0.fetch_add(1, Ordering::SeqCst);
        Token(self.clone())
    }

    fn key(&self, number: u64) -> Key {
        Key { number, _token: self.token() }
    }

    /// Waits until so many are left, doing `meanwhile` again and again.
    fn falls_to(&self, count: i64, meanwhile: impl Fn()) {
        let begun = Instant::now();
        while self.count() != count {
            assert!(begun.elapsed() < PATIENCE, "{} are left, not {count}", self.count());
            meanwhile();
            std::thread::yield_now();
        }
    }
}

#[derive(Debug)]
struct Token(Alive);

impl Drop for Token {
    fn drop(&mut self) {
        assert!(self.0.0.fetch_sub(1, Ordering::SeqCst) > 0, "dropped twice");
    }
}

#[derive(Debug)]
struct Key {
    number: u64,
    _token: Token,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct By(u64);

impl cortado::Equivalent<Key> for By {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.number
    }
}

type Subject = Cache<Key, Token>;

/// However a value leaves, it is released by the maintenance. (Other tests of this process hold
/// guards now and then, for which it waits.)
#[test]
fn what_leaves_is_released_by_the_maintenance() {
    type Leave = fn(&Subject, &Alive);
    let ways: [(&str, Leave); 9] = [
        ("remove", |cache, _| drop(cache.remove_entry(&By(1)))),
        ("invalidate", |cache, _| cache.invalidate(&By(1))),
        ("invalidate_all", |cache, _| cache.invalidate_all()),
        ("retain", |cache, _| cache.retain(|_, _| false)),
        ("set_ttl", |cache, _| assert!(cache.set_ttl(&By(1), Duration::ZERO))),
        ("insert of nothing", |cache, alive| {
            cache.insert_with_ttl(alive.key(1), alive.token(), Duration::ZERO);
        }),
        ("computation", |cache, alive| {
            drop(cache.entry(alive.key(1)).and_compute_with(|_| Op::Remove));
        }),
        ("close", |cache, _| cache.close()),
        ("replacement and removal", |cache, alive| {
            (0..100).for_each(|_| cache.insert(alive.key(1), alive.token()));
            cache.invalidate(&By(1));
        }),
    ];
    for idle in [false, true] {
        for (name, leave) in &ways {
            let alive = Alive::default();
            let mut builder = Cache::builder();
            if idle {
                builder = builder.time_to_idle(3600 * SECOND);
            }
            let cache = audited(builder.build());
            cache.insert(alive.key(1), alive.token());
            assert_eq!(alive.count(), 2, "{name}");
            leave(&cache, &alive);
            alive.falls_to(0, || cache.run_pending_tasks());
        }
    }
}

#[test]
fn what_expires_or_is_evicted_is_released_too() {
    let alive = Alive::default();
    let (clock, hand) = Clock::manual();
    let cache =
        audited(Cache::builder().max_capacity(10).time_to_live(SECOND).clock(clock).build());
    (0..1000).for_each(|n| cache.insert(alive.key(n), alive.token()));
    alive.falls_to(20, || cache.run_pending_tasks());
    hand.advance(5 * SECOND);
    alive.falls_to(0, || cache.run_pending_tasks());
}

/// Of an insert over an entry of the same key, of a refused one, and of loads that find the key
/// there or are overtaken, neither key nor value is left behind.
#[test]
fn what_never_gets_in_is_released_at_once_or_by_the_maintenance() {
    let alive = Alive::default();
    let cache =
        audited(Cache::builder().max_capacity(5).weigher(|key: &Key, _| key.number as u32).build());
    cache.insert(alive.key(1), alive.token());
    cache.insert(alive.key(1), alive.token());
    cache.insert(alive.key(6), alive.token());
    drop(cache.entry(alive.key(1)).or_insert_with(|| unreachable!("it is there")));
    drop(cache.entry(alive.key(1)).and_compute_with(|_| Op::Nop));
    let overtaken = cache.entry(alive.key(2)).or_insert_with(|| {
        cache.invalidate(&By(2));
        alive.token()
    });
    assert!(overtaken.is_fresh());
    drop(overtaken);
    alive.falls_to(2, || cache.run_pending_tasks());
    assert!(cache.contains_key(&By(1)) && !cache.contains_key(&By(2)));
}

/// A scheduled cache releases what left it without being called again.
#[test]
fn an_idle_scheduled_cache_releases_memory_by_itself() {
    let alive = Alive::default();
    let cache = audited(
        Cache::builder().scheduler(true).expiry_resolution(Duration::from_millis(1)).build(),
    );
    cache.insert_with_ttl(alive.key(1), alive.token(), Duration::from_millis(20));
    cache.insert(alive.key(2), alive.token());
    cache.insert(alive.key(2), alive.token());
    cache.insert(alive.key(3), alive.token());
    cache.invalidate(&By(3));
    alive.falls_to(2, || {});
    cache.invalidate_all();
    alive.falls_to(0, || {});
}

/// The same with a clock of the user's, which the scheduler looks at once per tick.
#[test]
fn so_does_one_with_a_clock_of_its_own() {
    let alive = Alive::default();
    let millis = Arc::new(AtomicU64::new(0));
    let read = Arc::clone(&millis);
    let clock = Clock::custom(move || Duration::from_millis(read.load(Ordering::SeqCst)));
    let cache = audited(
        Cache::builder()
            .scheduler(true)
            .expiry_resolution(Duration::from_millis(1))
            .clock(clock)
            .build(),
    );
    cache.insert_with_ttl(alive.key(1), alive.token(), SECOND);
    millis.store(2000, Ordering::SeqCst);
    alive.falls_to(0, || {});
}

#[test]
fn a_thousand_caches_leave_nothing_behind() {
    let alive = Alive::default();
    for n in 0..1000u64 {
        let mut builder = Cache::builder().scheduler(n % 5 == 0);
        if n % 2 == 0 {
            builder = builder.max_capacity(n % 7);
        }
        if n % 3 == 0 {
            builder = builder.removal_listener(|removed: Removed<Key, Token>| drop(removed));
        }
        let cache: Subject = builder.build();
        (0..n % 40).for_each(|k| cache.insert(alive.key(k % 20), alive.token()));
        cache.invalidate(&By(n % 10));
        if n % 11 == 0 {
            cache.invalidate_all();
        }
        let other = cache.clone();
        drop(cache);
        assert_eq!(other.contains_key(&By(50)), n % 40 > 50);
        // The others end with their maintenance undone.
        if n % 4 == 1 {
            other.audit();
        }
        drop(other);
    }
    // The scheduler's thread may be at one of them, and drop it when it is done.
    alive.falls_to(0, || {});
    counted(1000, "caches");
}

#[test]
fn handles_outlive_the_cache_and_release_what_they_hold() {
    let alive = Alive::default();
    let removed = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&removed);
    let cache = audited(
        Cache::builder().removal_listener(move |handle| noted.lock().unwrap().push(handle)).build(),
    );
    (0..10).for_each(|n| cache.insert(alive.key(n), alive.token()));
    let entries: Vec<Entry<Key, Token>> = cache.entries().collect();
    let copy = entries[0].clone();
    (0..5).for_each(|n| cache.invalidate(&By(n)));
    cache.run_pending_tasks();
    assert_eq!(removed.lock().unwrap().len(), 5);
    drop(cache);
    assert_eq!(alive.count(), 20);
    assert_eq!(entries.iter().map(|entry| entry.key().number).sum::<u64>(), 45);
    drop(entries);
    // Those that the listener keeps, and the copy if it is not of one of these.
    let kept = removed.lock().unwrap().iter().any(|other| other.key() == copy.key());
    assert_eq!(alive.count(), if kept { 10 } else { 12 });
    removed.lock().unwrap().clear();
    assert_eq!(alive.count(), 2);
    drop(copy);
    assert_eq!(alive.count(), 0);
}

/// References of a view stay good, whatever happens in the cache; then the memory is released.
#[test]
fn a_view_keeps_what_it_has_shown() {
    let alive = Alive::default();
    let cache = audited(Cache::builder().build());
    cache.insert(alive.key(1), alive.token());
    let view = cache.pin();
    let value = view.get(&By(1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            cache.invalidate(&By(1));
            (0..20).for_each(|_| cache.run_pending_tasks());
        });
    });
    assert_eq!(value.0.count(), 2);
    drop(view);
    alive.falls_to(0, || cache.run_pending_tasks());
}
