//! The handle of the scheduler and that of a client, the agenda, and the thread.

use crate::primitives::time::{Duration, Instant};
use std::collections::BTreeMap;
use std::io;

use super::graces::Graces;
use super::{Alarm, Armed, ClientId, Scheduled};
use crate::clock::{LAST, NEVER, Nanos, Timestamp};
use crate::epoch::{self, Grace};
use crate::primitives::atomic::{Ordering::SeqCst, fence};
use crate::primitives::plain::{OnceLock, Weak};
use crate::primitives::{Arc, Condvar, Mutex, MutexGuard, catch_user_panic, seeded, thread};

/// The creation of the scheduler, from which its deadlines count. Unlike the instants of a cache,
/// they begin at 0 and have no top bit set. A client that is not armed has the deadline [`NEVER`],
/// which is later than any other.
const START: Timestamp = Timestamp::from_raw(0);

/// The counters of a scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many clients are registered.
    pub clients: usize,
    /// Whether the thread exists.
    pub serving: bool,
    /// How many threads were started so far.
    pub threads_started: u64,
    /// How many panics of clients were caught so far.
    pub panics: u64,
    /// How often the thread has looked for the end of a grace period.
    pub looks: u64,
}

#[derive(Clone)]
struct Client {
    handle: Weak<dyn Scheduled>,
    armed: Arc<Armed>,
}

/// The state under the lock.
struct State {
    /// The clients by their deadlines. Those that are not armed come last, at [`NEVER`].
    clients: BTreeMap<(Timestamp, ClientId), Client>,
    next_id: ClientId,
    graces: Graces,
    /// The deadline until which the thread sleeps. [`START`] while it is awake, as it then looks
    /// by itself.
    asleep_until: Timestamp,
    /// All but the number of clients.
    counts: Counts,
    /// The id of the process that has the thread.
    process: u32,
}

struct Shared {
    state: Mutex<State>,
    wake: Condvar,
    base: Instant,
}

impl State {
    /// Arms a client, unless it is already armed for `at` or earlier, or is no longer registered.
    /// Returns whether the caller must wake the thread, which would sleep beyond `at`.
    #[must_use]
    fn arm(&mut self, armed: &Armed, at: Timestamp) -> bool {
        let before = armed.get();
        if before <= at {
            return false;
        }
        let Some(client) = self.clients.remove(&(before, armed.id)) else { return false };
        self.clients.insert((at, armed.id), client);
        armed.set(at);
        let oversleeps = at < self.asleep_until;
        if oversleeps {
            self.asleep_until = at;
        }
        oversleeps
    }

    /// Disarms the first client if it is due, and returns it.
    fn take_due(&mut self, now: Timestamp) -> Option<Client> {
        let client = self.clients.first_entry().filter(|first| first.key().0 <= now)?.remove();
        client.armed.set(NEVER);
        self.clients.insert((NEVER, client.armed.id), client.clone());
        Some(client)
    }

    fn forget(&mut self, armed: &Armed) {
        self.clients.remove(&(armed.get(), armed.id));
        self.graces.remove(armed);
    }
}

/// See the [module](super).
pub struct Scheduler {
    shared: Arc<Shared>,
}

impl Scheduler {
    /// Creates a separate scheduler, which has no thread yet.
    pub fn new() -> Self {
        let state = State {
            clients: BTreeMap::new(),
            next_id: ClientId(0),
            graces: Graces::new(),
            asleep_until: START,
            counts: Counts::default(),
            process: crate::system::process(),
        };
        let (state, wake, base) = (Mutex::new(state), Condvar::new(), Instant::now());
        Self { shared: Arc::new(Shared { state, wake, base }) }
    }

    /// The scheduler of the process.
    pub fn global() -> &'static Self {
        static GLOBAL: OnceLock<Scheduler> = OnceLock::new();
        GLOBAL.get_or_init(Self::new)
    }

    /// Registers a client, which is not armed yet. Starts the thread if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses to start the thread.
    pub fn register(&self, handle: Weak<dyn Scheduled>) -> io::Result<Registration> {
        let mut state = self.shared.state.lock();
        if state.process != crate::system::process() && !seeded("scheduler-ignores-forks") {
            // The process was forked since: the thread does not exist in this one.
            state.process = crate::system::process();
            state.counts.serving = false;
            state.asleep_until = START;
        }
        if !state.counts.serving {
            let serves = Arc::clone(&self.shared);
            thread::Builder::new()
                .name("cortado-scheduler".to_owned())
                .spawn(move || serves.serve())?;
            state.counts.serving = true;
            state.counts.threads_started += 1;
        }
        let id = state.next_id;
        state.next_id = ClientId(id.0 + 1);
        let armed = Arc::new(Armed::new(id));
        state.clients.insert((NEVER, id), Client { handle, armed: Arc::clone(&armed) });
        Ok(Registration { shared: Arc::clone(&self.shared), armed })
    }

    /// Counters for statistics and tests.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn counts(&self) -> Counts {
        let state = self.shared.state.lock();
        Counts { clients: state.clients.len(), ..state.counts }
    }
}

