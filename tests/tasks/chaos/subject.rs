//! Configurations and their caches.

use super::answers::Stored;
use super::ledger::{Key, Ledger, Name, Value};
use crate::common::SECOND;
use crate::common::audited::{
    LoadingAudited, TasksAudited, TasksLoadingAudited, loading_audited, tasks_audited,
    tasks_loading_audited,
};
use crate::hand::pends;
use cortado::future::{self, FutureExt};
use cortado::{Builder, Cache, Clock, Job, ManualClock, Overflow, Removed};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::ops::Deref;
use std::sync::Arc;

/// Without random keys, so that a program can be repeated.
pub type Hashes = BuildHasherDefault<DefaultHasher>;

/// How many announcements there are for each whose listener panics.
const ANNOUNCEMENTS: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StoredLoader {
    Without,
    ForThreads,
    ForTasks,
}

/// Where announcements go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    Plain,
    Awaiting,
    /// The program receives them.
    Receiver,
}

/// Where jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jobs {
    /// There is no executor, and no stored loader.
    Without,
    /// The program runs or drops them.
    Queued,
    /// On the thread that submits them.
    AtOnce,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stale {
    Never,
    AfterWrite,
    /// The value says when.
    ByPolicy,
}

#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How many destructors of a hundred values panic.
    #[expect(dead_code, reason = "a program that fails prints it")]
    explosive: u64,
    pub keys: u64,
    /// Whether only threads run operations.
    pub is_for_threads: bool,
    loader: StoredLoader,
    pub listener: Listener,
    pub limit: Option<(usize, Overflow)>,
    jobs: Jobs,
    reload_limit: usize,
    stale: Stale,
    capacity: Option<u64>,
    is_weighed: bool,
    has_ttl: bool,
    idles: bool,
    lives_by_access: bool,
    pub is_closed: bool,
}

impl Config {
    pub fn draw(ledger: &Ledger) -> Self {
        use StoredLoader::{ForTasks, ForThreads, Without};
        let mut config = Self {
            explosive: ledger.explosive,
            keys: ledger.one_of([1, 2, 5, 20]),
            is_for_threads: ledger.once_in(2),
            loader: ledger.one_of([ForThreads, ForTasks, Without]),
            listener: ledger.one_of([Listener::Plain, Listener::Awaiting, Listener::Receiver]),
            limit: ledger
                .one_of([None, None, Some(Overflow::Discard), Some(Overflow::Wait)])
                .map(|overflow| (ledger.below(5) as usize, overflow)),
            jobs: ledger.one_of([Jobs::Without, Jobs::Without, Jobs::Queued, Jobs::AtOnce]),
            reload_limit: ledger.one_of([1, 3, 64]),
            stale: ledger.one_of([Stale::Never, Stale::AfterWrite, Stale::ByPolicy]),
            capacity: ledger.once_in(2).then(|| ledger.one_of([0, 1, 3, 12, u64::MAX])),
            is_weighed: ledger.once_in(2),
            has_ttl: ledger.once_in(2),
            idles: ledger.once_in(3),
            lives_by_access: ledger.once_in(3),
            is_closed: ledger.once_in(2),
        };
        config.make_sense();
        config
    }

    /// Changes settings that exclude each other.
    fn make_sense(&mut self) {
        if self.loader == StoredLoader::ForThreads && self.listener == Listener::Awaiting {
            self.listener = Listener::Plain;
        }
        if let Some((limit, Overflow::Wait)) = self.limit {
            if self.listener == Listener::Receiver {
                // The thread that receives must not wait for itself.
                self.limit = Some((limit, Overflow::Discard));
            } else if self.jobs == Jobs::Queued {
                // Each writer would leave the executor 10 ms for its job, which nobody runs.
                self.jobs = Jobs::AtOnce;
            }
        }
        // The workers of the process would reload on threads of theirs.
        if self.loader != StoredLoader::Without && self.jobs == Jobs::Without {
            self.jobs = Jobs::AtOnce;
        }
        if self.loader == StoredLoader::Without {
            self.stale = Stale::Never;
        }
    }

