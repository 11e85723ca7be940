//! A cache with refresh whose time, loader and executor are in the test's hands.

use crate::common::audited::{LoadingAudited, loading_audited};
use cortado::{Builder, Cache, Clock, Job, Loaded, Loader, ManualClock, Reloaded, RemovalCause};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Of an entry of this bench, without a word to the contrary.
pub const SOFT: Duration = Duration::from_secs(10);
pub const HARD: Duration = Duration::from_secs(100);

/// What the next call of the loader returns. Without a plan it counts up from 1.
pub type Plan = Result<Reloaded<u32>, &'static str>;

/// What the loader was asked, and what it is to say.
#[derive(Default)]
pub struct Upstream {
    pub plans: VecDeque<Plan>,
    /// The keys of loads, and those of reloads with the old value.
    pub asked: Vec<(u32, Option<u32>)>,
    made: u32,
}

impl Upstream {
    fn next(&mut self, key: u32, old: Option<u32>) -> Plan {
        self.asked.push((key, old));
        self.plans.pop_front().unwrap_or_else(|| {
            self.made += 1;
            Ok(Reloaded::new(self.made))
        })
    }
}

/// Runs in the next call of the loader.
pub type Amid = Box<dyn FnOnce() + Send>;

#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Upstream>>, pub Arc<Mutex<Option<Amid>>>);

impl Loader<u32, u32> for Shared {
    type Error = &'static str;

    fn load(&self, key: &u32) -> Result<Loaded<u32>, &'static str> {
        let mut upstream = self.0.lock().unwrap();
        upstream.asked.push((*key, None));
        upstream.made += 1;
        Ok(Loaded::new(upstream.made))
    }

    fn reload(&self, key: &u32, old: &u32) -> Plan {
        let plan = self.0.lock().unwrap().next(*key, Some(*old));
        let amid = self.1.lock().unwrap().take();
        amid.into_iter().for_each(|amid| amid());
        match plan {
            // Past the hook, which ends a fuzzer.
            Err("panic") => std::panic::resume_unwind(Box::new("planned")),
            plan => plan,
        }
    }
}

/// Jobs that wait until the test runs them.
#[derive(Clone, Default)]
pub struct Jobs(Arc<Mutex<VecDeque<Job>>>);

impl Jobs {
    pub fn push(&self, job: Job) {
        self.0.lock().unwrap().push_back(job);
    }

    fn pop(&self) -> Option<Job> {
        self.0.lock().unwrap().pop_front()
    }

    /// Runs those that wait, and those that these submit.
    pub fn run(&self) {
        while let Some(job) = self.pop() {
            job();
        }
    }

    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn run_one(&self) {
        if let Some(job) = self.pop() {
            job();
        }
    }

    /// As an executor may.
    pub fn drop_one(&self) {
        drop(self.pop());
    }

    /// The same for all.
    pub fn drop_all(&self) {
        while let Some(job) = self.pop() {
            drop(job);
        }
    }
}

pub type Told = Vec<(u32, u32, RemovalCause)>;

pub struct Bench {
    // First, so that it is audited while the rest is there.
    pub cache: LoadingAudited<u32, u32, &'static str>,
    pub hand: ManualClock,
    pub upstream: Shared,
    pub jobs: Jobs,
    told: Arc<Mutex<Told>>,
}

/// Has reloads run at once, on the threads that cause them.
pub fn at_once(builder: Builder<u32, u32>) -> Builder<u32, u32> {
    builder.executor(|job: Job| job())
}

/// The same if the test says so.
pub fn at_once_if(at_once: bool) -> fn(Builder<u32, u32>) -> Builder<u32, u32> {
    if at_once { self::at_once } else { |builder| builder }
}

/// A cache whose reloads wait in [`Bench::jobs`]. Its deliveries wait there, too.
pub fn bench(configure: impl FnOnce(Builder<u32, u32>) -> Builder<u32, u32>) -> Bench {
    let told: Arc<Mutex<Told>> = Arc::default();
    let log = Arc::clone(&told);
    let listening = |builder: Builder<u32, u32>| {
        configure(builder.removal_listener(move |removed| {
            log.lock().unwrap().push((*removed.key(), *removed.value(), removed.cause()));
        }))
    };
    Bench { told, ..bench_without_listener(listening) }
}

/// The same without deliveries.
pub fn bench_without_listener(
    configure: impl FnOnce(Builder<u32, u32>) -> Builder<u32, u32>,
) -> Bench {
    let (clock, hand) = Clock::manual();
    let (upstream, jobs) = (Shared::default(), Jobs::default());
    let queue = jobs.clone();
    let builder = Cache::builder()
        .time_to_live(HARD)
        .refresh_after_write(SOFT)
        .executor(move |job| queue.push(job))
        .record_stats(true)
        .clock(clock);
    let cache = loading_audited(configure(builder).build_with_loader(upstream.clone()));
    Bench { cache, hand, upstream, jobs, told: Arc::default() }
}

impl Bench {
    /// The value 1 of the key 7, stale, and a reload of it that waits among the jobs.
    pub fn trigger(&self) {
        assert_eq!(self.cache.get(&7), Ok(1));
        self.advance(SOFT.as_secs());
        assert_eq!(self.cache.get(&7), Ok(1));
        self.cache.run_pending_tasks();
        assert_eq!((self.asked(), self.told()), (vec![(7, None)], vec![]));
    }

    pub fn advance(&self, seconds: u64) {
        self.hand.advance(Duration::from_secs(seconds));
    }

    pub fn plan(&self, plan: Plan) {
        self.upstream.0.lock().unwrap().plans.push_back(plan);
    }

    /// How many reloads are under way.
    pub fn pending(&self) -> u64 {
        self.cache.stats().reloads_under_way
    }

    /// What the loader makes next if it has no plan.
    pub fn next_made(&self) -> u32 {
        self.upstream.0.lock().unwrap().made + 1
    }

    /// What the loader was asked since the last call.
    pub fn asked(&self) -> Vec<(u32, Option<u32>)> {
        std::mem::take(&mut self.upstream.0.lock().unwrap().asked)
    }

    /// What the listener was told since the last call.
    pub fn told(&self) -> Told {
        self.cache.run_pending_tasks();
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}
