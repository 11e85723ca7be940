//! The eviction policy: a window and a segmented main region, whose rules are chosen by trial.
//!
//! Single-threaded data behind the maintenance lock. It sees nodes through a [`PolicyStore`]:
//! links, weight, hash, and a byte that says which list holds the node. It knows no key, no value,
//! no clock and no cache, and evicts nothing itself: it names victims.
//!
//! ```text
//!            add                        candidate (the window's last)      ┌── hit ──► protected (LRU)
//!             │     ┌──────────────┐    duels the victim (main's last)     │               │ over 80 %
//!             ├───► │ window (LRU) │ ──► more frequent: in, victim out ──► probation (LRU) ◄┘
//!             │     └──────────────┘     else: candidate out, remembered        │
//!             └── remembered rejection, and more frequent or lucky ──► main     └──► victim
//!
//!    a sample of the requests ──► four shadows: small caches without values ──► the rules in force
//! ```
//!
//! `queues` has the rules of the picture, `rules` what differs between loads (the window's size,
//! how those that come back are received), `trial` how it is chosen. `docs/eviction.md` tells all
//! of it at length.
//!
//! # Rules
//!
//! 1. **Regions.** A node is on the list that its region byte names and no other ([`Region::None`]:
//!    on none). Lists, their weights and the bytes change together, in `regions` only.
//! 2. **Weight.** The weights of window, probation and protected add up to [`Policy::weight`]. A
//!    node's weight is fixed while it is linked: an update is another node.
//! 3. **Bound.** [`Policy::victim`] names a victim whenever the weight is over the maximum, so that
//!    it is within it once `victim` has returned `None`. Each victim has weight: nodes of weight 0
//!    stand on a list of their own, where no search for room meets them, and leave by expiry or
//!    removal only.
//! 4. **Targets.** Window and protected region have target weights. Changing a target moves
//!    nothing: a window below its target grows as newcomers take the room of main victims, one
//!    above it gives up some nodes to probation at each call; protected likewise.
//! 5. **Room by weight.** A candidate has to beat victims until their weight makes room for its
//!    own, and is out at the first that it does not beat. One too heavy for the window's target
//!    goes to the window's end, to duel at once rather than flush the window.
//! 6. **Bounded work.** Every call but the iterators and `validate` moves at most 2 + [`MOVES`]
//!    nodes and touches at most 24 cache lines of sketch and memory, 16 of them only while the
//!    sketch ages; the rest waits for the next call. What the shadows of a sampled request cost
//!    comes on top (see `trial`).
//! 7. **Determinism.** The same seed and the same calls give the same victims. The seed should be
//!    secret: it decides which keys share counters, which are in the sample, and which rejected
//!    candidates get in by chance.

mod admission;
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

use admission::Admission;
use queues::Queues;
use rules::Rules;
use trial::Trial;

/// See the module's docs.
#[derive(Debug)]
pub struct Policy {
    queues: Queues,
    admission: Admission,
    /// None if the rules are fixed.
    trial: Option<Trial>,
    /// Whether the maximum was reached since it was set.
    full: bool,
}

impl Policy {
    /// A policy that keeps the weight within `max_weight` and finds the best rules by itself.
    pub fn new(max_weight: u64, seed: u64) -> Self {
        let mut admission = Admission::new(seed);
        let trial = Trial::new(|| admission.roll());
        Self::with_rules(max_weight, trial.rules(), Some(trial), admission)
    }

    /// A policy whose window is a fixed share of `max_weight`. All of it, 1.0, is plain LRU, which
    /// never turns a newcomer away.
    pub fn with_fixed_window(max_weight: u64, seed: u64, share: f64) -> Self {
        let rules = Rules { window: share.clamp(0.0, 1.0), ..Rules::OPEN };
        Self::with_rules(max_weight, rules, None, Admission::new(seed))
    }

    fn with_rules(
        max_weight: u64,
        rules: Rules,
        trial: Option<Trial>,
        admission: Admission,
    ) -> Self {
        let queues = Queues::new(max_weight, rules);
        Self { queues, admission, trial, full: false }
    }

    /// The weight of all nodes held.
    pub fn weight(&self) -> u64 {
        self.queues.regions.weight()
    }

