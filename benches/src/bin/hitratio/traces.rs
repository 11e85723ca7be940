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

/// Odd; its bits are spread evenly.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

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
            return Ok(Self::new(name, options, made.take(usize::try_from(requests)?)));
        }
        let file = File::open(name).with_context(|| format!("cannot open {name}"))?;
        let records = Records::open(name, BufReader::new(file))?;
        let requests = records.take(limit).collect::<Result<Vec<_>, _>>()?;
        ensure!(!requests.is_empty(), "{name}: no requests");
        let short = name.rsplit('/').next().unwrap_or(name);
        Ok(Self::new(short.split('.').next().unwrap_or(short), options, requests.into_iter()))
    }

    fn new(name: &str, options: &Options, requests: impl Iterator<Item = Request>) -> Self {
        Self::of(name, requests.map(|request| Access::new(&request, options)).collect())
    }

    /// All of them at once: the next request is that of the trace which has come least far.
    pub fn mixed(traces: &[Self]) -> Self {
        let all: usize = traces.iter().map(|trace| trace.accesses.len()).sum();
        let mut order: Vec<(f64, usize, usize)> = Vec::with_capacity(all);
        for (number, trace) in traces.iter().enumerate() {
            let length = trace.accesses.len();
            order.extend((0..length).map(|at| (at as f64 / length as f64, number, at)));
        }
        order.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let keyed = |(_, number, at): (f64, usize, usize)| {
            let access = traces[number].accesses[at];
            // Odd factors: keys of one trace stay different, those of two are alike by chance only.
            let key =
                access.key.wrapping_add(number as u64 + 1).wrapping_mul(MIX + 2 * number as u64);
            Access { key, ..access }
        };
        Self::of("mixed", order.into_iter().map(keyed).collect())
    }

    /// The trace in so many parts of one length.
    pub fn parts(self, parts: u64) -> Vec<Self> {
        if parts == 1 {
            return vec![self];
        }
        let length = self.accesses.len().div_ceil(parts as usize).max(1);
        let part = |(number, part): (usize, &[Access])| {
            Self::of(&format!("{}-{}", self.name, number + 1), part.to_vec())
        };
        self.accesses.chunks(length).enumerate().map(part).collect()
    }

    fn of(name: &str, accesses: Vec<Access>) -> Self {
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
    fn new(request: &Request, options: &Options) -> Self {
        let ms = |time: Duration| time.as_millis() as u64;
        let mode = options.mode;
        let weight = match mode {
            // The upper bits, which are mixed best.
            Mode::Bytes if options.hashed_weights => {
                Some(1 + (request.key.wrapping_mul(MIX) >> 40) as u32 % 100)
            }
            Mode::Bytes => request.weight,
            _ => None,
        };
        Self {
            key: request.key,
            at: request.at.map_or(0, ms),
            weight: weight.unwrap_or(1),
            ttl: request.ttl.map_or(FOREVER, |ttl| ms(ttl).min(u64::from(FOREVER - 1)) as u32),
            update: request.update,
        }
    }
}
