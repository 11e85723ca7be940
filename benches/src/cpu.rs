//! The processor time of a thread, which tells what a call did from what was done to it: with more
//! busy threads than cores, preemption alone makes calls of milliseconds.

use std::time::Duration;

/// Nanoseconds of processor time of this thread.
#[cfg(target_os = "linux")]
pub fn time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds of real time, where a thread's own cannot be had.
#[cfg(not(target_os = "linux"))]
pub fn time() -> u64 {
    static START: std::sync::LazyLock<std::time::Instant> =
        std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed().as_nanos() as u64
}

/// The processor time of all threads of this process.
#[cfg(target_os = "linux")]
pub fn of_process() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// How often the threads of this process slept and were woken.
#[cfg(target_os = "linux")]
pub fn wake_ups() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("status")).ok());
    let switches = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches"))?;
        line.split_whitespace().last()?.parse::<u64>().ok()
    };
    status.filter_map(switches).sum()
}

/// The longest of all calls that were timed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Longest {
    nanos: u64,
}

impl Longest {
    /// Makes a call and times it.
    #[inline]
    pub fn call<R>(&mut self, call: impl FnOnce() -> R) -> R {
        let start = time();
        let result = call();
        self.nanos = self.nanos.max(time() - start);
        result
    }

    /// In microseconds.
    pub fn micros(self) -> f64 {
        self.nanos as f64 / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_and_the_longest_call_stays() {
        let work = |rounds: u64| (0..rounds).fold(1, |x: u64, n| std::hint::black_box(x ^ n));
        let mut longest = Longest::default();
        longest.call(|| work(10_000_000));
        let long = longest.micros();
        assert!(long > 0.0);
        longest.call(|| work(1));
        assert_eq!(longest.micros(), long);
    }
}