    /// The number of nodes held, weightless ones included.
    pub fn len(&self) -> usize {
        self.queues.regions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn max_weight(&self) -> u64 {
        self.queues.max_weight()
    }

    /// The weight that the window is to have, at present.
    pub fn window_target(&self) -> u64 {
        self.queues.window_target()
    }

    /// How often a key was asked for lately, estimated, at most 15.
    pub fn frequency(&self, hash: u32) -> u8 {
        self.admission.frequency(self.admission.spread(hash))
    }

    /// Changes the bound. What is too much now is for [`Policy::victim`] to name.
    pub fn set_max_weight(&mut self, max_weight: u64) {
        self.full = false;
        self.queues.set_max_weight(max_weight);
    }

    /// Takes in a new node. Counts as a request that missed.
    pub fn add<S: PolicyStore + ?Sized>(&mut self, store: &S, id: u32) {
        self.add_node(store, (id, store.node(id)));
    }

    /// [`add`](Self::add) for whoever has the node at hand.
    pub fn add_node<'a, S: PolicyStore + ?Sized>(&mut self, store: &S, node: (u32, S::Node<'a>)) {
        let hash = node.1.hash();
        let spread = self.admission.spread(hash);
        self.admission.count(spread);
        self.queues.arrive(store, node, spread, &mut self.admission);
        self.admission.fit(self.len());
        self.try_rules(hash);
    }

    /// Puts `new`, an update of the same key, in the place of `old`, and counts a request that hit.
    /// If `old` is no longer held, `new` is taken in as new.
    pub fn replace<S: PolicyStore + ?Sized>(&mut self, store: &S, old: u32, new: u32) {
        match self.queues.regions.remove(store, store.node(old)) {
            Region::None => self.add(store, new),
            region => self.hit(store, (new, store.node(new)), region),
        }
    }

    /// Puts `new`, an update of the same key, in the place of `old`, without counting a request.
    /// False, and nothing done, if `old` is not held or the two differ in weight.
    pub fn swap<S: PolicyStore + ?Sized>(&mut self, store: &S, old: u32, new: u32) -> bool {
        let (from, to) = (store.node(old), store.node(new));
        from.weight() == to.weight() && self.queues.regions.replace(store, from, (new, to))
    }

    /// Begins to load what is known of a key that is about to be added or evicted.
    #[inline]
    pub fn prefetch(&self, hash: u32) {
        let spread = self.admission.spread(hash);
        self.admission.prefetch(spread);
        self.queues.prefetch(spread);
    }

    /// Begins to load the frequency of a key that is about to be counted.
    #[inline]
    pub fn prefetch_frequency(&self, hash: u32) {
        self.admission.prefetch(self.admission.spread(hash));
    }

    /// The next candidate and the next victim of the main region.
    #[inline]
    pub fn next_losers(&self) -> [Option<u32>; 2] {
        [self.queues.regions.lane(Region::Window).list.back(), self.queues.regions.main_victim()]
    }

    /// Counts requests that hit since the node's last record, however many, as one. A node no
    /// longer held is ignored.
    pub fn access<S: PolicyStore + ?Sized>(&mut self, store: &S, id: u32) {
        let node = store.node(id);
        match self.queues.regions.remove(store, node) {
            Region::None => {}
            region => self.hit(store, (id, node), region),
        }
    }

    /// Lets go of a node, if it is held.
    pub fn remove<S: PolicyStore + ?Sized>(&mut self, store: &S, id: u32) {
        self.remove_node(store, store.node(id));
    }

    /// [`remove`](Self::remove) for whoever has the node at hand.
    pub fn remove_node<'a, S: PolicyStore + ?Sized>(&mut self, store: &S, node: S::Node<'a>) {
        if self.queues.remove(store, node) != Region::None {
            self.admission.fit(self.len());
            if let Some(trial) = &mut self.trial {
                trial.forget(node.hash());
            }
        }
    }

    /// While the weight is over the maximum: a node to evict, which is no longer held.
    pub fn victim<S: PolicyStore + ?Sized>(&mut self, store: &S) -> Option<u32> {
        let id = self.queues.victim(store, &mut self.admission)?;
        self.full = true;
        self.admission.fit(self.len());
        Some(id)
    }

    /// Takes back a victim that cannot be evicted just now, to where it is the last to be chosen.
    ///
    /// The caller bounds its attempts: if nothing held can be evicted, all of it is named in turn.
    pub fn readmit<S: PolicyStore + ?Sized>(&mut self, store: &S, id: u32) {
        self.queues.readmit(store, id);
        self.admission.fit(self.len());
    }

    /// The nodes held, roughly in the order in which they would be evicted.
    pub fn coldest<'a, S: PolicyStore + ?Sized>(
        &'a self,
        store: &'a S,
    ) -> impl Iterator<Item = u32> + 'a {
        order::coldest(&self.queues.regions, &self.admission, store)
    }

    /// The nodes held, those with the best prospects first.
    pub fn hottest<'a, S: PolicyStore + ?Sized>(
        &'a self,
        store: &'a S,
    ) -> impl Iterator<Item = u32> + 'a {
        order::hottest(&self.queues.regions, &self.admission, store)
    }

    /// Recounts everything that the rules say.
    ///
    /// # Errors
    ///
    /// Says what does not hold.
    pub fn validate<S: PolicyStore + ?Sized>(&self, store: &S) -> Result<(), String> {
        self.queues.validate(store)?;
        self.admission.validate()?;
        self.trial.as_ref().map_or(Ok(()), Trial::validate)
    }

    fn hit<'a, S: PolicyStore + ?Sized>(
        &mut self,
        store: &S,
        node: (u32, S::Node<'a>),
        from: Region,
    ) {
        let hash = node.1.hash();
        self.admission.count(self.admission.spread(hash));
        self.queues.hit(store, node, from);
        self.try_rules(hash);
    }

    /// Plays a request to the shadows, if it is one of the sample.
    #[inline]
    fn try_rules(&mut self, hash: u32) {
        if self.trial.as_ref().is_some_and(|trial| trial.is_sampled(hash)) {
            self.play(hash);
        }
    }

    /// Plays a request to the shadows, and takes over the rules that they find best.
    #[cold]
    #[inline(never)]
    fn play(&mut self, hash: u32) {
        let entries = self.len();
        let Some(trial) = &mut self.trial else { return };
        if trial.play(hash, entries, self.full, &mut self.admission) {
            self.queues.set_rules(trial.rules());
        }
    }
}
