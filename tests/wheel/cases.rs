//! The wheel against facts about the original: `data/wheel_cases.json`, which
//! `data/README.md` explains.

use crate::facts::{int, ints, section};
use crate::model::store::{Location, Poll, Timers, Wheel};
use cortado::internals::wheel::Geometry;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const TICK_SHIFT: u32 = 30;

/// The geometry of the original, which is that of the coarsest resolution.
fn original() -> Geometry {
    Geometry::with_resolution(Duration::MAX)
}

/// The timers of a list of positions or ids, which start at 0; timers start at 1.
fn ids(value: &Value) -> Vec<u32> {
    ints(value).into_iter().map(|number| number as u32 + 1).collect()
}

/// `instant` plus an offset that may be negative.
fn plus(instant: u64, offset: &Value) -> u64 {
    instant.wrapping_add(int(offset).cast_unsigned())
}

/// A wheel of the original's geometry and its timers; every call is followed by an audit.
struct Bench {
    timers: Timers,
    wheel: Wheel,
}

impl Bench {
    fn new(now: u64, timers: u32) -> Self {
        Self { timers: Timers::new(timers), wheel: Wheel::new(original(), now) }
    }

    /// A wheel with one timer per deadline, numbered from 1.
    fn with(now: u64, deadlines: &[u64]) -> Self {
        let mut bench = Self::new(now, deadlines.len() as u32);
        for (id, &deadline) in (1..).zip(deadlines) {
            bench.schedule(id, deadline);
        }
        bench
    }

    fn schedule(&mut self, id: u32, deadline: u64) {
        self.timers.set(id, deadline);
        self.wheel.schedule(&self.timers, id);
        self.validate();
    }

    fn validate(&self) {
        self.wheel.validate(&self.timers).unwrap();
    }

    fn delay(&self) -> Option<i64> {
        self.wheel.next_delay().map(u64::cast_signed)
    }

    /// Level and bucket, or none.
    fn place(&self, id: u32) -> Option<(usize, u32)> {
        match self.wheel.location(&self.timers, id)? {
            Location::Bucket { level, index } => Some((level, index)),
            Location::Backlog { .. } => panic!("{id} is in the backlog"),
        }
    }

    /// Advances, a step back included, and hands out at most `limit`.
    fn advance(&mut self, to: u64, limit: usize) -> Vec<u32> {
        if (to.wrapping_sub(self.wheel.clock()).cast_signed() < 0)
            && self.wheel.advance(&self.timers, to) == 0
            && self.wheel.clock() != to
        {
            self.wheel.rewind(&self.timers, to);
        }
        self.wheel.advance(&self.timers, to);
        let (mut fired, mut budget) = (Vec::new(), u32::MAX);
        while fired.len() < limit {
            match self.wheel.poll(&self.timers, &mut budget) {
                Poll::Due(id) => fired.push(id),
                Poll::Idle => break,
                Poll::Exhausted => unreachable!("the budget is beyond the cases"),
            }
            self.validate();
        }
        self.validate();
        fired
    }
}

#[test]
fn bucket_of() {
    let mut rows = 0;
    for group in section("bucket_of") {
        let now = int(&group[0]).cast_unsigned();
        for row in group[1].as_array().unwrap() {
            let bench = Bench::with(now, &[plus(now, &row[0])]);
            let expected = (int(&row[1]) as usize, int(&row[2]) as u32);
            assert_eq!(bench.place(1), Some(expected), "{row} at {}", group[0]);
            rows += 1;
        }
    }
    assert_eq!(rows, 1914);
}

#[test]
fn schedule() {
    for row in section("schedule") {
        let now = int(&row[0]).cast_unsigned();
        let deadlines: Vec<u64> =
            row[1].as_array().unwrap().iter().map(|at| plus(now, at)).collect();
        let fired = Bench::with(now, &deadlines).advance(plus(now, &row[2]), usize::MAX);
        assert_eq!(fired, ids(&row[3]), "{row}");
    }
}

#[test]
fn cascade() {
    for row in section("cascade") {
        let now = int(&row[0]).cast_unsigned();
        let mut bench = Bench::with(now, &[plus(now, &row[1])]);
        let level = |bench: &Bench| bench.place(1).expect("the timer waits").0 as i64;
        assert_eq!(level(&bench), int(&row[3]), "{row}");
        assert!(bench.advance(plus(now, &row[2]), usize::MAX).is_empty(), "{row}");
        assert_eq!(level(&bench), int(&row[4]), "{row}");
        assert!(level(&bench) <= int(&row[5]), "{row}");
    }
}

