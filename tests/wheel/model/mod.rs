//! Programs of wheel operations, run against a model: an ordered map on an unbounded clock.
//!
//! The wheel's instants are the model's, cut to 64 bits, so the clock may start anywhere and wrap.
//! After each operation the wheel is audited and its visible state is compared with the model's.

mod meddler;
mod op;
pub mod store;

use cortado::internals::wheel::Geometry;
use meddler::Meddler;
use op::{Bytes, Op};
pub use op::{HEADER_LEN, OP_LEN};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use store::{Poll, Timers, Wheel};

/// Timers are numbered from 1 to this.
pub const TIMERS: u32 = 48;

/// The clock stays within this of its start, so that differences of instants keep their sign.
const REACH: i128 = 1 << 62;

/// Runs the program that `bytes` spell; panics if the wheel misbehaves. Returns how many timers
/// were handed out.
pub fn run(bytes: &[u8]) -> usize {
    run_with(bytes, 1)
}

/// The same, comparing what can be seen not after each step but after every so many: most of the
/// time goes into that, and what is wrong with a wheel stays wrong.
pub fn run_with(bytes: &[u8], every: u32) -> usize {
    let mut bytes = Bytes(bytes);
    let choice = bytes.byte();
    let geometry = match choice % 6 {
        0 => Geometry::default(),
        1 => Geometry::with_resolution(std::time::Duration::from_millis(1)),
        2 => Geometry::with_resolution(std::time::Duration::from_millis(40)),
        3 => store::geometry(&[(4, 4), (6, 2), (7, 1)]),
        4 => store::geometry(&[(10, 64), (16, 64), (22, 1)]),
        _ => store::geometry(&[(0, 64), (6, 8), (9, 2), (10, 1)]),
    };
    let start = bytes.near(&[0, 1 << 63, u64::MAX]);
    let new = if choice / 6 % 2 == 0 { Wheel::new } else { Wheel::with_lanes };
    let mut wheel = new(geometry.clone(), start);
    let mut model = Model::new(geometry, start, every);
    while let Some(op) = bytes.op() {
        model.step(&mut wheel, op);
        model.check(&wheel);
    }
    model.drain(&mut wheel);
    model.fired
}

/// What ought to be in the wheel.
pub struct Model {
    timers: Rc<Timers>,
    geometry: Geometry,
    start: i128,
    clock: i128,
    /// The waiting timers by deadline, each with the moment of its scheduling.
    waiting: BTreeMap<(i128, u32), u64>,
    deadlines: BTreeMap<u32, i128>,
    /// Timers that lost their deadline behind the wheel's back: let go when looked at.
    lapsed: BTreeSet<u32>,
    /// Counts schedulings and ticks, for before and after.
    moment: u64,
    /// When the clock last came to another tick.
    ticked: (u64, i128),
    fired: usize,
    /// All that can be seen is compared after so many steps.
    every: u32,
    steps: Cell<u32>,
}

impl Model {
    fn new(geometry: Geometry, start: u64, every: u32) -> Self {
        let start = i128::from(start);
        Self {
            timers: Rc::new(Timers::new(TIMERS)),
            geometry,
            start,
            clock: start,
            waiting: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            lapsed: BTreeSet::new(),
            moment: 1,
            ticked: (0, start),
            fired: 0,
            every,
            steps: Cell::new(0),
        }
    }

    fn step(&mut self, wheel: &mut Wheel, op: Op) {
        match op {
            Op::Schedule { id, deadline } => {
                let deadline = self.instant(deadline);
                self.insert(id, deadline);
                wheel.schedule(&self.timers, id);
            }
            Op::ScheduleNear { id, other, offset } => {
                let origin = self.deadlines.get(&other).copied().unwrap_or(self.clock);
                let latest = self.clock + (1 << 59);
                self.insert(id, (origin + i128::from(offset)).min(latest));
                wheel.schedule(&self.timers, id);
            }
            Op::ScheduleNever { id } => {
                self.remove(id);
                self.timers.set(id, None);
                wheel.schedule(&self.timers, id);
                assert!(!self.timers.is_linked(id));
            }
            Op::Reschedule { id, deadline } => {
                let deadline = self.instant(deadline);
                let linked = self.timers.is_linked(id);
                if linked {
                    self.insert(id, deadline);
                    wheel.schedule(&self.timers, id);
                }
            }
            Op::Extend { id, by } => self.extend(id, by),
            Op::Lapse { id } => {
                if self.deadlines.contains_key(&id) {
                    self.remove(id);
                    self.timers.set(id, None);
                    self.lapsed.insert(id);
                }
            }
            Op::Cancel { id } => {
                let linked = self.timers.is_linked(id);
                self.remove(id);
                assert_eq!(wheel.cancel(&self.timers, id), linked);
            }
            Op::Advance { by, budget } => {
                self.advance(wheel, self.clock + i128::from(by));
                if let Some(budget) = budget {
                    self.poll(wheel, budget);
                }
            }
            Op::AdvanceToNext { budget } => {
                if let Some(delay) = wheel.next_delay() {
                    self.advance(wheel, self.clock + i128::from(delay));
                    self.poll(wheel, budget);
                }
            }
            Op::AdvanceWith { by, budget, seed } => self.advance_with(wheel, by, budget, seed),
            Op::Recall => self.recall(wheel),
            Op::Back { by } => {
                let moved = wheel.advance(&self.timers, (self.clock - i128::from(by)) as u64);
                assert_eq!(moved, 0, "time going back is ignored");
            }
            Op::Rewind { by } => self.rewind(wheel, by),
        }
    }

