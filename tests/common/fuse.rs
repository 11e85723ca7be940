//! Keys, values and callbacks that run something of the test's when the cache calls them.
#![allow(dead_code, reason = "each test binary uses its part")]

use cortado::{Builder, Cache, Clock, Equivalent, Expiry, RemovalCause, ToKey};
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicIsize, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where the cache calls the user's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    Weigher,
    Create,
    Update,
    Read,
    Loader,
    Compute,
    Condition,
    Hash,
    Eq,
    Clone,
    DropKey,
    DropValue,
    Clock,
    Listener,
    /// The second listener of the cache.
    SecondListener,
    /// The third, which gets clones of key and value.
    EvictionListener,
    /// The loader that a cache with refresh has stored: in a load, and in a reload.
    Stored,
    /// The policy that says when a value is stale.
    RefreshPolicy,
    /// The rest are places that only tasks have: the destructor of the future of a load or a
    /// computation.
    DropFuture,
    /// The listener that awaits: its call, the polls of its future, and that one's destructor.
    AsyncListener,
    PollListener,
    DropListener,
    Wake,
    CloneWaker,
    DropWaker,
}

impl Place {
    pub fn is_listener(self) -> bool {
        matches!(self, Self::Listener | Self::SecondListener | Self::EvictionListener)
            || self.is_async_listener()
    }

    /// How many values an operation may leak if this place panics: those that it was about to
    /// return when the destructor of something else panicked.
    pub fn most_leaked(self) -> isize {
        if matches!(self, Self::DropKey | Self::DropValue | Self::DropFuture) { 3 } else { 0 }
    }

    pub fn is_async_listener(self) -> bool {
        matches!(self, Self::AsyncListener | Self::PollListener | Self::DropListener)
    }
}

pub const PLACES: [Place; 16] = [
    Place::Weigher,
    Place::Create,
    Place::Update,
    Place::Read,
    Place::Loader,
    Place::Compute,
    Place::Condition,
    Place::Hash,
    Place::Eq,
    Place::Clone,
    Place::DropKey,
    Place::DropValue,
    Place::Clock,
    Place::Listener,
    Place::SecondListener,
    Place::EvictionListener,
];

/// In caches with refresh.
pub const REFRESH_PLACES: [Place; 2] = [Place::Stored, Place::RefreshPolicy];

pub const TASK_PLACES: [Place; 7] = [
    Place::DropFuture,
    Place::AsyncListener,
    Place::PollListener,
    Place::DropListener,
    Place::Wake,
    Place::CloneWaker,
    Place::DropWaker,
];

/// What is to happen at the n-th call of a place on this thread, once.
struct Fuse {
    place: Place,
    left: u32,
    then: Box<dyn FnOnce()>,
}

std::thread_local! {
    static FUSE: RefCell<Option<Fuse>> = const { RefCell::new(None) };
}

/// Lets the `nth` call of `place` on this thread run `then`.
pub fn arm(place: Place, nth: u32, then: impl FnOnce() + 'static) {
    let fuse = Fuse { place, left: nth, then: Box::new(then) };
    FUSE.with_borrow_mut(|slot| *slot = Some(fuse));
}

/// Runs `call` on another thread. Returns when that thread has found a load of its key: it compares
/// keys then.
pub fn joining<C: Send + Sync + 'static, T: Send + 'static>(
    cache: &Arc<C>,
    call: impl FnOnce(&C) -> T + Send + 'static,
) -> JoinHandle<T> {
    let (cache, (found, finding)) = (Arc::clone(cache), channel());
    let thread = std::thread::spawn(move || {
        arm(Place::Eq, 1, move || found.send(()).unwrap());
        call(&cache)
    });
    finding.recv().unwrap();
    thread
}

/// Takes the fuse out; false if it has blown.
pub fn disarm() -> bool {
    FUSE.with_borrow_mut(Option::take).is_some()
}

/// Runs something whose calls do not count.
pub fn paused<T>(run: impl FnOnce() -> T) -> T {
    let fuse = FUSE.with_borrow_mut(Option::take);
    let result = run();
    FUSE.with_borrow_mut(|slot| *slot = fuse);
    result
}

/// Called by every callback.
pub fn reach(place: Place) {
    // While the thread's locals are being destroyed there is nothing armed.
    let blown = FUSE.try_with(|slot| {
        let mut slot = slot.borrow_mut();
        let fuse = slot.as_mut().filter(|fuse| fuse.place == place)?;
        fuse.left -= 1;
        if fuse.left == 0 { slot.take() } else { None }
    });
    if let Ok(Some(fuse)) = blown {
        (fuse.then)();
    }
}

#[derive(Debug)]
pub struct Key(pub u64);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Name(self.0).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        reach(Place::Eq);
        self.0 == other.0
    }
}

