//! What a case is made of: plain values.

use std::time::Duration;

/// A configuration and a program for it.
#[derive(Clone, Debug)]
pub struct Case {
    pub config: Config,
    pub ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    pub max_capacity: Option<u64>,
    /// Whether weights are asked for; otherwise each entry weighs 1.
    pub weigher: bool,
    pub eviction: Eviction,
    /// Whether there is a second listener.
    pub listens_twice: bool,
    pub time_to_live: Option<Duration>,
    pub time_to_idle: Option<Duration>,
    pub expiry: Policy,
    /// `None` is the default.
    pub resolution: Option<Duration>,
    pub record_stats: bool,
    /// Keys differ in fewer hashes than there are keys.
    pub colliding: bool,
    /// Operations are those of tasks, where there are such.
    pub by_tasks: bool,
    pub keys: u8,
    /// Where the clock starts.
    pub start: Duration,
    pub initial_capacity: usize,
}

impl Config {
    /// Keys that agree in these bits have the same hash.
    pub fn hash_mask(&self) -> u64 {
        if self.colliding { 3 } else { u64::MAX }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    TinyLfu,
    SegmentedLru,
    Lru,
}

/// Which expiry hooks there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    None,
    /// A policy of the user's that leaves all hooks to the trait.
    Silent,
    /// A policy of the user's with the create hook only.
    CreateOnly,
    /// One with all hooks.
    Full,
    /// One whose read hook must never be asked.
    Blind,
    OnCreate,
    OnWrite,
    OnAccess,
}

/// What a value says about itself to hooks and weigher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    pub create: Option<Duration>,
    pub update: Rule,
    pub read: Rule,
    pub weight: u32,
    pub weigher_panics: bool,
}

/// What a hook makes of the current lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Keep,
    AsCreated,
    Set(Duration),
    Half,
    Never,
    Panic,
}

#[derive(Clone, Copy, Debug)]
pub enum Term {
    Policy,
    For(Duration),
    /// So long after the present (or before it).
    Until(Shift),
}

/// A displacement in time.
#[derive(Clone, Copy, Debug)]
pub enum Shift {
    Ahead(Duration),
    Back(Duration),
}

/// What happens inside a loader.
#[derive(Clone, Copy, Debug)]
pub enum WhileLoading {
    Nothing,
    Step(Step),
    InsertSame(Traits, Term),
    RemoveSame,
    InvalidateAll,
    LoadOther(u8, Traits),
    Panic,
}

/// What a loader may return instead of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Nothing,
    None,
    /// Errors of two types.
    Text,
    Number,
}

/// How a key is loaded.
#[derive(Clone, Copy, Debug)]
pub struct Loading {
    pub kind: Kind,
    /// By the key's place, which returns a handle.
    pub by_entry: bool,
    pub by_ref: bool,
    /// By `load`, whose loader may give a lifetime.
    pub loaded: Option<Option<Duration>>,
    /// Whether the loader makes a value.
    pub makes: bool,
}

/// Which keys an operation on several keys is about.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    pub first: u8,
    pub stride: u8,
    pub count: u8,
}

/// What happens inside a computation.
#[derive(Clone, Copy, Debug)]
pub enum WhileComputing {
    Nothing,
    Step(Step),
    ReadSame,
    InsertOther(u8, Traits),
    InvalidateAll,
    Panic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    Nop,
    /// With a lifetime of its own, perhaps.
    Put(Traits, Option<Duration>),
    Remove,
    /// The computation returns an error.
    Fail,
}

/// A movement of the clock.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    By(Shift),
    /// To the deadline of a key, so many nanoseconds before or after it.
    ToDeadline(u8, i8),
    /// To the end of the wheel's tick in which the deadline of a key lies.
    PastTick(u8),
}

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Get(u8),
    /// A read that takes the entries that the number says.
    GetIf(u8, u8),
    GetEntry {
        key: u8,
        keep: bool,
    },
    Peek(u8),
    ContainsKey(u8),
    Pinned(u8),
    Touch(u8),
    Insert(u8, Traits, Term),
    Remove(u8),
    RemoveEntry {
        key: u8,
        keep: bool,
    },
    RemoveIf(u8, bool),
    Invalidate(u8),
    InvalidateAll,
    Retain(u8),
    InvalidateIf(u8),
    Iterate,
    /// Up to so many entries.
    Drain(usize),
    /// The entries that expire first, or last, up to so many.
    InOrder {
        latest: bool,
        limit: usize,
    },
    Load(u8, Traits, Loading, WhileLoading),
    /// A load that replaces what it finds, if the number says so.
    LoadIf(u8, Traits, u8, WhileLoading),
    Compute(u8, Decision, WhileComputing),
    TryCompute(u8, Decision, WhileComputing),
    Upsert(u8, Traits, WhileComputing),
    Replace(u8, Traits, Option<Duration>),
    TakeGuard(u8),
    /// The guard that was taken as so many before the last, modulo their number.
    UseGuard(u8, Traits, Option<Duration>),
    DropGuard(u8),
    GetMany(Keys),
    LoadMany(Keys, Traits, ManyMade, WhileLoading),
    InsertMany(Keys, Traits, Term),
    InvalidateMany(Keys),
    SetCapacity(u64),
    SetLive(Option<Duration>),
    SetIdle(Duration),
    SetTtl(u8, Duration),
    SetExpiresAt(u8, Shift),
    Persist(u8),
    ExpiresIn(u8),
    RunPending,
    RunWithin(u8),
    Step(Step),
    Close,
}

/// What a loader of many comes to.
#[derive(Clone, Copy, Debug)]
pub struct ManyMade {
    /// For which of the keys there is a value.
    pub mask: u8,
    pub fails: bool,
    /// A key that nobody asked for.
    pub extra: Option<u8>,
}

impl Keys {
    /// The keys, some perhaps twice.
    pub fn all(self, config: &Config) -> impl Iterator<Item = u8> + use<> {
        let keys = u16::from(config.keys);
        let key = move |n| (u16::from(self.first) + u16::from(n * self.stride)) % keys;
        (0..self.count).map(move |n| key(n) as u8)
    }
}

impl Shift {
    /// The time at this displacement from `now`.
    pub fn from(self, now: u64) -> u64 {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        match self {
            Self::Ahead(span) => now.saturating_add(nanos(span)),
            Self::Back(span) => now.saturating_sub(nanos(span)),
        }
    }
}
