//! The time that a part plays in: the real one, or a manual clock.

use cortado::timer::Timer;
use cortado::{Clock, ManualClock};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A timer, and a clock that a part follows.
pub struct Stage {
    pub timer: Timer,
    time: Time,
    /// How long a minute of the story is.
    minute: Duration,
    lines: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
enum Time {
    Real(Instant),
    Manual(ManualClock),
}

/// Writes into the timeline, from any job.
#[derive(Clone)]
pub struct Voice {
    time: Time,
    minute: Duration,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Stage {
    /// On the real clock, with minutes of this length.
    pub fn real(minute: Duration) -> Self {
        let timer = Timer::new();
        Self { timer, time: Time::Real(Instant::now()), minute, lines: Arc::default() }
    }

    /// On a manual clock, with minutes of a minute.
    pub fn manual() -> Self {
        let (clock, hand) = Clock::manual();
        let timer = Timer::builder().clock(clock).manual();
        let minute = Duration::from_secs(60);
        Self { timer, time: Time::Manual(hand), minute, lines: Arc::default() }
    }

    /// So many minutes of the story.
    pub fn minutes(&self, minutes: f64) -> Duration {
        self.minute.mul_f64(minutes)
    }

    /// The time since the beginning.
    pub fn now(&self) -> Duration {
        self.time.now()
    }

    /// Lets time pass, until so many minutes after the beginning.
    pub fn until(&self, minutes: f64) {
        let end = self.minutes(minutes);
        match &self.time {
            Time::Real(_) => std::thread::sleep(end.saturating_sub(self.now())),
            Time::Manual(hand) => {
                while hand.now() < end {
                    hand.advance((self.minute / 600).min(end - hand.now()));
                    self.timer.poll(&mut u32::MAX.clone());
                }
            }
        }
    }

    pub fn voice(&self) -> Voice {
        let (time, lines) = (self.time.clone(), Arc::clone(&self.lines));
        Voice { time, minute: self.minute, lines }
    }

    /// The timeline so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no voice panics").clone()
    }
}

impl Time {
    fn now(&self) -> Duration {
        match self {
            Self::Real(start) => start.elapsed(),
            Self::Manual(hand) => hand.now(),
        }
    }
}

impl Voice {
    /// Adds a line, at its place in the story. On the real clock it is shown at once.
    #[allow(clippy::print_stdout, reason = "the timeline is what the program is for")]
    pub fn say(&self, mark: char, text: impl AsRef<str>) {
        let minutes = self.time.now().as_secs_f64() / self.minute.as_secs_f64();
        let line = format!("{minutes:6.2} min  {mark} {}", text.as_ref());
        let mut lines = self.lines.lock().expect("no voice panics");
        if matches!(self.time, Time::Real(_)) {
            println!("{line}");
        }
        lines.push(line);
    }
}
