//! Notices that wait for delivery to listeners, and nodes whose contents wait to be dropped.

use super::receiving::Receiving;
use crate::clock::Timestamp;
use crate::config::{Config, Executor, Notifications, Overflow};
use crate::engine::base::Base;
use crate::executor::{Handoff, Job, Running, Ticket};
use crate::links::NodeId;
use crate::outbox::Outbox;
use crate::primitives::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::primitives::queue::SegQueue;
use crate::primitives::{plain, seeded};
use crate::removal::RemovalCause;
use std::sync::{OnceLock, Weak};

/// No pass takes out as many entries: those that it has units for, and one for each recorded write.
const MOST_OF_A_PASS: usize = 1 << 15;

/// A removal that waits for delivery. It carries a count on the node.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    pub id: NodeId,
    pub cause: RemovalCause,
    pub deadline: Timestamp,
    pub at: Timestamp,
}

/// Nodes without a count, whose keys and values are to be dropped.
pub struct ToDrop {
    pub ids: Vec<NodeId>,
    /// Of all of them.
    pub weight: u64,
}

/// The listeners of a cache, which know its types.
pub trait Deliver: Send + Sync {
    /// Tells them of one removal. They run user code, whose panics it catches.
    fn deliver(&self, base: &Base, notice: Notice);
}

/// A cache that does its chores in a job of its executor.
pub trait Client: Send + Sync {
    /// Hands noted reloads on, delivers notifications and drops reclaimed values.
    fn run_job(&self, running: Running);
}

/// See the [module](self).
pub struct Notices {
    pub outbox: Outbox<Notice>,
    /// The listeners, which end with the cache: the scheduler, which may have the last count on
    /// this, must not drop what they hold.
    listener: Option<Weak<dyn Deliver>>,
    /// The receiver of the notices, in place of listeners.
    pub(super) receiving: Option<Box<Receiving>>,
    /// Nodes without a count. The thread that delivers next drops their keys and values.
    pub to_drop: SegQueue<ToDrop>,
    /// Whether reloads wait to be handed to the executor. Relaxed: whoever stores it holds the
    /// lock of their list, and whoever reads it looks there.
    notes_reloads: AtomicBool,
    /// How many nodes wait to be dropped. (In 32 bits, which have room beside the flags.)
    pub(super) nodes_to_drop: AtomicU32,
    /// The weight of these nodes.
    pub(super) weight_to_drop: AtomicU64,
    /// The cache itself, for deliveries on its behalf.
    pub client: OnceLock<Weak<dyn Client>>,
    /// Keeps at most one job of the cache with the executor.
    pub handoff: Handoff,
    pub executor: Executor,
    /// If the executor is the user's: what calls it for the scheduler. Callers, too, leave
    /// deliveries to the executor then.
    caller_of_own: Option<Box<Executor>>,
    /// How many notices may wait before writers do, or before others are discarded.
    limit: Notifications,
    pub discarded: AtomicU64,
    /// How many notices wait for each listener that awaits. They have left the outbox.
    backlogs: Box<[plain::Arc<AtomicUsize>]>,
    /// Values that the listener put back after the end, which were not announced.
    pub refused_after_close: AtomicU64,
    closed: AtomicBool,
}

