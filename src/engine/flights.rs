//! Loads and computations in progress, and how other operations on their keys deal with them.
//!
//! * A **computation** owns its key: other writes wait for it, and the maintenance leaves its entry
//!   alone.
//! * A **load** owns nothing. A write of its key takes effect at once and marks the load as
//!   *overtaken*. The result of an overtaken load reaches its waiters but not the cache.
//! * A **reload** is a load of a key that has an entry. A computation of the key does not wait for
//!   it but overtakes it. A change of the entry's lifetime leaves it alone, unless the change ends
//!   the entry or the reload has begun to commit.
//! * Some writes take the key **exclusively**, as computations do: an insert whose entry changed
//!   while its hooks ran, and a conditional removal whose entry changed while its condition ran.
//! * Loads and computations of the key wait for each other, but not for reloads. No operation
//!   begins to wait for an overtaken load: it removes the load from the board and goes on. So an
//!   operation that begins after the write never gets a value that was loaded before the write.
//!
//! A flight *lands* when it ends: its owner completes it, or abandons it by panic or cancellation.
//!
//! # Why no write is missed
//! A load or computation first registers its flight on the board. Then it locks its key's bucket
//! once ([`stable_entry`](super::conflict)). Every writer of the key, even one that finds no entry,
//! either keeps the board's shard locked during its commit, or checks under the bucket's lock that
//! the shard is idle. (A writer whose own flight has the key needs neither.) So either the flight's
//! lookup under the lock sees the write, or the writer sees the flight.
//!
//! An insert or removal marks a load *before* it locks the bucket, and the load reads the mark
//! under that lock. So the load either commits before the write, which then finds the loaded entry,
//! or does not commit. An `invalidate_all` marks all loads by its generation.

pub use super::outcome::{FlightKind, LoadOutcome, LoadedNode, Obstacle};
use super::reentrancy::{self, FlightToken, Frame, ReentrancyMark};
use crate::flight::board::{Board, ShardGuard, Version};
use crate::flight::cell::{FlightCell, HasCell, Leader};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::node::Generation;
use crate::pool::RawHandle;
use crate::primitives::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::primitives::queue::SegQueue;
use crate::primitives::time::Instant;
use crate::primitives::{Arc, Patience, seeded};
use std::cell::Cell;
use std::ops::Deref;

/// One load or computation in progress.
pub struct Flight {
    /// A node with the flight's key. Other operations compare their keys with it.
    pub key_node: RawHandle,
    pub kind: FlightKind,
    /// For a load of a call that has begun others before: the token of the first of them.
    call: Option<FlightToken>,
    /// The generation when the flight was registered.
    generation: Generation,
    overtaken: AtomicBool,
    /// Whether the owner may have an entry to share: while it looks at one that it does not
    /// replace, and from its commit on. Not while the user's code runs: what that code does is no
    /// reason to give the load up. Relaxed: the owner stores `true` before it takes the bucket's
    /// lock; others read it after they have held that lock.
    may_share: AtomicBool,
    /// The node whose eviction waits for this computation. Relaxed: a pass writes it under the
    /// shard's lock, and the flight's owner reads it after holding that lock.
    postponed_victim: AtomicU32,
    /// The result; `None` for a computation, which has no result for others.
    cell: FlightCell<Option<LoadOutcome>>,
}

impl HasCell for Flight {
    type Result = Option<LoadOutcome>;

    fn cell(&self) -> &FlightCell<Self::Result> {
        &self.cell
    }
}

impl Flight {
    /// A flight to be registered. `call` is the token of the first load of the same call, if that
    /// is another one.
    pub fn new(
        kind: FlightKind,
        call: Option<FlightToken>,
        key_node: RawHandle,
        generation: Generation,
    ) -> Self {
        let postponed_victim = AtomicU32::new(NodeId::NONE.raw());
        let (overtaken, may_share) = (AtomicBool::new(false), AtomicBool::new(false));
        let cell = FlightCell::new();
        Self { key_node, kind, call, generation, overtaken, may_share, postponed_victim, cell }
    }

    pub fn hash(&self) -> Hash32 {
        self.key_node.meta().hash()
    }

    /// What marks the owner's code on a thread's stack. All loads of a call share it.
    pub fn token(&self) -> FlightToken {
        self.call.unwrap_or_else(|| FlightToken::of(self))
    }

    /// Blocks until the flight has ended, or until `deadline`, if there is one. Returns whether it
    /// has ended.
    ///
    /// # Panics
    /// If this thread runs the owner's code: it would wait for itself.
    pub fn wait_until(&self, deadline: Option<Instant>) -> bool {
        let is_own = reentrancy::runs_owner_of(self.token());
        assert!(!is_own, "a load or computation waits for its own key");
        self.cell.wait_until(deadline)
    }

    /// Checks that a task's wait for the flight can end.
    ///
    /// # Panics
    /// If the task runs the owner's code: it would wait for itself.
    pub fn assert_not_own(&self) {
        let is_own = reentrancy::polls_owner_of(self.token());
        assert!(!is_own, "a load or computation waits for its own key");
    }

