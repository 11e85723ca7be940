//! Loads and computations in progress, and how other operations on their keys deal with them.
//!
//! * A **computation** owns its key: other writes wait for it, and the maintenance leaves its entry
//!   alone.
//! * A **load** owns nothing. A write of its key takes effect at once and marks the load as
//!   *overtaken*. The result of an overtaken load reaches its waiters but not the cache.
//! * A **reload** is a load of a key that has an entry. A computation of the key does not wait for
//!   it but overtakes it, and a change of the entry's lifetime leaves it alone.
//! * Some writes take the key **exclusively**, as computations do: an insert whose entry changed
//!   while its hooks were asked, and a conditional removal.
//! * Loads and computations make other loads and computations of the key wait. An overtaken load
//!   does not: the operation that finds it removes it from the board and goes on. So an operation
//!   that begins after the write never gets a value that was loaded before it.
//!
//! # Why no write is missed
//! A load or computation first registers its flight on the board. Then it locks its key's bucket
//! once ([`stable_entry`](super::conflict)). A writer of the key, also one that finds nothing,
//! checks under the bucket's lock whether the board's shard is idle. So either the flight's look
//! under the lock sees the write, or the writer sees the flight.
//!
//! An insert or removal marks a load *before* it locks the bucket, and the load reads the mark
//! under that lock. So the load either commits before the write, which then finds the loaded entry,
//! or does not commit. An `invalidate_all` marks all loads by its generation.
//!
//! # Steps do not wait
//! An operation that may have to wait is a sequence of *steps*. A step either ends the operation or
//! names the flight to wait for ([`Step`]). Between two steps an operation holds only state that it
//! owns and that is `Send`: a draft, a value, a closure, counts on nodes, its own flight. It holds
//! no epoch guard, no lock and no borrow of the cache's state. Dropping that state cancels the
//! operation: until its last step nothing is committed. [`block_on`] turns steps into a call that
//! blocks its thread.

pub use super::outcome::{FlightKind, LoadOutcome, LoadedNode, Obstacle, OnLoad};
use super::reentrancy::{self, FlightToken, ReentrancyMark};
use crate::flight::board::{Board, Shard, ShardGuard, Version};
use crate::flight::cell::{FlightCell, HasCell, Leader, Outcome};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::node::Generation;
use crate::pool::RawHandle;
use crate::primitives::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use crate::primitives::queue::SegQueue;
use crate::primitives::{Arc, Patience, seeded};
use std::cell::Cell;
use std::time::Instant;

/// One load or computation in progress.
pub struct Flight {
    /// A node with the flight's key, which others compare with theirs.
    key_node: RawHandle,
    kind: FlightKind,
    /// The generation when the flight was registered.
    generation: Generation,
    overtaken: AtomicBool,
    /// Whether the loader has returned, and its value may be the key's by now. Relaxed: the owner
    /// stores it before it takes the bucket's lock, and others read it after they held that lock.
    commits: AtomicBool,
    /// Whether a load that was handed to the executor has begun. Relaxed: it carries nothing, and
    /// whoever changes it from [`QUEUED`] runs a loader next.
    stage: AtomicU8,
    /// The node whose eviction waits for this computation. Relaxed: a pass writes it under the
    /// shard's lock, and the flight's owner reads it after it has held that lock.
    postponed: AtomicU32,
    /// The result; `None` for a computation, which has no result for others.
    cell: FlightCell<Option<LoadOutcome>>,
}

/// The load waits in the executor.
const QUEUED: u8 = 0;
/// The owner's code may run. Flights of other kinds have begun when they are registered.
const BEGUN: u8 = 1;
/// Another operation went past the load while it was queued. It does not begin any more.
const PASSED: u8 = 2;

impl HasCell for Flight {
    type Result = Option<LoadOutcome>;

    fn cell(&self) -> &FlightCell<Self::Result> {
        &self.cell
    }
}

/// Whether an operation has ended.
#[must_use = "an operation goes on until it is done"]
pub enum Step<T> {
    /// The operation has ended. Whatever it had to commit is committed.
    Done(T),
    /// Nothing is committed. The next step follows when this flight has landed.
    Wait(Arc<Flight>),
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

/// [`block_on`] that gives up at `deadline`, if there is one, and returns `None` then. Nothing is
/// committed.
///
/// # Panics
/// As [`block_on`].
pub fn block_until<T>(deadline: Option<Instant>, mut step: impl FnMut() -> Step<T>) -> Option<T> {
    loop {
        match (step(), deadline) {
            (Step::Done(result), _) => return Some(result),
            (Step::Wait(flight), None) => flight.wait(),
            (Step::Wait(flight), Some(deadline)) if flight.wait_until(deadline) => {}
            (Step::Wait(_), Some(_)) => return None,
        }
    }
}

impl Flight {
    pub fn key_node(&self) -> &RawHandle {
        &self.key_node
    }

    pub fn kind(&self) -> FlightKind {
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
        self.assert_not_own();
        let _ = self.cell.wait();
    }

