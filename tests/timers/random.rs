//! The queue against an ordered map, in random programs.
//!
//! `CORTADO_TIMER_OPS` sets the number of operations.

use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use cortado::timer::{DelayQueue, Polled, TimerId};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Operations of a program.
const LENGTH: u64 = 400;

struct Item {
    deadline: u64,
    /// It was given a deadline that had passed for the queue already.
    is_overdue: bool,
}

/// A queue, and what ought to be in it.
struct Program {
    random: u64,
    tick: u64,
    queue: DelayQueue<u64>,
    items: BTreeMap<TimerId, Item>,
    by_tick: BTreeSet<(u64, TimerId)>,
    gone: Vec<TimerId>,
    now: u64,
    fired: u64,
}

fn nanos(number: u64) -> Duration {
    Duration::from_nanos(number)
}

impl Program {
    fn new(random: u64) -> Self {
        let tick = [1_000_000, 1_000_000, 1_048_576, 10_000_000][(random % 4) as usize];
        Self {
            random,
            tick,
            queue: DelayQueue::with_tick(nanos(tick)),
            items: BTreeMap::new(),
            by_tick: BTreeSet::new(),
            gone: Vec::new(),
            now: 0,
            fired: 0,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        draw(&mut self.random) % bound
    }

    /// Before, at or after the present, of any order of magnitude.
    fn instant(&mut self) -> u64 {
        let magnitude = self.below(60);
        let offset = draw(&mut self.random) >> (63 - magnitude);
        match self.below(8) {
            0 => self.now.saturating_sub(offset),
            1 => self.now,
            _ => self.now.saturating_add(offset),
        }
    }

    fn tick_of(&self, deadline: u64) -> u64 {
        deadline.div_ceil(self.tick)
    }

    fn note(&mut self, id: TimerId, deadline: u64) {
        self.forget(id);
        let is_overdue = self.tick_of(deadline) <= self.now / self.tick;
        self.items.insert(id, Item { deadline, is_overdue });
        self.by_tick.insert((self.tick_of(deadline), id));
    }

    fn forget(&mut self, id: TimerId) -> Option<Item> {
        let item = self.items.remove(&id)?;
        self.by_tick.remove(&(self.tick_of(item.deadline), id));
        Some(item)
    }

    fn anyone(&mut self) -> Option<TimerId> {
        let length = self.items.len() as u64;
        let at = self.below(length.max(1)) as usize;
        self.items.keys().nth(at).copied()
    }

    fn step(&mut self) {
        match self.below(20) {
            0..8 => {
                let deadline = self.instant();
                let id = self.queue.insert_at(deadline, nanos(deadline));
                self.note(id, deadline);
            }
            8..11 => {
                let Some(id) = self.anyone() else { return };
                let deadline = self.instant();
                assert!(self.queue.try_reset_at(&id, nanos(deadline)));
                self.note(id, deadline);
            }
            11..13 => {
                let Some(id) = self.anyone() else { return };
                assert!(self.queue.try_remove(&id).is_some());
                self.forget(id);
                self.gone.push(id);
            }
            13 => {
                let at = self.below(self.gone.len().max(1) as u64) as usize;
                let Some(&id) = self.gone.get(at) else { return };
                assert_eq!(self.queue.try_remove(&id), None, "{id} has left");
                assert!(!self.queue.try_reset_at(&id, nanos(self.now)));
            }
            14 if self.below(50) == 0 => self.drain(),
            14 if self.below(5) == 0 => self.queue.shrink_to_fit(),
            _ => {
                if self.below(2) == 0 {
                    let magnitude = self.below(45);
                    let step = draw(&mut self.random) >> (63 - magnitude);
                    self.now = self.now.saturating_add(step);
                }
                let budget = [0, 1, 3, 1000][self.below(4) as usize];
                self.poll(budget);
            }
        }
    }

    fn poll(&mut self, mut budget: u32) {
        let tick = self.now / self.tick;
        loop {
            match self.queue.poll(nanos(self.now), &mut budget) {
                Polled::Due(expired) => {
                    let id = expired.key();
                    let item = self.forget(id).unwrap_or_else(|| panic!("{id} is not there"));
                    assert_eq!(expired.deadline(), nanos(item.deadline));
                    let due = self.tick_of(item.deadline);
                    assert!(due <= tick, "{id} is early");
                    let earlier = self.by_tick.iter().take_while(|other| other.0 < due);
                    let mut earlier = earlier.filter(|other| !self.items[&other.1].is_overdue);
                    assert_eq!(earlier.next(), None, "{id} of tick {due} is out of order");
                    self.gone.push(id);
                    self.fired += 1;
                }
                Polled::Exhausted => {
                    assert_eq!(budget, 0);
                    return;
                }
                Polled::Idle => {
                    let first = self.by_tick.first();
                    assert!(first.is_none_or(|first| first.0 > tick), "{first:?} at {tick}");
                    return;
                }
            }
        }
    }

    fn drain(&mut self) {
        let mut drained: Vec<(u64, TimerId)> = self
            .queue
            .drain()
            .map(|expired| (self.tick_of(expired.deadline().as_nanos() as u64), expired.key()))
            .collect();
        drained.sort_unstable();
        assert!(drained.iter().eq(&self.by_tick));
        self.gone.extend(self.items.keys());
        self.items.clear();
        self.by_tick.clear();
    }

    fn check(&self) {
        self.queue.audit().unwrap();
        assert_eq!(self.queue.len(), self.items.len());
        let earliest = self.by_tick.first().map(|first| first.0.saturating_mul(self.tick));
        let next = self.queue.next_deadline().map(|next| next.as_nanos() as u64);
        if self.items.len() <= 64 {
            assert_eq!(next, earliest);
        } else {
            assert!(next <= earliest, "{next:?} is later than {earliest:?}");
        }
        let mut sorted: Vec<(u64, TimerId)> =
            self.items.iter().map(|(&id, item)| (item.deadline, id)).collect();
        sorted.sort_unstable();
        let shown = self.queue.soonest().map(|(id, at, _)| (at.as_nanos() as u64, id));
        let mut shown: Vec<(u64, TimerId)> = shown.collect();
        assert!(shown.is_sorted_by_key(|item| item.0), "iteration is out of order");
        shown.sort_unstable();
        assert_eq!(shown, sorted);
    }
}

#[test]
fn agrees_with_an_ordered_map() {
    let programs = scale("CORTADO_TIMER_OPS", 200_000) / LENGTH;
    let mut fired = 0;
    for number in 0..programs {
        let mut program = Program::new(seed(number + 1));
        for _ in 0..LENGTH {
            program.step();
            program.check();
        }
        program.now = u64::MAX / program.tick * program.tick;
        program.poll(u32::MAX);
        fired += program.fired;
    }
    // They do reach what they are for: many items are handed out.
    assert!(fired > programs * LENGTH / 10, "{fired}");
    counted(programs * LENGTH, "operations");
}
