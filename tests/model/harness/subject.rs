//! The real cache of a case: keys and values that are counted, hooks that report their calls.

use super::case::{Config, Eviction, Policy, Rule, Traits};
use super::face::Subject;
use cortado::{
    Cache, Clock, Equivalent, EvictionPolicy, Expiry, ManualClock, RemovalCause, Removed, expire,
};
use std::hash::{BuildHasher, Hash, Hasher};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicIsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub type Value = Arc<Val>;

/// The payload of every panic that a case asks for.
pub struct Planned;

/// One for each key and value that exists.
#[derive(Debug)]
struct Token(Arc<AtomicIsize>);

impl Token {
    fn new(alive: &Arc<AtomicIsize>) -> Self {
        alive.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(alive))
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Key {
    pub number: u8,
    token: Token,
}

impl Clone for Key {
    fn clone(&self) -> Self {
        Self { number: self.number, token: Token::new(&self.token.0) }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.number);
    }
}

/// A key to look up by.
#[derive(Clone, Copy, Hash)]
pub struct By(pub u8);

impl Equivalent<Key> for By {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.number
    }
}

#[derive(Debug)]
pub struct Val {
    pub id: u64,
    pub traits: Traits,
    _token: Token,
}

/// A hasher that a case may make collide: the bytes themselves, masked.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub mask: u64,
}

impl BuildHasher for Spread {
    type Hasher = Masked;

    fn build_hasher(&self) -> Masked {
        Masked { hash: 0, mask: self.mask }
    }
}

pub struct Masked {
    hash: u64,
    mask: u64,
}

impl Hasher for Masked {
    fn finish(&self) -> u64 {
        self.hash & self.mask
    }

    fn write(&mut self, bytes: &[u8]) {
        self.hash = bytes.iter().fold(self.hash, |hash, &byte| hash << 8 | u64::from(byte));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    Create,
    Update,
    Read,
}

/// A call of a hook, as it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub hook: Hook,
    pub key: u8,
    pub id: u64,
    pub now: Instant,
    pub current: Option<Duration>,
    pub modified: Option<Instant>,
}

/// What hooks and listener have reported and the driver has not looked at yet.
#[derive(Default)]
pub struct Reports {
    pub calls: Mutex<Vec<Call>>,
    pub removed: Mutex<Vec<Removed<Key, Value>>>,
    /// What the second listener was told, if there is one.
    pub again: Mutex<Vec<(u8, u64, RemovalCause)>>,
    pub alive: Arc<AtomicIsize>,
}

impl Reports {
    pub fn key(&self, number: u8) -> Key {
        Key { number, token: Token::new(&self.alive) }
    }

    pub fn value(&self, id: u64, traits: Traits) -> Value {
        Arc::new(Val { id, traits, _token: Token::new(&self.alive) })
    }

    fn call(&self, call: Call) {
        self.calls.lock().unwrap().push(call);
    }
}

impl Rule {
    /// What the hook returns; `None` is a panic.
    pub fn apply(
        self,
        create: Option<Duration>,
        current: Option<Duration>,
    ) -> Option<Option<Duration>> {
        Some(match self {
            Self::Keep => current,
            Self::AsCreated => create,
            Self::Set(lifetime) => Some(lifetime),
            Self::Half => current.map(|left| left / 2),
            Self::Never => None,
            Self::Panic => return None,
        })
    }

    fn play(self, create: Option<Duration>, current: Option<Duration>) -> Option<Duration> {
        self.apply(create, current).unwrap_or_else(|| resume_unwind(Box::new(Planned)))
    }
}

/// No hook.
struct Silent;

impl Expiry<Key, Value> for Silent {}

/// The create hook only.
struct CreateOnly(Arc<Reports>);

impl Expiry<Key, Value> for CreateOnly {
    fn expire_after_create(&self, key: &Key, value: &Value, now: Instant) -> Option<Duration> {
        let call = Call {
            hook: Hook::Create,
            key: key.number,
            id: value.id,
            now,
            current: None,
            modified: None,
        };
        self.0.call(call);
        value.traits.create
    }
}

