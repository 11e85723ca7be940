//! Workers: those of the process, and those of one client. Their job queue, and their threads.

use crate::primitives::time::{Duration, Instant};
use std::collections::VecDeque;
use std::num::NonZero;

use super::{Execute, Job};
use crate::primitives::plain::OnceLock;
use crate::primitives::{Arc, Condvar, Mutex, MutexGuard, catch_user_panic, seeded, thread};

/// A job may run for this long before it counts as blocked. A job that only works takes less, even
/// if its thread is preempted for a time slice. For the jobs behind it, a delay of this length
/// goes unnoticed.
const PATIENCE: Duration = Duration::from_millis(10);
/// An idle worker waits for work for this long before it ends. Starting a thread takes tens of
/// microseconds, which do not matter once a second.
const LINGER: Duration = Duration::from_secs(1);
/// The pool keeps this many idle workers: one takes the next job, and one watches it. With fewer,
/// each burst of jobs would start a thread.
const IDLE: usize = 2;

/// The times and numbers that govern the workers. Only tests and models set other values than the
/// defaults.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long a job may run before it counts as blocked.
    pub patience: Duration,
    /// How long an idle worker waits for work before it ends.
    pub linger: Duration,
    /// The largest number of threads. More are refused, as if by the operating system.
    pub threads: usize,
    /// So many jobs may make progress at once, if others wait for longer than the patience.
    pub parallel: usize,
}

impl Default for Limits {
    fn default() -> Self {
        // It reads files; a program may make many timers.
        static CORES: OnceLock<usize> = OnceLock::new();
        let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
        let parallel = *CORES.get_or_init(cores);
        Self { patience: PATIENCE, linger: LINGER, threads: usize::MAX, parallel }
    }
}

/// The counters of the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many threads exist.
    pub threads: usize,
    /// How many of the threads run a job.
    pub busy: usize,
    /// How many threads were started so far.
    pub threads_started: u64,
    /// How many jobs no worker has taken yet.
    pub waiting: usize,
    /// How many panics were caught so far.
    pub panics: u64,
    /// How often an idle worker was woken or woke up by itself so far.
    pub wake_ups: u64,
}

#[derive(Default)]
struct State {
    /// The waiting jobs, and since when each waits.
    jobs: VecDeque<(Instant, Job)>,
    /// The number of each running job, and when it began. The last is the youngest.
    running: Vec<(u64, Instant)>,
    next_number: u64,
    /// How many workers have no job, including those whose threads are about to begin.
    idle: usize,
    /// Whether an idle worker watches: it sleeps until it may take the first job.
    watched: bool,
    closed: bool,
    /// Those that are counted as they come.
    counts: Counts,
    /// The id of the process that has the threads.
    process: u32,
}

/// What an idle worker does next.
enum Next {
    Run(u64, Job),
    /// Sleep until this worker may take the first job.
    Watch(Duration),
    Wait(Duration),
    End,
}

impl State {
    /// After a fork, forgets the threads of the parent process, which do not exist in this one. The
    /// first job finds no threads to forget.
    fn adopt(&mut self) {
        if self.process != crate::system::process() && !seeded("executor-ignores-forks") {
            self.process = crate::system::process();
            self.running.clear();
            self.idle = 0;
            self.watched = false;
        }
    }

    fn threads(&self) -> usize {
        self.running.len() + self.idle
    }

    /// How long the first job has to wait for those that make progress; `None` if an idle worker
    /// may take it.
    fn turn(&self, limits: &Limits, now: Instant) -> Option<Duration> {
        let left = |since| limits.patience.saturating_sub(now.saturating_duration_since(since));
        let (_, youngest) = self.running.last()?;
        let progressing = self.running.iter().rev().take_while(|job| !left(job.1).is_zero());
        let turn = match self.jobs.front() {
            Some(&(since, _)) if progressing.count() < limits.parallel => {
                left(since).min(left(*youngest))
            }
            _ => left(*youngest),
        };
        (!turn.is_zero()).then_some(turn)
    }

    /// Decides what an idle worker, which counts among `idle`, does next. Resets its idle time
    /// while jobs wait.
    fn next(&mut self, limits: &Limits, idle_since: &mut Instant, now: Instant) -> Next {
        let dispensable = self.closed || self.idle > IDLE;
        if self.jobs.is_empty() {
            let left = limits.linger.saturating_sub(now.saturating_duration_since(*idle_since));
            return if dispensable || left.is_zero() { Next::End } else { Next::Wait(left) };
        }
        *idle_since = now;
        match self.turn(limits, now) {
            Some(left) if !self.watched => Next::Watch(left),
            Some(_) if dispensable => Next::End,
            Some(_) => Next::Wait(limits.linger),
            None => {
                let Some((_, job)) = self.jobs.pop_front() else { return Next::End };
                let number = self.next_number;
                self.next_number += 1;
                self.running.push((number, now));
                self.idle -= 1;
                Next::Run(number, job)
            }
        }
    }

    /// The worker that ran the job is idle from now on.
    fn finish(&mut self, number: u64, panicked: bool) {
        self.running.retain(|&(running, _)| running != number);
        self.idle += 1;
        self.counts.panics += u64::from(panicked);
    }
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    limits: Limits,
}

