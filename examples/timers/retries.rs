//! A call that fails is tried again: a schedule of growing delays with jitter, and a job that ends
//! its own series when it succeeds.

use crate::stage::Stage;
use cortado::timer::{Next, Schedule, TimerError, Turn};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Twice the delay each time, up to a limit, and up to half of it more by chance, so that callers
/// that failed together do not come back together.
struct Backoff {
    first: Duration,
    longest: Duration,
    tries: u64,
    chance: u64,
}

impl Backoff {
    /// A number from 0 to 1.
    fn chance(&mut self) -> f64 {
        self.chance = self.chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.chance >> 40) as f64 / f64::from(1 << 24)
    }
}

impl Schedule for Backoff {
    fn next(&mut self, turn: &Turn) -> Option<Next> {
        if turn.runs == self.tries {
            return None;
        }
        let doublings = turn.runs.saturating_sub(1) as u32;
        let delay = (self.first * 2u32.saturating_pow(doublings)).min(self.longest);
        let delay = if turn.runs == 0 { Duration::ZERO } else { delay };
        Some(Next::After(delay.mul_f64(1.0 + self.chance() / 2.0)))
    }
}

/// Returns how many tries it took.
///
/// # Errors
///
/// If the timer does not take the job.
pub fn run(stage: &Stage) -> Result<u64, TimerError> {
    let second = stage.minutes(1.0 / 60.0);
    let backoff = Backoff { first: second, longest: 20 * second, tries: 8, chance: 42 };
    let (voice, (done, result)) = (stage.voice(), channel());
    let mut last = stage.now();
    let (time, start) = (stage.voice(), std::time::Instant::now());
    let series = stage.timer.schedule(backoff, move |run| {
        let planned = run.planned.saturating_duration_since(start);
        let waited = planned.saturating_sub(last);
        last = planned;
        let bar = "-".repeat((waited.as_secs_f64() / second.as_secs_f64()).round() as usize);
        if run.number < 6 {
            voice.say('x', format!("{bar:20} try {}: 503, busy", run.number));
        } else {
            voice.say('o', format!("{bar:20} try {}: 200, fine", run.number));
            run.cancel();
            let _ = done.send(run.number);
        }
    })?;
    stage.until(1.5);
    time.say(' ', "over");
    drop(series);
    Ok(result.try_recv().unwrap_or(0))
}
