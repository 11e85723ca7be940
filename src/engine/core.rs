//! The part of a cache that knows no `K` and no `V`, compiled once for all caches.

use super::event::Event;
use super::maintenance::Maintenance;
use super::reentry::{self, Deliver};
use crate::buffer::read::ReadBuffer;
use crate::buffer::ring::MAX_CAPACITY;
use crate::buffer::stripe_count;
use crate::buffer::write::{MAX_BATCH, WriteBuffer};
use crate::clock::{NEVER, Ticker};
use crate::config::{Config, Executor, Overflow};
use crate::drain::DrainStatus;
use crate::engine::flights::Flights;
use crate::executor::Handoff;
use crate::expiration::Lifetimes;
use crate::index::Index;
use crate::node::{GENERATIONS, Meta, NO_ERA};
use crate::outbox::Outbox;
use crate::pool::RawPool;
use crate::removal::RemovalCause;
use crate::scheduler::Registration;
use crate::stats::{Recorder, Stats};
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use crate::sync::carried::CarriedU32;
use crate::sync::queue::SegQueue;
use crate::sync::{Arc, Mutex, MutexGuard, seeded};
use crossbeam_utils::CachePadded;
use std::sync::OnceLock;
use std::sync::Weak;
use std::time::Duration;

/// The writes that wait for a pass, and those that it has taken out and not yet made room for, hold
/// at most this share of the capacity, all stripes of the write buffer together: what the builder's
/// documentation promises.
const SLACK_SHARE: u64 = 16;

/// How long a scheduled cache lets writes wait for the pass that sees to them.
pub const PASS_DELAY: Duration = Duration::from_millis(2);

/// A removal that the listener has yet to hear of. It carries a count on the node.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    pub id: u32,
    pub cause: RemovalCause,
    pub deadline: u64,
    pub at: u64,
}

/// What every read looks at beside the index and the node; written once per pass at most.
#[derive(Debug)]
pub struct Hot {
    /// Grows with each `invalidate_all`; nodes carry its low bits.
    generation: AtomicU64,
    /// The generation in which an entry was last published.
    published: AtomicU64,
    /// When the next pass is due.
    next_pass: AtomicU64,
    /// In which a node's reads are recorded once, or none in which they are not.
    pub era: AtomicU8,
}

/// See the [module](self).
pub struct Core {
    pub pool: Arc<RawPool>,
    pub index: Index,
    pub ticker: Ticker,
    pub lifetimes: Lifetimes,
    pub reads: ReadBuffer,
    pub writes: WriteBuffer,
    pub status: DrainStatus,
    pub maintenance: Mutex<Maintenance>,
    /// How many threads must have the maintenance lock. A hint, carried by nothing: who reads an
    /// old value runs a pass that was not needed, or leaves to the waiting thread's what it
    /// would have done.
    pub waiting: CarriedU32,
    pub flights: Flights,
    pub outbox: Outbox<Notice>,
    pub announces: bool,
    /// Whether reads may change deadlines, without a lock. Relaxed: true is always safe, and false
    /// is for ever.
    pub reads_prolong: AtomicBool,
    /// Whether there is a bound, and so a policy that wants to hear of reads.
    pub bounded: bool,
    pub max_capacity: u64,
    pub hot: CachePadded<Hot>,
    /// How many batches of dead nodes have come through their grace period since and wait to be
    /// collected.
    pub grace_ended: Arc<AtomicUsize>,
    /// Nodes without a count, whose key and value are to be dropped by whoever ran the pass.
    pub doomed: SegQueue<Vec<u32>>,
    /// Dead nodes that the cache still has its count on: retired, in grace, or ripe.
    pub undropped: AtomicUsize,
    pub closed: AtomicBool,
    /// Entries, weight and swept generation as of the last pass.
    pub entries: AtomicU64,
    pub weight: AtomicU64,
    pub swept: AtomicU64,
    /// When, as of the last pass, a pass will have something to expire.
    pub next_due: AtomicU64,
    /// The wheel's tick.
    pub tick: Duration,
    pub last_pass: AtomicU64,
    pub recorder: Option<Box<Recorder>>,
    pub registration: OnceLock<Registration>,
    pub scheduled: bool,
    /// Runs of the scheduler in a row that have waited for somebody's guard in vain.
    pub idle_runs: CarriedU32,
    /// The cache itself, for those who deliver on its behalf.
    pub client: OnceLock<Weak<dyn Deliver>>,
    /// Keeps at most one job of the cache's with the executor.
    pub handoff: Handoff,
    pub executor: Executor,
    /// Whether callers, too, leave deliveries to the executor.
    pub delivers_elsewhere: bool,
    /// How many notices may wait before writers do.
    pub holds_back_at: Option<usize>,
    /// How many may wait before others are discarded.
    pub discards_at: Option<usize>,
    /// Notices that were discarded, and values refused after the end that were not announced.
    pub discarded: AtomicU64,
    pub refused_after_close: AtomicU64,
}

