//! What the documents say, on a plain map.

use super::case::{Config, Policy, Term, Traits};
use super::subject::Hook;
use cortado::RemovalCause;
use std::time::Duration;

pub const NEVER: u64 = u64::MAX;
/// The first instant: a clock that reads zero. There are 2^63 of them.
pub const FIRST: u64 = (1 << 63) + 1;

/// How far the wheel's clock may be ahead of one that was set back.
const SET_BACK: u64 = 1 << 30;

pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(NEVER)
}

/// One value in the cache, or on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Rec {
    pub id: u64,
    pub key: u8,
    pub traits: Traits,
    pub created: u64,
    /// When it ends even if it is read all the time.
    pub cap: u64,
    pub deadline: u64,
    /// An `invalidate_all` has made it invisible.
    pub cleared: bool,
    /// Somebody has found it expired: it stays so, also when the clock is set back.
    pub claimed: bool,
    /// When the wheel last heard of it, or could do nothing about it.
    pub floor: u64,
}

impl Rec {
    pub fn weight(&self) -> u64 {
        u64::from(self.traits.weight)
    }

    /// What is left of its life, in the form of the interface.
    pub fn left(&self, now: u64) -> Option<Duration> {
        remaining(self.deadline, now)
    }

    pub fn age(&self, now: u64) -> Duration {
        Duration::from_nanos(now.saturating_sub(self.created))
    }
}

fn remaining(end: u64, now: u64) -> Option<Duration> {
    (end != NEVER).then(|| Duration::from_nanos(end.saturating_sub(now)))
}

/// A removal that must be announced.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    pub rec: Rec,
    pub cause: RemovalCause,
    pub at: u64,
    /// Whether it was ever in the index.
    pub was_inside: bool,
}

/// A hook call that must be made.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    pub hook: Hook,
    pub key: u8,
    pub id: u64,
    pub now: u64,
    pub current: Option<Duration>,
    pub modified: Option<u64>,
}

/// What was seen to happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub operations: u64,
    pub hits: u64,
    pub misses: u64,
    pub insertions: u64,
    pub loads: u64,
    pub load_failures: u64,
    pub removed: [u64; 4],
    pub panics: u64,
    pub special: Special,
}

/// Of operations that take some luck.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Special {
    /// Loads that come to no value.
    pub without_value: u64,
    /// Loads that replace the entry that they find.
    pub replacing: u64,
    pub guards: u64,
    /// Guards that are used after their load was overtaken.
    pub overtaken: u64,
    /// Loads of keys for which there is a guard.
    pub timeouts: u64,
    /// Values made by loaders of several keys.
    pub of_many: u64,
    /// Entries that were taken out by drains.
    pub drained: u64,
    /// Changes of the bound to less than was there.
    pub lowered: u64,
}

impl Special {
    #[allow(dead_code, reason = "the fuzzer counts for itself")]
    pub fn all(&self) -> [u64; 8] {
        let Self { without_value, replacing, guards, overtaken, .. } = *self;
        let Self { timeouts, of_many, drained, lowered, .. } = *self;
        [without_value, replacing, guards, overtaken, timeouts, of_many, drained, lowered]
    }

    fn add(&mut self, other: &Self) {
        self.without_value += other.without_value;
        self.replacing += other.replacing;
        self.guards += other.guards;
        self.overtaken += other.overtaken;
        self.timeouts += other.timeouts;
        self.of_many += other.of_many;
        self.drained += other.drained;
        self.lowered += other.lowered;
    }
}

impl Counts {
    #[allow(dead_code, reason = "the fuzzer counts for itself")]
    pub fn add(&mut self, other: &Self) {
        self.operations += other.operations;
        self.hits += other.hits;
        self.misses += other.misses;
        self.insertions += other.insertions;
        self.loads += other.loads;
        self.load_failures += other.load_failures;
        self.panics += other.panics;
        self.special.add(&other.special);
        self.removed.iter_mut().zip(other.removed).for_each(|(sum, more)| *sum += more);
    }
}

