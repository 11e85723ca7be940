//! Chooses the rules that suit the workload: all rules are tried on a sample of the keys.
//!
//! There is a *shadow* for each set of rules: the queues of a small cache without values. The
//! requests for a sample of the keys are played to every shadow as well. If one key in n is in the
//! sample and a shadow has an n-th of the capacity, the shadow's hit ratio is about that of a cache
//! under its rules. All shadows see the same requests. So neither a phase of the workload nor luck
//! of the sample favours one of them.
//!
//! 1. **Sample.** A key is in the sample if its hash, multiplied by a secret number, is less than
//!    2^32 >> `shift`. When the number of entries doubles, the share of the keys is halved. The
//!    keys that leave the sample leave the shadows. The target size of a shadow is a 64th of the
//!    entries, but at least 32 and at most 256 entries (all entries, if there are fewer). Smaller
//!    shadows tell too little, and larger ones tell nothing new.
//! 2. **Deficit.** The deficit of a shadow is the number of hits by which it is behind the best
//!    shadow. A deficit grows no further than to half the shadow's capacity. So no shadow has to
//!    make up for a lead of long ago, and small advantages count in the end.
//! 3. **Verdict.** When the deficit of the rules in force is as large as it can get, the best rules
//!    replace them. A smaller deficit is not worth the change. A change costs hits in proportion to
//!    the capacity, because part of the cache has to be filled anew.
//! 4. Nothing counts until the cache has been full: before that, all rules are alike. So the trial
//!    begins when the cache is half full, or has so many entries that the shadows could not be
//!    given them in a moment. A cache of few entries does not pay for the shadows.
//! 5. **Work.** One request in 2^`shift` is played to every shadow. It costs one look-up, and one
//!    hit or one arrival per shadow. When the sample is halved, up to a few thousand nodes are
//!    unlinked. This happens once for each doubling of the number of entries.
//!
//! Not chosen:
//!
//! * A climber, which compares one phase of the workload with the next: it lost 0.4 points of hit
//!   ratio more, and 1 point more at the smallest sizes.
//! * Scores that fade, instead of deficits with a limit: the result is the same with one more
//!   number to set, and a lasting advantage of 1 % went unseen.

use super::admission::Admission;
use super::queues::Queues;
use super::rules::Rules;
use super::shadow::Keys;
use super::store::{PolicyStore, Region};
use crate::hash::Hash32;
use crate::links::NodeId;
use crate::macros::ensure;

/// Minimum target size of a shadow, in entries. Smaller shadows tell too little.
const SMALLEST: usize = 32;
/// Maximum target size of a shadow, in entries. Larger shadows tell nothing new.
const LARGEST: usize = 256;
/// Between these bounds, the target size of a shadow is the number of entries divided by this. A
/// 16th gained nothing (`docs/eviction.md`).
const SHARE: usize = 64;
/// Minimum number of sampled requests between two verdicts. The number is the capacity of a shadow,
/// if that is larger.
const SHORTEST: u64 = 64;

#[derive(Debug)]
struct Shadow {
    queues: Queues,
    /// The hits since the last verdict.
    hits: u64,
    /// The hits by which the shadow is behind the best shadow; see rule 2 of the module.
    deficit: u64,
}

/// The index in [`Rules::ALL`] of the rules with which every trial begins.
const FIRST: usize = 0;

#[derive(Debug)]
pub struct Trial {
    keys: Keys,
    shadows: Vec<Shadow>,
    /// The secret odd number that selects the sample.
    factor: u32,
    shift: u32,
    capacity: u64,
    /// Sampled requests since the last verdict.
    requests: u64,
    /// The index in [`Rules::ALL`] of the rules in force.
    chosen: usize,
}

impl Trial {
    /// The rules that are in force until a trial has chosen others.
    pub const FIRST_RULES: Rules = Rules::ALL[FIRST];

    /// A trial with these secret numbers, which select the sample.
    pub fn new([seed, factor]: [u64; 2]) -> Self {
        let shadow = |rules| Shadow { queues: Queues::new(1, rules), hits: 0, deficit: 0 };
        Self {
            shadows: Rules::ALL.into_iter().map(shadow).collect(),
            keys: Keys::new(seed),
            factor: factor as u32 | 1,
            shift: 0,
            capacity: 1,
            requests: 0,
            chosen: FIRST,
        }
    }

    pub fn rules(&self) -> Rules {
        Rules::ALL[self.chosen]
    }

    /// Removes a key that left the cache in another way than by eviction.
    #[inline]
    pub fn forget(&mut self, hash: Hash32) {
        if self.is_sampled(hash)
            && let Some(id) = self.keys.find(hash)
        {
            self.drop_key(id);
        }
    }

    /// Resets the counts of requests, hits and deficits.
    pub fn restart(&mut self) {
        self.requests = 0;
        for shadow in &mut self.shadows {
            (shadow.hits, shadow.deficit) = (0, 0);
        }
    }

