//! What is there, until when, and which reloads are under way, after the steps of a program.

use super::bench::{HARD, SOFT};
use std::collections::{HashMap, VecDeque};

pub const KEYS: u32 = 3;
pub const LIMIT: usize = 2;
pub const RETRY: u64 = 4;

/// Seconds.
pub type Time = u64;
pub const NEVER: Time = Time::MAX;

#[derive(Clone, Copy, Debug)]
pub enum Brings {
    New,
    NewFor(Time),
    NotModified,
    NotModifiedFor(Time),
    Gone,
    Error,
    Panic,
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Advance(Time),
    Get(u32),
    LoadingGet(u32),
    Touch(u32),
    /// A read through a view, and one of another key within the same view.
    View(u32, u32),
    /// A read of the first key within a load of the second.
    Within(u32, u32),
    Insert(u32),
    InsertFor(u32, Time),
    Remove(u32),
    SetTtl(u32, Time),
    Clear,
    Put(u32),
    Look(u32),
    Refresh(u32),
    MakeStale(u32),
    MakeAllStale,
    /// A read that takes what it finds, or not.
    GetIf(u32, bool),
    RunJob(Brings),
    DropJob,
}

pub fn step(random: u64) -> Step {
    let key = (random >> 8) as u32 % KEYS;
    let other = (random >> 12) as u32 % KEYS;
    let life = [0, 3, 12, 60][(random >> 16) as usize % 4];
    let brings = match (random >> 24) % 10 {
        0..4 => Brings::New,
        4 => Brings::NewFor(life),
        5 => Brings::NotModified,
        6 => Brings::NotModifiedFor(life),
        7 => Brings::Gone,
        8 => Brings::Error,
        _ => Brings::Panic,
    };
    match random % 36 {
        0..5 => Step::Advance([1, 2, 5, 20][(random >> 16) as usize % 4]),
        5..8 => Step::Get(key),
        8 => Step::Touch(key),
        9 => Step::View(key, other),
        10 => Step::Within(key, other),
        11..14 => Step::LoadingGet(key),
        14 => Step::Insert(key),
        15 => Step::InsertFor(key, life),
        16 => Step::Remove(key),
        17..19 => Step::SetTtl(key, life),
        19 => Step::Clear,
        20 => Step::Put(key),
        21 => Step::Look(key),
        22..25 => Step::Refresh(key),
        25..30 => Step::RunJob(brings),
        30..32 => Step::DropJob,
        32..34 => Step::MakeStale(key),
        34 if life == 0 => Step::MakeAllStale,
        _ => Step::GetIf(key, life > 3),
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Tells it from its successors.
    pub id: u32,
    pub value: u32,
    /// When a read triggers a reload; [`NEVER`] while one is under way.
    pub soft: Time,
    pub end: Time,
    pub failed: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// `soft` is when the entry was, or is, stale without this reload.
    Reload { key: u32, id: u32, soft: Time },
    /// It does nothing if the key has a value by then.
    Load { key: u32 },
}

#[derive(Debug, Default)]
pub struct Model {
    /// Reloads run at once, and bring `brings`. Otherwise a step says what a job brings.
    pub is_inline: bool,
    pub brings: Option<Brings>,
    pub now: Time,
    pub nodes: HashMap<u32, Node>,
    pub jobs: VecDeque<Job>,
    pub next: u32,
    pub reloads: u64,
    pub failures: u64,
    pub skipped: u64,
}

impl Model {
    pub fn node(&mut self, value: u32, life: Time) -> Node {
        self.next += 1;
        let (soft, end) = (self.now + SOFT.as_secs(), self.now + life);
        Node { id: self.next, value, soft, end, failed: 0 }
    }

    pub fn put(&mut self, key: u32, value: u32, life: Time) {
        let node = self.node(value, life);
        self.nodes.insert(key, node);
        self.expire();
    }

    pub fn expire(&mut self) {
        let now = self.now;
        self.nodes.retain(|_, node| node.end > now);
    }

    pub fn value(&self, key: u32) -> Option<u32> {
        self.nodes.get(&key).map(|node| node.value)
    }

    /// A place for a reload.
    pub fn place(&mut self) -> bool {
        let is_free = self.jobs.len() < LIMIT;
        self.skipped += u64::from(!is_free);
        is_free
    }

    pub fn read(&mut self, key: u32) -> Option<u32> {
        let node = *self.nodes.get(&key)?;
        if node.soft <= self.now && self.place() {
            self.take(key, node);
        }
        Some(node.value)
    }

    pub fn take(&mut self, key: u32, node: Node) {
        self.jobs.push_back(Job::Reload { key, id: node.id, soft: node.soft });
        self.nodes.insert(key, Node { soft: NEVER, ..node });
    }

    pub fn refresh(&mut self, key: u32) -> bool {
        if !self.place() {
            return false;
        }
        match self.nodes.get(&key).copied() {
            None => self.jobs.push_back(Job::Load { key }),
            Some(node) if node.soft == NEVER => return false,
            Some(node) => self.take(key, node),
        }
        true
    }

    pub fn make_stale(&mut self, key: u32) -> bool {
        let Some(node) = self.nodes.get_mut(&key) else { return false };
        if node.soft != NEVER {
            node.soft = 0;
        }
        let of_node = node.id;
        for job in &mut self.jobs {
            if let Job::Reload { id, soft, .. } = job
                && *id == of_node
            {
                *soft = 0;
            }
        }
        true
    }

    /// The node that a reload is of, if it is still there.
    pub fn of(&self, key: u32, id: u32) -> Option<Node> {
        self.nodes.get(&key).copied().filter(|node| node.id == id)
    }

    /// Whether the upstream is asked for a reload by this job.
    pub fn asks(&self, job: Option<&Job>) -> bool {
        match job {
            Some(&Job::Reload { key, id, .. }) => self.of(key, id).is_some(),
            _ => false,
        }
    }

    /// Runs the next job. `made` is the value that a load or a reload would make.
    pub fn run(&mut self, brings: Brings, made: u32) {
        let (key, id, was) = match self.jobs.pop_front() {
            None => return,
            Some(Job::Load { key }) => {
                if self.value(key).is_none() {
                    self.put(key, made, HARD.as_secs());
                }
                return;
            }
            Some(Job::Reload { key, id, soft }) => (key, id, soft),
        };
        let Some(node) = self.of(key, id) else {
            self.reloads += 1;
            return;
        };
        let (now, soft) = (self.now, self.now + SOFT.as_secs());
        self.reloads += 1;
        match brings {
            Brings::New => self.put(key, made, HARD.as_secs()),
            Brings::NewFor(life) => self.put(key, made, life),
            Brings::NotModified => {
                let end = now + HARD.as_secs();
                self.nodes.insert(key, Node { soft, end, failed: 0, ..node });
            }
            Brings::NotModifiedFor(life) => {
                self.nodes.insert(key, Node { soft, end: now + life, failed: 0, ..node });
            }
            Brings::Gone => drop(self.nodes.remove(&key)),
            Brings::Error | Brings::Panic => {
                (self.reloads, self.failures) = (self.reloads - 1, self.failures + 1);
                let failed = node.failed + 1;
                let soft = was.max(now + RETRY);
                self.nodes.insert(key, Node { soft, failed, ..node });
            }
        }
        self.expire();
    }

    pub fn drop_job(&mut self) {
        if let Some(Job::Reload { key, id, soft }) = self.jobs.pop_front()
            && let Some(node) = self.of(key, id)
        {
            let soft = soft.max(self.now + RETRY);
            self.nodes.insert(key, Node { soft, ..node });
        }
    }
}