    /// Blocks until the flight has landed, or until `deadline`. Returns whether it has landed.
    ///
    /// # Panics
    /// If this thread runs the code that the flight is for.
    pub fn wait_until(&self, deadline: Instant) -> bool {
        self.assert_not_own();
        self.cell.wait_until(deadline)
    }

    /// Panics if this thread runs the owner's code, since a wait for it could never end.
    ///
    /// # Panics
    /// If this thread runs the code that the flight is for.
    pub fn assert_not_own(&self) {
        assert!(
            !reentrancy::is_flying(self.token()),
            "a load or computation waits for its own key"
        );
    }

    /// The outcome of a completed load. `None` for a computation, and if the flight was abandoned
    /// or still runs.
    pub fn outcome(&self) -> Option<LoadOutcome> {
        match self.cell.outcome() {
            Some(Outcome::Done(outcome)) => outcome,
            Some(Outcome::Abandoned) | None => None,
        }
    }

    /// Keeps the result of a load out of the cache. Relaxed: an insert or removal takes the
    /// bucket's lock next, which orders the store. A change of a lifetime marks the load after
    /// its commit. Then only calls that begin later need the mark, and whatever made them later
    /// orders it.
    pub fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Notes that the loader has returned.
    pub fn begin_commit(&self) {
        self.commits.store(true, Ordering::Relaxed);
    }

