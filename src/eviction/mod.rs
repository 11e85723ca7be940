//! The eviction policy: W-TinyLFU, an admission window before a segmented LRU main region. A trial
//! chooses its parameters at run time.
//!
//! The policy is single-threaded data behind the maintenance lock. It sees nodes through a
//! [`PolicyStore`]: links, weight, hash, and a byte that says which list holds the node. It knows
//! no key, no value, no clock and no cache. It evicts nothing itself: it chooses victims.
//!
//! ```text
//!            add                        candidate (the window's last)      ┌── hit ──► protected (LRU)
//!             │     ┌──────────────┐    duels the victim (main's last)     │               │ over 80 %
//!             ├───► │ window (LRU) │ ──► more frequent: in, victim out ──► probation (LRU) ◄┘
//!             │     └──────────────┘     else: candidate out, to the ghosts     │
//!             └── a ghost's key, and more frequent or lucky ──► main            └──► victim
//!
//!    a sample of the requests ──► four shadows: small caches without values ──► the rules in force
//! ```
//!
//! A *duel* is TinyLFU's admission test. A *ghost* is a fingerprint of a key that was rejected.
//!
//! `queues` implements the diagram. `rules` has the parameters that differ between workloads: the
//! window's size, and the treatment of keys that come back after a rejection. `trial` chooses among
//! these rules. `docs/eviction.md` explains all of it at length.
//!
//! # Rules
//!
//! 1. **Regions.** A node is on the list that its region byte names, and on no other list. A node
//!    with [`Region::None`] is on no list. Lists, their weights and the region bytes change
//!    together, in `regions` only. A victim that cannot be evicted now may be *set aside*. It then
//!    is in no region until it is restored, and no search for room meets it (`aside`).
//! 2. **Weight.** The weights of window, probation and protected, and of the nodes that are set
//!    aside, add up to [`Policy::weight`]. A node's weight is fixed while it is linked: an update
//!    of the key is another node.
//! 3. **Bound.** [`Policy::take_victim`] returns a victim whenever the weight is over the maximum,
//!    unless all nodes with weight are set aside. Once it has returned `None`, the weight is within
//!    the maximum, unless nodes that are set aside exceed it alone. Each victim has weight. Nodes
//!    of weight 0 are on a list of their own, where no search for room meets them. They leave by
//!    expiry or removal only.
//! 4. **Targets.** The window and the protected region have target weights. A change of a target
//!    moves no nodes. A window below its target grows: victims leave the main region, and newcomers
//!    take their room. A window above its target gives up at most [`MOVES`] nodes to probation at
//!    each call; while the weight is over the maximum, it keeps the excess for duels. The protected
//!    region below its target grows by hits on probation; above its target, it gives up nodes like
//!    the window.
//! 5. **Room by weight.** A candidate must beat victims until their weight makes room for its own.
//!    The candidate is evicted at the first victim that it does not beat. A node that is heavier
//!    than the window's target goes to the end of the window. So it duels at once instead of
//!    flushing the window.
//! 6. **A segmented LRU**, which rejects nothing, has no duels and no such exception. Its victim is
//!    the last node of probation; if that is empty, of the window; else of protected. The node that
//!    was written last is a victim only if it is the only one left.
//! 7. **Bounded work.** Every call except the iterators and `validate` moves at most 2 + [`MOVES`]
//!    nodes. It touches at most 24 cache lines of the sketch and of the ghosts, 16 of them only
//!    while the sketch ages. The rest of the work waits for the next call. The shadows of a sampled
//!    request cost extra (see `trial`). So does the request with which the trial begins: it plays
//!    up to 48 requests to the shadows.
//! 8. **Determinism.** The same seed and the same calls give the same victims. The seed should be
//!    secret. It decides which keys share counters, which keys are in the sample, and which
//!    rejected candidates are admitted by chance.

mod admission;
mod aside;
mod ghost;
mod order;
mod queues;
mod regions;
mod rules;
mod shadow;
mod store;
mod trial;

pub use queues::MOVES;
pub use store::{PolicyNode, PolicyStore, Region};

use crate::hash::Hash32;
use crate::links::NodeId;
use admission::Admission;
use aside::Aside;
use queues::Queues;
use regions::End;
use rules::Rules;
use trial::Trial;