/// All hooks.
struct Full {
    reports: Arc<Reports>,
}

impl Expiry<Key, Value> for Full {
    fn expire_after_create(&self, key: &Key, value: &Value, now: Instant) -> Option<Duration> {
        CreateOnly(Arc::clone(&self.reports)).expire_after_create(key, value, now)
    }

    fn expire_after_update(
        &self,
        key: &Key,
        value: &Value,
        now: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        let call = Call {
            hook: Hook::Update,
            key: key.number,
            id: value.id,
            now,
            current,
            modified: None,
        };
        self.reports.call(call);
        value.traits.update.play(value.traits.create, current)
    }

    fn expire_after_read(
        &self,
        key: &Key,
        value: &Value,
        now: Instant,
        current: Option<Duration>,
        last_modified: Instant,
    ) -> Option<Duration> {
        let modified = Some(last_modified);
        let call = Call { hook: Hook::Read, key: key.number, id: value.id, now, current, modified };
        self.reports.call(call);
        value.traits.read.play(value.traits.create, current)
    }
}

/// The hooks of writes.
struct Writes(Full);

impl Expiry<Key, Value> for Writes {
    fn expire_after_create(&self, key: &Key, value: &Value, now: Instant) -> Option<Duration> {
        self.0.expire_after_create(key, value, now)
    }

    fn expire_after_update(
        &self,
        key: &Key,
        value: &Value,
        now: Instant,
        current: Option<Duration>,
    ) -> Option<Duration> {
        self.0.expire_after_update(key, value, now, current)
    }
}

/// Builds the cache of a configuration.
pub fn build(config: &Config, reports: &Arc<Reports>) -> (Subject, ManualClock) {
    let (clock, hand) = Clock::manual();
    hand.set(config.start);
    let listener = Arc::clone(reports);
    let mut builder = Cache::builder()
        .clock(clock)
        .record_stats(config.record_stats)
        .initial_capacity(config.initial_capacity)
        .eviction_policy(match config.eviction {
            Eviction::TinyLfu => EvictionPolicy::tiny_lfu(),
            Eviction::SegmentedLru => EvictionPolicy::segmented_lru(),
            Eviction::Lru => EvictionPolicy::lru(),
        })
        .removal_listener(move |removed| listener.removed.lock().unwrap().push(removed));
    if config.listens_twice {
        let listener = Arc::clone(reports);
        builder = builder.eviction_listener(move |key, value, cause| {
            listener.again.lock().unwrap().push((key.number, value.id, cause));
        });
    }
    if let Some(capacity) = config.max_capacity {
        builder = builder.max_capacity(capacity);
    }
    if config.weigher {
        builder = builder.weigher(|_: &Key, value: &Value| {
            if value.traits.weigher_panics {
                resume_unwind(Box::new(Planned));
            }
            value.traits.weight
        });
    }
    if let Some(lifetime) = config.time_to_live {
        builder = builder.time_to_live(lifetime);
    }
    if let Some(lifetime) = config.time_to_idle {
        builder = builder.time_to_idle(lifetime);
    }
    if let Some(resolution) = config.resolution {
        builder = builder.expiry_resolution(resolution);
    }
    let lifetime = |_: &Key, value: &Value| value.traits.create;
    let full = || Full { reports: Arc::clone(reports) };
    builder = match config.expiry {
        Policy::None => builder,
        Policy::Silent => builder.expire_after(Silent),
        Policy::CreateOnly => builder.expire_after(CreateOnly(Arc::clone(reports))),
        Policy::Full => builder.expire_after(full()),
        Policy::Blind => builder.expire_after(Writes(full())),
        Policy::OnCreate => builder.expire_after(expire::on_create(lifetime)),
        Policy::OnWrite => builder.expire_after(expire::on_write(lifetime)),
        Policy::OnAccess => builder.expire_after(expire::on_access(lifetime)),
    };
    let cache = builder.build_with_hasher(Spread { mask: config.hash_mask() });
    (Subject::new(cache, config.by_tasks), hand)
}