/// A write buffer that keeps the share. What a pass has taken out and not yet made room for, and
/// what comes meanwhile, have half of it each. Where half of that is more than stripes can hold,
/// which is sure where all entries weigh 1, the other half may be spilled; of updates and removals,
/// which need no room, as many as the share.
fn write_buffer(config: &Config, capacity: u64) -> WriteBuffer {
    let stripes = stripe_count() as u64;
    let share = capacity / SLACK_SHARE;
    let quarter = share / 4;
    let spills = !config.weighs && quarter / stripes >= MAX_CAPACITY as u64;
    let (most, heaviest) = if spills { (share, quarter) } else { (0, 0) };
    let of_stripe = ((share / 2 - heaviest) / stripes).max(1);
    let batch = usize::try_from(of_stripe).unwrap_or(MAX_BATCH).min(MAX_BATCH);
    WriteBuffer::new(batch, of_stripe).spilling(most, heaviest)
}

/// A generation as nodes carry it.
#[inline]
pub fn mark_of(generation: u64) -> u16 {
    (generation % GENERATIONS) as u16
}

impl Core {
    pub fn new(config: &Config, ticker: Ticker, pool: Arc<RawPool>, reads_prolong: bool) -> Self {
        let capacity = config.max_capacity.unwrap_or(u64::MAX);
        Self {
            index: Index::with_capacity(config.initial_capacity),
            lifetimes: config.lifetimes,
            reads: ReadBuffer::new(),
            writes: write_buffer(config, capacity),
            status: DrainStatus::new(),
            maintenance: Mutex::new(Maintenance::new(config, ticker.now())),
            waiting: CarriedU32::new(0),
            flights: Flights::new(),
            outbox: Outbox::new(),
            announces: config.announces,
            reads_prolong: AtomicBool::new(reads_prolong),
            bounded: config.max_capacity.is_some(),
            max_capacity: capacity,
            hot: CachePadded::new(Hot {
                generation: AtomicU64::new(0),
                published: AtomicU64::new(0),
                next_pass: AtomicU64::new(NEVER),
                era: AtomicU8::new(NO_ERA),
            }),
            next_due: AtomicU64::new(NEVER),
            grace_ended: Arc::new(AtomicUsize::new(0)),
            doomed: SegQueue::new(),
            undropped: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            entries: AtomicU64::new(0),
            weight: AtomicU64::new(0),
            swept: AtomicU64::new(0),
            tick: config.geometry.tick(),
            last_pass: AtomicU64::new(ticker.now()),
            recorder: config.record_stats.then(|| Box::new(Recorder::new())),
            registration: OnceLock::new(),
            scheduled: config.scheduled,
            idle_runs: CarriedU32::new(0),
            client: OnceLock::new(),
            handoff: Handoff::new(),
            executor: config.executor.clone().unwrap_or_default(),
            delivers_elsewhere: config.executor.is_some(),
            holds_back_at: config.notifications.of(Overflow::Wait),
            discards_at: config.notifications.of(Overflow::Discard),
            discarded: AtomicU64::new(0),
            refused_after_close: AtomicU64::new(0),
            ticker,
            pool,
        }
    }

    /// The generation that new nodes get and living nodes have.
    #[inline]
    pub fn generation(&self) -> u16 {
        mark_of(self.hot.generation.load(Ordering::Acquire))
    }

    pub fn full_generation(&self) -> u64 {
        self.hot.generation.load(Ordering::Acquire)
    }

    /// Makes every node inserted before this call invisible; false, and nothing done, if that would
    /// leave more than `unswept` generations to be swept.
    pub fn next_generation(&self, unswept: u64) -> bool {
        let swept = self.swept.load(Ordering::Acquire);
        let next = |generation: u64| (generation < swept + unswept).then_some(generation + 1);
        // Counted and checked in one step: no number of callers at once counts too far.
        self.hot.generation.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok()
    }

    /// How many generations have begun since the last one up to which everything was swept.
    pub fn unswept(&self) -> u64 {
        self.full_generation().saturating_sub(self.swept.load(Ordering::Acquire))
    }

    /// Whether an `invalidate_all` took the node. The node was found in the index or is published
    /// under a lock that the caller holds: so its generation is not newer than the one that is
    /// read here, after it.
    #[inline(always)]
    pub fn is_cleared(&self, meta: &Meta) -> bool {
        meta.generation() != self.generation()
    }

    /// An entry of this generation is about to be published. Relaxed: an `invalidate_all` that has
    /// to see it comes after the insert has returned. The number only grows: a writer of an
    /// older generation may have been held up.
    #[inline(always)]
    pub fn note_published(&self, generation: u64) {
        if self.hot.published.load(Ordering::Relaxed) < generation {
            self.hot.published.fetch_max(generation, Ordering::Relaxed);
        }
    }

    /// Whether nothing was published since the last `invalidate_all`, and no load is under way that
    /// another one would have to overtake.
    pub fn is_blank(&self) -> bool {
        let generation = self.full_generation();
        generation > 0
            && self.hot.published.load(Ordering::Relaxed) < generation
            && self.flights.is_empty()
    }

