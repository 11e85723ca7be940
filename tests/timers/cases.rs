//! The facts of `tests/wheel/data/wheel_cases.json`, through the queue.
//!
//! The rows are about a wheel with ticks of 1.07 s. The queue has ticks of a millisecond: it hands
//! out what the row says, and those items whose coarse tick is not over. So each row is checked by
//! the law (due at the end of the tick, not before), and against what the row says was handed out.

use crate::common::effort::is_sampled;
use crate::facts::{int, ints, section};
use cortado::timer::{DelayQueue, Expired, Polled, TimerId};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

const TICK: u128 = 1_000_000;
/// Items whose deadline is this near may wait for the end of their tick in the original.
const COARSE: i128 = 1 << 30;

/// A queue, the time of its row, and the deadlines of the items that ought to be in it.
struct Bench {
    queue: DelayQueue<i64>,
    origin: i128,
    now: i128,
    ids: BTreeMap<i64, (TimerId, i128)>,
}

impl Bench {
    fn new(now: i64) -> Self {
        // Rows begin anywhere on the circle of signed numbers. The queue's time is a line from
        // zero.
        let origin = i128::from(now & ((1 << 60) - 1)) + (1 << 62);
        let mut bench = Self { queue: DelayQueue::new(), origin, now: 0, ids: BTreeMap::new() };
        assert!(bench.advance(0, usize::MAX).is_empty());
        bench
    }

    /// The instant at an offset.
    fn at(&self, offset: i128) -> Duration {
        Duration::from_nanos(u64::try_from((self.origin + offset).max(0)).unwrap())
    }

    fn schedule(&mut self, item: i64, offset: i64) {
        let (offset, deadline) = (i128::from(offset), self.at(offset.into()));
        match self.ids.get_mut(&item) {
            Some((id, known)) => {
                assert!(self.queue.try_reset_at(&*id, deadline));
                *known = offset;
            }
            None => {
                let id = self.queue.insert_at(item, deadline);
                self.ids.insert(item, (id, offset));
            }
        }
        if is_sampled((item, offset)) {
            self.queue.audit().unwrap();
        }
    }

    fn cancel(&mut self, item: i64) {
        let known = self.ids.remove(&item);
        let cancelled =
            known.and_then(|(id, _)| self.queue.try_remove(&id)).map(Expired::into_inner);
        assert_eq!(cancelled, known.map(|_| item));
    }

    fn is_due(&self, offset: i128) -> bool {
        let (deadline, now) = (self.at(offset), self.at(self.now));
        deadline.as_nanos().div_ceil(TICK) <= now.as_nanos() / TICK
    }

    /// Moves the time forward, takes so many items at most, and checks them by the law.
    fn advance(&mut self, to: i64, limit: usize) -> Vec<i64> {
        self.now = self.now.max(to.into());
        let (mut fired, mut budget) = (Vec::new(), u32::MAX);
        while fired.len() < limit {
            match self.queue.poll(self.at(self.now), &mut budget) {
                Polled::Due(expired) => {
                    let item = expired.into_inner();
                    let (_, offset) = self.ids.remove(&item).expect("handed out once");
                    assert!(self.is_due(offset), "{item} is early");
                    fired.push(item);
                }
                Polled::Exhausted => unreachable!("the budget is beyond the cases"),
                Polled::Idle => {
                    let late = self.ids.values().find(|(_, offset)| self.is_due(*offset));
                    assert_eq!(late, None, "late at {}", self.now);
                    break;
                }
            }
        }
        self.queue.audit().unwrap();
        fired
    }

    /// What the row says was handed out has been; what else was has a deadline of the last coarse
    /// tick.
    fn expect(&self, fired: &[(i64, i128)], expected: &Value, row: &str) {
        for item in ints(expected) {
            let is_fired = fired.iter().any(|&(other, _)| other == item);
            // The queue's time may be up to a tick behind.
            let is_near =
                self.ids.get(&item).is_some_and(|it| self.now - it.1 < TICK.cast_signed());
            assert!(is_fired || is_near, "{row}: {item} was handed out by the original");
        }
        for &(item, offset) in fired {
            let is_expected = ints(expected).contains(&item);
            assert!(is_expected || self.now - offset <= COARSE, "{row}: {item} waits there");
        }
    }

