//! Proof that the audit can fail. Each case damages one thing that the audit recounts, by hand, in
//! a cache that is otherwise in order. The audit must report the damage. After the repair it must
//! report nothing.

use crate::buffer::write::DrainLimits;
use crate::cache::Cache;
use crate::clock::{Clock, ManualClock, Nanos, Timestamp};
use crate::engine::{Core, Maintenance, Notice, ToDrop};
use crate::entry::Entry;
use crate::eviction::Policy;
use crate::hash::Hash32;
use crate::links::{Named, NodeId};
use crate::node::{GONE, Meta, state};
use crate::pool::{RawPool, Timers};
use crate::primitives::atomic::Ordering::Relaxed;
use crate::removal::RemovalCause;
use crate::stats::Recorder;
use crate::wheel::TimerStore as _;
use std::time::Duration;

const CAPACITY: u64 = 1000;
const LIFE: Duration = Duration::from_secs(60);

/// A cache with 30 entries that weigh 2 each, with free nodes, and with a removed node of weight 3
/// that a handle keeps.
struct Subject {
    cache: Cache<u32, u32>,
    indexed: Vec<NodeId>,
    free: NodeId,
    removed: NodeId,
    _handle: Entry<u32, u32>,
    _hand: ManualClock,
}

impl Subject {
    fn new() -> Self {
        Self::with_scheduler(false)
    }

    fn with_scheduler(scheduler: bool) -> Self {
        let (clock, hand) = Clock::manual();
        let cache = Cache::builder()
            .max_capacity(CAPACITY)
            .weigher(|_, &weight| weight)
            .time_to_live(LIFE)
            .clock(clock)
            .record_stats(true)
            .removal_listener(drop)
            .scheduler(scheduler)
            .build();
        (0..40).for_each(|key| cache.insert(key, 2));
        cache.insert(100, 3);
        let handle = cache.get_entry(&100).expect("it has just been inserted");
        cache.invalidate(&100);
        (0..10).for_each(|key| cache.invalidate(&key));
        // Another test of the process may delay the epoch for a moment.
        while !cache.run_pending_tasks_up_to(usize::MAX).is_done() {
            std::thread::yield_now();
        }
        let core = &cache.engine().core;
        let (guard, mut indexed, mut cursor) =
            (crate::epoch::pin(), Vec::new(), Some(Hash32::FIRST));
        while let Some(position) = cursor {
            cursor = core.index.ids_at(&guard, &*core.pool, position, &mut indexed);
        }
        let mut free = None;
        core.pool.for_each_free(|id| free = Some(id));
        let is_removed = |id: &NodeId| core.pool.meta(*id).state() & state::REMOVED != 0;
        let removed = core.pool.ids().find(is_removed).expect("the handle keeps the removed node");
        let free = free.expect("ten entries were removed");
        Self { indexed, free, removed, _handle: handle, _hand: hand, cache }
    }

    fn core(&self) -> &Core {
        super::neighbour::start();
        &self.cache.engine().core
    }

    /// The node of the first entry.
    fn one(&self) -> Named<&Meta> {
        self.node(self.indexed[0])
    }

    fn node(&self, id: NodeId) -> Named<&Meta> {
        id.with(self.core().pool.meta(id))
    }

    fn timers(&self) -> Timers<'_> {
        Timers { pool: &self.core().pool, now: Timestamp::from_raw(0) }
    }

    fn schedule(&self, id: NodeId) {
        let timers = self.timers();
        let node = id.with(timers.links(id));
        self.state(|state| state.wheel.schedule(&timers, node, timers.deadline(id)));
    }

    fn pool(&self) -> &RawPool {
        &self.core().pool
    }

    fn recorder(&self) -> &Recorder {
        self.core().recorder.as_deref().expect("the builder turned statistics on")
    }

    fn state(&self, change: impl FnOnce(&mut Maintenance)) {
        change(&mut self.core().upkeep().state.lock());
    }

    fn policy(&self, change: impl FnOnce(&mut Policy)) {
        self.state(|state| change(state.policy.as_mut().expect("the cache is bounded")));
    }

    /// Looks while the maintenance counts so, in place of the policy.
    fn without_policy(&self, (count, weight): (u64, u64), look: &dyn Fn()) {
        let mut policy = None;
        self.state(|state| {
            policy = state.policy.take();
            (state.unbounded.count, state.unbounded.weight) = (count, weight);
        });
        look();
        self.state(|state| {
            (state.policy, state.unbounded.count, state.unbounded.weight) = (policy.take(), 0, 0);
        });
    }

    /// Replaces the id `from` by `to` in the index, at the hash of the first entry.
    fn misplace(&self, from: NodeId, to: NodeId) {
        let guard = crate::epoch::pin();
        let hash = self.one().node.hash();
        let locked = self.core().index.lock_id(&guard, hash, from);
        let before = locked.expect("the index has the id").replace(to);
        assert_eq!(before, from);
    }
}