    /// The instant that an operation means, relative to the clock.
    fn instant(&self, offset: i64) -> i128 {
        self.clock + i128::from(offset)
    }

    /// Notes that `id` waits from now on, in the store too.
    fn insert(&mut self, id: u32, deadline: i128) {
        self.remove(id);
        self.moment += 1;
        self.put(id, deadline, self.moment);
    }

    fn put(&mut self, id: u32, deadline: i128, since: u64) {
        self.deadlines.insert(id, deadline);
        self.waiting.insert((deadline, id), since);
        self.timers.set(id, deadline as u64);
    }

    fn remove(&mut self, id: u32) {
        self.lapsed.remove(&id);
        if let Some(deadline) = self.deadlines.remove(&id) {
            self.waiting.remove(&(deadline, id)).expect("it waits");
        }
    }

    /// Prolongs a life without telling the wheel.
    fn extend(&mut self, id: u32, by: u64) {
        if let Some(&old) = self.deadlines.get(&id) {
            let since = self.waiting.remove(&(old, id)).expect("it waits");
            self.put(id, old.max(self.clock + i128::from(by)), since);
        }
    }

    fn advance(&mut self, wheel: &mut Wheel, now: i128) {
        self.note_advance(now);
        let moved = wheel.advance(&self.timers, self.clock as u64);
        let occupied = self.deadlines.len() + self.lapsed.len();
        assert!(moved <= occupied, "{moved} buckets for {occupied} timers");
    }

    fn note_advance(&mut self, now: i128) {
        let now = now.min(self.start + REACH);
        let shift = self.geometry.levels()[0].shift;
        if now >> shift != self.clock >> shift {
            self.moment += 1;
            self.ticked = (self.moment, now);
        }
        self.clock = now;
    }

    fn rewind(&mut self, wheel: &mut Wheel, by: u64) {
        self.clock = (self.clock - i128::from(by)).max(self.start - REACH);
        self.ticked.1 = self.ticked.1.min(self.clock);
        wheel.rewind(&self.timers, self.clock as u64);
    }

    /// Polls until the budget is used up or the backlog is.
    fn poll(&mut self, wheel: &mut Wheel, budget: u32) {
        let (mut left, before) = (budget, self.timers.reads.get());
        loop {
            match wheel.poll(&self.timers, &mut left) {
                Poll::Due(id) => drop(self.take(id)),
                Poll::Exhausted => {
                    assert!(left == 0 && wheel.has_backlog());
                    break;
                }
                Poll::Idle => {
                    self.settled(wheel);
                    break;
                }
            }
            self.check(wheel);
        }
        let looked_at = self.timers.reads.get() - before;
        // Audits read deadlines as well, but only in `check`, which puts the counter back.
        assert_eq!(looked_at, u64::from(budget - left), "each look takes one from the budget");
    }

    /// Does something to the wheel after each due timer.
    fn advance_with(&mut self, wheel: &mut Wheel, by: u64, budget: u32, seed: u64) {
        self.note_advance(self.clock + i128::from(by));
        let timers = Rc::clone(&self.timers);
        let now = self.clock as u64;
        let mut meddler = Meddler::new(seed);
        let left =
            wheel.advance_with(&timers, now, budget, |wheel, id| meddler.meddle(self, wheel, id));
        if wheel.has_backlog() {
            assert_eq!(left, 0);
        } else {
            self.settled(wheel);
        }
    }

