//! Loads and computations in progress, and how other operations on their keys deal with them.
//!
//! * A **computation** owns its key: other writes wait for it, and the maintenance leaves its entry
//!   alone.
//! * A **load** owns nothing. A write of its key takes effect at once and marks the load as
//!   *overtaken*. The result of an overtaken load reaches its waiters but not the cache.
//! * Both make other loads and computations of the key wait. An overtaken load does not: the
//!   operation that finds it takes it off the board and goes on. So an operation that begins after
//!   the write never gets a value that was loaded before it.
//!
//! # Why no write is missed
//! A load or computation first puts its flight on the board. Then it locks its key's bucket once
//! ([`stable_entry`](super::claim)). A writer of the key, also one that finds nothing, checks under
//! the bucket's lock whether the board's shard is idle. So either the flight's first look sees the
//! write, or the write sees the flight.
//!
//! A writer marks a load *before* it locks the bucket, and the load reads the mark under that lock.
//! So the load either commits before the write, which then finds the loaded entry, or does not
//! commit. An `invalidate_all` marks all loads by its generation.
//!
//! # Steps do not wait
//! An operation that may have to wait is a sequence of *steps*. A step either ends the operation or
//! names the flight to wait for ([`Step`]). Between two steps an operation holds only state that it
//! owns and that is `Send`: a draft, a value, a closure, counts on nodes, its own flight. It holds
//! no epoch guard, no lock and no borrow of the cache's state. Dropping that state cancels the
//! operation: until its last step nothing is committed. [`block_on`] turns steps into a call that
//! blocks its thread.

use super::reentrancy::{self, FlightToken, ReentrancyMark};
use crate::clock::Timestamp;
use crate::flight::board::{Board, Shard, ShardGuard, Version};
use crate::flight::cell::{Flight, Follow, Leader, Outcome};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::loaded::NoValue;
use crate::node::Generation;
use crate::pool::RawHandle;
use crate::primitives::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::primitives::queue::SegQueue;
use crate::primitives::{Arc, Patience, seeded};
use std::cell::Cell;
use std::time::Instant;

/// Why a commit did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The bucket changed since the search. The operation must search again.
    Changed,
    /// A load or computation in the same shard may have the key. The operation must compare keys
    /// and come back with a [`Clearance`].
    Flight,
    /// The load's key was written, or everything was cleared, since the load began.
    Overtaken,
    /// The key's entry is not the one that the hooks were asked about.
    EntryChanged,
}

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
    /// The generation at take-off.
    generation: Generation,
    overtaken: AtomicBool,
    /// The node whose eviction waits for this computation. Relaxed: a pass writes it under the
    /// shard's lock, and the flight's owner reads it after it has held that lock.
    postponed: AtomicU32,
    /// What the flight came to; `None` for a computation, which has no result for others.
    landing: Arc<Flight<Option<LoadOutcome>>>,
}

/// The outcome of a load, which its waiters share.
#[derive(Clone)]
pub enum LoadOutcome {
    Value(LoadedNode),
    NoValue(NoValue),
}

/// The value of a load.
#[derive(Clone)]
pub struct LoadedNode {
    pub node: RawHandle,
    /// The end of the value's life. [`NEVER`](crate::clock::NEVER) for a value that was not to be
    /// kept, since all waiters get that value.
    pub ends: Timestamp,
    /// Whether the load has made the value, and not found it.
    pub is_made: bool,
}

/// How an operation that takes a key treats a load of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// It waits for the load.
    Waiting,
    /// It overtakes the load, since it is about to write the key.
    Overtaking,
}

/// Whether an operation has ended.
#[must_use = "an operation goes on until it is done"]
pub enum Step<T> {
    /// The operation has ended. Whatever it had to commit is committed.
    Done(T),
    /// Nothing is committed. The next step follows when this flight has landed.
    Wait(Arc<InFlight>),
}