    /// Recounts the shadows.
    ///
    /// # Errors
    ///
    /// Describes the first violation.
    pub fn validate(&self) -> Result<(), String> {
        let mut held = 0;
        for (number, Shadow { queues, deficit, .. }) in self.shadows.iter().enumerate() {
            let store = self.keys.store(number);
            queues.validate(&store).map_err(|error| format!("shadow {number}: {error}"))?;
            let is_over = queues.regions.weight() > queues.max_weight || *deficit > self.limit();
            ensure!(!is_over, "shadow {number} is beyond its bounds");
            held = held.max(queues.regions.len());
        }
        let others = self.keys.matching(|hash| !self.is_sampled(hash));
        let is_right = self.keys.len() >= held && others.is_empty();
        ensure!(is_right, "the shadows' keys are not those of the sample");
        Ok(())
    }

    /// Whether requests for a key are [played](Self::play).
    #[inline]
    pub fn is_sampled(&self, hash: Hash32) -> bool {
        hash.raw().wrapping_mul(self.factor) <= u32::MAX >> self.shift
    }

    /// Plays a request to the shadows. The cache has `entries` entries, and `full` tells whether it
    /// has been full. Returns true if other rules are better.
    pub fn play(
        &mut self,
        hash: Hash32,
        entries: usize,
        full: bool,
        admission: &mut Admission,
    ) -> bool {
        self.follow(entries, full, admission);
        if !self.is_sampled(hash) {
            // The sample has just become smaller, and the key has left it.
            return false;
        }
        let id = self.keys.get_or_insert(hash);
        let spread = admission.sketch.spread(hash);
        for number in 0..self.shadows.len() {
            let (store, shadow) = (self.keys.store(number), &mut self.shadows[number]);
            let node = store.node(id);
            match shadow.queues.remove(&store, node) {
                Region::None => shadow.queues.arrive(&store, (id, node), spread, admission),
                region => {
                    shadow.hits += 1;
                    shadow.queues.hit(&store, (id, node), region);
                }
            }
            self.evict(number, id, admission);
        }
        self.keys.release(id);
        if !full {
            self.restart();
            return false;
        }
        self.requests += 1;
        self.requests >= self.capacity.max(SHORTEST) && self.judge()
    }

    /// Brings a shadow within its capacity. The node `kept` is not released, even if the shadow
    /// evicts it.
    fn evict(&mut self, number: usize, kept: NodeId, admission: &mut Admission) {
        let queues = &mut self.shadows[number].queues;
        while let Some(victim) = queues.take_victim(&self.keys.store(number), admission) {
            if victim != kept {
                self.keys.release(victim);
            }
        }
    }

    /// Adapts the sample and the shadows to the number of entries. In a full cache, this number
    /// goes up and down a little all the time, but the capacity of the shadows does not follow
    /// that.
    fn follow(&mut self, entries: usize, full: bool, admission: &mut Admission) {
        let wanted = (entries / SHARE).clamp(SMALLEST, LARGEST);
        while entries >> self.shift > wanted {
            self.shift += 1;
            for id in self.keys.matching(|hash| !self.is_sampled(hash)) {
                self.drop_key(id);
            }
        }
        while self.shift > 0 && entries >> self.shift < wanted / 4 {
            self.shift -= 1;
        }
        let capacity = ((entries >> self.shift) as u64).max(1);
        if !full || capacity.abs_diff(self.capacity) > self.capacity / 8 {
            self.capacity = capacity;
            for number in 0..self.shadows.len() {
                let limit = self.limit();
                let shadow = &mut self.shadows[number];
                shadow.queues.set_max_weight(capacity);
                shadow.deficit = shadow.deficit.min(limit);
                self.evict(number, NodeId::NONE, admission);
            }
        }
    }

    /// The maximum of a deficit.
    fn limit(&self) -> u64 {
        self.capacity / 2
    }

    #[cold]
    fn judge(&mut self) -> bool {
        self.requests = 0;
        let limit = self.limit();
        let score = |shadow: &Shadow| shadow.hits as i64 - shadow.deficit as i64;
        let best = self.shadows.iter().map(score).max().unwrap_or(0);
        for shadow in &mut self.shadows {
            shadow.deficit = best.abs_diff(score(shadow)).min(limit);
            shadow.hits = 0;
        }
        let gives_way = limit > 0 && self.shadows[self.chosen].deficit == limit;
        if gives_way && let Some(best) = self.shadows.iter().position(|other| other.deficit == 0) {
            self.chosen = best;
        }
        gives_way
    }

    /// Removes a key from all shadows.
    fn drop_key(&mut self, id: NodeId) {
        for (number, shadow) in self.shadows.iter_mut().enumerate() {
            let store = self.keys.store(number);
            shadow.queues.remove(&store, store.node(id));
        }
        self.keys.release(id);
    }
}