impl Notices {
    pub fn new(config: &Config, listener: Option<Weak<dyn Deliver>>) -> Self {
        let limit = config.notifications.of(Overflow::Wait).unwrap_or(usize::MAX);
        Self {
            outbox: Outbox::with_limit(limit, config.receives),
            listener,
            receiving: config.receives.then(Box::default),
            to_drop: SegQueue::new(),
            notes_reloads: AtomicBool::new(false),
            nodes_to_drop: AtomicU32::new(0),
            weight_to_drop: AtomicU64::new(0),
            client: OnceLock::new(),
            handoff: Handoff::new(),
            executor: config.executor.clone().unwrap_or_else(|| config.default_executor()),
            caller_of_own: config.executor.as_ref().map(|_| Box::new(config.default_executor())),
            limit: config.notifications,
            discarded: AtomicU64::new(0),
            backlogs: config.backlogs.clone().into(),
            refused_after_close: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// The receiver's side, in a cache that has one in place of listeners.
    pub fn receiving(&self) -> Option<&Receiving> {
        self.receiving.as_deref()
    }

    /// The listeners, for a caller that has the cache. They are there as long as it is.
    pub(super) fn listener(&self) -> Option<plain::Arc<dyn Deliver>> {
        self.listener.as_ref().and_then(Weak::upgrade)
    }

    /// Whether removals are announced: to listeners, or to a receiver, which may be gone.
    #[inline]
    pub fn announces(&self) -> bool {
        self.listener.is_some() || self.receiving.is_some()
    }

    pub fn has_own_executor(&self) -> bool {
        self.caller_of_own.is_some()
    }

    /// How many notices may wait before writers do. There is no limit while nobody can receive, nor
    /// after the end.
    pub fn wait_limit(&self) -> Option<usize> {
        let applies = self.receiving.as_deref().is_none_or(Receiving::is_awaited);
        self.limit.of(Overflow::Wait).filter(|_| applies)
    }

    /// Leaves nodes without a count to the thread that delivers next.
    pub fn drop_later(&self, nodes: ToDrop) {
        // Before the push, so that the numbers never fall below zero.
        self.nodes_to_drop.fetch_add(nodes.ids.len() as u32, Ordering::Relaxed);
        self.weight_to_drop.fetch_add(nodes.weight, Ordering::Relaxed);
        self.to_drop.push(nodes);
    }

    /// The weight of the nodes that wait to be dropped.
    pub fn weight_to_drop(&self) -> u64 {
        self.weight_to_drop.load(Ordering::Relaxed)
    }

    /// How many nodes wait to be dropped, roughly.
    pub fn nodes_to_drop(&self) -> usize {
        self.nodes_to_drop.load(Ordering::Relaxed) as usize
    }

    #[inline]
    pub fn has_noted_reloads(&self) -> bool {
        self.notes_reloads.load(Ordering::Relaxed)
    }

    /// Notes whether reloads wait to be handed to the executor.
    pub fn note_reloads(&self, wait: bool) {
        self.notes_reloads.store(wait, Ordering::Relaxed);
    }

    /// Whether there is anything to deliver, to drop, or to hand on.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.has_deliveries() || self.has_noted_reloads()
    }

    /// Whether there is anything to deliver or to drop.
    #[inline]
    pub fn has_deliveries(&self) -> bool {
        !self.to_drop.is_empty()
            || (self.announces()
                && !self.outbox.is_empty()
                && (self.listener.is_some() || self.has_receiver_to_look_after()))
    }

    /// Whether a receiver is to be woken, or its notices are to be dropped. (Not whether it is
    /// slow: a job cannot help with that, and would never end.)
    #[cold]
    fn has_receiver_to_look_after(&self) -> bool {
        self.receiving.as_deref().is_some_and(|it| it.is_parked() || it.is_gone())
    }

    /// The limit, if more notices wait than it allows.
    #[inline]
    pub fn exceeded_limit(&self) -> Option<usize> {
        if self.limit.of(Overflow::Wait).is_none() { None } else { self.exceeded_wait_limit() }
    }

    #[inline(never)]
    fn exceeded_wait_limit(&self) -> Option<usize> {
        self.wait_limit().filter(|&limit| self.outbox.len() > limit)
    }

    /// Notices that wait here or for a listener that awaits. Of several such listeners, the slowest
    /// counts.
    pub fn pending(&self) -> usize {
        let backlogs = self.backlogs.iter().map(|backlog| backlog.load(Ordering::Relaxed));
        self.outbox.len() + backlogs.max().unwrap_or(0)
    }

    /// Has the job that is running look once more, if another thread is not delivering.
    pub fn ask_for_more(&self) {
        if self.has_deliveries() && !self.outbox.is_delivering() {
            let _ = self.handoff.request();
        }
    }

    /// Leaves what there is to deliver and to drop to the executor. The caller holds no lock.
    pub fn submit_deliveries(&self) {
        if self.has_deliveries()
            && let Some(ticket) = self.handoff.request()
        {
            self.submit(ticket);
        }
    }

    /// Leaves what there is to do to the executor. For the scheduler's thread, which runs no code
    /// of the user's. The job also hands reloads on.
    pub fn submit_for_scheduler(&self) {
        if seeded("the-scheduler-wakes-receivers") {
            self.receiving().inspect(|receiving| receiving.wake());
        }
        if self.has_work()
            && let Some(ticket) = self.handoff.request()
            && let Some(job) = self.job(ticket)
        {
            match &self.caller_of_own {
                Some(caller) => self.executor.execute_by(caller, job),
                None => self.executor.execute(job),
            }
        }
    }

    /// Submits the job that follows one that has run, so that jobs of other caches come first. (A
    /// runtime that has ended drops the job.)
    ///
    /// # Errors
    /// The ticket, if the executor is the user's: it might run the other job at once, inside this
    /// one.
    pub fn follow(&self, ticket: Ticket) -> Result<(), Ticket> {
        if !self.executor.is_shared() {
            return Err(ticket);
        }
        self.submit(ticket);
        Ok(())
    }

    fn submit(&self, ticket: Ticket) {
        if let Some(job) = self.job(ticket) {
            self.executor.execute(job);
        }
    }

    fn job(&self, ticket: Ticket) -> Option<Job> {
        let client = self.client.get().cloned()?;
        Some(Box::new(move || {
            let running = ticket.begin();
            // This may be the last handle. Then the cache ends here.
            if let Some(client) = client.upgrade() {
                client.run_job(running);
            }
        }))
    }

    /// Refuses new values from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Whether a further notice has to be discarded: too many wait, or nobody will receive it.
    /// Counts it then.
    pub(super) fn discards(&self) -> bool {
        let is_gone = self.receiving.as_deref().is_some_and(Receiving::is_gone);
        let is_full = self.limit.of(Overflow::Discard).is_some_and(|limit| self.pending() >= limit);
        if is_gone || is_full {
            self.count_discarded();
        }
        is_gone || is_full
    }

    pub(super) fn count_discarded(&self) {
        self.discarded.fetch_add(1, Ordering::Relaxed);
    }

    /// How many units a pass may spend before notices are delivered, if not so many as any other:
    /// one that takes out more entries than notices may wait would discard some, however fast the
    /// listener is. `None` if no pass takes out so many, if none may wait, or if a receiver takes
    /// them out.
    pub fn most_units(&self, units: u32) -> Option<u32> {
        let limit = self.limit.of(Overflow::Discard).filter(|_| self.receiving.is_none())?;
        (1..MOST_OF_A_PASS).contains(&limit).then(|| units.min(limit as u32))
    }
}