/// A client's registration with the scheduler. Dropping it deregisters the client.
#[must_use = "dropping a registration deregisters the client"]
pub struct Registration {
    shared: Arc<Shared>,
    armed: Arc<Armed>,
}

impl Registration {
    /// Runs the client as soon as its turn comes.
    #[cfg(any(feature = "internals", cortado_loom))]
    pub fn wake_now(&self) {
        self.wake_within(Duration::ZERO);
    }
}

impl Alarm for Registration {
    fn wake_within(&self, after: Duration) {
        let at = self.shared.deadline(after);
        // Partner: the fence in `serve`, after the store of `NEVER`.
        if !seeded("scheduler-wakes-without-fence") {
            fence(SeqCst);
        }
        if self.armed.get() <= at {
            return;
        }
        let oversleeps = self.shared.state.lock().arm(&self.armed, at);
        if oversleeps && !seeded("scheduler-arms-in-silence") {
            self.shared.wake.notify_one();
        }
    }

    fn come_back_in_real_time(&self, after: Duration) -> Option<Duration> {
        Some(after)
    }

    fn wake_after(&self, grace: Grace) {
        let mut state = self.shared.state.lock();
        state.graces.add(&self.armed, grace, self.shared.now());
        let oversleeps = state.graces.next_look < state.asleep_until;
        drop(state);
        if oversleeps {
            self.shared.wake.notify_one();
        }
    }

    fn cancel(&self) {
        let mut state = self.shared.state.lock();
        state.forget(&self.armed);
        let last = state.clients.is_empty();
        drop(state);
        if last && !seeded("scheduler-sleeps-on-without-clients") {
            self.shared.wake.notify_one();
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Shared {
    #[cfg(not(cortado_loom))]
    fn now(&self) -> Timestamp {
        self.base.elapsed().as_nanos().try_into().map_or(LAST, Timestamp::from_raw)
    }

    /// Time stands still in a model: otherwise its executions could not be repeated.
    #[cfg(cortado_loom)]
    fn now(&self) -> Timestamp {
        START
    }

    /// The deadline `after` from now. A delay that does not fit becomes [`NEVER`].
    fn deadline(&self, after: Duration) -> Timestamp {
        let after = after.as_nanos().try_into().map_or(Nanos::FOREVER, Nanos::from_raw);
        self.now().saturating_add(after)
    }

    /// The main loop of the thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        while !state.clients.is_empty() {
            let now = self.now();
            if state.graces.next_look <= now {
                state = self.look_at_graces(state);
                continue;
            }
            let Some(Client { handle, armed }) = state.take_due(now) else {
                state = self.sleep(state, now);
                continue;
            };
            drop(state);
            // Partner: the fence in `wake_within`, before its load.
            if !seeded("scheduler-wakes-without-fence") {
                fence(SeqCst);
            }
            let kept = if seeded("scheduler-keeps-the-client") { handle.upgrade() } else { None };
            // The handle is upgraded for this call only. A panic in the drop of the last reference
            // is caught as well.
            let ran = catch_user_panic(|| handle.upgrade().map(|client| client.run()));
            state = self.state.lock();
            drop(kept);
            match ran {
                Some(Some(Some(after))) => {
                    let awake = !state.arm(&armed, self.deadline(after));
                    debug_assert!(awake);
                }
                Some(Some(None)) => {}
                // The client behind the handle no longer exists.
                Some(None) => state.forget(&armed),
                None => state.counts.panics += 1,
            }
        }
        state.counts.serving = false;
    }

    /// Advances the epoch for those who wait for a grace period, and runs those whose grace period
    /// is over.
    fn look_at_graces<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let first = state.graces.first();
        drop(state);
        let is_over = first.is_none_or(|first| epoch::hasten(first, u32::MAX));
        let (now, mut state) = (self.now(), self.state.lock());
        state.counts.looks += 1;
        if !is_over {
            state.graces.look_later(now);
        }
        for armed in state.graces.take_ended(now) {
            let awake = !state.arm(&armed, now);
            debug_assert!(awake);
        }
        state
    }

    /// Sleeps until the first deadline, or until it is woken.
    fn sleep<'a>(&self, mut state: MutexGuard<'a, State>, now: Timestamp) -> MutexGuard<'a, State> {
        let first = state.clients.first_key_value().map_or(NEVER, |(&(at, _), _)| at);
        let until = first.min(state.graces.next_look);
        state.asleep_until = until;
        let mut state = if until == NEVER {
            self.wake.wait(state)
        } else {
            self.wake.wait_timeout(state, (until - now).to_duration())
        };
        state.asleep_until = START;
        state
    }
}
