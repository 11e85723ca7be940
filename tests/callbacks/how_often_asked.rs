//! How often hooks and conditions are asked, and what they hold up: nothing.
//! `docs/flights.md` has the table.

use crate::common::audited::{Audited, audited};
use crate::common::{MINUTE, SECOND, kept, must_end, yield_a_while};
use cortado::{Cache, Clock, Expiry, Op};
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Two keys, an even one and the odd one after it, have the same hash.
#[derive(Clone, Copy, Default)]
struct Pairs(u64);

impl BuildHasher for Pairs {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Pairs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers");
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key / 2;
    }
}

type Numbers = Cache<u64, u64, Pairs>;

/// A hook that was asked, and what it was told to be left of the old value's life.
type Asked = (&'static str, Option<Duration>);

/// What the hooks do, beside counting.
type Act = dyn Fn(&Numbers, u64, u64) + Send + Sync;

/// Hooks that know their cache. The lifetime is the answer's number in seconds, or one for all.
struct Hooks {
    cache: &'static OnceLock<Numbers>,
    life: Option<Duration>,
    asks: Arc<Mutex<Vec<Asked>>>,
    act: Box<Act>,
}

impl Hooks {
    fn ask(
        &self,
        which: &'static str,
        key: u64,
        value: u64,
        left: Option<Duration>,
    ) -> Option<Duration> {
        // Values that the hooks write are zero, and nobody minds.
        if value == 0 {
            return Some(self.life.unwrap_or(SECOND));
        }
        let nth = {
            let mut asks = self.asks.lock().unwrap();
            asks.push((which, left));
            asks.len() as u64
        };
        (self.act)(self.cache.get().expect("set before the first use"), key, nth);
        Some(self.life.unwrap_or(SECOND * nth as u32))
    }
}

impl Expiry<u64, u64> for Hooks {
    fn expire_after_create(&self, key: &u64, value: &u64, _: Instant) -> Option<Duration> {
        self.ask("create", *key, *value, None)
    }

    fn expire_after_update(
        &self,
        key: &u64,
        value: &u64,
        _: Instant,
        left: Option<Duration>,
    ) -> Option<Duration> {
        self.ask("update", *key, *value, left)
    }
}

struct Asking {
    cache: Audited<u64, u64, Pairs>,
    asks: Arc<Mutex<Vec<Asked>>>,
}

impl Asking {
    fn new(
        life: Option<Duration>,
        clock: Clock,
        act: impl Fn(&Numbers, u64, u64) + Send + Sync + 'static,
    ) -> Self {
        let (slot, asks) = (kept(OnceLock::new()), Arc::new(Mutex::new(Vec::new())));
        let hooks = Hooks { cache: slot, life, asks: Arc::clone(&asks), act: Box::new(act) };
        let builder = Cache::builder().max_capacity(100).expire_after(hooks).clock(clock);
        let cache = audited(builder.build_with_hasher(Pairs::default()));
        assert!(slot.set(cache.clone()).is_ok());
        Self { cache, asks }
    }

    /// The hooks that were asked since the last call.
    fn asks(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asks.lock().unwrap())
    }
}

type Write = (&'static str, fn(&Numbers, u64));

const WRITES: [Write; 3] = [
    ("insert", |cache, key| cache.insert(key, 1)),
    // What the hook has put there may be found.
    ("get_with", |cache, key| assert!(cache.get_with(key, || 1) <= 1)),
    ("compute", |cache, key| _ = cache.entry(key).and_compute_with(|_| Op::Put(1))),
];

/// So many asks by the system's clock: another one by a precise reading, where lives are short.
fn asks_of(life: Duration) -> usize {
    if life < Duration::from_millis(4300) && cfg!(target_os = "linux") { 2 } else { 1 }
}

#[test]
fn a_hook_that_writes_another_key_of_its_bucket_is_asked_no_more_often() {
    for millis in [1, 100, 1000, 5000] {
        let life = Duration::from_millis(millis);
        for (name, write) in WRITES {
            must_end(move || {
                // The other key has the same hash, so it is in the same bucket wherever that is.
                let writes_other = |cache: &Numbers, key, _| cache.insert(key ^ 1, 0);
                let asking = Asking::new(Some(life), Clock::system(), writes_other);
                let mut before = Instant::now();
                for key in 0..400 {
                    // A newcomer, and then one whose key the hook has just written.
                    let begun = Instant::now();
                    write(&asking.cache, key);
                    let asks = asking.asks().len();
                    // A life may end while this thread is preempted: the key's own entry has
                    // changed then, and the hook is asked once more.
                    let has_ended = before.elapsed() >= life;
                    let most = asks_of(life) + usize::from(has_ended);
                    assert!(asks <= most, "{name}, {life:?}: asked {asks} times");
                    before = begun;
                }
            });
        }
    }
}

#[test]
fn a_slow_hook_beside_writers_of_other_keys_is_asked_no_more_often() {
    for millis in [1000, 5000] {
        must_end(move || {
            let life = Duration::from_millis(millis);
            let written = Arc::new(AtomicU64::new(0));
            let counter = Arc::clone(&written);
            // Slow is: others have written more than all that the cache holds, into every bucket.
            let waits = move |_: &Numbers, _, _| {
                let before = counter.load(SeqCst);
                while counter.load(SeqCst) < before + 300 {
                    std::thread::yield_now();
                }
            };
            let asking = Asking::new(Some(life), Clock::system(), waits);
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                for thread in 1..=2 {
                    let (cache, over, written) = (&asking.cache, &over, &written);
                    scope.spawn(move || {
                        let mut key = thread << 32;
                        while !over.load(SeqCst) {
                            cache.insert(key, 0);
                            written.fetch_add(1, SeqCst);
                            key += 1;
                        }
                    });
                }
                let ask = |key| {
                    asking.cache.insert(key, 1);
                    asking.asks().len()
                };
                let asks: Vec<usize> = (0..20).map(ask).collect();
                over.store(true, SeqCst);
                assert!(asks.iter().all(|&asks| asks <= asks_of(life)), "asked {asks:?} times");
            });
        });
    }
}