    /// Whether a pass is due at `now`.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.hot.next_pass.load(Ordering::Relaxed)
    }

    /// Sees to it that a pass begins after this, at `at` or before, if anybody asks for one.
    pub fn pass_by(&self, at: u64) {
        // Release with the acquire in `begin_pass`: a pass that takes this wish back sees what it
        // was for.
        self.hot.next_pass.fetch_min(at, Ordering::AcqRel);
    }

    /// Takes back all wishes for a pass, which is beginning.
    pub fn begin_pass(&self) {
        self.hot.next_pass.swap(NEVER, Ordering::AcqRel);
    }

    /// The maintenance lock, for somebody who must have it.
    pub fn lock_maintenance(&self) -> MutexGuard<'_, Maintenance> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let state = self.maintenance.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Whether somebody waits for the maintenance lock and will run a pass. Others leave it alone
    /// then: the mutex is not fair, and whoever has just released it would have it again before
    /// the other is awake.
    pub fn is_awaited(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Announces a value that was refused after the cache was closed; but not if its own listener
    /// gave it, which would have no end.
    #[cold]
    pub fn refuse_closed(&self, id: u32, deadline: u64, now: u64) {
        if !reentry::delivers(self) || seeded("refusals-are-announced") {
            return self.announce(id, RemovalCause::Explicit, deadline, now);
        }
        self.refused_after_close.fetch_add(1, Ordering::Relaxed);
        if let Some(recorder) = &self.recorder {
            recorder.removed(RemovalCause::Explicit, 0);
        }
    }

    /// Counts a removal and queues its announcement. Called where the node has just left the index,
    /// under its bucket's lock: announcements of one key are queued in the order of its removals.
    #[inline(always)]
    pub fn announce(&self, id: u32, cause: RemovalCause, deadline: u64, now: u64) {
        if self.recorder.is_some() || self.announces {
            self.announce_to_some(id, cause, deadline, now);
        }
    }

    #[inline(never)]
    fn announce_to_some(&self, id: u32, cause: RemovalCause, deadline: u64, now: u64) {
        // Somebody with a later reading of the clock may have claimed the expiry.
        let at = if cause == RemovalCause::Expired { now.max(deadline) } else { now };
        if let Some(recorder) = &self.recorder {
            recorder.removed(cause, at.saturating_sub(deadline));
        }
        if !self.announces {
            return;
        }
        if self.discards_at.is_some_and(|limit| self.outbox.len() >= limit) {
            self.discarded.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.pool.meta(id).retain();
        self.outbox.push(Notice { id, cause, deadline, at });
    }

    /// The cause with which a node leaves whose removal was asked for with `cause`: what had
    /// already ended it comes first.
    #[inline]
    pub fn true_cause(
        &self,
        meta: &Meta,
        deadline: u64,
        now: u64,
        cause: RemovalCause,
    ) -> RemovalCause {
        if self.is_cleared(meta) {
            RemovalCause::Explicit
        } else if deadline <= now {
            RemovalCause::Expired
        } else {
            cause
        }
    }

    /// Takes in an event that its stripe has refused, if there is room for it. The index grows in
    /// passes: what no pass has heard of is not to be more than what it is large enough for.
    pub fn spill(&self, event: u64) -> bool {
        // Where events may be spilled, an entry weighs 1; only a new one needs room.
        let weight = u32::from(matches!(Event::unpack(event), Event::Added(..)));
        self.writes.spilled_weight() < self.entries() && self.writes.spill(event, weight)
    }

    /// Asks the scheduler, if the cache has one, for a pass within `delay`.
    #[inline]
    pub fn wake_within(&self, delay: Duration) {
        if self.scheduled
            && let Some(registration) = self.registration.get()
        {
            registration.wake_at(delay);
        }
    }
}

impl Core {
    /// How long, in real time, until the wheel has something to expire.
    pub fn until_due(&self) -> Option<Duration> {
        let due = self.next_due();
        (due != NEVER).then(|| self.until(due))
    }

    /// How long until a time, in real time. A clock of the user's cannot be waited for, so it is
    /// looked at once per tick.
    pub fn until(&self, time: u64) -> Duration {
        self.ticker.real_delay(time).unwrap_or(self.tick)
    }
}

impl Core {
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    pub fn weight(&self) -> u64 {
        self.weight.load(Ordering::Relaxed)
    }

    pub fn next_due(&self) -> u64 {
        self.next_due.load(Ordering::Relaxed)
    }

    pub fn stats(&self) -> Stats {
        let mut stats = match &self.recorder {
            Some(recorder) => recorder.snapshot(self.entries(), self.weight()),
            None => Stats::of_size(self.entries(), self.weight()),
        };
        stats.pending_notifications = self.outbox.len() as u64;
        stats.discarded_notifications = self.discarded.load(Ordering::Relaxed);
        stats.refused_after_close = self.refused_after_close.load(Ordering::Relaxed);
        stats
    }
}
