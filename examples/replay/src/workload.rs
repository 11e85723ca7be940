//! Built-in workloads, shaped like cache clusters of Twitter in March 2020.
//!
//! The figures of [`CLUSTERS`] are means over a week from the table `stat/2020Mar.md` of
//! <https://github.com/twitter/cache-trace> (CC BY 4.0), described in J. Yang, Y. Yue, K. V. Rashmi: *A
//! large scale analysis of hundreds of in-memory cache clusters at Twitter*, OSDI 2020.
//!
//! From them: keys are drawn from a Zipf distribution over as many objects as make the published
//! number of requests per object; the cluster's share of writes are updates; an object's lifetime
//! is one of the cluster's common ones. Made up: requests come in one wave, twice as dense in the
//! middle as at the ends; sizes are log-normal (σ = 1) around the published mean, as the source
//! gives no distribution; and the time that the requests span, which together with the requests per
//! object says how often a key comes, is set so that lifetimes and capacity both matter. More
//! requests draw from more objects, so the hit ratio hardly depends on their number.

use crate::trace::Request;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};
use std::f64::consts::TAU;
use std::time::Duration;

/// One row of the published table.
pub struct Cluster {
    pub name: &'static str,
    pub what: &'static str,
    /// How much time the requests span.
    hours: f64,
    /// Share of the requests that write.
    writes: f64,
    /// Mean size of key and value.
    bytes: f64,
    /// Common lifetimes: seconds, share of the writes. The commonest first.
    lifetimes: &'static [(u32, f64)],
    /// Requests per object.
    frequency: f64,
    zipf_alpha: f64,
    /// The miss ratio measured in production.
    pub production_miss_ratio: f64,
}

pub const NAMES: [&str; 6] =
    ["cluster4", "cluster26", "cluster29", "cluster37", "cluster50", "cluster52"];

#[rustfmt::skip]
const CLUSTERS: [Cluster; 6] = [
    Cluster {
        name: NAMES[0], what: "results of computations, lifetimes of a minute to a day",
        hours: 8.0, writes: 0.07, bytes: 67.0 + 2439.0,
        lifetimes: &[(60, 0.39), (300, 0.24), (3600, 0.13), (600, 0.12), (14_400, 0.09), (86_400, 0.03)],
        frequency: 26.5, zipf_alpha: 1.1004, production_miss_ratio: 0.3941,
    },
    Cluster {
        name: NAMES[1], what: "transient items, lifetimes of one to eleven minutes",
        hours: 0.5, writes: 0.29, bytes: 122.0 + 1745.0,
        lifetimes: &[(60, 0.67), (120, 0.1), (360, 0.09), (600, 0.06), (660, 0.03), (180, 0.02)],
        frequency: 13.0, zipf_alpha: 0.6299, production_miss_ratio: 0.4469,
    },
    Cluster {
        name: NAMES[2], what: "database rows, lifetimes of one and two hours",
        hours: 24.0, writes: 0.13, bytes: 36.0 + 799.0,
        lifetimes: &[(3600, 0.67), (7200, 0.33)],
        frequency: 22.5, zipf_alpha: 1.2323, production_miss_ratio: 0.2242,
    },
    Cluster {
        name: NAMES[3], what: "large results of computations, most live for 20 seconds",
        hours: 0.1, writes: 0.37, bytes: 72.0 + 20_134.0,
        lifetimes: &[(20, 0.91), (300, 0.06), (7200, 0.02), (600, 0.01)],
        frequency: 3.8, zipf_alpha: 0.4251, production_miss_ratio: 0.5938,
    },
    Cluster {
        name: NAMES[4], what: "67-kB results of computations, lifetimes of 15 and 20 minutes",
        hours: 24.0, writes: 0.48, bytes: 18.0 + 67_485.0,
        lifetimes: &[(900, 0.73), (1200, 0.24), (1199, 0.03)],
        frequency: 22.1, zipf_alpha: 1.2816, production_miss_ratio: 0.459,
    },
    Cluster {
        name: NAMES[5], what: "database rows, lifetimes of half a day to two weeks",
        hours: 72.0, writes: 0.06, bytes: 20.0 + 273.0,
        lifetimes: &[(86_400, 0.65), (1_209_600, 0.27), (43_200, 0.07)],
        frequency: 32.6, zipf_alpha: 1.2117, production_miss_ratio: 0.0189,
    },
];