/// The trial begins at this many entries, or when the cache is half full or has evicted.
const TRIAL_ENTRIES: usize = 24;

/// The eviction policy; see the [module](self).
#[derive(Debug)]
pub struct Policy {
    queues: Queues,
    admission: Admission,
    choice: Choice,
    /// Whether the policy has evicted since the maximum was set.
    has_evicted: bool,
}

/// How the rules are chosen.
#[derive(Debug)]
enum Choice {
    /// They are fixed.
    Fixed,
    /// By a trial that has not begun. Its secrets select its sample.
    Later([u64; 2]),
    ByTrial(Box<Trial>),
}

impl Policy {
    /// Creates a policy that keeps the weight within `max_weight` and finds the best rules by
    /// itself.
    pub fn new(max_weight: u64, seed: u64) -> Self {
        let mut admission = Admission::new(seed);
        let secrets = [admission.roll(), admission.roll()];
        Self::with_rules(max_weight, Trial::FIRST_RULES, Choice::Later(secrets), admission)
    }

    /// Creates a policy whose window is a fixed share of `max_weight`. A share of 1.0 is plain LRU,
    /// which never rejects a newcomer.
    pub fn with_fixed_window(max_weight: u64, seed: u64, share: f64) -> Self {
        let rules = Rules { window: share.clamp(0.0, 1.0), ..Rules::OPEN };
        Self::with_rules(max_weight, rules, Choice::Fixed, Admission::new(seed))
    }

    /// Creates a policy that never rejects a newcomer: a segmented LRU.
    pub fn segmented_lru(max_weight: u64, seed: u64) -> Self {
        let rules = Rules { rejects_newcomers: false, ..Rules::OPEN };
        Self::with_rules(max_weight, rules, Choice::Fixed, Admission::new(seed))
    }

    fn with_rules(max_weight: u64, rules: Rules, choice: Choice, admission: Admission) -> Self {
        let queues = Queues::new(max_weight, rules);
        Self { queues, admission, choice, has_evicted: false }
    }

    /// Whether an update counts as a use however short the time since the last use. That is so
    /// where no newcomer is rejected: the order of the last uses decides, and what was just written
    /// must not go first.
    #[inline]
    pub fn counts_every_update(&self) -> bool {
        self.queues.keeps_newcomers()
    }

    /// The weight of all nodes in the policy.
    pub fn weight(&self) -> u64 {
        self.queues.regions.weight()
    }

    /// The number of nodes in the policy, including nodes of weight 0.
    pub fn len(&self) -> usize {
        self.queues.regions.len()
    }

    pub fn max_weight(&self) -> u64 {
        self.queues.max_weight
    }

    /// The present target weight of the window. For tests.
    pub fn window_target(&self) -> u64 {
        self.queues.window_target
    }

    /// The estimated number of recent requests for a key, at most 15. For tests.
    pub fn frequency(&self, hash: Hash32) -> u8 {
        self.admission.sketch.frequency(self.admission.sketch.spread(hash))
    }

    /// Changes the maximum weight. If the weight is over it now, [`Policy::take_victim`] returns
    /// the nodes to evict.
    pub fn set_max_weight(&mut self, max_weight: u64) {
        self.has_evicted = false;
        self.queues.set_max_weight(max_weight);
    }