/// Runs the steps of an operation and blocks this thread between them.
///
/// # Panics
/// If an operation would wait for a flight whose owner is further up on this thread's stack.
pub fn block_on<T>(mut step: impl FnMut() -> Step<T>) -> T {
    loop {
        match step() {
            Step::Done(result) => return result,
            Step::Wait(flight) => flight.wait(),
        }
    }
}

/// [`block_on`] that gives up at `deadline` and returns `None` then. Nothing is committed.
///
/// # Panics
/// As [`block_on`].
pub fn block_until<T>(deadline: Instant, mut step: impl FnMut() -> Step<T>) -> Option<T> {
    loop {
        match step() {
            Step::Done(result) => return Some(result),
            Step::Wait(flight) if flight.wait_until(deadline) => {}
            Step::Wait(_) => return None,
        }
    }
}

impl InFlight {
    pub fn draft(&self) -> &RawHandle {
        &self.draft
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    fn token(&self) -> FlightToken {
        FlightToken::of(self)
    }

    /// Blocks until the flight has landed.
    ///
    /// # Panics
    /// If this thread runs the code that the flight is for.
    pub fn wait(&self) {
        self.refuse_own_wait();
        let _ = self.landing.wait();
    }

    /// Blocks until the flight has landed, or until `deadline`. Returns whether it has landed.
    ///
    /// # Panics
    /// If this thread runs the code that the flight is for.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.refuse_own_wait();
        self.landing.wait_until(deadline)
    }

    /// A future that waits until the flight has landed.
    pub fn follow(&self) -> Follow<Option<LoadOutcome>> {
        Follow::new(Arc::clone(&self.landing))
    }

    /// # Panics
    /// If this thread runs the code that the flight is for.
    pub fn refuse_own_wait(&self) {
        assert!(
            !reentrancy::is_flying(self.token()),
            "a load or computation waits for its own key"
        );
    }

    /// The outcome of a load that has landed; `None` if it was abandoned.
    pub fn outcome(&self) -> Option<LoadOutcome> {
        match self.landing.outcome() {
            Some(Outcome::Done(outcome)) => outcome,
            Some(Outcome::Abandoned) | None => None,
        }
    }

    /// Keeps the result of a load out of the cache. Relaxed: the caller takes the bucket's lock
    /// next, which orders the store.
    pub fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Notes that the eviction of this node waits for the computation. False if another node's
    /// does. To be called under the shard's lock and the maintenance lock.
    fn postpone(&self, id: NodeId) -> bool {
        let noted = self.postponed();
        if noted == NodeId::NONE {
            self.postponed.store(id.raw(), Ordering::Relaxed);
        }
        noted == NodeId::NONE || noted == id
    }

    fn postponed(&self) -> NodeId {
        NodeId::from_raw(self.postponed.load(Ordering::Relaxed))
    }

    /// Whether the load's result may be outdated, given the present generation. To be called under
    /// the lock of the key's bucket.
    pub fn is_overtaken(&self, generation: Generation) -> bool {
        self.generation != generation || self.overtaken.load(Ordering::Relaxed)
    }
}

/// How a writer knows that no load or computation is in its way.
#[derive(Clone, Copy)]
pub enum Clearance<'a> {
    /// It commits only if the shard has no flight.
    Idle,
    /// It has compared its key with all flights of its hash up to this version.
    Seen(Version),
    /// It is the computation itself.
    Own,
    /// It is the load itself.
    Landing(&'a FlightGuard),
}

/// Why the maintenance has to leave a node alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A later pass has to try again.
    ForNow,
    /// A computation uses the node, and its end puts the node among the [`Flights::next_released`].
    ByComputation,
}

/// All loads and computations in progress.
pub struct Flights {
    board: Board<InFlight>,
    /// Nodes whose eviction has waited for a computation that has ended. A node may have left
    /// since, and its id may be another node's.
    released: SegQueue<NodeId>,
}

