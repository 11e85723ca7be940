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

/// A crontab line, and the clock on the wall by which it is read.
struct Cron<W> {
    line: Crontab,
    wall: W,
}

impl<W: Fn() -> SystemTime + Send + 'static> Cron<W> {
    fn new(line: &str, wall: W) -> Result<Self> {
        let line = cronexpr::parse_crontab(line).context("a crontab line with a time zone")?;
        Ok(Self { line, wall })
    }

    /// When it runs next, and how long it is until then.
    fn next_run(&self) -> Option<(String, Duration)> {
        let now = (self.wall)().duration_since(UNIX_EPOCH).ok()?;
        let start = MakeTimestamp::from_nanosecond(i128::try_from(now.as_nanos()).ok()?).ok()?;
        let next = self.line.find_next(start).ok()?;
        let nanos = u64::try_from(next.timestamp().as_nanosecond()).ok()?;
        let shown = next.strftime("%a %d %b %H:%M %Z").to_string();
        Some((shown, Duration::from_nanos(nanos).saturating_sub(now)))
    }
}

/// The timer waits by a monotonic clock, so the calendar is asked again after each run. If somebody
/// sets the clock on the wall, the run after the next one is right again.
impl<W: Fn() -> SystemTime + Send + 'static> Schedule for Cron<W> {
    fn next(&mut self, _: &Turn) -> Option<Next> {
        self.next_run().map(|(_, delay)| Next::After(delay))
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
    let (at, delay) = cron.next_run().context("the line has no next run")?;
    println!("{line}\nnext run: {at}, in {delay:.0?}");
    let (timer, (send, ran)) = (Timer::new(), channel());
    let job = timer.schedule(cron, move |run| _ = send.send(run.late()))?;
    println!("it ran, {:?} late", ran.recv()?);
    drop(job);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_keeps_to_the_clock_on_the_wall() {
        // Monday comes 67 hours after Friday noon, and not 68: an hour is left out on Sunday.
        assert_eq!(play_a_week().unwrap(), [67, 91, 115, 139, 163]);
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(Cron::new("61 * * * * UTC", SystemTime::now).is_err());
        let cron = Cron::new("0 0 30 2 * UTC", SystemTime::now).unwrap();
        assert_eq!(cron.next_run(), None, "there is no 30th of February");
    }
}
