//! What is remembered of keys that were turned away: how many of them, for how long, and whose
//! memory goes first.

use crate::store::{Store, hash};
use cortado::internals::links::NodeId;
use cortado::internals::policy::{Policy, PolicyStore, Region};
use std::collections::BTreeMap;

/// A line remembers so many, one for every four entries of a cache that has fewer, and there is one
/// line for so many entries (`src/eviction/memory.rs`).
const PLACES: usize = 15;
const ENTRIES_PER_LINE: u64 = 62;

/// A policy whose window is of one entry at first, full of residents that are asked for more often
/// than any newcomer.
struct Full {
    store: Store,
    policy: Policy,
    held: BTreeMap<NodeId, u64>,
}

impl Full {
    fn new(capacity: u64, seed: u64) -> Self {
        let policy = Policy::with_fixed_window(capacity, seed, 1.0 / capacity as f64);
        assert_eq!(policy.window_target(), 1);
        let mut full = Self { store: Store::new(), policy, held: BTreeMap::new() };
        for key in 0..capacity {
            full.add(key);
        }
        full.warm();
        full
    }

    fn add(&mut self, key: u64) -> NodeId {
        let id = self.store.alloc(key, 1);
        self.held.insert(id, key);
        self.policy.add(&self.store, id.with(self.store.node(id)));
        id
    }

    fn warm(&mut self) {
        for _ in 0..4 {
            self.held.keys().for_each(|&id| self.policy.record_hit(&self.store, id));
        }
    }

    /// Adds newcomers. Returns who had to go: each pushes the one before it out of the window, the
    /// first one the resident that came last.
    fn turn_away(&mut self, newcomers: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let mut gone = Vec::new();
        for key in newcomers {
            self.add(key);
            let victim = self.policy.take_victim(&self.store).expect("it is full").id;
            self.store.free(victim);
            gone.push(self.held.remove(&victim).unwrap());
            assert!(self.policy.take_victim(&self.store).is_none());
        }
        gone
    }

    fn remove(&mut self, id: NodeId) {
        self.policy.remove(&self.store, self.store.node(id));
        self.store.free(id);
        self.held.remove(&id);
    }

    /// Empties the cache: who is known then comes into the main region, and all others come into
    /// the window.
    fn empty(&mut self) {
        let ids: Vec<NodeId> = self.held.keys().copied().collect();
        ids.into_iter().for_each(|id| self.remove(id));
        assert!(self.policy.len() == 0);
        self.policy.validate(&self.store).unwrap();
    }

    /// Of these keys those that are known, to an empty cache. They are forgotten by that.
    fn known(&mut self, keys: &[u64]) -> Vec<u64> {
        let known = keys.iter().copied().filter(|&key| {
            let id = self.add(key);
            assert!(self.policy.len() > 0);
            let region = self.store.region(id);
            self.remove(id);
            assert!([Region::Probation, Region::Window].contains(&region));
            region == Region::Probation
        });
        known.collect()
    }
}

/// A line remembers its last 15, or a quarter as many as there are entries; each is forgotten when
/// it has come back, and none for another's sake.
#[test]
fn the_last_to_be_turned_away_are_known() {
    for capacity in [3, 7, 29, 58, 59, ENTRIES_PER_LINE - 1] {
        // While a newcomer is judged, there is one more.
        let places = PLACES.min((capacity as usize + 1) / 4);
        for count in [1, places.max(2) - 1, places, places + 1, 2 * places + 3] {
            let mut full = Full::new(capacity, capacity);
            let gone = full.turn_away(1_000..1_000 + count as u64);
            assert_eq!(gone[1..], (1_000..1_000 + count as u64 - 1).collect::<Vec<u64>>());
            full.empty();
            let (early, late) = gone.split_at(count.saturating_sub(places));
            assert_eq!(full.known(late), late, "{count} turned away by {capacity}");
            assert_eq!(full.known(late), [], "once each");
            assert_eq!(full.known(early), [], "{places} places, {count} turned away");
        }
    }
}

/// Of two keys with one hash that were both turned away, the first to come back is known.
#[test]
fn two_keys_of_one_hash_are_known() {
    let mut full = Full::new(ENTRIES_PER_LINE - 1, 1);
    for _ in 0..2 {
        let id = full.store.alloc_hashed(hash(1_000), 1);
        full.held.insert(id, 1_000);
        full.policy.add(&full.store, id.with(full.store.node(id)));
        let victim = full.policy.take_victim(&full.store).unwrap().id;
        full.held.remove(&victim);
        full.store.free(victim);
    }
    assert_eq!(full.turn_away([1_001]), [1_000]);
    full.empty();
    assert_eq!(full.known(&[1_000, 1_000]), [1_000]);
}

/// Strangers who come and go disturb the memory of none who is turned away after them, wherever in
/// its line the next place is.
#[test]
fn strangers_leave_the_memory_in_order() {
    const CAPACITY: u64 = ENTRIES_PER_LINE - 1;
    for count in 1..=PLACES as u64 {
        let mut full = Full::new(CAPACITY, count);
        full.turn_away(1_000..1_000 + count);
        full.policy.set_max_weight(CAPACITY + 1);
        for stranger in 0..10_000 {
            let id = full.add((1 << 20) + stranger);
            full.remove(id);
        }
        full.policy.set_max_weight(CAPACITY);
        full.warm();
        full.turn_away([2_000, 2_001, 2_002]);
        full.empty();
        assert_eq!(full.known(&[2_000, 2_001]), [2_000, 2_001], "after {count}");
    }
}

/// A cache that was made smaller has fewer lines; where two become one, each place that is taken in
/// either stays taken.
#[test]
fn the_memory_shrinks_with_the_cache() {
    for seed in 0..8 {
        let of_two_lines = |count: u64| {
            let mut full = Full::new(ENTRIES_PER_LINE + 8, seed);
            let gone = full.turn_away(1_000..1_000 + count);
            full.empty();
            full.known(&gone).len()
        };
        let few = of_two_lines(21);
        assert!(
            (11..=21).contains(&few),
            "{few} of 21 with seed {seed}: less than the fuller line"
        );
        assert_eq!(of_two_lines(200), PLACES, "one line, seed {seed}");
    }
}

/// A victim that stays, because something uses it, is not one that left.
#[test]
fn who_is_set_aside_or_readmitted_has_not_left() {
    for is_aside in [true, false] {
        let mut full = Full::new(ENTRIES_PER_LINE - 1, 1);
        full.add(1_000);
        let victim = full.policy.take_victim(&full.store).unwrap().id;
        let key = full.held[&victim];
        if is_aside {
            full.policy.set_aside(&full.store, victim);
            full.policy.restore(&full.store, victim);
        } else {
            full.policy.readmit(&full.store, victim);
        }
        full.empty();
        assert_eq!(full.known(&[key]), [], "aside: {is_aside}");
    }
}
