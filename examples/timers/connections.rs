//! A million connections, each with an idle timeout of a minute: most are extended again and again,
//! few fire. An extension writes the new deadline down, and nothing else.

use crate::stage::Stage;
use cortado::timer::{DelayQueue, Polled, TimerId};
use std::time::Duration;

/// What happened in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub extended: u64,
    pub closed: u64,
    pub timed_out: u64,
    pub latest: Duration,
}

/// Plays three minutes in steps of a second of the story.
pub fn run(stage: &Stage, connections: usize) -> Totals {
    let voice = stage.voice();
    let timeout = stage.minutes(1.0);
    let mut idle = DelayQueue::new();
    idle.reserve(connections);
    let mut open: Vec<TimerId> =
        (0..connections).map(|number| idle.insert_at(number, stage.now() + timeout)).collect();
    voice.say('+', format!("{connections} connections are open"));

    let (mut chance, mut totals, mut before) = (1u64, Totals::default(), 0);
    for second in 1..=180 {
        stage.until(f64::from(second) / 60.0);
        let now = stage.now();
        let mut budget = u32::MAX;
        while let Polled::Due(expired) = idle.poll(now, &mut budget) {
            totals.timed_out += 1;
            totals.latest = totals.latest.max(now.saturating_sub(expired.deadline()));
            let number = expired.into_inner();
            // Another client takes its place.
            open[number] = idle.insert_at(number, now + timeout);
        }
        for _ in 0..connections / 12 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let number = (chance >> 33) as usize % connections;
            if chance >> 60 == 0 {
                idle.try_remove(&open[number]);
                open[number] = idle.insert_at(number, now + timeout);
                totals.closed += 1;
            } else {
                idle.try_reset_at(&open[number], now + timeout);
                totals.extended += 1;
            }
        }
        if second % 15 == 0 {
            // Since the last line.
            let share = (totals.timed_out - before) as f64 / connections as f64;
            before = totals.timed_out;
            let bar = "#".repeat((share * 2500.0).min(50.0) as usize);
            voice.say(
                '=',
                format!(
                    "{:>9} extended {:>8} closed {:>6} timed out {bar}",
                    totals.extended, totals.closed, totals.timed_out
                ),
            );
        }
    }
    totals
}