    /// The outcome of a completed load. `None` for a computation, and if the flight was abandoned
    /// or still runs.
    pub fn outcome(&self) -> Option<LoadOutcome> {
        self.cell.result().flatten()
    }

    /// Keeps the result of a load out of the cache. Relaxed: an insert or removal takes the
    /// bucket's lock next, which orders the store. A change of a lifetime calls this after its own
    /// commit. Only calls that begin after the change must see the mark, and whatever makes them
    /// begin later orders the store.
    pub fn overtake(&self) {
        self.overtaken.store(true, Ordering::Relaxed);
    }

    /// Whether a call that joins this flight may get the key's entry with the lifetime that it had
    /// before a change. A call that has just changed the lifetime then overtakes the flight. While
    /// the loader runs there is no entry to share.
    pub fn may_share_entry(&self) -> bool {
        self.kind != FlightKind::Exclusive && self.may_share.load(Ordering::Relaxed)
    }

    /// Notes that the eviction of this node waits for the computation. Returns false if another
    /// node's eviction does. The caller holds the shard's lock and the maintenance lock.
    fn postpone(&self, id: NodeId) -> bool {
        let noted = self.postponed_victim();
        if noted == NodeId::NONE {
            self.postponed_victim.store(id.raw(), Ordering::Relaxed);
        }
        noted == NodeId::NONE || noted == id
    }

    fn postponed_victim(&self) -> NodeId {
        NodeId::from_raw(self.postponed_victim.load(Ordering::Relaxed))
    }

    /// Whether the load's result may be outdated, given the present generation. A commit must call
    /// this under the lock of the key's bucket. Elsewhere `false` may be outdated.
    pub fn is_overtaken(&self, generation: Generation) -> bool {
        self.generation != generation || self.overtaken.load(Ordering::Relaxed)
    }
}

/// How a writer knows that no load or computation is in its way.
#[derive(Clone, Copy)]
pub enum Clearance<'a> {
    /// The writer has met no flight. It commits only if no flight has its hash.
    Idle,
    /// The writer has compared its key with all flights registered before this version. None is in
    /// its way.
    Seen(Version),
    /// The writer has the key exclusively.
    Exclusive,
    /// The writer is the load itself.
    Load(&'a FlightGuard),
}

/// Why the maintenance has to leave a node alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// A later pass has to try again.
    ForNow,
    /// A computation uses the node. Its end releases the node ([`Flights::next_released`]).
    ByComputation,
    /// A computation of a key with the node's hash did not note the node: it keeps another one, or
    /// no node is to be noted. A later pass has to try again.
    BesideComputation,
}

/// All loads and computations in progress.
pub struct Flights {
    board: Board<Flight>,
    /// Nodes whose eviction waited for a computation that has ended. Such a node may have left
    /// since, and another node may have its id.
    released: SegQueue<NodeId>,
}

impl Flights {
    pub fn new() -> Self {
        Self { board: Board::new(), released: SegQueue::new() }
    }

    /// Keeps flights from being registered in the shard, on behalf of the maintenance, which waits
    /// for no flight. Fails if a computation with this hash is registered, and then notes `victim`
    /// in its flight, so that the end of the computation releases the node.
    ///
    /// # Errors
    /// [`Blocked::ByComputation`] if `victim` was noted. [`Blocked::BesideComputation`] if a
    /// computation is registered but `victim` was not noted. [`Blocked::ForNow`] if another
    /// thread holds the shard and the pass does not wait.
    pub fn permit_without_computation(
        &self,
        hash: Hash32,
        patience: Patience,
        victim: Option<NodeId>,
    ) -> Result<CommitPermit<'_>, Blocked> {
        let blocked = Cell::new(Blocked::ForNow);
        let is_in_the_way = |flight: &Flight| {
            let is_computation = flight.kind == FlightKind::Exclusive;
            // The first computation with this hash that keeps no other victim notes this one.
            let is_noted = blocked.get() == Blocked::ByComputation;
            if is_computation && !is_noted && victim.is_some_and(|id| flight.postpone(id)) {
                blocked.set(Blocked::ByComputation);
            } else if is_computation && !is_noted {
                blocked.set(Blocked::BesideComputation);
            }
            is_computation
        };
        let shard = self.board.shard(hash).lock_unless(hash, patience, is_in_the_way);
        shard.map(|shard| CommitPermit::Locked { _shard: shard }).ok_or(blocked.get())
    }

    /// Keeps flights from being registered in the shard, if none of its flights has this hash. Then
    /// the writer need not compare keys. Otherwise returns [`CommitPermit::IfIdle`], whose check
    /// fails unless the shard has become idle meanwhile.
    #[cold]
    #[inline(never)]
    pub fn permit_beside_others(&self, hash: Hash32) -> CommitPermit<'_> {
        let shard = self.board.shard(hash).lock_unless(hash, Patience::Wait, |_| true);
        shard.map_or(CommitPermit::IfIdle, |shard| CommitPermit::Locked { _shard: shard })
    }

    /// All loads and reloads that are registered.
    pub fn loads(&self) -> Vec<Arc<Flight>> {
        let mut loads = Vec::new();
        self.board.for_each(|flight| {
            if flight.kind != FlightKind::Exclusive {
                loads.push(Arc::clone(flight));
            }
        });
        loads
    }

    /// Takes out a node whose eviction waited for a computation that has ended.
    pub fn next_released(&self) -> Option<NodeId> {
        self.released.pop()
    }

    /// Whether [`next_released`](Self::next_released) has a node.
    pub fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// Removes a flight from the board.
    fn remove(&self, flight: &Arc<Flight>) {
        self.shard(flight.hash()).remove(flight.hash(), flight);
        let victim = flight.postponed_victim();
        if victim != NodeId::NONE {
            self.released.push(victim);
        }
    }

    /// The permit to commit. `None` if a flight with this hash was registered after the writer
    /// compared keys.
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