/// What another thread does to the key of an insert while its hook is asked.
type Change = fn(&Numbers);

fn change_meanwhile(there: bool, change: Change, asked: [Asked; 2]) {
    must_end(move || {
        let changing = move |cache: &Numbers, _, nth| {
            if nth == 1 {
                std::thread::scope(|scope| scope.spawn(|| change(cache)).join().unwrap());
            }
        };
        let asking = Asking::new(None, Clock::manual().0, changing);
        if there {
            asking.cache.insert_with_ttl(1, 70, MINUTE);
        }
        asking.cache.insert(1, 80);
        assert_eq!(asking.asks(), asked);
        assert_eq!(asking.cache.get(&1), Some(80));
        // The last answer counts.
        assert_eq!(asking.cache.expires_in(&1).into_options(), Some(Some(2 * SECOND)));
        asking.cache.audit();
    });
}

#[test]
fn an_entry_that_comes_while_the_hook_is_asked_is_asked_about_once_more() {
    let comes: Change = |cache| cache.insert_with_ttl(1, 75, 7 * SECOND);
    change_meanwhile(false, comes, [("create", None), ("update", Some(7 * SECOND))]);
}

#[test]
fn an_entry_that_goes_or_is_replaced_while_the_hook_is_asked_is_asked_about_once_more() {
    let first = ("update", Some(MINUTE));
    change_meanwhile(true, |cache| cache.invalidate(&1), [first, ("create", None)]);
    change_meanwhile(true, |cache| cache.invalidate_all(), [first, ("create", None)]);
    let replaced: Change = |cache| cache.insert_with_ttl(1, 75, 7 * SECOND);
    change_meanwhile(true, replaced, [first, ("update", Some(7 * SECOND))]);
    let back: Change = |cache| {
        cache.invalidate(&1);
        cache.insert(1, 0);
    };
    change_meanwhile(true, back, [first, ("update", Some(SECOND))]);
}

#[test]
fn an_entry_that_changes_whenever_the_hook_is_asked_is_asked_about_twice() {
    for there in [false, true] {
        must_end(move || {
            let last = Arc::new(Mutex::new(None));
            let slot = Arc::clone(&last);
            let changing = move |cache: &Numbers, _, nth: u64| {
                let cache = cache.clone();
                let thread = std::thread::spawn(move || cache.insert_with_ttl(1, nth, MINUTE));
                if nth == 1 {
                    return thread.join().unwrap();
                }
                // The second one has to wait for the insert.
                yield_a_while();
                assert!(!thread.is_finished(), "a write overtakes the second ask");
                *slot.lock().unwrap() = Some(thread);
            };
            let asking = Asking::new(None, Clock::manual().0, changing);
            if there {
                asking.cache.insert_with_ttl(1, 70, MINUTE);
            }
            asking.cache.insert(1, 80);
            assert_eq!(asking.asks().len(), 2);
            last.lock().unwrap().take().expect("it was asked twice").join().unwrap();
            assert_eq!(asking.cache.get(&1), Some(2));
        });
    }
}

/// The first judgement makes another entry of it, and so would the second.
#[test]
fn a_condition_whose_entry_changes_each_time_is_asked_twice() {
    for holds in [false, true] {
        must_end(move || {
            let cache: Audited<u64, u64> = audited(Cache::builder().max_capacity(100).build());
            cache.insert(1, 1);
            let (mut judged, mut late) = (Vec::new(), None);
            let removed = cache.remove_if(&1, |_, &value| {
                judged.push(value);
                let other = cache.clone();
                let thread = std::thread::spawn(move || other.insert(1, value + 1));
                if value == 1 {
                    thread.join().unwrap();
                    return true;
                }
                yield_a_while();
                assert!(!thread.is_finished(), "a write overtakes the second judgement");
                late = Some(thread);
                holds
            });
            assert_eq!((judged.as_slice(), removed), ([1, 2].as_slice(), holds.then_some(2)));
            late.expect("it was judged twice").join().unwrap();
            assert_eq!(cache.get(&1), Some(3));
        });
    }
}