/// Threads that start when there are jobs, and end when there are none. See the [module](super).
///
/// If the operating system refuses the first thread, the waiting jobs are dropped without running.
/// If it refuses another one, the jobs stay in the queue for the existing threads. The next job
/// tries again.
///
/// # Fork
///
/// A child made by `fork` has none of its parent's threads. The first job that is submitted in the
/// child starts new ones, which also run the jobs that waited at the fork.
///
/// A job that was running at the fork is not run in the child. The cache that submitted it gets no
/// other job there, and delivers nothing through these workers.
///
/// If another thread holds the lock of the workers at the very moment of the fork, the lock stays
/// locked in the child. The child's next job then waits for it forever. So start another program
/// after a fork (`exec`), or fork before the process builds its first cache.
pub struct Workers {
    shared: Arc<Shared>,
}

impl Workers {
    /// Creates separate workers, which have no thread yet.
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates separate workers with other limits.
    pub fn with_limits(limits: Limits) -> Self {
        let (state, wake) = (Mutex::default(), Condvar::new());
        Self { shared: Arc::new(Shared { state, wake, limits }) }
    }

    /// The workers of the process.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Workers> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// The workers of the process for reloads, which may wait for an upstream for long. They have
    /// threads of their own, so that all other jobs find theirs. Jobs beyond [`RELOADS`] wait.
    ///
    /// [`RELOADS`]: Self::RELOADS
    pub fn for_reloads() -> &'static Self {
        static RELOADS: OnceLock<Workers> = OnceLock::new();
        RELOADS.get_or_init(|| {
            // A reload is expected to wait. So the next one does not wait for it for long.
            let patience = Duration::from_millis(1);
            Self::with_limits(Limits { threads: Self::RELOADS, patience, ..Limits::default() })
        })
    }

    /// So many reloads of all caches run on workers at once.
    pub const RELOADS: usize = 64;

    /// Counters for tests.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn counts(&self) -> Counts {
        let state = self.shared.state.lock();
        let (threads, busy, waiting) = (state.threads(), state.running.len(), state.jobs.len());
        Counts { threads, busy, waiting, ..state.counts }
    }
}

impl Execute for Workers {
    fn execute(&self, job: Job) {
        let waits_since = Instant::now();
        let mut state = self.shared.state.lock();
        state.adopt();
        state.jobs.push_back((waits_since, job));
        for (_, refused) in Shared::staff(&self.shared, state) {
            if catch_user_panic(|| drop(refused)).is_none() {
                self.shared.state.lock().counts.panics += 1;
            }
        }
    }
}

/// The waiting jobs still run. Then the threads end without lingering.
impl Drop for Workers {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    /// Releases the lock, and ensures that a worker looks at the waiting jobs in time (rule 5).
    /// Returns the jobs for which there is no thread.
    #[must_use]
    fn staff(shared: &Arc<Self>, mut state: MutexGuard<'_, State>) -> VecDeque<(Instant, Job)> {
        let none = VecDeque::new();
        // Whether a worker will look again when the first job may be taken.
        let is_watched = || state.watched && state.turn(&shared.limits, Instant::now()).is_some();
        if state.jobs.is_empty() || is_watched() {
            return none;
        }
        if state.idle > 0 {
            drop(state);
            if !seeded("executor-submits-in-silence") {
                shared.wake.notify_one();
            }
            return none;
        }
        if !Self::start(shared, &mut state) && state.running.is_empty() {
            return std::mem::take(&mut state.jobs);
        }
        none
    }

    /// Starts a worker, unless there are enough or the system refuses one.
    fn start(shared: &Arc<Self>, state: &mut State) -> bool {
        let worker = Arc::clone(shared);
        let builder = thread::Builder::new().name("cortado-worker".to_owned());
        let has_started = state.threads() < shared.limits.threads
            && builder.spawn(move || Self::work(&worker)).is_ok();
        state.idle += usize::from(has_started);
        state.counts.threads_started += u64::from(has_started);
        has_started
    }

    /// The main loop of a worker's thread.
    fn work(shared: &Arc<Self>) {
        let mut state = shared.state.lock();
        let mut idle_since = Instant::now();
        loop {
            match state.next(&shared.limits, &mut idle_since, Instant::now()) {
                Next::Run(number, job) => {
                    if seeded("executor-takes-in-silence") {
                        drop(state);
                    } else {
                        let refused = Self::staff(shared, state);
                        debug_assert!(refused.is_empty(), "jobs are refused only if no job runs");
                    }
                    let panicked = catch_user_panic(job).is_none();
                    state = shared.state.lock();
                    state.finish(number, panicked);
                    idle_since = Instant::now();
                }
                Next::Watch(limit) => {
                    state.watched = true;
                    state = shared.wait(state, limit);
                    state.watched = false;
                }
                Next::Wait(limit) => state = shared.wait(state, limit),
                Next::End => break,
            }
        }
        if seeded("executor-ends-in-two-steps") {
            drop(state);
            state = shared.state.lock();
        }
        state.idle -= 1;
        if state.closed {
            // Another worker may be waiting for the state that this one found: an empty queue.
            shared.wake.notify_all();
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>, limit: Duration) -> MutexGuard<'a, State> {
        let mut state = self.wake.wait_timeout(state, limit);
        state.counts.wake_ups += 1;
        state
    }
}

#[cfg(all(test, not(cortado_loom)))]
#[path = "../whitebox/workers.rs"]
mod tests;
