//! Loads and computations in progress, and how other operations of their keys get along with them.
//!
//! * A **computation** owns its key: other writes wait for it, and the maintenance leaves its entry
//!   alone.
//! * A **load** owns nothing. A write of its key takes effect at once and marks the load as
//!   *overtaken*; the result of an overtaken load reaches those who wait for it but not the cache.
//! * Both keep other loads and computations of the key waiting. An overtaken load does not: whoever
//!   finds it takes it off the board and goes on, so that what begins after the write never gets
//!   what was loaded before it.
//!
//! Both lock their key's bucket once after they took off (`Engine::settled`), and whoever writes
//! the key, a removal that finds nothing included, asks under that lock whether the shard is idle.
//! So a write comes before the flight's first look or knows of the flight. A writer marks a load
//! *before* it locks the bucket, and the load looks at the mark under that lock: it lands before
//! the write, which then finds what it put there, or not at all. An `invalidate_all` marks by its
//! generation.

use super::commit::Obstacle;
use super::reentry::Mark;
use crate::engine::core::Core;
use crate::flight::board::{Board, Shard, ShardGuard, Version};
use crate::flight::cell::{Flight, Leader, Outcome};
use crate::pool::RawHandle;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, ThreadId};
use crate::sync::{Arc, Patience, seeded};

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Load,
    Computation,
}

/// One load or computation in progress.
pub struct InFlight {
    /// The node under construction, for its key.
    draft: RawHandle,
    kind: Kind,
    owner: ThreadId,
    /// The generation when it took off.
    generation: u64,
    overtaken: AtomicBool,
    landing: Arc<Flight<Option<Landed>>>,
}

/// What a load came to.
#[derive(Clone)]
pub struct Landed {
    pub node: RawHandle,
    /// When its life ends; never for a value that was not to be kept, which all who waited share.
    pub ends: u64,
}

/// What becomes of a load of the key that is in the way of somebody who takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// It is waited for.
    Waiting,
    /// It is overtaken: the caller is about to write the key.
    Overtaking,
}

impl InFlight {
    pub fn draft(&self) -> &RawHandle {
        &self.draft
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Waits for the end; what a load came to, if it came to something.
    ///
    /// # Panics
    /// If this thread is the one to end it.
    pub fn wait(&self) -> Option<Landed> {
        assert!(
            self.owner != thread::current().id(),
            "a load or computation waits for its own key"
        );
        match self.landing.wait() {
            Outcome::Done(landed) => landed,
            Outcome::Abandoned => None,
        }
    }

    /// Keeps its result out of the cache. Relaxed: the bucket's lock orders it, which the caller
    /// takes next.
    pub fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Whether what it found out may be outdated, when everything was last cleared by `generation`.
    /// Under the lock of its key's bucket.
    pub fn is_overtaken(&self, generation: u64) -> bool {
        self.generation != generation || self.overtaken.load(Ordering::Relaxed)
    }
}

/// How a writer knows that no load or computation is in its way.
#[derive(Clone, Copy)]
pub enum Clearance<'a> {
    /// If none is in the shard.
    Idle,
    /// It has compared its key with all that were there by then.
    Seen(Version),
    /// It is the computation itself.
    Own,
    /// It is the load itself.
    Landing(&'a Airborne<'a>),
}

/// All loads and computations in progress.
pub struct Flights {
    board: Board<InFlight>,
}

impl Flights {
    pub fn new() -> Self {
        Self { board: Board::new() }
    }

    pub fn shard(&self, hash: u32) -> &Shard<InFlight> {
        self.board.shard(hash)
    }

    /// Whether nothing can be in the way of this hash; see the board's rules for who may rely on
    /// it.
    #[inline]
    pub fn is_idle(&self, hash: u32) -> bool {
        self.board.shard(hash).is_idle()
    }

    /// Keeps computations of keys with this hash from taking off; `None` if there is one. For the
    /// maintenance, which waits for none.
    pub fn hold_unclaimed(&self, hash: u32, patience: Patience) -> Option<Hold<'_>> {
        let shard = self.board.shard(hash);
        shard
            .lock_unless(hash, patience, |flight| flight.kind == Kind::Computation)
            .map(|shard| Hold::Locked { _shard: shard })
    }

    /// Keeps loads and computations of the key from taking off while the writer commits; `None` if
    /// one did since the writer looked.
    pub fn hold<'a>(&'a self, hash: u32, clearance: Clearance<'a>) -> Option<Hold<'a>> {
        match clearance {
            Clearance::Idle => Some(Hold::IfIdle),
            Clearance::Own => Some(Hold::Own),
            Clearance::Landing(airborne) => Some(Hold::Landing(&airborne.flight)),
            Clearance::Seen(version) => self
                .board
                .shard(hash)
                .lock_if(hash, version)
                .map(|shard| Hold::Locked { _shard: shard }),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.board.is_empty()
    }
}

/// See [`Flights::hold`]. Taken before the bucket's lock, which it must outlive.
pub enum Hold<'a> {
    /// The shard has to be idle when the bucket is locked.
    IfIdle,
    Own,
    /// The load has not been overtaken.
    Landing(&'a InFlight),
    /// Nothing new takes off while this is held.
    Locked {
        _shard: ShardGuard<'a, InFlight>,
    },
}

impl Hold<'_> {
    /// Whether it keeps what it promises, with the bucket locked.
    #[inline(always)]
    pub fn check(
        &self,
        flights: &Flights,
        hash: u32,
        generation: impl FnOnce() -> u64,
    ) -> Result<(), Obstacle> {
        match self {
            Self::IfIdle if seeded("writers-ignore-flights") => Ok(()),
            Self::IfIdle if !flights.is_idle(hash) => Err(Obstacle::Flight),
            Self::Landing(_) if seeded("loads-land-overtaken") => Ok(()),
            Self::Landing(flight) if flight.is_overtaken(generation()) => Err(Obstacle::Overtaken),
            _ => Ok(()),
        }
    }
}

/// A flight of this thread that is on the board. Dropping it takes it off and abandons it.
pub struct Airborne<'a> {
    core: &'a Core,
    hash: u32,
    flight: Arc<InFlight>,
    leader: Option<Leader<Option<Landed>>>,
    /// Nothing is delivered on this thread until it has landed.
    _mark: Option<Mark>,
}

impl<'a> Airborne<'a> {
    /// Puts a flight on the board; `None` if another with the hash was put there since `seen`.
    pub fn take_off(
        core: &'a Core,
        hash: u32,
        kind: Kind,
        draft: RawHandle,
        seen: Version,
    ) -> Option<Self> {
        let (leader, landing) = Flight::start();
        let flight = Arc::new(InFlight {
            draft,
            kind,
            generation: core.full_generation(),
            owner: thread::current().id(),
            overtaken: AtomicBool::new(false),
            landing,
        });
        core.flights.shard(hash).try_insert(hash, Arc::clone(&flight), seen).ok()?;
        Some(Self { core, hash, flight, leader: Some(leader), _mark: Mark::flight() })
    }

    /// Ends the flight; those who waited get `result`.
    pub fn land(mut self, result: Option<Landed>) {
        self.core.flights.shard(self.hash).remove(self.hash, &self.flight);
        if let Some(leader) = self.leader.take() {
            leader.complete(result);
        }
    }
}

impl Drop for Airborne<'_> {
    fn drop(&mut self) {
        if self.leader.is_some() && !seeded("unwinding-keeps-the-flight") {
            self.core.flights.shard(self.hash).remove(self.hash, &self.flight);
        }
    }
}
