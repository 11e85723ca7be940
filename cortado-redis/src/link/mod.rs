//! The connection: one to a server, in which replies and the server's invalidations come in the
//! order of the wire; and for how long what was read by it may be believed. Only this module names
//! the client's types.
//!
//! A *generation* is one connection with tracking. What was read in a generation is trusted while
//! that generation lasts, and for the staleness bound after the sending of the last request that
//! was answered in it: the server tells of changes before it answers.

mod connect;
mod reply;
mod server;
mod supervisor;

pub use reply::Reply;
pub use server::Server;

use crate::error::Error;
use crate::script::Script;
use crate::span;
use connect::{Live, Trouble};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How a local level learns of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Coherence {
    /// The server remembers which keys this process has read, and tells of each change once
    /// (`CLIENT TRACKING`). It takes about 100 bytes of the server's memory for each key, and 72
    /// for each further process that has read it.
    #[default]
    PerKey,
    /// The server tells of each change under the cache's prefix, whether the key was read or not
    /// (`BCAST`). It remembers nothing, and sends more.
    Prefix,
    /// The server tells of nothing: for proxies and hosted servers without tracking. A local copy
    /// is used for so long at most, so that is how old a value may be.
    Ttl(Duration),
}

/// Whether the server can be asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LinkState {
    /// No operation has needed it yet.
    Idle,
    /// A connection is being made: the first, or one after a loss. Operations wait for it.
    Connecting,
    /// There is a connection. With tracking, local copies are used.
    Up,
    /// There is none, for this reason. Operations fail at once; another attempt follows.
    Down(Error),
}

/// What the connection needs to know of the cache behind it.
pub trait Sink: Send + Sync + 'static {
    /// The server says that the key has changed.
    fn changed(&self, key: &[u8]);
    /// The server says that all keys may have changed.
    fn all_changed(&self);
    /// There is a connection again: what an earlier one would have told is lost.
    fn reconnected(&self);
    /// The instant by the local level's clock.
    fn time(&self, at: Instant) -> u64;
}

#[derive(Clone, Debug)]
pub struct LinkSettings {
    pub server: Server,
    pub coherence: Coherence,
    pub prefix: Vec<u8>,
    pub bound: Duration,
    pub reply_within: Duration,
    pub connect_within: Duration,
}

/// What a hit compares, alone in its cache line but for what changes as seldom.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Trust {
    /// 0 while nothing is trusted.
    generation: AtomicU32,
    until: AtomicU64,
}

/// The generation that is trusted, 0 for none, and until when, by the local level's clock.
#[derive(Clone, Copy)]
pub struct Trusted {
    pub generation: u32,
    pub until: u64,
}

#[derive(Debug, Default)]
pub struct LinkCounts {
    pub pushes: AtomicU64,
    pub pushed_keys: AtomicU64,
    pub flushes: AtomicU64,
    pub connects: AtomicU64,
    pub losses: AtomicU64,
    pub exchanges: AtomicU64,
    pub failures: AtomicU64,
}

pub struct Link {
    trust: Trust,
    /// Of the last connection.
    generation: AtomicU32,
    pub settings: LinkSettings,
    pub counts: LinkCounts,
    sink: OnceLock<Weak<dyn Sink>>,
    state: watch::Sender<State>,
    supervisor: Mutex<Option<JoinHandle<()>>>,
    /// Generations that have ended, and until when each was trusted.
    ended: Mutex<VecDeque<Trusted>>,
}

#[derive(Clone)]
enum State {
    Idle,
    Connecting,
    Up(Arc<Live>),
    Down(Error),
}

/// A reply, in which generation it came, and when its request was sent.
pub struct Answer {
    pub reply: Reply,
    pub generation: u32,
    pub sent: Instant,
}

