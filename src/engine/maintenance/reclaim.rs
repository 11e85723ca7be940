//! The pass's last part: letting go of nodes that no thread can see any more.
//!
//! Dead nodes wait for a grace period, after which no guard of a reader protects them, so only
//! counts keep them. A node with no count but the cache's belongs to the pass alone.
//! If its key and value have nothing to drop, the pass frees it at once. Otherwise the thread that
//! ran the pass drops key and value after the lock.

use super::core::Core;
use super::pass::{By, Pass};
use super::run::GRACE_CHECK_DELAY;
use super::upkeep::Dead;
use crate::engine::delivery::ToDrop;
use crate::epoch::{Grace, next_grace};
use crate::links::NodeId;
use crate::node::{Meta, state};
use crate::primitives::atomic::Ordering;
use crate::primitives::seeded;

/// Nodes in a batch of the dead. Its ids take less than 1,024 bytes: glibc's allocator merges all
/// small free blocks whenever it is asked for as much or more. Batches of 256 made writes take 1.05
/// to 1.18 times as long.
const BATCH: usize = 248;
/// A pass gives up about this many dead nodes, or as many as it has itself added if these are more;
/// it exceeds the number by less than a batch.
const DROPS: usize = 512;
/// A pass gives up this many while more than [`BACKLOG`] wait, as after a long-held guard or a
/// sweep of many entries. Writers make as many dead nodes again meanwhile.
const MANY_DROPS: usize = 2048;
const BACKLOG: usize = 1 << 16;
/// A pass moves the grace period on if at least so many dead nodes wait for it, ...
const MANY_DEAD: usize = 64;
/// ... or if they weigh more than this share of the entries. An advance of the epoch takes some
/// 600 instructions, more than the rest of a small pass. Fewer dead nodes wait until another cache
/// or the scheduler advances it, or for [`GRACE_CHECK_DELAY`].
const DEAD_SHARE: u64 = 8;
/// Writers yield their cores after passes while so many dead nodes wait. One or two threads on two
/// cores have 200 to 700 on average.
const YIELD_AT: usize = 4096;
/// After so many yields without a reclaimed batch, writers yield no more: a thread that waits for a
/// core would have had it.
const MAX_YIELDS: u32 = 256;

/// A pass of a caller's looks at this many free nodes in order to give memory back.
const CALLER_TRIM: usize = 128;
/// Any other pass looks at this many.
const TRIM: usize = 1024;