impl Flights {
    pub fn new() -> Self {
        Self { board: Board::new(), released: SegQueue::new() }
    }

    pub fn shard(&self, hash: Hash32) -> &Shard<InFlight> {
        self.board.shard(hash)
    }

    /// Whether no flight can have this hash. Rule 3 of the [board](crate::flight::board) says which
    /// callers may rely on the answer.
    #[inline]
    pub fn is_idle(&self, hash: Hash32) -> bool {
        self.board.shard(hash).is_idle()
    }

    pub fn is_empty(&self) -> bool {
        self.board.is_empty()
    }

    /// Keeps computations of keys with this hash from taking off, unless one is on the board. For
    /// the maintenance, which waits for no flight. The computation notes that it keeps the node
    /// `victim` from being evicted.
    ///
    /// # Errors
    /// If a computation is on the board, or another thread holds the shard and the pass does not
    /// wait.
    pub fn permit_without_computation(
        &self,
        hash: Hash32,
        patience: Patience,
        victim: Option<NodeId>,
    ) -> Result<CommitPermit<'_>, Kept> {
        let kept = Cell::new(Kept::ForNow);
        let is_in_the_way = |flight: &InFlight| {
            let is_computation = flight.kind == Kind::Computation;
            if is_computation && victim.is_some_and(|id| flight.postpone(id)) {
                kept.set(Kept::ByComputation);
            }
            is_computation
        };
        let shard = self.board.shard(hash).lock_unless(hash, patience, is_in_the_way);
        shard.map(|shard| CommitPermit::Locked { _shard: shard }).ok_or(kept.get())
    }

    /// Keeps flights of keys with this hash from taking off, if none is on the board: then none is
    /// of the key. So a writer need not compare keys with flights of other hashes in its shard.
    #[cold]
    #[inline(never)]
    pub fn permit_beside_others(&self, hash: Hash32) -> CommitPermit<'_> {
        let shard = self.board.shard(hash).lock_unless(hash, Patience::Wait, |_| true);
        shard.map_or(CommitPermit::IfIdle, |shard| CommitPermit::Locked { _shard: shard })
    }

    /// A node whose eviction has waited for a computation that has ended.
    pub fn next_released(&self) -> Option<NodeId> {
        self.released.pop()
    }

    /// Whether there is such a node.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Takes a flight off the board.
    fn end(&self, hash: Hash32, flight: &Arc<InFlight>) {
        self.shard(hash).remove(hash, flight);
        let postponed = flight.postponed();
        if postponed != NodeId::NONE {
            self.released.push(postponed);
        }
    }

    /// Keeps loads and computations of the key from taking off while the writer commits; `None` if
    /// one took off after the writer compared keys.
    pub fn permit<'a>(
        &'a self,
        hash: Hash32,
        clearance: Clearance<'a>,
    ) -> Option<CommitPermit<'a>> {
        match clearance {
            Clearance::Idle if self.is_idle(hash) => Some(CommitPermit::IfIdle),
            Clearance::Idle => Some(self.permit_beside_others(hash)),
            Clearance::Own => Some(CommitPermit::Own),
            Clearance::Landing(guard) => Some(CommitPermit::Landing(&guard.flight)),
            Clearance::Seen(version) => self
                .board
                .shard(hash)
                .lock_if(hash, version)
                .map(|shard| CommitPermit::Locked { _shard: shard }),
        }
    }
}

/// See [`Flights::permit`]. The caller takes the permit before it locks the bucket, and drops the
/// permit after it has unlocked the bucket.
pub enum CommitPermit<'a> {
    /// The shard has to be idle when the bucket is locked.
    IfIdle,
    Own,
    /// The load must not be overtaken.
    Landing(&'a InFlight),
    /// No flight takes off while this lock is held.
    Locked {
        _shard: ShardGuard<'a, InFlight>,
    },
}