impl Eq for Key {}

impl Clone for Key {
    fn clone(&self) -> Self {
        reach(Place::Clone);
        Self(self.0)
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        reach(Place::DropKey);
    }
}

/// To look keys up by, so that the test drops none.
#[derive(Clone, Copy, Debug)]
pub struct Name(pub u64);

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        reach(Place::Hash);
        state.write_u64(self.0);
    }
}

impl Equivalent<Key> for Name {
    fn equivalent(&self, key: &Key) -> bool {
        reach(Place::Eq);
        self.0 == key.0
    }
}

/// To look keys up by that are made if need be.
#[derive(Debug)]
pub struct Borrowed(pub u64);

impl ToKey<Key> for Borrowed {
    fn to_key(&self) -> Key {
        reach(Place::Clone);
        Key(self.0)
    }
}

impl Equivalent<Key> for Borrowed {
    fn equivalent(&self, key: &Key) -> bool {
        Name(self.0).equivalent(key)
    }
}

impl Hash for Borrowed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Name(self.0).hash(state);
    }
}

/// A value with a serial number, which its clones share, and a count of the living.
#[derive(Debug)]
pub struct Value {
    pub serial: u64,
    living: Arc<AtomicIsize>,
}

impl Value {
    fn new(living: &Arc<AtomicIsize>, serial: &AtomicU64) -> Self {
        let serial = serial.fetch_add(1, SeqCst) + 1;
        living.fetch_add(1, SeqCst);
        Self { serial, living: Arc::clone(living) }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        reach(Place::Clone);
        self.living.fetch_add(1, SeqCst);
        Self { serial: self.serial, living: Arc::clone(&self.living) }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.living.fetch_sub(1, SeqCst);
        reach(Place::DropValue);
    }
}

/// The key that is there, one whose lifetime is as a read would make it, and two that are not
/// there, of [`Subject::fill`].
pub const THERE: u64 = 1;
pub const RECENT: u64 = 20;
pub const MISSING: u64 = 100;
pub const MISSING_TOO: u64 = 18;

/// Of every key in turn its value's serial and what is left of its life.
pub type Seen = Vec<Option<(u64, Option<Duration>)>>;

/// By which clock the entries of a subject live, and for how long. By the system's clock hooks are
/// asked once or twice, on either side of a lifetime of 2^32 ns, and no case takes as long as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timing {
    /// By a clock that the test moves.
    Moved,
    /// By the system's, less than 2^32 ns.
    Short,
    /// By the system's, more.
    Long,
}

impl Timing {
    pub const BY_THE_SYSTEM: [Self; 2] = [Self::Short, Self::Long];

    /// What every hook gives.
    pub fn life(self) -> Duration {
        match self {
            Self::Moved | Self::Long => Duration::from_secs(60),
            Self::Short => Duration::from_millis(4_200),
        }
    }

    /// What calls and loaders give.
    pub fn other_life(self) -> Duration {
        match self {
            Self::Moved => Duration::from_secs(1),
            Self::Long => Duration::from_secs(59),
            Self::Short => Duration::from_millis(4_100),
        }
    }

    /// What is left of a life, as far as two subjects agree on that.
    fn shown(self, left: Option<Duration>) -> Option<Duration> {
        if self == Self::Moved { left } else { left.map(|_| Duration::ZERO) }
    }
}

/// Every hook gives the same.
struct Hooks(Duration);

impl Expiry<Key, Value> for Hooks {
    fn expire_after_create(&self, _: &Key, _: &Value, _: Instant) -> Option<Duration> {
        reach(Place::Create);
        Some(self.0)
    }

    fn expire_after_update(
        &self,
        _: &Key,
        _: &Value,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        reach(Place::Update);
        Some(self.0)
    }

    fn expire_after_read(
        &self,
        _: &Key,
        _: &Value,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        reach(Place::Read);
        Some(self.0)
    }
}

/// A cache all of whose callbacks are [`reach`]ed, with what is needed to look into it.
#[derive(Clone)]
pub struct Subject {
    pub cache: Cache<Key, Value>,
    pub timing: Timing,
    time: Arc<AtomicU64>,
    /// Serials and causes, as the listener was told.
    pub told: Arc<Mutex<Vec<(u64, RemovalCause)>>>,
    /// The same of the second listener.
    again: Arc<Mutex<Vec<(u64, RemovalCause)>>>,
    pub living: Arc<AtomicIsize>,
    serial: Arc<AtomicU64>,
}

impl Subject {
    pub fn new(timing: Timing, capacity: u64, idles: bool) -> Self {
        Self::made(timing, Cache::builder(), (capacity, idles), |builder| builder.build())
    }

