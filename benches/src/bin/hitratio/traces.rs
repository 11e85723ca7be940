//! Traces in memory.

use crate::options::{Mode, Options};
use crate::trace::{Records, Request};
use crate::workload::{self, Workload};
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

/// Requests of a made-up workload, unless the options say.
const MADE: u64 = 1_000_000;
/// Its seed.
const SEED: u64 = 1;

/// One request, compactly.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub key: u64,
    /// Milliseconds since the first.
    pub at: u64,
    /// 1 if the trace has no weights, or they do not matter.
    pub weight: u32,
    /// Milliseconds; [`FOREVER`] if the trace has no lifetimes.
    pub ttl: u32,
    /// A write without a look-up.
    pub update: bool,
}

/// A lifetime without end.
pub const FOREVER: u32 = u32::MAX;

#[derive(Debug)]
pub struct Trace {
    pub name: String,
    pub accesses: Vec<Access>,
    /// Different keys.
    pub keys: u64,
    /// The weight of all keys together, each as heavy as at first.
    pub weight: u64,
}

impl Trace {
    pub fn open(name: &str, options: &Options) -> Result<Self> {
        let limit = options.requests.map_or(Ok(usize::MAX), usize::try_from)?;
        if let Some(cluster) = workload::cluster(name) {
            let requests = options.requests.unwrap_or(MADE);
            let made = Workload::new(cluster, requests, cluster.span(), SEED)?;
            return Ok(Self::new(name, options.mode, made.take(usize::try_from(requests)?)));
        }
        let file = File::open(name).with_context(|| format!("cannot open {name}"))?;
        let records = Records::open(name, BufReader::new(file))?;
        let requests = records.take(limit).collect::<Result<Vec<_>, _>>()?;
        ensure!(!requests.is_empty(), "{name}: no requests");
        let short = name.rsplit('/').next().unwrap_or(name);
        Ok(Self::new(short.split('.').next().unwrap_or(short), options.mode, requests.into_iter()))
    }

    fn new(name: &str, mode: Mode, requests: impl Iterator<Item = Request>) -> Self {
        let accesses: Vec<Access> = requests.map(|request| Access::new(&request, mode)).collect();
        let mut weights = HashMap::new();
        for access in &accesses {
            weights.entry(access.key).or_insert(u64::from(access.weight));
        }
        let (keys, weight) = (weights.len() as u64, weights.values().sum());
        Self { name: name.to_owned(), accesses, keys, weight }
    }

    pub fn describe(&self) -> String {
        let Self { name, accesses, keys, weight } = self;
        let weight = if *weight == *keys { String::new() } else { format!(" of {weight}") };
        format!("{name}: {} requests, {keys} keys{weight}", accesses.len())
    }

    /// So many percent of the keys, or of their weight.
    pub fn capacity(&self, percent: f64, options: &Options) -> u64 {
        let (all, least) = match options.mode {
            Mode::Bytes => (self.weight, options.least * self.weight / self.keys),
            Mode::Entries | Mode::Ttl => (self.keys, options.least),
        };
        ((all as f64 * percent / 100.0).round() as u64).max(least)
    }
}

impl Access {
    fn new(request: &Request, mode: Mode) -> Self {
        let ms = |time: Duration| time.as_millis() as u64;
        let weight = if mode == Mode::Bytes { request.weight } else { None };
        Self {
            key: request.key,
            at: request.at.map_or(0, ms),
            weight: weight.unwrap_or(1),
            ttl: request.ttl.map_or(FOREVER, |ttl| ms(ttl).min(u64::from(FOREVER - 1)) as u32),
            update: request.update,
        }
    }
}