pub fn cluster(name: &str) -> Option<&'static Cluster> {
    CLUSTERS.iter().find(|cluster| cluster.name == name)
}

impl Cluster {
    /// How much time the requests span, unless the user says.
    pub fn span(&self) -> Duration {
        Duration::from_secs_f64(self.hours * 3600.0)
    }

    /// How many different keys `requests` have.
    pub fn keys(&self, requests: u64) -> f64 {
        requests as f64 / self.frequency
    }

    /// Over how many objects to draw, so that `requests` draws meet as many of them as
    /// [`keys`](Self::keys).
    fn objects(&self, requests: u64) -> u64 {
        let wanted = self.keys(requests);
        let (mut few, mut many) = (wanted.max(1.0), (wanted * 1000.0).max(2.0));
        while many / few > 1.001 {
            let middle = (few * many).sqrt();
            if distinct(middle, self.zipf_alpha, requests as f64) < wanted {
                few = middle;
            } else {
                many = middle;
            }
        }
        many.ceil() as u64
    }
}

/// How many of `objects` are expected among `draws` from their Zipf distribution.
fn distinct(objects: f64, alpha: f64, draws: f64) -> f64 {
    // Ranks in runs of a 64th of the rank: as exact as the sum over each, in a thousand steps.
    let runs = || {
        std::iter::successors(Some((1.0, 1.0)), |&(first, length): &(f64, f64)| {
            let next = first + length;
            Some((next, (next / 64.0).floor().max(1.0)))
        })
        .take_while(|&(first, _)| first <= objects)
        .map(|(first, length)| {
            let length = length.min(objects - first + 1.0);
            (length, (first + (length - 1.0) / 2.0).powf(-alpha))
        })
    };
    let sum: f64 = runs().map(|(length, share)| length * share).sum();
    runs().map(|(length, share)| -length * (-draws * share / sum).exp_m1()).sum()
}

/// The requests of a built-in workload; without end.
pub struct Workload {
    random: StdRng,
    ranks: Zipf<f64>,
    writes: f64,
    /// Sizes and lifetimes; an object has those at its hash.
    kinds: Vec<(u32, Duration)>,
    span: Duration,
    requests: f64,
    made: u64,
}

impl Workload {
    /// The first `requests` span `span`.
    pub fn new(
        cluster: &Cluster,
        requests: u64,
        span: Duration,
        seed: u64,
    ) -> anyhow::Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let kinds = kinds(cluster, &mut random)?;
        let ranks = Zipf::new(cluster.objects(requests) as f64, cluster.zipf_alpha)?;
        let requests = requests.max(1) as f64;
        Ok(Self { random, ranks, writes: cluster.writes, kinds, span, requests, made: 0 })
    }
}

/// When a request comes, as a share of the span, that so large a share of the requests comes
/// before.
fn wave(share: f64) -> f64 {
    // The slope, the time between requests, goes from 4/3 to 2/3 in the middle.
    share + (TAU * share).sin() / (3.0 * TAU)
}

fn kinds(cluster: &Cluster, random: &mut StdRng) -> anyhow::Result<Vec<(u32, Duration)>> {
    const KINDS: usize = 4096;
    // The mean of a log-normal distribution is exp(μ + σ²/2).
    let sizes = LogNormal::new(cluster.bytes.ln() - 0.5, 1.0)?;
    let total: f64 = cluster.lifetimes.iter().map(|(_, share)| share).sum();
    let lifetime = |mut place: f64| {
        for (seconds, share) in cluster.lifetimes {
            place -= share / total;
            if place < 0.0 {
                return *seconds;
            }
        }
        cluster.lifetimes[0].0
    };
    Ok((0..KINDS)
        .map(|_| {
            let size = sizes.sample(random).clamp(1.0, f64::from(1 << 24)) as u32;
            (size, Duration::from_secs(lifetime(random.random()).into()))
        })
        .collect())
}

impl Iterator for Workload {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let rank = self.ranks.sample(&mut self.random) as u64;
        // A multiplication by an odd number and a shift lose nothing: keys differ as ranks do.
        let key = rank.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let key = key ^ (key >> 29);
        let (weight, ttl) = self.kinds[(key >> 40) as usize % self.kinds.len()];
        let at = self.span.mul_f64(wave(self.made as f64 / self.requests));
        self.made += 1;
        Some(Request {
            key,
            at: Some(at),
            weight: Some(weight),
            ttl: Some(ttl),
            update: self.random.random_bool(self.writes),
        })
    }
}