impl Pass<'_> {
    /// Adds a dead node to those that wait for a grace period.
    #[inline(always)]
    pub fn push_dead(&mut self, id: NodeId, meta: &Meta) {
        match self.state.dead.back_mut() {
            Some(last) if last.grace.is_none() && last.ids.len() < BATCH => last.ids.push(id),
            _ => self.open_batch(id),
        }
        self.died += 1;
        self.died_weight += u64::from(meta.weight());
    }

    /// A batch takes more nodes until its grace period begins. So however long a guard is held, two
    /// batches at most are not full.
    #[cold]
    fn open_batch(&mut self, id: NodeId) {
        let dead = &mut self.state.dead;
        let has_begun = |last: &Dead| last.grace.is_some_and(Grace::has_begun);
        let takes_more = |last: &&mut Dead| last.ids.len() < BATCH && !has_begun(last);
        if let Some(last) = dead.back_mut().filter(takes_more) {
            last.ids.push(id);
            last.grace = None;
        } else {
            // Full size at once: growing later may wait for a thread that was preempted inside the
            // allocator.
            let mut ids = Vec::with_capacity(BATCH);
            ids.push(id);
            dead.push_back(Dead { ids, grace: None });
        }
    }

    /// Counts the nodes that died in this pass, and has them wait for a grace period. Gives up
    /// nodes whose grace period is over. True if there are more to give up.
    #[inline(never)]
    pub fn reclaim(&mut self) -> bool {
        let (core, died) = (self.core, self.died);
        let published = &self.upkeep.published;
        if died > 0 {
            published.unreclaimed.fetch_add(died, Ordering::Relaxed);
            self.upkeep.unreclaimed_weight.fetch_add(self.died_weight, Ordering::Relaxed);
            let grace = next_grace();
            let opened = self.state.dead.iter_mut().rev();
            let opened = opened.take_while(|batch| batch.grace.is_none());
            opened.for_each(|batch| batch.grace = Some(grace));
        }
        let over = self.give_up_dead();
        let dead = self.state.dead.get(over).and_then(|batch| batch.grace);
        let of_index = core.index.awaited_grace();
        let grace = dead.into_iter().chain(of_index).min();
        let many = of_index.is_some() || self.has_many_dead();
        self.left.hastens_grace = grace.is_some() && (many || self.budget.is_asked_for());
        self.left.begins_grace = grace.is_some() && grace != published.grace();
        published.set_grace(grace);
        over > 0
    }

    /// Whether a pass moves the grace period on for the dead nodes alone. (By a clock of the
    /// user's, which may stand still, it always does.)
    fn has_many_dead(&self) -> bool {
        self.upkeep.published.unreclaimed() >= MANY_DEAD
            || !self.core.ticker.reads_system()
            || self.upkeep.unreclaimed_weight.load(Ordering::Relaxed)
                > self.state.weight() / DEAD_SHARE
    }

    /// Operations (also reads) run a pass now and then while nodes wait for their grace period. A
    /// scheduler comes first as a rule. But the thread may be missing (in a forked child), and the
    /// runtime may have ended.
    pub fn request_grace_check(&self) {
        // A model's clock stands still.
        if !cfg!(cortado_loom) && self.upkeep.published.grace().is_some() {
            self.core.hot.request_pass_by(self.now.saturating_add(GRACE_CHECK_DELAY));
        }
    }

    /// Gives up the cache's count on nodes whose grace period is over, the oldest first, as many as
    /// a pass may drop: at least [`DROPS`], and at least as many as have died in this pass. Returns
    /// how many batches are left of those whose grace period is over.
    fn give_up_dead(&mut self) -> usize {
        let is_over = |batch: &Dead| {
            batch.grace.is_some_and(Grace::is_over) || seeded("retire-without-grace")
        };
        let mut over = self.state.dead.partition_point(is_over);
        if over == 0 {
            return 0;
        }
        let (core, unreclaimed) = (self.core, &self.upkeep.published.unreclaimed);
        let behind = self.upkeep.published.unreclaimed() > BACKLOG;
        let most = self.died.max(if behind { MANY_DROPS } else { DROPS });
        let (mut given_up, mut weight) = (0, 0);
        while over > 0
            && given_up < most
            && let Some(Dead { mut ids, .. }) = self.state.dead.pop_front()
        {
            over -= 1;
            given_up += ids.len();
            // Those with another count stay, for whoever has that.
            let mut to_drop = 0;
            ids.retain(|&id| {
                let meta = core.pool.meta(id);
                let its_weight = u64::from(meta.weight());
                weight += its_weight;
                meta.clear_state(state::OWNED);
                let is_free = meta.release() || seeded("reclaim-under-handles");
                to_drop += if is_free { its_weight } else { 0 };
                is_free
            });
            if core.pool.needs_drop() {
                core.notices.drop_later(ToDrop { ids, weight: to_drop });
            } else {
                core.pool.free_plain(&ids);
            }
        }
        self.state.yields = 0;
        unreclaimed.fetch_sub(given_up, Ordering::Relaxed);
        self.upkeep.unreclaimed_weight.fetch_sub(weight, Ordering::Relaxed);
        over
    }

    /// Takes one of the yields that are left, if guards hold many dead nodes back. False if they do
    /// not, or if no yield is left.
    pub fn takes_yield(&mut self) -> bool {
        let are_many = self.upkeep.published.unreclaimed() >= YIELD_AT;
        let yields = are_many && self.state.yields < MAX_YIELDS;
        self.state.yields += u32::from(yields);
        yields
    }
}

impl Core {
    /// Gives back memory of free nodes that are many. Returns whether there is more of it.
    pub fn trim(&self, run_by: By) -> bool {
        // The pool has models of its own.
        if cfg!(cortado_loom) {
            return false;
        }
        self.pool.trim(if run_by == By::Caller { CALLER_TRIM } else { TRIM })
    }

    /// Whether more nodes are free than the pool keeps at hand.
    pub fn has_surplus(&self) -> bool {
        !cfg!(cortado_loom) && self.pool.has_surplus()
    }

    /// Passes give the surplus of now back in as many calls of [`trim`](Self::trim), or fewer.
    pub fn most_trims(&self) -> usize {
        self.pool.most_trims(TRIM)
    }
}
