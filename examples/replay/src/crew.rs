//! The threads that use the cache. A chunk of the trace is dealt out to them card by card, so that
//! all are at about the same time of it, and is done before the next one begins.

use crate::ledger::Outcome;
use crate::memory;
use crate::player::Player;
use crate::trace::Request;
use anyhow::{Context, Result, anyhow};
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

type Chunk = Arc<Vec<Request>>;

/// How long calls took. A call is the look-up and, on a miss, the insertion.
pub struct Calls {
    pub nanos: Histogram<u64>,
    pub slowest_pass: Duration,
}

impl Calls {
    fn new() -> Result<Self> {
        let minute = 60_000_000_000;
        Ok(Self { nanos: Histogram::new_with_max(minute, 3)?, slowest_pass: Duration::ZERO })
    }
}

/// One thread's share of the work.
struct Worker {
    player: Player,
    calls: Calls,
    /// Which cards of each deal are its own: every `of`th from the `nth` on.
    nth: usize,
    of: usize,
}

impl Worker {
    fn work(&mut self, chunk: &[Request]) -> Vec<Outcome> {
        let mut outcomes = Vec::with_capacity(chunk.len() / self.of + 1);
        let Self { player, calls, .. } = self;
        memory::counted(|| {
            let mut before = Instant::now();
            for request in chunk.iter().skip(self.nth).step_by(self.of) {
                player.reach(request, || {
                    let start = Instant::now();
                    player.cache.run_pending_tasks();
                    before = Instant::now();
                    calls.slowest_pass = calls.slowest_pass.max(before - start);
                });
                outcomes.push(player.play(request));
                let after = Instant::now();
                let nanos = u64::try_from((after - before).as_nanos()).unwrap_or(u64::MAX);
                calls.nanos.saturating_record(nanos);
                before = after;
            }
        });
        outcomes
    }
}

struct Helper {
    chunks: SyncSender<Chunk>,
    outcomes: Receiver<Vec<Outcome>>,
    thread: thread::JoinHandle<Calls>,
}

pub struct Crew {
    own: Worker,
    helpers: Vec<Helper>,
    /// Time in which chunks were played, all threads together.
    pub busy: Duration,
}

impl Crew {
    /// `threads` of them, this one included.
    pub fn new(player: &Player, threads: usize) -> Result<Self> {
        let worker = |nth| {
            Ok::<_, anyhow::Error>(Worker {
                player: player.clone(),
                calls: Calls::new()?,
                nth,
                of: threads,
            })
        };
        let mut helpers = Vec::new();
        for nth in 1..threads {
            let mut worker = worker(nth)?;
            let (chunks, work) = sync_channel::<Chunk>(1);
            let (done, outcomes) = sync_channel(1);
            let thread = thread::Builder::new().name(format!("replay-{nth}")).spawn(move || {
                for chunk in work {
                    if done.send(worker.work(&chunk)).is_err() {
                        break;
                    }
                }
                worker.calls
            })?;
            helpers.push(Helper { chunks, outcomes, thread });
        }
        Ok(Self { own: worker(0)?, helpers, busy: Duration::ZERO })
    }

    /// Plays the chunk and says what became of each request, in the order of the chunk.
    pub fn play(&mut self, chunk: &Chunk) -> Result<Vec<Outcome>> {
        let start = Instant::now();
        for helper in &self.helpers {
            helper.chunks.send(Arc::clone(chunk)).context("a thread has stopped")?;
        }
        let own = self.own.work(chunk);
        let mut hands = vec![own.into_iter()];
        for helper in &self.helpers {
            hands.push(helper.outcomes.recv().context("a thread has stopped")?.into_iter());
        }
        self.busy += start.elapsed();
        let dealt = (0..chunk.len()).filter_map(|card| hands[card % self.own.of].next());
        Ok(dealt.collect())
    }

    /// Sends the helpers home and adds up how long all calls took.
    pub fn finish(self) -> Result<Calls> {
        let mut sum = self.own.calls;
        for Helper { chunks, thread, .. } in self.helpers {
            drop(chunks);
            let calls = thread.join().map_err(|_| anyhow!("a thread has panicked"))?;
            sum.nanos.add(&calls.nanos)?;
            sum.slowest_pass = sum.slowest_pass.max(calls.slowest_pass);
        }
        Ok(sum)
    }
}