    /// Whatever is due is handed out, without waiting for the end of the tick.
    fn recall(&mut self, wheel: &mut Wheel) {
        wheel.recall_current(&self.timers);
        self.poll(wheel, u32::MAX);
        let first = self.waiting.first_key_value();
        assert!(first.is_none_or(|(&(deadline, _), _)| deadline > self.clock), "{first:?} is due");
    }

    /// Notes that `id` was handed out. Returns its deadline and since when it waited.
    fn take(&mut self, id: u32) -> (i128, u64) {
        assert!(!self.timers.is_linked(id), "{id} was handed out and is still in the wheel");
        let deadline = self.deadlines.remove(&id).expect("what is handed out was waiting");
        let since = self.waiting.remove(&(deadline, id)).expect("it waits");
        assert!(deadline <= self.clock, "{id} is {} ns early", deadline - self.clock);
        self.fired += 1;
        (deadline, since)
    }

    /// Nothing is left to look at: what was due when the clock came to this tick must be gone.
    fn settled(&self, wheel: &Wheel) {
        assert!(!wheel.has_backlog());
        let (ticked, at) = self.ticked;
        for (&(deadline, id), &since) in self.waiting.range(..=(at.min(self.clock), u32::MAX)) {
            assert!(since > ticked, "{id}, due at {deadline}, was passed over at {at}");
        }
    }

    /// Compares all that can be seen.
    fn check(&self, wheel: &Wheel) {
        self.steps.set(self.steps.get() + 1);
        if !self.steps.get().is_multiple_of(self.every) {
            return;
        }
        let reads = self.timers.reads.get();
        wheel.validate(&self.timers).unwrap();
        assert_eq!(wheel.clock(), self.clock as u64);
        let linked: Vec<u32> = (1..=TIMERS).filter(|&id| self.timers.is_linked(id)).collect();
        for &id in &linked {
            assert!(self.deadlines.contains_key(&id) || self.lapsed.contains(&id), "{id} is dead");
        }
        for id in self.deadlines.keys() {
            assert!(linked.binary_search(id).is_ok(), "{id} is lost");
        }
        assert_eq!(wheel.len(), linked.len());
        assert_eq!(wheel.is_empty(), linked.is_empty());

        let mut soonest: Vec<u32> = wheel.soonest(&self.timers);
        soonest.sort_unstable();
        assert_eq!(soonest, linked);
        self.check_delay(wheel);
        self.timers.reads.set(reads);
    }

    fn check_delay(&self, wheel: &Wheel) {
        let delay = wheel.next_delay();
        assert_eq!(delay.is_none(), wheel.is_empty());
        assert_eq!(delay == Some(0), wheel.has_backlog());
        assert_eq!(
            wheel.next_deadline(),
            delay.map(|delay| (self.clock as u64).wrapping_add(delay))
        );
        if let (Some(delay @ 1..), Some((&(least, _), _))) = (delay, self.waiting.first_key_value())
        {
            let tick = i128::from(self.geometry.levels()[0].span().raw());
            let tick_end = tick - self.clock.rem_euclid(tick);
            let left = (least - self.clock).max(tick_end);
            assert!(i128::from(delay) <= left, "{delay} ns, but {left} left");
        }
    }

    /// Follows the wheel's own calls until it is empty, and times what it hands out.
    fn drain(&mut self, wheel: &mut Wheel) {
        self.poll(wheel, u32::MAX);
        let (begun, tick) = (self.clock, i128::from(self.geometry.levels()[0].span().raw()));
        for _ in 0..200 {
            let Some(delay) = wheel.next_delay() else { break };
            if self.clock + i128::from(delay) > self.start + REACH {
                break;
            }
            let due = self.waiting.clone();
            self.advance(wheel, self.clock + i128::from(delay));
            self.poll(wheel, u32::MAX);
            self.check(wheel);
            for (deadline, id) in due.into_keys().filter(|key| !self.waiting.contains_key(key)) {
                let late = self.clock - deadline.max(begun);
                assert!(late < tick || deadline <= begun && late <= tick, "{id}: {late} ns late");
            }
        }
        let last = self.waiting.last_key_value().map_or(self.clock, |(&(at, _), _)| at);
        let far = self.geometry.levels().last().map_or(0, |level| level.span().raw());
        self.note_advance_anywhere(last.max(self.clock) + i128::from(far));
        wheel.advance(&self.timers, self.clock as u64);
        self.poll(wheel, u32::MAX);
        self.check(wheel);
        assert!(wheel.is_empty(), "{} are left", wheel.len());
    }

    fn note_advance_anywhere(&mut self, now: i128) {
        self.start = now - REACH;
        self.note_advance(now);
    }
}