impl Deref for Flights {
    type Target = Board<Flight>;

    #[inline]
    fn deref(&self) -> &Board<Flight> {
        &self.board
    }
}

/// See [`Flights::permit`]. The caller takes the permit before it locks the bucket, and drops the
/// permit after it has unlocked the bucket.
pub enum CommitPermit<'a> {
    /// The shard has to be idle when the bucket is locked.
    IfIdle,
    /// Nothing is left to check: the writer has the key exclusively.
    Exclusive,
    /// The load must not be overtaken.
    Load(&'a Flight),
    /// No flight is registered while this lock is held.
    Locked { _shard: ShardGuard<'a, Flight> },
}

impl CommitPermit<'_> {
    /// Whether the commit may go on. The caller holds the bucket's lock.
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

/// The owner's guard of a registered flight. Its drop removes the flight from the board and
/// abandons the flight.
pub struct FlightGuard {
    flights: Arc<Flights>,
    leader: Leader<Flight>,
}

impl FlightGuard {
    /// Registers a flight; `None` if another one of this hash was registered since `seen`.
    pub fn register(flights: &Arc<Flights>, flight: Flight, seen: Version) -> Option<Self> {
        let (hash, leader) = (flight.hash(), Leader::of(flight));
        flights.shard(hash).try_insert(hash, Arc::clone(leader.flight()), seen).ok()?;
        Some(Self { flights: Arc::clone(flights), leader })
    }

    fn flight(&self) -> &Arc<Flight> {
        self.leader.flight()
    }

    pub fn is_of(&self, flight: &Arc<Flight>) -> bool {
        Arc::ptr_eq(self.flight(), flight)
    }

    /// Notes whether the owner may have an entry to share. The owner calls this before it looks for
    /// that entry, or commits one.
    pub fn set_may_share(&self, may_share: bool) {
        self.flight().may_share.store(may_share, Ordering::Relaxed);
    }

    /// Marks one poll of the owner's future on this thread.
    pub fn mark_poll(&self) -> Option<ReentrancyMark> {
        ReentrancyMark::push(Frame::Flight(self.token()))
    }

    /// Marks this thread as the one that runs the owner's code until the flight ends.
    pub fn enter(self) -> EnteredFlight {
        let mark = ReentrancyMark::push(Frame::Flight(self.token()));
        self.enter_by(mark)
    }

    /// [`enter`](Self::enter) for a call that has entered all its flights by one mark.
    pub fn enter_by(self, mark: Option<ReentrancyMark>) -> EnteredFlight {
        EnteredFlight { guard: self, _mark: mark }
    }
}

impl Deref for FlightGuard {
    type Target = Flight;

    fn deref(&self) -> &Flight {
        self.flight()
    }
}

impl Drop for FlightGuard {
    fn drop(&mut self) {
        if !self.leader.is_running() {
            return;
        }
        if !seeded("unwinding-keeps-the-flight") {
            self.flights.remove(self.flight());
        }
        // A waker may run its task at once.
        let _turn = ReentrancyMark::push(Frame::Turn);
        self.leader.abandon();
    }
}

/// A flight whose owner's code runs on this thread. Until it lands or is dropped, this thread
/// delivers nothing, and its wait for the flight would panic.
pub struct EnteredFlight {
    guard: FlightGuard,
    _mark: Option<ReentrancyMark>,
}

impl EnteredFlight {
    /// Ends a computation, or a reload that has no outcome to share.
    pub fn land(self) {
        self.land_with(|| None);
    }

    /// Ends a load. `outcome` is called if there are waiters to share it with.
    pub fn land_with(mut self, outcome: impl FnOnce() -> Option<LoadOutcome>) {
        let FlightGuard { flights, leader } = &mut self.guard;
        flights.remove(leader.flight());
        // As in `FlightGuard::drop`.
        let _turn = leader.has_waiters().then(|| ReentrancyMark::push(Frame::Turn));
        leader.complete(outcome);
    }
}

impl Deref for EnteredFlight {
    type Target = FlightGuard;

    fn deref(&self) -> &FlightGuard {
        &self.guard
    }
}