    /// Adds a new node. This counts as a request that missed. The caller passes the node that the
    /// store would return.
    pub fn add<S: PolicyStore>(&mut self, store: &S, node: (NodeId, S::Node<'_>)) {
        let hash = node.1.hash();
        let spread = self.admission.sketch.spread(hash);
        self.admission.sketch.increment(spread);
        self.queues.arrive(store, node, spread, &mut self.admission);
        self.fit_sketch();
        self.feed_trial(store, hash);
    }

    /// Puts `new`, an update of the same key, in the place of `old`, and counts a request that hit.
    /// If `old` is not in the policy, adds `new` as a new node. If `old` is set aside, this
    /// counts as a hit in the region that victims come from.
    pub fn replace(&mut self, store: &impl PolicyStore, old: NodeId, new: NodeId) {
        self.queues.newest = new;
        match self.queues.regions.remove(store, store.node(old)) {
            Region::None if self.queues.regions.aside.remove(store, store.node(old)) => {
                self.hit(store, (new, store.node(new)), self.queues.region_of_victims());
            }
            Region::None => self.add(store, (new, store.node(new))),
            region => self.hit(store, (new, store.node(new)), region),
        }
    }

    /// Puts `new`, an update of the same key, in the place of `old`, without counting a request.
    /// Returns false, and does nothing, if `old` is not in the policy or if the two nodes differ in
    /// weight. The caller passes the nodes that the store would return.
    #[inline]
    pub fn replace_uncounted<S: PolicyStore>(
        &mut self,
        store: &S,
        old: S::Node<'_>,
        (new, node): (NodeId, S::Node<'_>),
    ) -> bool {
        old.weight() == node.weight() && self.queues.regions.replace(store, old, (new, node))
    }

    /// Puts `new`, which a reload has made, in the place of `old`, without counting a request. If
    /// exactly one of the two has weight 0, `new` goes to the front of the list for new nodes of
    /// its kind. If `old` is in no region, this is [`replace`](Self::replace), which counts.
    pub fn replace_reloaded(&mut self, store: &impl PolicyStore, old: NodeId, new: NodeId) {
        let (from, to) = (store.node(old), store.node(new));
        if self.queues.newest == old {
            self.queues.newest = new;
        }
        if self.replace_uncounted(store, from, (new, to)) {
            return;
        }
        let regions = &mut self.queues.regions;
        if from.weight() > 0 && to.weight() > 0 && regions.replace_reweighed(store, from, (new, to))
        {
            return;
        }
        match regions.remove(store, from) {
            Region::None => self.replace(store, old, new),
            _ if to.weight() == 0 => {
                regions.insert(store, (new, to), Region::Weightless, End::Front);
            }
            Region::Weightless => regions.insert(store, (new, to), Region::Window, End::Front),
            region => regions.insert(store, (new, to), region, End::Front),
        }
    }

    /// Prefetches the frequency counters and the ghosts of a key that is about to be added or
    /// evicted.
    #[inline]
    pub fn prefetch(&self, hash: Hash32) {
        let spread = self.admission.sketch.spread(hash);
        self.admission.sketch.prefetch(spread);
        self.queues.ghost.prefetch(spread);
    }

    /// Prefetches the frequency counters of a key that is about to be counted.
    #[inline]
    pub fn prefetch_frequency(&self, hash: Hash32) {
        self.admission.sketch.prefetch(self.admission.sketch.spread(hash));
    }

    /// The next candidate and the next victim of the main region.
    #[inline]
    pub fn next_contenders(&self) -> [Option<NodeId>; 2] {
        [self.queues.regions.of(Region::Window).list.back(), self.queues.regions.main_victim()]
    }

    /// Records a hit. All hits since the node's last record, however many, count as one request. A
    /// node that is set aside, or not in the policy, is ignored.
    pub fn record_hit(&mut self, store: &impl PolicyStore, id: NodeId) {
        let node = store.node(id);
        match self.queues.regions.remove(store, node) {
            Region::None => {}
            region => self.hit(store, (id, node), region),
        }
    }

    /// Removes a node, if it is in the policy.
    #[inline]
    pub fn remove<S: PolicyStore>(&mut self, store: &S, node: S::Node<'_>) {
        // A victim that was taken is in the policy no more.
        if node.region() != Region::None || Aside::holds(node.links()) {
            self.remove_held(store, node);
        }
    }

    fn remove_held<S: PolicyStore>(&mut self, store: &S, node: S::Node<'_>) {
        if self.queues.remove(store, node) != Region::None
            || self.queues.regions.aside.remove(store, node)
        {
            self.fit_sketch();
            if let Choice::ByTrial(trial) = &mut self.choice {
                trial.forget(node.hash());
            }
        }
    }

    /// If the weight is over the maximum, removes a node from the policy and returns it: the caller
    /// must evict it.
    pub fn take_victim(&mut self, store: &impl PolicyStore) -> Option<NodeId> {
        let id = self.queues.take_victim(store, &mut self.admission)?;
        self.has_evicted = true;
        self.fit_sketch();
        Some(id)
    }

    /// Takes back a victim that cannot be evicted now, and puts it where it is the last to be
    /// chosen.
    ///
    /// The caller must bound its attempts: if no node can be evicted, `take_victim` returns all of
    /// them in turn. (A segmented LRU may choose the node before those of the window, and before
    /// the one that was written last.)
    pub fn readmit(&mut self, store: &impl PolicyStore, id: NodeId) {
        self.queues.readmit(store, id);
        self.fit_sketch();
    }

    /// Takes back a victim that cannot be evicted until [`restore`](Self::restore) is called. Until
    /// then it counts, and `take_victim` does not return it.
    pub fn set_aside(&mut self, store: &impl PolicyStore, id: NodeId) {
        self.queues.regions.aside.insert(store, id);
        self.fit_sketch();
    }

    /// [Readmits](Self::readmit) a node, if it is set aside.
    pub fn restore(&mut self, store: &impl PolicyStore, id: NodeId) {
        if self.queues.regions.aside.remove(store, store.node(id)) {
            self.readmit(store, id);
        }
    }

    /// Whether the node is set aside. For tests.
    pub fn is_aside(&self, store: &impl PolicyStore, id: NodeId) -> bool {
        Aside::holds(store.node(id).links())
    }

    /// The nodes, roughly in the order in which the policy would evict them.
    pub fn coldest<'a>(&'a self, store: &'a impl PolicyStore) -> impl Iterator<Item = NodeId> + 'a {
        order::coldest(&self.queues.regions, &self.admission.sketch, store)
    }

    /// The nodes, those with the best prospects first.
    pub fn hottest<'a>(&'a self, store: &'a impl PolicyStore) -> impl Iterator<Item = NodeId> + 'a {
        order::hottest(&self.queues.regions, &self.admission.sketch, store)
    }

    /// Checks the module's rules by a recount.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    pub fn validate(&self, store: &impl PolicyStore) -> Result<(), String> {
        self.queues.validate(store)?;
        self.admission.sketch.validate()?;
        match &self.choice {
            Choice::ByTrial(trial) => trial.validate(),
            Choice::Fixed | Choice::Later(_) => Ok(()),
        }
    }

    /// Adjusts the sketch to the number of entries, after each change of that by one. Before
    /// the trial begins, no duel is near, and the smallest sketch is enough.
    #[inline]
    fn fit_sketch(&mut self) {
        if !matches!(self.choice, Choice::Later(_)) {
            self.admission.sketch.fit(self.queues.regions.len());
        }
    }

    fn hit<S: PolicyStore>(&mut self, store: &S, node: (NodeId, S::Node<'_>), from: Region) {
        let hash = node.1.hash();
        self.admission.sketch.increment(self.admission.sketch.spread(hash));
        self.queues.hit(store, node, from);
        self.feed_trial(store, hash);
    }

    /// Passes a request to the trial, if its key is in the sample.
    #[inline]
    fn feed_trial(&mut self, store: &impl PolicyStore, hash: Hash32) {
        match &self.choice {
            Choice::Fixed => {}
            &Choice::Later(secrets) => self.begin_trial(store, secrets),
            Choice::ByTrial(trial) if trial.is_sampled(hash) => self.feed_shadows(hash),
            Choice::ByTrial(_) => {}
        }
    }

    /// Passes a request to the shadows, and adopts the rules that do best there.
    #[cold]
    #[inline(never)]
    fn feed_shadows(&mut self, hash: Hash32) {
        let entries = self.len();
        let Choice::ByTrial(trial) = &mut self.choice else { return };
        if trial.play(hash, entries, self.has_evicted, &mut self.admission) {
            self.queues.set_rules(trial.rules());
        }
    }

    /// Begins the trial, if it is time. The shadows get the present entries, of which there are
    /// few: the coldest first, and the protected ones once more.
    #[cold]
    #[inline(never)]
    fn begin_trial<S: PolicyStore>(&mut self, store: &S, secrets: [u64; 2]) {
        let is_half_full = self.weight() >= self.max_weight() / 2;
        if self.len() < TRIAL_ENTRIES && !is_half_full && !self.has_evicted {
            return;
        }
        let regions = &self.queues.regions;
        let present = order::coldest(regions, &self.admission.sketch, store);
        let hashes: Vec<_> = present
            .chain(regions.of(Region::Protected).list.iter_back(store))
            .map(|id| store.hash(id))
            .collect();
        (1..=self.len()).for_each(|entries| self.admission.sketch.fit(entries));
        self.choice = Choice::ByTrial(Box::new(Trial::new(secrets)));
        hashes.into_iter().for_each(|hash| self.feed_shadows(hash));
    }
}