#[test]
fn next_delay_and_batch() {
    for row in section("next_delay").into_iter().chain(section("batch")) {
        let now = int(&row[0]).cast_unsigned();
        let deadlines: Vec<u64> =
            row[1].as_array().unwrap().iter().map(|at| plus(now, at)).collect();
        let mut bench = Bench::with(now, &deadlines);
        if !row[2].is_null() {
            assert_eq!(bench.delay(), Some(int(&row[2])), "{row}");
        }
        let mut fired = bench.advance(plus(now, &row[3]), usize::MAX);
        fired.sort_unstable(); // the rows name positions, not their order
        assert_eq!(fired, ids(&row[4]), "{row}");
        assert_eq!(bench.delay(), row[5].as_i64(), "{row}");
    }
}

/// One script under way.
///
/// Where the original gives up a pass (its limit is used up, or its callback failed) it goes back
/// to the clock before; this wheel keeps the new one and carries the rest forward. From there on
/// the two have *parted*: they place timers by different clocks and fire in different order. The
/// laws still hold, and what waits is the same again after each pass that is free to fire
/// everything.
struct Script<'a> {
    name: &'a str,
    now: u64,
    bench: Bench,
    deadlines: BTreeMap<u32, u64>,
    /// Timers that wait in the original.
    theirs: BTreeSet<u32>,
    parted: bool,
    tally: Tally,
}

/// Rows compared exactly, and rows held to the laws.
#[derive(Debug, Default, PartialEq)]
struct Tally {
    exact: usize,
    by_law: usize,
}

impl<'a> Script<'a> {
    fn run(name: &'a str, now: u64, steps: &[Value]) -> Tally {
        let mut script = Self {
            name,
            now,
            bench: Bench::new(now, 2100),
            deadlines: BTreeMap::new(),
            theirs: BTreeSet::new(),
            parted: false,
            tally: Tally::default(),
        };
        for step in steps {
            script.step(step);
        }
        script.tally
    }

    /// What waits here.
    fn ours(&self) -> BTreeSet<u32> {
        self.deadlines.keys().copied().filter(|&id| self.bench.timers.is_linked(id)).collect()
    }

    fn step(&mut self, step: &Value) {
        match step[0].as_str().unwrap() {
            "advance" => self.advance(plus(self.now, &step[1]), &step[2]),
            "expect" => self.expect(&step[1]),
            _ => self.change(step),
        }
        self.bench.validate();
    }

    fn change(&mut self, step: &Value) {
        let id = number(step);
        change(&mut self.bench.wheel, &self.bench.timers, self.now, step);
        match step[0].as_str().unwrap() {
            "schedule" => drop(self.theirs.insert(id)),
            "cancel" => drop(self.theirs.remove(&id)),
            _ => {}
        }
        if step[0] != "cancel" {
            self.deadlines.insert(id, plus(self.now, &step[2]));
        }
    }

    fn advance(&mut self, to: u64, row: &Value) {
        let was = self.bench.wheel.clock();
        let limit = row["limit"].as_u64().map_or(usize::MAX, |limit| limit as usize);
        let used_up = row["budget_left"] == 0;
        let fired = match &row["callback"] {
            Value::Null => self.bench.advance(to, limit),
            callback => self.advance_with(to, callback, row["raises"] == true),
        };
        assert_eq!(self.bench.wheel.clock(), to, "{}: the clock is kept", self.name);
        assert!(fired.len() <= limit, "{}: {fired:?} beyond {limit}", self.name);
        for id in &fired {
            let left = self.deadlines[id].wrapping_sub(to).cast_signed();
            assert!(left <= 0, "{}: {id} was fired {left} ns early", self.name);
        }

        if row["raises"] == true {
            assert_eq!(self.bench.wheel.len() as i64, int(&row["size_after"]), "{}", self.name);
            self.theirs = self.ours();
        } else {
            for id in ids(&row["fired"]) {
                self.theirs.remove(&id);
            }
        }
        self.parted |= used_up || row["raises"] == true;
        if !self.parted {
            assert_eq!(fired, ids(&row["fired"]), "{} at {to}", self.name);
            assert_eq!(row["clock_after"], Value::Null, "{}: the original kept its", self.name);
            if let Some(left) = row["budget_left"].as_u64() {
                assert_eq!(limit - fired.len(), left as usize, "{}", self.name);
            }
            assert_eq!(self.bench.wheel.len() as i64, int(&row["size_after"]), "{}", self.name);
            self.tally.exact += 1;
        } else {
            self.tally.by_law += 1;
        }
        if !used_up && (!self.parted || was >> TICK_SHIFT != to >> TICK_SHIFT) {
            assert_eq!(self.ours(), self.theirs, "{} at {to}", self.name);
        }
    }

