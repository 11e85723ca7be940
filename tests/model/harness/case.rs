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
    pub time_to_live: Option<Duration>,
    pub time_to_idle: Option<Duration>,
    pub expiry: Policy,
    /// `None` is the default.
    pub resolution: Option<Duration>,
    pub record_stats: bool,
    /// Keys differ in fewer hashes than there are keys.
    pub colliding: bool,
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

/// Which expiry hooks there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    None,
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
    Panic,
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

#[derive(Clone, Copy, Debug)]
pub enum Decision {
    Nop,
    Put(Traits),
    Remove,
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
    GetEntry { key: u8, keep: bool },
    Peek(u8),
    ContainsKey(u8),
    Pinned(u8),
    Touch(u8),
    Insert(u8, Traits, Term),
    Remove(u8),
    RemoveEntry { key: u8, keep: bool },
    RemoveIf(u8, bool),
    Invalidate(u8),
    InvalidateAll,
    Retain(u8),
    Iterate,
    GetWith(u8, Traits, WhileLoading),
    OrInsertWith(u8, Traits, WhileLoading),
    Compute(u8, Decision, WhileComputing),
    SetTtl(u8, Duration),
    SetExpiresAt(u8, Shift),
    Persist(u8),
    ExpiresIn(u8),
    RunPending,
    RunWithin(u8),
    Step(Step),
    Close,
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
