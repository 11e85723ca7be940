//! Jobs by a crontab line, in any time zone: a [`Schedule`] that asks the crate `cronexpr`.
//!
//! Without arguments, this plays the week in which the clocks of Berlin go forward, in no time.
//! With a line, it waits for its next run on the real clock: `"* * * * * Europe/Berlin"`.

use anyhow::{Context, Result};
use cortado::Clock;
use cortado::timer::{Next, Schedule, Timer, Turn};
use cronexpr::{Crontab, MakeTimestamp};
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Workdays at eight in Berlin.
const LINE: &str = "0 8 * * 1-5 Europe/Berlin";
/// Friday, 2026-03-27, 12:00 in Berlin. The clocks go forward on Sunday.
const START: Duration = Duration::from_secs(1_774_609_200);
const DAY: Duration = Duration::from_secs(86_400);
/// A run may come so early by the clock on the wall.
const EARLY: Duration = Duration::from_secs(60);

/// A crontab line, and the clock on the wall by which it is read.
struct Cron<W> {
    line: Crontab,
    wall: W,
    /// What the last run was for. A run that comes early by the clock on the wall does not come
    /// again.
    last: Duration,
}

impl<W: Fn() -> SystemTime + Send + 'static> Cron<W> {
    fn new(line: &str, wall: W) -> Result<Self> {
        let line = cronexpr::parse_crontab(line).context("a crontab line with a time zone")?;
        Ok(Self { line, wall, last: Duration::ZERO })
    }

    /// When it runs next, since 1970 and in words, and how long it is until then.
    fn next_run(&self) -> Option<(Duration, String, Duration)> {
        let now = (self.wall)().duration_since(UNIX_EPOCH).ok()?;
        // Unless somebody has set the clock back.
        let from = if self.last > now + EARLY { now } else { now.max(self.last) };
        let start = MakeTimestamp::from_nanosecond(i128::try_from(from.as_nanos()).ok()?).ok()?;
        let next = self.line.find_next(start).ok()?;
        let at = Duration::from_nanos(u64::try_from(next.timestamp().as_nanosecond()).ok()?);
        let shown = next.strftime("%a %d %b %H:%M %Z").to_string();
        Some((at, shown, at.saturating_sub(now)))
    }
}

/// The timer waits by a monotonic clock, so the calendar is asked again after each run. If somebody
/// sets the clock on the wall, the run after the next one is right again.
impl<W: Fn() -> SystemTime + Send + 'static> Schedule for Cron<W> {
    fn next(&mut self, _: &Turn) -> Option<Next> {
        let (at, _, delay) = self.next_run()?;
        self.last = at;
        Some(Next::After(delay))
    }
}

/// A week by a manual clock: when the job ran, in hours since the start.
fn play_a_week() -> Result<Vec<u64>> {
    let (clock, hand) = Clock::manual();
    let timer = Timer::builder().clock(clock).manual();
    let (send, ran) = channel();
    let (wall, reading) = (hand.clone(), hand.clone());
    let cron = Cron::new(LINE, move || UNIX_EPOCH + START + wall.now())?;
    let mails = timer.schedule(cron, move |_| _ = send.send(reading.now().as_secs()))?;
    while hand.now() < 7 * DAY {
        hand.advance(Duration::from_secs(60));
        timer.poll(&mut 1024);
    }
    drop(mails);
    Ok(ran.iter().map(|seconds| seconds / 3600).collect())
}

#[expect(clippy::print_stdout, reason = "it is a story")]
fn main() -> Result<()> {
    let Some(line) = std::env::args().nth(1) else {
        println!("{LINE}\nfrom Friday noon, an hour a column; the clocks go forward on Sunday\n");
        let mut last = 0;
        for hour in play_a_week()? {
            let gap = (hour - last) as usize;
            println!(
                "{}* {gap} h after the {}",
                "·".repeat(gap),
                if last > 0 { "last" } else { "start" }
            );
            last = hour;
        }
        return Ok(());
    };
    let cron = Cron::new(&line, SystemTime::now)?;
    let (_, at, delay) = cron.next_run().context("the line has no next run")?;
    println!("{line}\nnext run: {at}, in {delay:.0?}");
    let (timer, (send, ran)) = (Timer::new(), channel());
    let job = timer.schedule(cron, move |run| _ = send.send(run.late))?;
    println!("it ran, {:?} late", ran.recv()?);
    drop(job);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn the_job_keeps_to_the_clock_on_the_wall() {
        // Monday comes 67 hours after Friday noon, and not 68: an hour is left out on Sunday.
        assert_eq!(play_a_week().unwrap(), [67, 91, 115, 139, 163]);
    }

    #[test]
    fn a_run_that_comes_early_does_not_come_again() {
        let now = Arc::new(AtomicU64::new(START.as_secs()));
        let reading = Arc::clone(&now);
        let mut cron = Cron {
            line: cronexpr::parse_crontab(LINE).unwrap(),
            wall: move || UNIX_EPOCH + Duration::from_secs(reading.load(Relaxed)),
            last: Duration::ZERO,
        };
        let (monday, _, delay) = cron.next_run().unwrap();
        cron.last = monday;
        // The clock on the wall was set back a little meanwhile.
        now.store((START + delay).as_secs() - 1, Relaxed);
        let (tuesday, _, delay) = cron.next_run().unwrap();
        assert_eq!((tuesday - monday, delay), (DAY, DAY + Duration::from_secs(1)));
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Cron::new("61 * * * * UTC", SystemTime::now).is_err());
        let cron = Cron::new("0 0 30 2 * UTC", SystemTime::now).unwrap();
        assert_eq!(cron.next_run(), None, "there is no 30th of February");
    }
}