    /// Advances, and does between the polls what the original's callback does. What failed there
    /// is scheduled again here. A due timer that is scheduled waits for the end of the tick here,
    /// unless the tick is recalled.
    fn advance_with(&mut self, to: u64, callback: &Value, raises: bool) -> Vec<u32> {
        let Bench { timers, wheel } = &mut self.bench;
        let (mut fired, mut calls, mut failed) = (Vec::new(), 0, None);
        let steps = callback["on_first_call"].as_array().map_or(&[][..], Vec::as_slice);
        let each = |wheel: &mut Wheel, id| {
            calls += 1;
            if let Some(offset) = callback.get("refuse_and_set_deadline_to_clock_plus") {
                timers.set(id, plus(wheel.clock(), offset));
                wheel.schedule(timers, id);
            } else if callback["fail_on_call"] == calls {
                failed = Some(id);
            } else {
                let first = steps.iter().filter(|step| calls == 1 && step[0] != "advance");
                first.for_each(|step| change(wheel, timers, self.now, step));
                fired.push(id);
            }
        };
        let budget =
            if let Some(call) = callback["fail_on_call"].as_u64() { call as u32 } else { u32::MAX };
        wheel.advance_with(timers, to, budget, each);
        if callback.get("on_first_call").is_some() {
            wheel.recall_current(timers);
            wheel.advance_with(timers, to, u32::MAX, |_, id| fired.push(id));
        }
        assert_eq!(failed.is_some(), raises, "{}", self.name);
        failed.into_iter().for_each(|id| wheel.schedule(timers, id));
        self.bench.validate();
        for step in steps {
            let id = number(step);
            match step[0].as_str().unwrap() {
                "schedule" => drop(self.theirs.insert(id)),
                "cancel" => drop(self.theirs.remove(&id)),
                _ => {}
            }
            if let "schedule" | "reschedule" = step[0].as_str().unwrap() {
                self.deadlines.insert(id, plus(self.now, &step[2]));
            }
        }
        fired
    }

    fn expect(&mut self, row: &Value) {
        let size = self.bench.wheel.len();
        let soonest: Vec<u32> = self.bench.wheel.soonest(&self.bench.timers);
        assert_eq!(soonest.len(), size);
        if let Some(order) = row.get("ascending") {
            assert_eq!(soonest, ids(order), "{}", self.name);
        }
        self.delay_keeps_the_law();
        if self.parted {
            self.tally.by_law += 1;
            return;
        }
        self.tally.exact += 1;
        if let Some(expected) = row.get("size") {
            assert_eq!(size as i64, int(expected), "{}", self.name);
        }
        if let Some(delay) = row.get("next_delay") {
            assert_eq!(self.bench.delay(), delay.as_i64(), "{}", self.name);
        }
        for (id, place) in row["location"].as_object().into_iter().flatten() {
            let expected =
                place.as_array().map(|place| (int(&place[0]) as usize, int(&place[1]) as u32));
            assert_eq!(self.bench.place(id.parse::<u32>().unwrap() + 1), expected, "{}", self.name);
        }
    }

    fn delay_keeps_the_law(&self) {
        let clock = self.bench.wheel.clock();
        let left = |id: &u32| self.deadlines[id].wrapping_sub(clock).cast_signed();
        let least = self.ours().iter().map(left).min();
        let tick = 1 << TICK_SHIFT;
        match self.bench.delay() {
            None => assert_eq!(least, None),
            Some(0) => assert!(self.bench.wheel.has_backlog()),
            Some(delay) => {
                let least = least.expect("a delay, so a timer");
                let bound = least.max(tick - (clock as i64 & (tick - 1)));
                assert!((1..=bound).contains(&delay), "{}: {delay} of {bound}", self.name);
            }
        }
    }
}

fn number(step: &Value) -> u32 {
    int(&step[1]) as u32 + 1
}

/// Schedules, reschedules or cancels.
fn change(wheel: &mut Wheel, timers: &Timers, now: u64, step: &Value) {
    let id = number(step);
    let waits = timers.is_linked(id);
    match step[0].as_str().unwrap() {
        "schedule" => {
            timers.set(id, plus(now, &step[2]));
            wheel.schedule(timers, id);
        }
        "reschedule" => {
            timers.set(id, plus(now, &step[2]));
            if waits {
                wheel.schedule(timers, id);
            }
        }
        "cancel" => assert_eq!(wheel.cancel(timers, id), waits),
        other => panic!("unknown step {other}"),
    }
}

#[test]
fn scripts() {
    let mut total = Tally::default();
    let scripts = section("scripts");
    for script in &scripts {
        let (name, now) = (script[0].as_str().unwrap(), int(&script[2]).cast_unsigned());
        let tally = Script::run(name, now, script[3].as_array().unwrap());
        total.exact += tally.exact;
        total.by_law += tally.by_law;
    }
    assert_eq!((scripts.len(), total), (128, Tally { exact: 713, by_law: 251 }));
}
