//! A produce request waits until all replicas have its records, or until it times out: a delayed
//! operation that watches its partition.

use crate::stage::{Stage, Voice};
use cortado::timer::{Attempt, DelayedOp, DelayedOps, TimerError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const REPLICAS: usize = 3;

/// How far each replica of a partition has come.
#[derive(Default)]
struct Partition {
    ends: [AtomicU64; REPLICAS],
}

impl Partition {
    /// Up to here, all replicas have everything.
    fn high_watermark(&self) -> u64 {
        self.ends.iter().map(|end| end.load(SeqCst)).min().unwrap_or(0)
    }
}

struct Produce {
    name: String,
    partition: Arc<Partition>,
    end: u64,
    voice: Voice,
    answered: Arc<[AtomicU64; 2]>,
}

impl DelayedOp for Produce {
    fn try_complete(&self) -> bool {
        self.partition.high_watermark() >= self.end
    }

    /// Answers the request, once: also after a timeout, when the replicas may be there after all.
    fn on_complete(&self) {
        let has_all = self.partition.high_watermark() >= self.end;
        if has_all {
            self.voice.say('o', format!("{}: all replicas have it", self.name));
        } else {
            let ends = self.partition.ends.iter();
            let bars: Vec<String> = ends.map(|end| "#".repeat(end.load(SeqCst) as usize)).collect();
            let bars = bars.join(" | ");
            self.voice.say('x', format!("{}: not enough replicas: {bars}", self.name));
        }
        self.answered[usize::from(!has_all)].fetch_add(1, SeqCst);
    }
}

/// Returns how many requests were answered, and how many timed out.
///
/// # Errors
///
/// If the timer does not take a timeout.
pub fn run(stage: &Stage) -> Result<(u64, u64), TimerError> {
    let ops: DelayedOps<usize> = DelayedOps::new(&stage.timer);
    let partitions: Vec<Arc<Partition>> = (0..2).map(|_| Arc::default()).collect();
    let answered: Arc<[AtomicU64; 2]> = Arc::default();
    let voice = stage.voice();
    for request in 0..6 {
        let number = request % 2;
        let partition = &partitions[number];
        let end = partition.ends[0].fetch_add(2, SeqCst) + 2;
        let produce = Produce {
            name: format!("request {request} to partition {number}"),
            partition: Arc::clone(partition),
            end,
            voice: voice.clone(),
            answered: Arc::clone(&answered),
        };
        voice.say('>', format!("request {request} to partition {number}: records up to {end}"));
        let timeout = stage.minutes(0.5);
        let watch = ops.try_complete_else_watch(Arc::new(produce), timeout, [number])?;
        assert!(matches!(watch, Attempt::Watching(_)), "the followers are behind");
    }
    // The followers fetch. One of partition 1 is stuck at 3.
    for step in 1..=6u32 {
        stage.until(f64::from(step) * 0.05);
        for (number, partition) in partitions.iter().enumerate() {
            for (replica, end) in partition.ends.iter().enumerate().skip(1) {
                let is_stuck = number == 1 && replica == 2;
                end.store(if is_stuck { step.min(3) } else { step }.into(), SeqCst);
            }
            ops.check(&number);
        }
    }
    stage.until(0.7);
    voice.say(' ', format!("{} requests wait", ops.pending()));
    Ok((answered[0].load(SeqCst), answered[1].load(SeqCst)))
}
