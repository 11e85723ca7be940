//! Why requests miss: each request is also put to an ideal cache, of unlimited capacity and with
//! the same lifetimes, of which only the deadlines are kept.
//!
//! | the real cache misses, the ideal one | the miss is |
//! |---|---|
//! | has never seen the key | first-time |
//! | knows the key, but its lifetime is over | expiry |
//! | hits | capacity |
//!
//! A key costs 60 bytes or so. Past a limit the ledger goes over to a sample of the keys, chosen by
//! their hash and halved as often as needed, and weighs what it counts accordingly; so memory is
//! bounded however long the trace. With jitter the ideal cache gives every entry the shortest life
//! that it could get, and so counts as expiry whatever can be.

use crate::options::Expire;
use std::collections::HashMap;
use std::time::Duration;

/// How lifetimes run.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub expire: Expire,
    pub tti: Option<Duration>,
    pub jitter: f64,
}

/// What became of a request in the real cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Hit,
    Miss,
    Update,
}

/// Look-ups, by what the ideal cache makes of them. Estimates once the ledger samples.
#[derive(Clone, Copy, Debug, Default)]
pub struct Causes {
    pub lookups: f64,
    pub first_time: f64,
    pub expired: f64,
    pub capacity: f64,
    /// Hits of the ideal cache.
    pub ideal_hits: f64,
    /// Look-ups of keys seen before: hits of a cache without capacity and lifetimes.
    pub repeats: f64,
    /// Different keys.
    pub keys: f64,
}

struct Line {
    /// When its lifetime ends; `None`: never.
    ends: Option<Duration>,
    lifetime: Option<Duration>,
    touched: Duration,
}

pub struct Ledger {
    rules: Rules,
    most_keys: usize,
    lines: HashMap<u64, Line>,
    /// One key of `2^thinned` is kept.
    thinned: u32,
    causes: Causes,
}

impl Ledger {
    /// Keeps at most `most_keys`.
    pub fn new(rules: Rules, most_keys: usize) -> Self {
        Self { rules, most_keys, lines: HashMap::new(), thinned: 0, causes: Causes::default() }
    }

    pub fn causes(&self) -> Causes {
        Causes { keys: self.lines.len() as f64 * self.weight(), ..self.causes }
    }

    fn weight(&self) -> f64 {
        (self.thinned as f64).exp2()
    }

    /// Enters a request for `key` at `now`; `lifetime` is what an entry gets that it makes.
    pub fn enter(&mut self, key: u64, now: Duration, lifetime: Option<Duration>, outcome: Outcome) {
        if !kept(key, self.thinned) {
            return;
        }
        let weight = self.weight();
        let rules = self.rules;
        let lifetime = lifetime.map(|life| life.mul_f64(1.0 - rules.jitter));
        let fresh = Line { ends: after(now, lifetime), lifetime, touched: now };
        let update = outcome == Outcome::Update;
        let Some(line) = self.lines.get_mut(&key) else {
            self.lines.insert(key, fresh);
            self.causes.count(outcome, weight, |causes| &mut causes.first_time);
            self.thin();
            return;
        };
        let idle = after(line.touched, rules.tti);
        let alive = line.ends.is_none_or(|end| now < end) && idle.is_none_or(|end| now < end);
        self.causes.repeats += if update { 0.0 } else { weight };
        if alive {
            line.touched = now;
            match rules.expire {
                Expire::Access if !update => line.ends = after(now, line.lifetime),
                Expire::Write | Expire::Access if update => *line = fresh,
                _ => {}
            }
            self.causes.ideal_hits += if update { 0.0 } else { weight };
            self.causes.count(outcome, weight, |causes| &mut causes.capacity);
        } else {
            *line = fresh;
            self.causes.count(outcome, weight, |causes| &mut causes.expired);
        }
    }

    fn thin(&mut self) {
        if self.lines.len() > self.most_keys {
            self.thinned += 1;
            self.lines.retain(|key, _| kept(*key, self.thinned));
        }
    }
}

impl Causes {
    fn count(&mut self, outcome: Outcome, weight: f64, cause: impl Fn(&mut Self) -> &mut f64) {
        if outcome != Outcome::Update {
            self.lookups += weight;
        }
        if outcome == Outcome::Miss {
            *cause(self) += weight;
        }
    }

    pub fn misses(&self) -> f64 {
        self.first_time + self.expired + self.capacity
    }
}

fn after(start: Duration, time: Option<Duration>) -> Option<Duration> {
    start.checked_add(time?)
}

fn kept(key: u64, thinned: u32) -> bool {
    // The top bits of a product depend on all bits of the key.
    let hash = (key ^ (key >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    thinned == 0 || hash >> (64 - thinned.min(63)) == 0
}
