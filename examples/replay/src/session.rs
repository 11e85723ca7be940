//! The replay itself: chunk after chunk from the source, through the crew, into the books.

use crate::crew::{Calls, Crew};
use crate::ledger::{Causes, Ledger, Outcome, Rules};
use crate::memory;
use crate::options::Options;
use crate::player::Player;
use crate::series::{Point, Series};
use crate::source::Source;
use crate::trace::Request;
use crate::units::percent;
use anyhow::Result;
use cortado::{Durations, RemovalCause};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many keys the ledger may follow: 60 MiB.
const MOST_KEYS: usize = 1 << 20;

/// Requests and what became of them.
#[derive(Debug, Default)]
pub struct Counts {
    pub requests: u64,
    pub updates: u64,
    pub lookups: u64,
    pub hits: u64,
    pub weight_looked_up: u64,
    pub weight_hit: u64,
    /// Requests with a weight, and with a lifetime that was obeyed.
    pub weighed: u64,
    pub lives: u64,
}

/// The cache when it held most.
#[derive(Debug, Default)]
pub struct Peak {
    pub resident: u64,
    pub weight: u64,
    /// Bytes of memory.
    pub held: u64,
}

/// Entries that left the cache.
#[derive(Debug)]
pub struct Removals {
    pub expired: u64,
    pub size: u64,
    pub replaced: u64,
    pub lateness: Durations,
}

/// All that a report tells.
pub struct Summary {
    pub counts: Counts,
    pub causes: Causes,
    pub removals: Removals,
    pub peak: Peak,
    /// Entries at the end.
    pub resident: u64,
    pub bound: u64,
    pub timed: bool,
    /// From the first request to the last.
    pub span: Duration,
    pub busy: Duration,
    pub calls: Calls,
    pub series: Series,
}

/// The books, and the time.
struct Session {
    player: Player,
    counts: Counts,
    ledger: Ledger,
    series: Series,
    peak: Peak,
    start: Instant,
    now: Duration,
}

/// Replays `source` to its end.
pub fn run(options: &Options, source: &mut Source) -> Result<Summary> {
    let bound = options.max_weight.or(options.capacity).unwrap_or(source.capacity);
    let player = memory::counted(|| Player::new(options, bound, source.timed))?;
    let rules = Rules { expire: options.expire, tti: options.tti, jitter: options.jitter };
    let mut crew = Crew::new(&player, usize::from(options.threads))?;
    let mut session = Session {
        player,
        counts: Counts::default(),
        ledger: Ledger::new(rules, MOST_KEYS),
        series: Series::default(),
        peak: Peak::default(),
        start: Instant::now(),
        now: Duration::ZERO,
    };
    loop {
        let chunk = next_chunk(source, session.counts.requests)?;
        if chunk.is_empty() {
            break;
        }
        let chunk = Arc::new(chunk);
        let outcomes = crew.play(&chunk)?;
        session.enter(&chunk, &outcomes, source.timed);
        let Counts { requests, lookups, hits, .. } = session.counts;
        source.progress.show(requests, &percent(hits as f64, lookups as f64));
    }
    source.progress.clear();
    let busy = crew.busy;
    Ok(session.close(bound, source.timed, busy, crew.finish()?))
}

/// Short chunks at first, so that a short trace has a chart, too.
fn next_chunk(source: &mut Source, done: u64) -> Result<Vec<Request>> {
    let length = usize::try_from((done / 256).clamp(16, 8192))?;
    let mut chunk = Vec::with_capacity(length);
    for request in source.requests.by_ref().take(length) {
        chunk.push(request?);
    }
    Ok(chunk)
}

impl Session {
    fn enter(&mut self, chunk: &[Request], outcomes: &[Outcome], timed: bool) {
        let (lookups, hits) = (self.counts.lookups, self.counts.hits);
        if !timed {
            self.now = self.start.elapsed();
        }
        for (request, &outcome) in chunk.iter().zip(outcomes) {
            self.now = self.now.max(request.at.unwrap_or_default());
            let lifetime = self.player.lifetime(request);
            self.counts.enter(request, lifetime, outcome);
            self.ledger.enter(request.key, self.now, lifetime, outcome);
        }
        let resident = self.look_at_size();
        self.series.push(Point {
            at: self.now,
            requests: self.counts.requests,
            lookups: self.counts.lookups - lookups,
            hits: self.counts.hits - hits,
            resident,
        });
    }

    /// How many entries there are, as of the last maintenance; keeps the most.
    fn look_at_size(&mut self) -> u64 {
        let cache = &self.player.cache;
        let resident = cache.entry_count();
        if resident > 0 && resident >= self.peak.resident {
            self.peak = Peak { resident, weight: cache.weighted_size(), held: memory::held() };
        }
        resident
    }

    fn close(mut self, bound: u64, timed: bool, busy: Duration, calls: Calls) -> Summary {
        memory::counted(|| self.player.cache.run_pending_tasks());
        self.look_at_size();
        let cache = &self.player.cache;
        let stats = cache.stats();
        let removals = Removals {
            expired: stats.removed(RemovalCause::Expired),
            size: stats.removed(RemovalCause::Size),
            replaced: stats.removed(RemovalCause::Replaced),
            lateness: stats.expiry_lateness().clone(),
        };
        Summary {
            resident: cache.entry_count(),
            counts: self.counts,
            causes: self.ledger.causes(),
            removals,
            peak: self.peak,
            bound,
            timed,
            span: self.now,
            busy,
            calls,
            series: self.series,
        }
    }
}

impl Counts {
    fn enter(&mut self, request: &Request, lifetime: Option<Duration>, outcome: Outcome) {
        self.requests += 1;
        self.weighed += u64::from(request.weight.is_some());
        self.lives += u64::from(lifetime.is_some());
        if outcome == Outcome::Update {
            self.updates += 1;
            return;
        }
        let weight = u64::from(request.weight.unwrap_or(1));
        self.lookups += 1;
        self.weight_looked_up += weight;
        if outcome == Outcome::Hit {
            self.hits += 1;
            self.weight_hit += weight;
        }
    }
}