    /// `advance`, each item with its deadline.
    fn advance_known(&mut self, to: i64) -> Vec<(i64, i128)> {
        let known: BTreeMap<i64, i128> = self.ids.iter().map(|(&item, it)| (item, it.1)).collect();
        self.advance(to, usize::MAX).into_iter().map(|item| (item, known[&item])).collect()
    }
}

#[test]
fn bucket_of() {
    let mut rows = 0;
    for group in section("bucket_of") {
        for row in group[1].as_array().unwrap() {
            let mut bench = Bench::new(int(&group[0]));
            bench.schedule(1, int(&row[0]));
            let is_due = bench.is_due(int(&row[0]).into());
            assert_eq!(bench.advance(0, usize::MAX).len(), usize::from(is_due), "{row}");
            rows += 1;
        }
    }
    assert_eq!(rows, 1914);
}

/// Rows of `[now, deadlines, .., advance to, items handed out]`.
fn batches(name: &str, (advance_to, handed_out): (usize, usize)) -> usize {
    let rows = section(name);
    for row in &rows {
        let mut bench = Bench::new(int(&row[0]));
        for (item, deadline) in (0..).zip(ints(&row[1])) {
            bench.schedule(item, deadline);
        }
        let fired = bench.advance_known(int(&row[advance_to]));
        bench.expect(&fired, &row[handed_out], &row.to_string());
    }
    rows.len()
}

#[test]
fn schedule() {
    assert!(batches("schedule", (2, 3)) > 10);
}

#[test]
fn next_delay() {
    assert!(batches("next_delay", (3, 4)) > 10);
}

#[test]
fn batch() {
    assert!(batches("batch", (3, 4)) > 1);
}

#[test]
fn cascade() {
    let rows = section("cascade");
    for row in &rows {
        let mut bench = Bench::new(int(&row[0]));
        bench.schedule(0, int(&row[1]));
        assert!(bench.advance(int(&row[2]), usize::MAX).is_empty(), "{row}");
        assert_eq!(bench.advance(int(&row[1]).saturating_add(1 << 20), usize::MAX), [0], "{row}");
    }
    assert!(rows.len() > 10);
}

/// Does what a script says. What its callbacks do is done after the first item.
fn script(bench: &mut Bench, steps: &[Value]) -> usize {
    let mut fired = 0;
    for step in steps {
        match step[0].as_str().unwrap() {
            "schedule" => bench.schedule(int(&step[1]), int(&step[2])),
            "reschedule" if bench.ids.contains_key(&int(&step[1])) => {
                bench.schedule(int(&step[1]), int(&step[2]));
            }
            "cancel" => bench.cancel(int(&step[1])),
            "advance" => {
                let (to, outcome) = (int(&step[1]), &step[2]);
                let callback = &outcome["callback"];
                if let Some(steps) = callback["on_first_call"].as_array() {
                    let first = bench.advance(to, 1);
                    fired += first.len();
                    let inner: Vec<Value> =
                        steps.iter().filter(|step| step[0] != "advance").cloned().collect();
                    fired += script(bench, if first.is_empty() { &[] } else { &inner });
                } else if let Some(offset) = callback.get("refuse_and_set_deadline_to_clock_plus") {
                    for item in bench.advance(to, usize::MAX) {
                        let clock = i64::try_from(bench.now).unwrap();
                        bench.schedule(item, clock.saturating_add(int(offset)));
                    }
                }
                let limit = outcome["limit"].as_u64().map_or(usize::MAX, |limit| limit as usize);
                fired += bench.advance(to, limit).len();
            }
            _ => {}
        }
        let shown: Vec<i64> = bench.queue.soonest().map(|(_, _, &item)| item).collect();
        assert_eq!(shown.len(), bench.ids.len());
        let deadlines: Vec<i128> = shown.iter().map(|item| bench.ids[item].1).collect();
        let clamped: Vec<Duration> = deadlines.iter().map(|&offset| bench.at(offset)).collect();
        assert!(clamped.is_sorted(), "iteration is out of order");
    }
    fired
}

#[test]
fn scripts() {
    let (rows, mut fired) = (section("scripts"), 0);
    for row in &rows {
        let mut bench = Bench::new(int(&row[2]));
        fired += script(&mut bench, row[3].as_array().unwrap());
    }
    assert_eq!(rows.len(), 128);
    assert!(fired > 300, "{fired}");
}