    fn configure<C, F>(
        &self,
        mut builder: Builder<Key, Value, C, F>,
        ledger: &Arc<Ledger>,
        clock: Clock,
    ) -> Builder<Key, Value, C, F> {
        builder = builder.clock(clock).record_stats(true).refresh_limit(self.reload_limit);
        if let Some(capacity) = self.capacity {
            builder = builder.max_capacity(capacity);
        }
        if self.is_weighed {
            builder = builder.weigher(|_, value: &Value| value.weight);
        }
        if self.has_ttl {
            builder = builder.time_to_live(50 * SECOND);
        }
        if self.idles {
            builder = builder.time_to_idle(20 * SECOND);
        }
        if self.lives_by_access {
            builder = builder.ttl_on_access(|_, value: &Value| Some(value.life));
        }
        match self.stale {
            Stale::Never => {}
            Stale::AfterWrite => builder = builder.refresh_after_write(3 * SECOND),
            Stale::ByPolicy => {
                builder = builder.refresh_after(|_, value: &Value, _| Some(value.stale_after));
            }
        }
        if let Some((limit, overflow)) = self.limit {
            builder = builder.notification_limit(limit, overflow);
        }
        if self.listener == Listener::Plain {
            let ledger = Arc::clone(ledger);
            builder = builder.removal_listener(move |removed: Removed<Key, Value>| {
                ledger.announce(removed.value());
                ledger.may_panic(ANNOUNCEMENTS);
            });
        }
        let queue = Arc::clone(ledger);
        match self.jobs {
            Jobs::Without => builder,
            Jobs::Queued => builder.executor(move |job: Job| queue.submit(job)),
            Jobs::AtOnce => builder.executor(move |job: Job| queue.run_job(job)),
        }
        .removals(self.listener == Listener::Receiver)
    }
}

enum Audited {
    Plain { _cache: TasksAudited<Key, Value, Hashes> },
    ForThreads(LoadingAudited<Key, Value, u8, Hashes>),
    ForTasks(TasksLoadingAudited<Key, Value, u8, Hashes>),
}

/// The cache of a program. It is audited when this is dropped.
pub struct Bench {
    pub config: Config,
    pub hand: ManualClock,
    pub tasks: future::Cache<Key, Value, Hashes>,
    pub ledger: Arc<Ledger>,
    audited: Audited,
}

impl Deref for Bench {
    type Target = Arc<Ledger>;

    fn deref(&self) -> &Arc<Ledger> {
        &self.ledger
    }
}

impl Bench {
    pub fn new(config: &Config, ledger: &Arc<Ledger>) -> Self {
        let (clock, hand) = Clock::manual();
        let hashes = Hashes::default();
        let stored = Stored(Arc::clone(ledger));
        let (tasks, audited) = if config.loader == StoredLoader::ForThreads {
            let builder = config.configure(Cache::builder(), ledger, clock);
            let cache = loading_audited(
                builder.try_build_with_loader(stored, hashes).expect("the settings are valid"),
            );
            (cache.cache().future(), Audited::ForThreads(cache))
        } else {
            let mut builder = config.configure(future::Cache::builder(), ledger, clock);
            if config.listener == Listener::Awaiting {
                let ledger = Arc::clone(ledger);
                builder = builder.async_eviction_listener(move |key, value: Value, _| {
                    let ledger = Arc::clone(&ledger);
                    async move {
                        // The future owns the key, whose destructor may panic.
                        let _key = key;
                        pends(ledger.below(2) as u32).await;
                        ledger.announce(&value);
                        ledger.may_panic_when_told(ANNOUNCEMENTS);
                    }
                    .boxed()
                });
            }
            if config.loader == StoredLoader::ForTasks {
                let cache = tasks_loading_audited(
                    builder.try_build_with_loader(stored, hashes).expect("the settings are valid"),
                );
                (cache.cache().clone(), Audited::ForTasks(cache))
            } else {
                let cache = tasks_audited(builder.build_with_hasher(hashes));
                (cache.clone(), Audited::Plain { _cache: cache })
            }
        };
        Self { config: *config, hand, tasks, ledger: Arc::clone(ledger), audited }
    }

    pub fn threads(&self) -> &Cache<Key, Value, Hashes> {
        self.tasks.sync()
    }

    pub fn loading(&self) -> Option<&cortado::LoadingCache<Key, Value, u8, Hashes>> {
        match &self.audited {
            Audited::ForThreads(cache) => Some(cache),
            _ => None,
        }
    }

    pub fn tasks_loading(&self) -> Option<&future::LoadingCache<Key, Value, u8, Hashes>> {
        match &self.audited {
            Audited::ForTasks(cache) => Some(cache),
            _ => None,
        }
    }

    pub fn random_key(&self) -> u64 {
        self.below(self.config.keys)
    }

    pub fn name(&self, key: u64) -> Name {
        Name(key, Arc::clone(&self.ledger))
    }

    /// Keys for a call about many. They need not differ.
    pub fn some_keys(&self) -> Vec<Key> {
        (0..4).map(|_| self.key(self.random_key())).collect()
    }

    pub fn some_pairs(&self) -> Vec<(Key, Value)> {
        (0..3).map(|_| (self.key(self.random_key()), self.value())).collect()
    }
}