/// So many ended generations are remembered, for values that are served during an outage.
const REMEMBERED: usize = 64;

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub fn new(settings: LinkSettings) -> Arc<Self> {
        let link = Self {
            trust: Trust::default(),
            generation: AtomicU32::new(0),
            settings,
            counts: LinkCounts::default(),
            sink: OnceLock::new(),
            state: watch::Sender::new(State::Idle),
            supervisor: Mutex::new(None),
            ended: Mutex::default(),
        };
        Arc::new(link)
    }

    /// Tells whom to tell. Once, before anything else.
    pub fn attach(&self, sink: Weak<dyn Sink>) {
        let _ = self.sink.set(sink);
    }

    fn sink(&self) -> Option<Arc<dyn Sink>> {
        self.sink.get()?.upgrade()
    }

    /// Whether the server tells of changes.
    pub fn tracks(&self) -> bool {
        !matches!(self.settings.coherence, Coherence::Ttl(_))
    }

    #[inline]
    pub fn trusted(&self) -> Trusted {
        // In this order: with the time of a newer generation comes that generation, or none.
        let until = self.trust.until.load(Ordering::Acquire);
        Trusted { generation: self.trust.generation.load(Ordering::Acquire), until }
    }

    /// Until when a value that was read in this generation was known to be the server's.
    pub fn known_until(&self, generation: u32) -> Option<u64> {
        let trusted = self.trusted();
        if generation == trusted.generation && generation != 0 {
            return Some(trusted.until);
        }
        let ended = locked(&self.ended);
        ended.iter().rfind(|ended| ended.generation == generation).map(|ended| ended.until)
    }

    pub fn state(&self) -> LinkState {
        match &*self.state.borrow() {
            State::Idle => LinkState::Idle,
            State::Connecting => LinkState::Connecting,
            State::Up(_) => LinkState::Up,
            State::Down(error) => LinkState::Down(error.clone()),
        }
    }

    /// A request that was sent at this time was answered, so every change before is known.
    fn proof(&self, live: &Live, sent: Instant) {
        live.answered.store(true, Ordering::Relaxed);
        let Some(sink) = self.sink().filter(|_| self.tracks()) else { return };
        let until = sink.time(sent + self.settings.bound);
        if self.trust.generation.load(Ordering::Acquire) == live.generation {
            // If the generation ends here, nothing of it is trusted, and the next one begins later.
            self.trust.until.fetch_max(until, Ordering::Relaxed);
        }
    }

    /// The number of the next connection. Without tracking there is one generation: a connection's
    /// end changes nothing for what was read by it.
    fn next_generation(&self) -> u32 {
        if !self.tracks() {
            return 1;
        }
        loop {
            // After four billion connections a number comes again.
            let next = self.generation.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            if next != 0 {
                return next;
            }
        }
    }

    /// Begins a generation.
    fn publish(&self, live: Arc<Live>, sent: Instant) {
        let Some(sink) = self.sink() else { return };
        let until = if self.tracks() { sink.time(sent + self.settings.bound) } else { u64::MAX };
        self.trust.until.store(until, Ordering::Release);
        self.trust.generation.store(live.generation, Ordering::Release);
        let is_first = self.counts.connects.fetch_add(1, Ordering::Relaxed) == 0;
        self.state.send_replace(State::Up(live));
        if !is_first {
            sink.reconnected();
        }
    }

    /// A connection has ended. Nothing of its generation is trusted from here on, and operations
    /// wait for the next connection.
    fn distrust(&self, generation: u32, trouble: &Arc<Trouble>) {
        let trusted = &self.trust.generation;
        let mut until = self.trust.until.load(Ordering::Relaxed);
        // Without tracking, what was read stays good for its time.
        let mut ends = self.tracks()
            && trusted.compare_exchange(generation, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let was_up = self.state.send_if_modified(|state| {
            let is_it = matches!(state, State::Up(live) if Arc::ptr_eq(&live.trouble, trouble));
            if is_it {
                *state = State::Connecting;
            }
            is_it
        });
        if was_up && !self.tracks() {
            ends = true;
            until = self.sink().map_or(0, |sink| sink.time(Instant::now()));
        }
        if !ends {
            return;
        }
        self.counts.losses.fetch_add(1, Ordering::Relaxed);
        let mut ended = locked(&self.ended);
        ended.push_back(Trusted { generation, until });
        if ended.len() > REMEMBERED {
            ended.pop_front();
        }
    }

    /// The connection: the first one, or one after a success, is waited for.
    async fn live(self: &Arc<Self>) -> Result<Arc<Live>, Error> {
        self.supervise();
        let mut states = self.state.subscribe();
        let limit = self.settings.connect_within + self.settings.reply_within;
        let settled = states.wait_for(|state| !matches!(state, State::Idle | State::Connecting));
        match tokio::time::timeout(limit, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Up(live) => Ok(Arc::clone(live)),
                State::Down(error) => Err(error.clone()),
                State::Idle | State::Connecting => unreachable!("it was waited for"),
            },
            _ => Err(Error::Unavailable("the server does not answer".into())),
        }
    }

    /// What an exchange takes at the most: the wait for a connection, and for the answers to a
    /// script's name and to its text.
    pub fn longest_exchange(&self) -> Duration {
        let longest = self.settings.connect_within + 4 * self.settings.reply_within;
        longest.max(Duration::from_millis(100))
    }

    /// Waits until there is a connection, or an attempt has failed.
    pub async fn ready(self: &Arc<Self>) -> Result<(), Error> {
        self.live().await.map(drop)
    }

    /// Runs a script on the server.
    pub async fn eval(
        self: &Arc<Self>,
        script: Script,
        key: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Answer, Error> {
        let live = self.live().await?;
        let sent = Instant::now();
        let exchange = live.eval(script, key, arguments);
        self.exchanged(&live, sent, span::of_exchange(script, exchange).await)
    }

    /// Sends a plain command.
    pub async fn command(self: &Arc<Self>, words: &[&[u8]]) -> Result<Answer, Error> {
        let live = self.live().await?;
        let sent = Instant::now();
        let reply = live.command(words).await;
        self.exchanged(&live, sent, reply)
    }

    fn exchanged(
        &self,
        live: &Live,
        sent: Instant,
        reply: Result<Reply, Error>,
    ) -> Result<Answer, Error> {
        self.counts.exchanges.fetch_add(1, Ordering::Relaxed);
        let generation = live.generation;
        match reply {
            Ok(reply) => {
                self.proof(live, sent);
                Ok(Answer { reply, generation, sent })
            }
            Err(error) => {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                if live.trouble.lost.load(Ordering::SeqCst) {
                    // So that the next operation waits for another connection.
                    self.distrust(generation, &live.trouble);
                }
                if error.is_outage() {
                    live.suspect();
                } else {
                    self.proof(live, sent);
                }
                Err(error)
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(supervisor) = locked(&self.supervisor).take() {
            supervisor.abort();
        }
    }
}