/// The name of the damage; a part of the message that the audit must give; a function that does the
/// damage, runs the given check, and repairs the damage.
type Damage = (&'static str, &'static str, fn(&Subject, &dyn Fn()));

const DAMAGES: &[Damage] = &[
    ("an event left in the write buffer", "writes are pending", |s, look| {
        let _ = s.core().upkeep().writes.push(1, 0).expect("the write buffer is empty");
        look();
        let _ = s.core().upkeep().writes.drain(
            &mut Vec::new(),
            DrainLimits { stripes: 1, spill: 0 },
            crate::primitives::Patience::Wait,
            |_| (),
        );
    }),
    ("a removal that is not announced", "removals are not announced", |s, look| {
        let Named { id, node: meta } = s.node(s.removed);
        let (cause, deadline, at) =
            (RemovalCause::Explicit, meta.deadline(), Timestamp::from_raw(0));
        s.core().notices.announce(s.core(), Notice { id, cause, deadline, at });
        look();
        s.cache.run_pending_tasks();
        s.recorder().inserted();
    }),
    ("a batch of nodes that is not dropped", "wait to be dropped", |s, look| {
        s.core().notices.drop_later(ToDrop { ids: Vec::new(), weight: 0 });
        look();
        s.core().notices.drop_reclaimed(s.core(), 1);
    }),
    ("index: an id in the place of another one", "id ", |s, look| {
        s.misplace(s.indexed[0], s.indexed[1]);
        look();
        s.misplace(s.indexed[1], s.indexed[0]);
    }),
    ("index: a lock left behind", "is locked", |s, look| {
        let guard = crate::epoch::pin();
        let Named { id, node: meta } = s.one();
        let locked = s.core().index.lock_id(&guard, meta.hash(), id);
        look();
        drop(locked);
    }),
    ("count: an entry too many", "30 indexed, 31 counted", |s, look| {
        s.without_policy((31, 60), look);
    }),
    ("count: not published", "published count 29", |s, look| {
        s.core().upkeep().published.entries.fetch_sub(1, Relaxed);
        look();
        s.core().upkeep().published.entries.fetch_add(1, Relaxed);
    }),
    ("weight: too much", "weight 60, counted 61", |s, look| {
        s.without_policy((30, 61), look);
    }),
    ("weight: not published", "published weight 59, is 60", |s, look| {
        s.core().upkeep().published.weight.fetch_sub(1, Relaxed);
        look();
        s.core().upkeep().published.weight.fetch_add(1, Relaxed);
    }),
    ("node: an entry that the maintenance does not know", "state 0b1111", |s, look| {
        s.one().node.clear_state(state::LINKED);
        look();
        s.one().node.set_state(state::LINKED);
    }),
    ("node: marked as gone, but still in the index", "is indexed and gone", |s, look| {
        let deadline = s.one().node.mark_gone();
        look();
        assert!(s.one().node.change_deadline(GONE, deadline));
    }),
    ("node: in the index, but without a count", "is indexed without a count", |s, look| {
        assert!(s.one().node.release());
        look();
        s.one().node.retain();
    }),
    ("node: removed, but without a count", "is held by nobody", |s, look| {
        let meta = s.node(s.removed).node;
        assert!(meta.release());
        look();
        meta.retain();
    }),
    ("node: free, but not empty", "is free with life", |s, look| {
        let meta = s.node(s.free).node;
        meta.set_state(state::VALUE);
        look();
        meta.clear_state(state::VALUE);
    }),
    ("pool: fewer unreclaimed nodes than counted", "nodes wait to be reclaimed", |s, look| {
        s.core().upkeep().published.unreclaimed.fetch_add(1, Relaxed);
        look();
        s.core().upkeep().published.unreclaimed.fetch_sub(1, Relaxed);
    }),
    ("wheel: a wrong link", "does not point back", |s, look| {
        let links = &s.one().node.timer;
        let before = links.prev();
        links.set_prev(s.removed);
        look();
        links.set_prev(before);
    }),
    ("wheel: a missing entry", "29 timed, 30 expected", |s, look| {
        let Named { id, node: meta } = s.one();
        s.state(|state| assert!(state.wheel.cancel(&s.timers(), &meta.timer)));
        look();
        s.schedule(id);
    }),
    ("wheel: a node that is not in the cache", "31 timed of 30", |s, look| {
        let deadline = s.one().node.deadline();
        let Named { id, node: meta } = s.node(s.removed);
        assert!(meta.change_deadline(GONE, deadline));
        s.schedule(id);
        look();
        s.state(|state| assert!(state.wheel.cancel(&s.timers(), &meta.timer)));
        meta.mark_gone();
    }),
    ("wheel: an entry that is scheduled too late", " ns left", |s, look| {
        let meta = s.one().node;
        let deadline = meta.deadline();
        let soon = Timestamp::from_raw(1);
        assert!(meta.change_deadline(deadline, soon));
        look();
        assert!(meta.change_deadline(soon, deadline));
    }),
    ("policy: a wrong link", "points back to", |s, look| {
        let links = &s.one().node.queue;
        let before = links.prev();
        links.set_prev(s.removed);
        look();
        links.set_prev(before);
    }),
    ("policy: a node with the wrong region", " says ", |s, look| {
        let meta = s.one().node;
        let region = meta.region();
        meta.set_region(0);
        look();
        meta.set_region(region);
    }),
    ("policy: a missing entry", "30 indexed, 29 counted", |s, look| {
        let Named { id, node: meta } = s.one();
        s.policy(|policy| policy.remove(s.pool(), meta));
        look();
        s.policy(|policy| policy.add(s.pool(), id.with(meta)));
    }),
    ("policy: a removed node in the place of an entry", "weight 60, counted 61", |s, look| {
        let id = s.one().id;
        s.policy(|policy| policy.replace(s.pool(), id, s.removed));
        look();
        s.policy(|policy| policy.replace(s.pool(), s.removed, id));
    }),
    ("policy: more weight than the bound", "60 is over 59", |s, look| {
        s.policy(|policy| policy.set_max_weight(59));
        look();
        s.policy(|policy| policy.set_max_weight(CAPACITY));
    }),
    ("statistics: an insert too many", "42 values given, 41 inside or removed", |s, look| {
        s.recorder().inserted();
        look();
        s.recorder().removed(RemovalCause::Explicit, 0, Nanos::ZERO);
    }),
];