/// A callback of the user's panics, and the operation has no effect.
#[derive(Clone, Copy, Debug)]
pub struct Panics;

pub struct Oracle {
    pub config: Config,
    pub live: Option<u64>,
    pub idle: Option<u64>,
    /// log2 of the wheel's tick.
    tick: u32,
    /// The clock's reading.
    pub now: u64,
    /// What the wheel's clock reads at most.
    wheel: u64,
    /// What it read at most when the clock was last behind it.
    back_from: u64,
    pub inside: Vec<Option<Rec>>,
    pub leaving: Vec<Leaving>,
    pub calls: Vec<Expected>,
    pub counts: Counts,
    /// What everything inside may have weighed at once since the operation began.
    pub peak: u64,
    /// Values that got into the index so far.
    published: u64,
    pub closed: bool,
}

impl Oracle {
    pub fn new(config: Config, now: u64) -> Self {
        let resolution = config.resolution.map_or(1 << 30, nanos);
        Self {
            config,
            live: config.time_to_live.map(nanos),
            idle: config.time_to_idle.map(nanos),
            tick: resolution.ilog2().clamp(19, 30),
            now,
            wheel: now,
            back_from: 0,
            inside: vec![None; usize::from(config.keys)],
            leaving: Vec::new(),
            calls: Vec::new(),
            counts: Counts::default(),
            peak: 0,
            published: 0,
            closed: false,
        }
    }

    pub fn set_clock(&mut self, now: u64) {
        self.now = now;
        if now < self.wheel {
            self.back_from = self.wheel.min(now.saturating_add(SET_BACK));
        }
        self.wheel = self.wheel.max(now);
    }

    /// All maintenance was done. There is no wheel yet if nothing was ever in the index: it begins
    /// when the cache was built, and follows a clock that was set back in the first pass after the
    /// first write.
    pub fn was_finished(&mut self) {
        if self.published == 0 {
            return;
        }
        self.wheel = self.wheel.min(self.now.saturating_add(SET_BACK));
    }

    /// Grows with each operation that must notice what is due.
    pub fn uses(&self) -> u64 {
        self.counts.hits + self.counts.misses + self.published
    }

    pub fn recs(&self) -> impl Iterator<Item = &Rec> {
        self.inside.iter().flatten()
    }

    pub fn weight(&self) -> u64 {
        self.recs().map(Rec::weight).sum()
    }

    pub fn at(&self, key: u8) -> Option<&Rec> {
        self.inside[usize::from(key)].as_ref()
    }

    fn lives(&self, rec: &Rec) -> bool {
        !rec.cleared && !self.has_ended(rec)
    }

    fn has_ended(&self, rec: &Rec) -> bool {
        rec.claimed || rec.deadline <= self.now
    }

    /// The key's living entry, as an operation finds it.
    pub fn visible(&mut self, key: u8) -> Option<Rec> {
        self.claim(key);
        self.at(key).copied().filter(|rec| self.lives(rec))
    }

    /// All that an iteration finds.
    pub fn all_visible(&mut self) -> Vec<Rec> {
        (0..self.config.keys).for_each(|key| self.claim(key));
        self.recs().filter(|rec| self.lives(rec)).copied().collect()
    }

    /// What is found expired stays expired.
    pub fn claim(&mut self, key: u8) {
        let now = self.now;
        if let Some(rec) = &mut self.inside[usize::from(key)] {
            rec.claimed |= !rec.cleared && rec.deadline <= now;
        }
    }

    pub fn tick_end(&self, deadline: u64) -> u64 {
        (deadline | (self.tick_span() - 1)).saturating_add(1)
    }

    pub fn tick_span(&self) -> u64 {
        1 << self.tick
    }

    /// The removal of an expired entry is due at the end of the tick in which this lies: its
    /// deadline, unless the wheel's clock was ahead when it was scheduled or looked at.
    pub fn owed_from(&self, rec: &Rec) -> u64 {
        rec.deadline.max(rec.floor).max(self.back_from)
    }

