//! The cache under test, and how one request is played to it: look up, insert on a miss.

use crate::ledger::Outcome;
use crate::options::{Expire, Options};
use crate::trace::Request;
use anyhow::Result;
use cortado::{Cache, Clock, ManualClock, expire};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What the cache holds for a key. The object's bytes themselves are left out: they would measure
/// the allocator.
#[derive(Clone, Copy, Debug)]
pub struct Payload {
    weight: u32,
    /// In nanoseconds; `u64::MAX`: for ever.
    lifetime: u64,
}

impl Payload {
    fn new(weight: Option<u32>, lifetime: Option<Duration>) -> Self {
        let lifetime = lifetime.and_then(|life| u64::try_from(life.as_nanos()).ok());
        Self { weight: weight.unwrap_or(1), lifetime: lifetime.unwrap_or(u64::MAX) }
    }

    fn lifetime(self) -> Option<Duration> {
        (self.lifetime != u64::MAX).then(|| Duration::from_nanos(self.lifetime))
    }
}

/// Plays requests to a cache that all its clones share.
#[derive(Clone)]
pub struct Player {
    pub cache: Cache<u64, Payload>,
    time: Option<Arc<TraceTime>>,
    ttl: Option<Duration>,
    ignore_ttl: bool,
}

impl Player {
    /// `bound` is in entries, or in weight if the options say so; `timed` says whether requests
    /// carry the time.
    pub fn new(options: &Options, bound: u64, timed: bool) -> Result<Self> {
        let mut builder = Cache::builder().name("replay").max_capacity(bound).record_stats(true);
        if options.max_weight.is_some() {
            builder = builder.weigher(|_: &u64, payload: &Payload| payload.weight);
        }
        let lifetime = |_: &u64, payload: &Payload| payload.lifetime();
        builder = match options.expire {
            Expire::Create => {
                builder.expire_after(expire::on_create(lifetime).jitter(options.jitter))
            }
            Expire::Write => {
                builder.expire_after(expire::on_write(lifetime).jitter(options.jitter))
            }
            Expire::Access => {
                builder.expire_after(expire::on_access(lifetime).jitter(options.jitter))
            }
        };
        if let Some(tti) = options.tti {
            builder = builder.time_to_idle(tti);
        }
        if let Some(resolution) = options.resolution {
            builder = builder.expiry_resolution(resolution);
        }
        let mut time = None;
        if timed {
            let (clock, hand) = Clock::manual();
            builder = builder.clock(clock);
            time = Some(Arc::new(TraceTime::new(hand, options.resolution)));
        }
        let cache = builder.try_build()?;
        Ok(Self { cache, time, ttl: options.ttl, ignore_ttl: options.ignore_ttl })
    }

    /// The lifetime of an entry that `request` makes.
    pub fn lifetime(&self, request: &Request) -> Option<Duration> {
        if self.ignore_ttl { self.ttl } else { request.ttl.or(self.ttl) }
    }

    /// Plays one request.
    pub fn play(&self, request: &Request) -> Outcome {
        if !request.update && self.cache.get(&request.key).is_some() {
            return Outcome::Hit;
        }
        let lifetime = self.lifetime(request);
        let payload = Payload::new(request.weight, lifetime);
        if lifetime == Some(Duration::ZERO) {
            self.cache.insert_with_ttl(request.key, payload, Duration::ZERO);
        } else {
            self.cache.insert(request.key, payload);
        }
        if request.update { Outcome::Update } else { Outcome::Miss }
    }

    /// Moves the clock on to the time of `request`; `pass` is called for each maintenance pass that
    /// is due on the way.
    pub fn reach(&self, request: &Request, pass: impl FnMut()) {
        if let (Some(time), Some(at)) = (&self.time, request.at) {
            time.reach(at, pass);
        }
    }
}

/// The time of the trace, as the cache reads it. It never goes back.
///
/// On its way it stops at every tick for a maintenance pass, as a scheduler's thread would make
/// one: an entry that comes due while the trace is silent is not late because the trace is silent.
struct TraceTime {
    hand: ManualClock,
    tick: Duration,
    /// Milliseconds reached so far, for a quick look; the mutex orders those who move the hand.
    reached: AtomicU64,
    next_tick: Mutex<Duration>,
}

impl TraceTime {
    /// How often expiry is paced unless the options set a resolution.
    const TICK: Duration = Duration::from_secs(1);
    /// Silence is not divided into more ticks than this.
    const MOST_TICKS: u32 = 1000;

    fn new(hand: ManualClock, resolution: Option<Duration>) -> Self {
        let tick = resolution.unwrap_or(Self::TICK).max(Duration::from_micros(100));
        Self { hand, tick, reached: AtomicU64::new(0), next_tick: Mutex::new(tick) }
    }

    fn reach(&self, at: Duration, mut pass: impl FnMut()) {
        let micros = u64::try_from(at.as_micros()).unwrap_or(u64::MAX);
        // `Acquire` pairs with the `Release` below: who sees a time reached sees the clock set to
        // it.
        if micros <= self.reached.load(Ordering::Acquire) {
            return;
        }
        let mut next_tick = self.next_tick.lock().unwrap_or_else(PoisonError::into_inner);
        if micros <= self.reached.load(Ordering::Acquire) {
            return;
        }
        if *next_tick <= at {
            let step = self.tick.max((at - *next_tick) / Self::MOST_TICKS);
            while *next_tick <= at {
                self.hand.set(*next_tick);
                pass();
                *next_tick = next_tick.saturating_add(step);
            }
        }
        self.hand.set(at);
        self.reached.store(micros, Ordering::Release);
    }
}