#[test]
fn the_audit_notices_each_damage() {
    for &(what, said, damage) in DAMAGES {
        let subject = Subject::new();
        let audit = || subject.cache.engine().recount();
        assert_eq!(audit(), Ok(()), "before {what}");
        damage(&subject, &|| {
            let answer = audit().expect_err(what);
            assert!(answer.contains(said), "{what}: {answer}");
        });
        assert_eq!(audit(), Ok(()), "after {what}");
    }
}

/// In a scheduled cache a worker may be dropping a node without a count. None does so here.
#[test]
fn the_audit_notices_a_missing_count_in_a_scheduled_cache() {
    let subject = Subject::with_scheduler(true);
    while subject.core().notices.handoff.is_out() {
        std::thread::yield_now();
    }
    assert_eq!(subject.cache.engine().recount(), Ok(()));
    let meta = subject.node(subject.removed).node;
    assert!(meta.release());
    let answer = subject.cache.engine().recount().expect_err("nobody holds the node");
    assert!(answer.contains("is held by nobody"), "{answer}");
    meta.retain();
    assert_eq!(subject.cache.engine().recount(), Ok(()));
}

#[test]
fn the_audit_notices_what_was_not_swept() {
    let Subject { cache, .. } = Subject::new();
    assert!(cache.engine().core.next_generation(1));
    let answer = cache.engine().recount().expect_err("no pass has swept");
    assert!(answer.contains("should have been swept"), "{answer}");
    cache.audit();
}

#[test]
fn the_audit_notices_a_load() {
    let Subject { cache, .. } = Subject::new();
    cache.get_with(200, || {
        let answer = cache.engine().recount().expect_err("a load is in progress");
        assert!(answer.contains("in progress"), "{answer}");
        2
    });
    cache.audit();
}

/// The audit panics for this damage instead of returning an error, because the free list may then
/// have no end.
#[test]
#[should_panic(expected = "is free twice")]
fn the_audit_notices_a_node_that_is_free_twice() {
    let subject = Subject::new();
    subject.pool().free(&[subject.free]);
    let _ = subject.cache.engine().recount();
}