    /// Whether complete maintenance at this moment must have removed it: all that is due by now.
    pub fn overdue(&self, rec: &Rec) -> bool {
        rec.cleared || self.owed_from(rec) <= self.now
    }

    /// Whether maintenance to the last tick must have removed it.
    pub fn overdue_by_ticks(&self, rec: &Rec) -> bool {
        rec.cleared || self.owed_from(rec) >> self.tick < self.now >> self.tick
    }
}

/// Reads.
impl Oracle {
    /// A read that counts. The record is as the read leaves it.
    pub fn read(&mut self, key: u8) -> Result<Option<Rec>, Panics> {
        let Some(rec) = self.visible(key) else {
            self.counts.misses += 1;
            return Ok(None);
        };
        let rec = self.renewed(rec)?;
        self.inside[usize::from(key)] = Some(rec);
        self.counts.hits += 1;
        Ok(Some(rec))
    }

    /// A read of an entry for which `accepts` holds. Any other one is a miss, and is left alone.
    pub fn read_if(
        &mut self,
        key: u8,
        accepts: impl FnOnce(u64) -> bool,
    ) -> Result<Option<Rec>, Panics> {
        if self.visible(key).is_some_and(|rec| !accepts(rec.id)) {
            self.counts.misses += 1;
            return Ok(None);
        }
        self.read(key)
    }

    fn renewed(&mut self, mut rec: Rec) -> Result<Rec, Panics> {
        let current = remaining(rec.cap, self.now);
        let answer = match self.config.expiry {
            Policy::Full => {
                self.call(Hook::Read, &rec, current, Some(rec.created));
                rec.traits.read.apply(rec.traits.create, current).ok_or(Panics)?
            }
            Policy::OnAccess => rec.traits.create,
            _ => current,
        };
        if answer != current {
            // A read gives no life beyond the `time_to_live`, nor beyond what was given in its
            // place.
            let most = self.live.map_or(NEVER, |live| rec.created.saturating_add(live));
            rec.cap = self.end(answer).min(most.max(rec.cap));
        }
        // A read takes back no idle time, also if that has become shorter.
        let deadline = match self.idle {
            Some(_) => self.deadline(NEVER).max(rec.deadline).min(rec.cap),
            None => rec.cap,
        };
        if deadline != rec.deadline {
            rec.deadline = deadline;
            rec.floor = self.wheel;
        }
        Ok(rec)
    }

    fn end(&self, lifetime: Option<Duration>) -> u64 {
        lifetime.map_or(NEVER, |lifetime| self.now.saturating_add(nanos(lifetime)))
    }

    fn deadline(&self, cap: u64) -> u64 {
        self.idle.map_or(cap, |idle| self.now.saturating_add(idle).min(cap))
    }

    fn call(&mut self, hook: Hook, rec: &Rec, current: Option<Duration>, modified: Option<u64>) {
        let (key, id, now) = (rec.key, rec.id, self.now);
        self.calls.push(Expected { hook, key, id, now, current, modified });
    }
}

/// Writes.
impl Oracle {
    /// Asks weigher and hooks what becomes of a new value.
    pub fn plan(&mut self, key: u8, id: u64, traits: Traits, term: Term) -> Result<Rec, Panics> {
        if traits.weigher_panics {
            return Err(Panics);
        }
        // Until the maintenance hears of it, the wheel may go as far as it has been.
        let (now, floor) = (self.now, self.wheel);
        let mut rec = Rec {
            id,
            key,
            traits,
            created: now,
            cap: 0,
            deadline: 0,
            cleared: false,
            claimed: false,
            floor,
        };
        rec.cap = match term {
            Term::Policy => {
                let end = self.lifetime(&rec)?;
                self.live.map_or(end, |live| now.saturating_add(live).min(end))
            }
            Term::For(lifetime) => now.saturating_add(nanos(lifetime)),
            Term::Until(shift) => shift.from(now).max(FIRST),
        };
        rec.deadline = self.deadline(rec.cap);
        Ok(rec)
    }