    /// Goes past a load that waits in the executor, whose only thread may be the caller's. Does
    /// nothing to a load that has begun.
    pub fn pass_queued(&self) {
        let _ = self.stage.compare_exchange(QUEUED, PASSED, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether a caller that has just changed the lifetime of the key's entry overtakes the flight,
    /// because others may get its value by it. A reload leaves the entry alone until it commits.
    pub fn gives_the_entry(&self) -> bool {
        match self.kind {
            FlightKind::Load | FlightKind::Queued => true,
            FlightKind::Reload => self.commits.load(Ordering::Relaxed),
            FlightKind::Exclusive => false,
        }
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

    /// Whether the load's result may be outdated, given the present generation. A commit must call
    /// this under the lock of the key's bucket. Elsewhere `false` may be outdated.
    pub fn is_overtaken(&self, generation: Generation) -> bool {
        self.generation != generation
            || self.overtaken.load(Ordering::Relaxed)
            || self.stage.load(Ordering::Relaxed) == PASSED
    }
}

/// How a writer knows that no load or computation is in its way.
#[derive(Clone, Copy)]
pub enum Clearance<'a> {
    /// It commits only if the shard has no flight.
    Idle,
    /// It has compared its key with all flights registered before this version, and none is in its
    /// way.
    Seen(Version),
    /// It has the key exclusively.
    Exclusive,
    /// It is the load itself.
    Load(&'a FlightGuard),
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
    board: Board<Flight>,
    /// Nodes whose eviction has waited for a computation that has ended. A node may have left
    /// since, and its id may be another node's.
    released: SegQueue<NodeId>,
}

impl Flights {
    pub fn new() -> Self {
        Self { board: Board::new(), released: SegQueue::new() }
    }

    pub fn shard(&self, hash: Hash32) -> &Shard<Flight> {
        self.board.shard(hash)
    }

    /// Whether no flight can have this hash. Rule 3 of the [board](crate::flight::board) says which
    /// callers may rely on the answer.
    #[inline]
    pub fn is_idle(&self, hash: Hash32) -> bool {
        self.board.is_idle(hash)
    }

    pub fn is_empty(&self) -> bool {
        self.board.is_empty()
    }

    /// Keeps flights from being registered in the shard, unless a computation with this hash is
    /// registered. For the maintenance, which waits for no flight. The computation notes that it
    /// keeps the node `victim` from being evicted.
    ///
    /// # Errors
    /// If a computation is registered, or another thread holds the shard and the pass does not
    /// wait.
    pub fn permit_without_computation(
        &self,
        hash: Hash32,
        patience: Patience,
        victim: Option<NodeId>,
    ) -> Result<CommitPermit<'_>, Kept> {
        let kept = Cell::new(Kept::ForNow);
        let is_in_the_way = |flight: &Flight| {
            let is_computation = flight.kind == FlightKind::Exclusive;
            // Of several computations with this hash, any that has no other victim notes this one.
            let is_noted = kept.get() == Kept::ByComputation;
            if is_computation && !is_noted && victim.is_some_and(|id| flight.postpone(id)) {
                kept.set(Kept::ByComputation);
            }
            is_computation
        };
        let shard = self.board.shard(hash).lock_unless(hash, patience, is_in_the_way);
        shard.map(|shard| CommitPermit::Locked { _shard: shard }).ok_or(kept.get())
    }

    /// Keeps flights from being registered in the shard, if none with this hash is: then none is of
    /// the key. So a writer need not compare keys with flights of other hashes in its shard.
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

    /// Removes a flight from the board.
    fn remove(&self, hash: Hash32, flight: &Arc<Flight>) {
        self.shard(hash).remove(hash, flight);
        let postponed = flight.postponed();
        if postponed != NodeId::NONE {
            self.released.push(postponed);
        }
    }

    /// Keeps loads and computations of the key from being registered while the writer commits;
    /// `None` if one was registered after the writer compared keys.
    #[inline]
    pub fn permit<'a>(
        &'a self,
        hash: Hash32,
        clearance: Clearance<'a>,
    ) -> Option<CommitPermit<'a>> {
        match clearance {
            Clearance::Idle if self.is_idle(hash) => Some(CommitPermit::IfIdle),
            Clearance::Idle => Some(self.permit_beside_others(hash)),
            Clearance::Exclusive => Some(CommitPermit::Exclusive),
            Clearance::Load(guard) => Some(CommitPermit::Load(guard.flight())),
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
    Exclusive,
    /// The load must not be overtaken.
    Load(&'a Flight),
    /// No flight is registered while this lock is held.
    Locked {
        _shard: ShardGuard<'a, Flight>,
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
            Self::Load(_) if seeded("loads-land-overtaken") => Ok(()),
            Self::Load(flight) if flight.is_overtaken(generation()) => Err(Obstacle::Overtaken),
            _ => Ok(()),
        }
    }
}

/// A registered flight, for its owner. Dropping it removes the flight from the board and abandons
/// it.
pub struct FlightGuard {
    flights: Arc<Flights>,
    hash: Hash32,
    leader: Leader<Flight>,
}

impl FlightGuard {
    /// Registers a flight; `None` if another one of this hash was registered since `seen`.
    pub fn register(
        flights: &Arc<Flights>,
        (kind, generation): (FlightKind, Generation),
        key_node: RawHandle,
        seen: Version,
    ) -> Option<Self> {
        let hash = key_node.meta().hash();
        let leader = Leader::of(Flight {
            key_node,
            kind,
            generation,
            overtaken: AtomicBool::new(false),
            commits: AtomicBool::new(false),
            stage: AtomicU8::new(if kind == FlightKind::Queued { QUEUED } else { BEGUN }),
            postponed: AtomicU32::new(NodeId::NONE.raw()),
            cell: FlightCell::new(),
        });
        flights.shard(hash).try_insert(hash, Arc::clone(leader.flight()), seen).ok()?;
        Some(Self { flights: Arc::clone(flights), hash, leader })
    }

    fn flight(&self) -> &Arc<Flight> {
        self.leader.flight()
    }

    pub fn is_of(&self, flight: &Arc<Flight>) -> bool {
        Arc::ptr_eq(self.flight(), flight)
    }

    /// Begins a load that waited in the executor. False if something has overtaken it, or gone past
    /// it: then nobody who comes later waits for it.
    pub fn begin_queued(&self, generation: Generation) -> bool {
        let flight = self.flight();
        let (from, to) = (QUEUED, BEGUN);
        let begun = flight.stage.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
        (begun.is_ok() && !flight.is_overtaken(generation)) || seeded("passed-loads-begin")
    }

    /// Marks one poll of the owner's future on this thread. Deliveries that the poll defers wait
    /// for the end of the flight.
    pub fn mark_poll(&self) -> Option<ReentrancyMark> {
        ReentrancyMark::poll(self.flight().token())
    }

    /// Marks this thread as the one that runs the owner's code until the flight ends.
    pub fn enter(self) -> EnteredFlight {
        let _mark = ReentrancyMark::flight(self.flight().token());
        EnteredFlight { guard: self, _mark }
    }

    fn land(&mut self, outcome: impl FnOnce() -> Option<LoadOutcome>) {
        self.flights.remove(self.hash, self.leader.flight());
        self.leader.complete(outcome);
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        if self.leader.is_flying() && !seeded("unwinding-keeps-the-flight") {
            self.flights.remove(self.hash, self.flight());
        }
        self.leader.abandon();
        // The future's polls deferred deliveries to the end of the flight. If the owner failed or
        // was cancelled, the end is here.
        if reentrancy::has_deferred() {
            reentrancy::deliver_deferred();
        }
    }
}

/// Compile-time check: the state between two steps is `Send` and borrows nothing.
const _: () = {
    const fn is_owned<T: Send + 'static>() {}
    is_owned::<Step<FlightGuard>>();
};

/// A flight whose owner's code runs on this thread. Until this is dropped or landed, nothing is
/// delivered on this thread, and a wait for the flight panics.
pub struct EnteredFlight {
    // Declared, and so dropped, before the mark. Dropping the mark delivers what was deferred, and
    // a listener may write the key.
    guard: FlightGuard,
    _mark: Option<ReentrancyMark>,
}

impl EnteredFlight {
    /// Ends a computation.
    pub fn land(self) {
        self.land_with(|| None);
    }

    /// Ends a load. `outcome` is called if there are waiters to share it with.
    pub fn land_with(mut self, outcome: impl FnOnce() -> Option<LoadOutcome>) {
        self.guard.land(outcome);
    }

    /// Notes that the loader has returned, before the commit.
    pub fn begin_commit(&self) {
        self.guard.flight().begin_commit();
    }

    /// How the owner of a load commits it.
    pub fn clearance(&self) -> Clearance<'_> {
        Clearance::Load(&self.guard)
    }
}