impl CommitPermit<'_> {
    /// Whether the commit may go on. To be called with the bucket locked.
    #[inline(always)]
    pub fn check(
        &self,
        flights: &Flights,
        hash: Hash32,
        generation: impl FnOnce() -> Generation,
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

/// A flight on the board, for its owner. Dropping it takes the flight off and abandons it.
pub struct FlightGuard {
    flights: Arc<Flights>,
    hash: Hash32,
    leader: Option<Leader<Option<LoadOutcome>>>,
    flight: Arc<InFlight>,
}

impl FlightGuard {
    /// Puts a flight on the board; `None` if another one of this hash took off since `seen`.
    pub fn take_off(
        flights: &Arc<Flights>,
        (kind, generation): (Kind, Generation),
        draft: RawHandle,
        seen: Version,
    ) -> Option<Self> {
        let hash = draft.meta().hash();
        let (leader, landing) = Flight::start();
        let (overtaken, postponed) = (AtomicBool::new(false), AtomicU32::new(NodeId::NONE.raw()));
        let flight = Arc::new(InFlight { draft, kind, generation, overtaken, postponed, landing });
        flights.shard(hash).try_insert(hash, Arc::clone(&flight), seen).ok()?;
        Some(Self { flights: Arc::clone(flights), hash, leader: Some(leader), flight })
    }

    /// Marks this thread as the one that runs the owner's code, as long as the mark lives. Nothing
    /// is delivered before the flight has ended.
    pub fn mark(&self) -> Option<ReentrancyMark> {
        ReentrancyMark::poll(self.flight.token())
    }

    /// Marks this thread as the one that runs the owner's code until the flight ends.
    pub fn enter(self) -> Entered {
        let _mark = ReentrancyMark::flight(self.flight.token());
        Entered { guard: self, _mark }
    }

    fn land(&mut self, outcome: impl FnOnce() -> Option<LoadOutcome>) {
        self.flights.end(self.hash, &self.flight);
        let Some(leader) = self.leader.take() else { return };
        // Others got the flight from the board, from which it is gone, or from one another. The
        // count is not stale: this thread's own removal has changed it last, or after the others.
        let is_alone = Arc::strong_count(&self.flight) == 1 && !leader.has_followers();
        if is_alone || seeded("landings-forget-the-waiters") {
            leader.retire();
        } else {
            leader.complete(outcome());
        }
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        if self.leader.is_some() && !seeded("unwinding-keeps-the-flight") {
            self.flights.end(self.hash, &self.flight);
        }
        drop(self.leader.take());
        // What polls have left, if the owner was cancelled or has failed.
        if reentrancy::has_deferred() {
            reentrancy::deliver_deferred();
        }
    }
}

/// What an operation holds between two steps may go to another thread, and borrows nothing.
const _: () = {
    const fn is_owned<T: Send + 'static>() {}
    is_owned::<FlightGuard>();
    is_owned::<Step<FlightGuard>>();
};

/// A flight whose owner's code runs on this thread. Until this is dropped or landed, nothing is
/// delivered on this thread, and a wait for the flight panics.
pub struct Entered {
    // Declared, and so dropped, before the mark. Dropping the mark delivers what was deferred, and
    // a listener may write the key.
    guard: FlightGuard,
    _mark: Option<ReentrancyMark>,
}

impl Entered {
    pub fn is_of(&self, flight: &Arc<InFlight>) -> bool {
        Arc::ptr_eq(&self.guard.flight, flight)
    }

    /// Ends a computation.
    pub fn land(self) {
        self.land_with(|| None);
    }

    /// Ends a load. `outcome` is called if there are waiters to share it with.
    pub fn land_with(mut self, outcome: impl FnOnce() -> Option<LoadOutcome>) {
        self.guard.land(outcome);
    }

    /// How the owner of a load commits it.
    pub fn clearance(&self) -> Clearance<'_> {
        Clearance::Landing(&self.guard)
    }
}