    /// `build` may add what it needs, and builds.
    pub fn made<C, M>(
        timing: Timing,
        builder: Builder<Key, Value, C, M>,
        (capacity, idles): (u64, bool),
        build: impl FnOnce(Builder<Key, Value, C, M>) -> Cache<Key, Value>,
    ) -> Self {
        let time = Arc::new(AtomicU64::new(0));
        let told = Arc::new(Mutex::new(Vec::new()));
        let (reading, log) = (Arc::clone(&time), Arc::clone(&told));
        let again = Arc::new(Mutex::new(Vec::new()));
        let second = Arc::clone(&again);
        let mut builder = builder
            .max_capacity(capacity)
            .record_stats(true)
            .expire_after(Hooks(timing.life()))
            .weigher(|_, _| {
                reach(Place::Weigher);
                1
            })
            .removal_listener(move |removed: cortado::Removed<Key, Value>| {
                log.lock().unwrap().push((removed.value().serial, removed.cause()));
                reach(Place::Listener);
            })
            .removal_listener(move |removed: cortado::Removed<Key, Value>| {
                second.lock().unwrap().push((removed.value().serial, removed.cause()));
                reach(Place::SecondListener);
            })
            .eviction_listener(|_, _, _| reach(Place::EvictionListener));
        if timing == Timing::Moved {
            builder = builder.clock(Clock::custom(move || {
                reach(Place::Clock);
                Duration::from_nanos(reading.load(SeqCst))
            }));
        }
        if idles {
            builder = builder.time_to_idle(timing.life());
        }
        let (living, serial) = (Arc::default(), Arc::default());
        Self { cache: build(builder), timing, time, told, again, living, serial }
    }

    /// Moves the clock, if it is the test's.
    pub fn advance(&self, by: Duration) {
        self.time.fetch_add(by.as_nanos() as u64, SeqCst);
    }

    pub fn value(&self) -> Value {
        Value::new(&self.living, &self.serial)
    }

    /// Makes values, and keeps no cache.
    pub fn maker(&self) -> impl Fn() -> Value + Send + Sync + use<> {
        let (living, serial) = (Arc::clone(&self.living), Arc::clone(&self.serial));
        move || Value::new(&living, &serial)
    }

    pub fn insert(&self, key: u64) {
        self.cache.insert(Key(key), self.value());
    }

    /// Entries of every kind: old ones, recent ones, some that are due and have not been removed;
    /// and some writes are waiting.
    pub fn fill(&self) {
        (1..=12).for_each(|key| self.insert(key));
        let brief = |life: Duration| {
            (13..=15).for_each(|key| self.cache.insert_with_ttl(Key(key), self.value(), life));
        };
        if self.timing == Timing::Moved {
            brief(Duration::from_secs(5));
            self.cache.run_pending_tasks();
            self.advance(Duration::from_secs(10));
        } else {
            self.cache.run_pending_tasks();
            brief(Duration::from_nanos(1));
        }
        (20..=22).for_each(|key| self.insert(key));
    }

    /// Whether nothing is evicted.
    pub fn is_roomy(&self) -> bool {
        self.cache.policy().max_capacity() >= Some(100)
    }

    /// What there is to be seen of all keys that operations are about.
    pub fn seen(&self) -> Seen {
        let look = |key| {
            let entry = self.cache.peek(&Name(key))?;
            Some((entry.serial, self.timing.shown(entry.expires_in())))
        };
        (1..=22).chain([MISSING]).map(look).collect()
    }

    /// The serial of the key's living entry.
    pub fn serial_of(&self, key: u64) -> Option<u64> {
        self.cache.peek(&Name(key)).map(|entry| entry.serial)
    }

    /// Audits the cache; and each value is in it, or has been announced, once, or was never taken.
    pub fn check(&self) {
        // What was over when it was written is removed at the end of the tick.
        self.advance(super::TICK);
        self.cache.run_pending_tasks();
        self.cache.audit();
        let stats = self.cache.stats();
        let removed: u64 = RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum();
        let told = self.told.lock().unwrap();
        assert_eq!(told.len() as u64, removed, "announced, removed");
        assert_eq!(*told, *self.again.lock().unwrap(), "the second listener was told the same");
        let inside: Vec<u64> = self.cache.entries().map(|entry| entry.serial).collect();
        assert_eq!(inside.len() as u64, self.cache.entry_count());
        let mut serials: Vec<u64> = told.iter().map(|told| told.0).chain(inside).collect();
        let all = serials.len();
        serials.sort();
        serials.dedup();
        assert_eq!(serials.len(), all, "a value was announced twice, or announced and kept");
        assert_eq!(all as u64, stats.insertions, "values in or announced, values taken");
    }
}