    /// What the hooks say of a new value: its end.
    fn lifetime(&mut self, rec: &Rec) -> Result<u64, Panics> {
        let create = rec.traits.create;
        let old = self.visible(rec.key).map(|old| remaining(old.cap, self.now));
        let lifetime = match (self.config.expiry, old) {
            (Policy::None | Policy::Silent, _) => None,
            (Policy::Full | Policy::Blind, Some(current)) => {
                self.call(Hook::Update, rec, current, None);
                rec.traits.update.apply(create, current).ok_or(Panics)?
            }
            (Policy::Full | Policy::Blind | Policy::CreateOnly, _) => {
                self.call(Hook::Create, rec, None, None);
                create
            }
            (Policy::OnCreate, Some(current)) => current,
            (Policy::OnCreate | Policy::OnWrite | Policy::OnAccess, _) => create,
        };
        Ok(self.end(lifetime))
    }

    /// Gives the value to the cache.
    pub fn put(&mut self, rec: Rec) {
        self.put_computed(rec, false);
    }

    /// The same of a computation, which was perhaps made from what an `invalidate_all` has taken
    /// since.
    pub fn put_computed(&mut self, rec: Rec, outdated: bool) {
        self.counts.insertions += 1;
        self.leave(rec.key, RemovalCause::Replaced);
        let max_capacity = self.config.max_capacity;
        let refused = if self.closed || outdated {
            Some(RemovalCause::Explicit)
        } else if rec.deadline <= self.now {
            Some(RemovalCause::Expired)
        } else if max_capacity.is_some_and(|most| most == 0 || rec.weight() > most) {
            Some(RemovalCause::Size)
        } else {
            None
        };
        match refused {
            Some(cause) => {
                self.leaving.push(Leaving { rec, cause, at: self.now, was_inside: false });
            }
            None => {
                self.peak += rec.weight();
                self.published += 1;
                self.inside[usize::from(rec.key)] = Some(rec);
            }
        }
    }

    /// Whatever the key has leaves now, with this cause unless something else ended it before.
    pub fn leave(&mut self, key: u8, cause: RemovalCause) {
        let Some(rec) = self.inside[usize::from(key)].take() else { return };
        let cause = if rec.cleared {
            RemovalCause::Explicit
        } else if self.has_ended(&rec) {
            RemovalCause::Expired
        } else {
            cause
        };
        self.leaving.push(Leaving { rec, cause, at: self.left_at(&rec, cause), was_inside: true });
    }

    /// When something leaves now: one that was found expired, no earlier than at its end.
    pub fn left_at(&self, rec: &Rec, cause: RemovalCause) -> u64 {
        if cause == RemovalCause::Expired { self.now.max(rec.deadline) } else { self.now }
    }

    /// The removal of a key: what it returns.
    pub fn remove(&mut self, key: u8, condition: bool) -> Option<Rec> {
        let visible = self.visible(key);
        if visible.is_none() || condition {
            self.leave(key, RemovalCause::Explicit);
        }
        visible.filter(|_| condition)
    }

    pub fn clear(&mut self) {
        self.inside.iter_mut().flatten().for_each(|rec| rec.cleared = true);
    }

    /// Sets the key's cap, if it has a living entry.
    pub fn set_hard_deadline(&mut self, key: u8, cap: u64) -> bool {
        let Some(mut rec) = self.visible(key) else { return false };
        rec.cap = cap;
        rec.deadline = self.deadline(cap);
        rec.floor = self.wheel;
        let over = rec.deadline <= self.now;
        if over {
            rec.deadline = self.now;
        }
        self.inside[usize::from(key)] = Some(rec);
        if over {
            self.leave(key, RemovalCause::Expired);
        }
        true
    }

    /// During a computation of the key the maintenance could do nothing about entries that share
    /// its hash, and has put off what it found due.
    pub fn was_busy(&mut self, key: u8) {
        let (now, wheel, mask) = (self.now, self.wheel, self.config.hash_mask());
        for rec in self.inside.iter_mut().flatten() {
            if (rec.key ^ key) as u64 & mask == 0 && rec.deadline <= now {
                rec.floor = wheel;
            }
        }
    }
}
