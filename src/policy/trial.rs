//! Which rules suit the load: all are tried on a sample of the keys.
//!
//! For each set of rules there is a *shadow*: the queues of a small cache without values, to which
//! the requests for a sample of the keys are played as well. With one key in n in the sample and an
//! n-th of the capacity, a shadow's hit ratio is about that of a cache under its rules. All shadows
//! see the same requests, so that phases of the load and luck of the sample favour none.
//!
//! 1. **Sample.** A key is in it if its hash, multiplied by a secret number, is small enough: less
//!    than 2^32 >> `shift`. Twice the entries, half the share: those that leave the sample leave
//!    the shadows. Shadows are of a 64th of the entries, but of 32 to 256 (all, if there are
//!    fewer); smaller ones tell too little, larger ones nothing new.
//! 2. **Deficit.** For each shadow is kept by how many hits it is behind the best. A deficit grows
//!    no further than to half the shadow's capacity; so nobody has to make up for a lead of long
//!    ago, and small advantages count in the end.
//! 3. **Verdict.** Rules whose deficit is as large as it can get give way to the best. Less is not
//!    worth the change, which costs hits in proportion to the capacity: part of the cache has to be
//!    filled anew.
//! 4. Nothing counts until the cache has been full: before, all rules are alike.
//! 5. **Work.** One request in 2^`shift` is played, to each shadow: a look-up, and in each one hit
//!    or one arrival. Halving the sample costs up to a few thousand nodes' unlinking, once for each
//!    doubling of the number of entries.
//!
//! Not chosen: a climber, which compares one phase of the load with the next (it lost 0.4 points
//! more, and 1 at the smallest sizes); scores that fade instead of deficits with a limit (the same
//! result with one more number to set, and a lasting advantage of 1 % went unseen).

use super::admission::Admission;
use super::queues::Queues;
use super::rules::Rules;
use super::shadow::Keys;
use super::store::{PolicyStore, Region};
use crate::links::NIL;

/// Bounds of a shadow's capacity, and its share of the entries between them.
const SMALLEST: usize = 32;
const LARGEST: usize = 256;
const SHARE: usize = 64;
/// Sampled requests between two verdicts: as many as a shadow has entries, but no fewer than this.
const SHORTEST: u64 = 64;

#[derive(Debug)]
struct Shadow {
    queues: Queues,
    /// Since the last verdict.
    hits: u64,
    deficit: u64,
}

#[derive(Debug)]
pub struct Trial {
    keys: Keys,
    shadows: Vec<Shadow>,
    /// Odd, secret.
    factor: u32,
    shift: u32,
    capacity: u64,
    /// Sampled requests since the last verdict.
    requests: u64,
    /// Which of [`Rules::ALL`] are in force.
    chosen: usize,
}

impl Trial {
    pub fn new(mut roll: impl FnMut() -> u64) -> Self {
        let shadow = |rules| Shadow { queues: Queues::new(1, rules), hits: 0, deficit: 0 };
        Self {
            shadows: Rules::ALL.into_iter().map(shadow).collect(),
            keys: Keys::new(roll()),
            factor: roll() as u32 | 1,
            shift: 0,
            capacity: 1,
            requests: 0,
            chosen: 0,
        }
    }

    pub fn rules(&self) -> Rules {
        Rules::ALL[self.chosen]
    }

    /// Lets go of a key that left the cache by another way than eviction.
    #[inline]
    pub fn forget(&mut self, hash: u32) {
        if self.is_sampled(hash)
            && let Some(id) = self.keys.find(hash)
        {
            self.drop_key(id);
        }
    }

    /// Forgets what has been counted.
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
    /// Says what does not hold.
    pub fn validate(&self) -> Result<(), String> {
        let mut held = 0;
        for (number, Shadow { queues, deficit, .. }) in self.shadows.iter().enumerate() {
            let lane = self.keys.lane(number);
            queues.validate(&lane).map_err(|error| format!("shadow {number}: {error}"))?;
            if queues.regions.weight() > queues.max_weight() || *deficit > self.limit() {
                return Err(format!("shadow {number} is beyond its bounds"));
            }
            held = held.max(queues.regions.len());
        }
        if self.keys.len() < held || !self.keys.matching(|hash| !self.is_sampled(hash)).is_empty() {
            return Err("the shadows' keys are not those of the sample".into());
        }
        Ok(())
    }

    /// Whether requests for a key are [played](Self::play).
    #[inline]
    pub fn is_sampled(&self, hash: u32) -> bool {
        hash.wrapping_mul(self.factor) <= u32::MAX >> self.shift
    }

    /// Plays a request of a cache with so many entries; true if other rules are better.
    pub fn play(
        &mut self,
        hash: u32,
        entries: usize,
        full: bool,
        admission: &mut Admission,
    ) -> bool {
        self.follow(entries, full, admission);
        if !self.is_sampled(hash) {
            // The sample has just become smaller.
            return false;
        }
        let id = self.keys.get_or_insert(hash);
        let spread = admission.spread(hash);
        for number in 0..self.shadows.len() {
            let (lane, shadow) = (self.keys.lane(number), &mut self.shadows[number]);
            let node = lane.node(id);
            match shadow.queues.remove(&lane, node) {
                Region::None => shadow.queues.arrive(&lane, (id, node), spread, admission),
                region => {
                    shadow.hits += 1;
                    shadow.queues.hit(&lane, (id, node), region);
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

    /// Brings a shadow within its capacity. The node `kept` is not forgotten, whatever becomes of
    /// it.
    fn evict(&mut self, number: usize, kept: u32, admission: &mut Admission) {
        let queues = &mut self.shadows[number].queues;
        while let Some(victim) = queues.victim(&self.keys.lane(number), admission) {
            if victim != kept {
                self.keys.release(victim);
            }
        }
    }

    /// Adapts sample and shadows to the number of entries. A full cache's number goes up and down a
    /// little all the time; the shadows' capacity does not.
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
                self.evict(number, NIL, admission);
            }
        }
    }

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

    /// Takes a key out of all shadows.
    fn drop_key(&mut self, id: u32) {
        for (number, shadow) in self.shadows.iter_mut().enumerate() {
            let lane = self.keys.lane(number);
            shadow.queues.remove(&lane, lane.node(id));
        }
        self.keys.release(id);
    }
}
