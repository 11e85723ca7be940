//! A cache of tasks with refresh whose time, loader and executor are in the test's hands.

use crate::common::audited::{TasksLoadingAudited, tasks_loading_audited};
use crate::hand::{Task, at_once, pends};
use cortado::future::{Cache, CacheBuilder};
use cortado::{AsyncLoader, Clock, Job, Loaded, ManualClock, Reloaded, RemovalCause};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

pub const SOFT: Duration = Duration::from_secs(10);
pub const HARD: Duration = Duration::from_secs(100);

pub type Plan = Result<Reloaded<u32>, &'static str>;

/// An upstream that answers when the test says so.
#[derive(Default)]
pub struct State {
    pub answers: VecDeque<Plan>,
    waiting: Vec<Waker>,
    asked: Vec<Option<u32>>,
}

#[derive(Clone, Default)]
pub struct Upstream(pub Arc<Mutex<State>>);

impl Upstream {
    pub fn answer(&self, plan: Plan) {
        let mut state = self.0.lock().unwrap();
        state.answers.push_back(plan);
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn next(&self) -> Plan {
        poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            match state.answers.pop_front() {
                Some(Err("panic")) => {
                    drop(state);
                    panic!("planned");
                }
                Some(plan) => Poll::Ready(plan),
                None => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub fn asked(&self) -> Vec<Option<u32>> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

impl AsyncLoader<u32, u32> for Upstream {
    type Error = &'static str;

    async fn load(&self, _: &u32) -> Result<Loaded<u32>, &'static str> {
        self.0.lock().unwrap().asked.push(None);
        pends(1).await;
        Ok(Loaded::new(1))
    }

    async fn reload(&self, _: &u32, old: &u32) -> Plan {
        self.0.lock().unwrap().asked.push(Some(*old));
        self.next().await
    }
}

#[derive(Clone, Default)]
pub struct Jobs(pub Arc<Mutex<VecDeque<Job>>>);

impl Jobs {
    pub fn pop(&self) -> Option<Job> {
        self.0.lock().unwrap().pop_front()
    }

    /// Runs those that wait; returns how many.
    pub fn run(&self) -> usize {
        std::iter::from_fn(|| self.pop()).map(|job| job()).count()
    }

    /// The result of a task, beside an executor whose turn comes when the task waits.
    pub fn serve<'a, T: 'a>(&self, future: impl Future<Output = T> + Send + 'a) -> T {
        let mut task = Task::new(future);
        while !task.poll() {
            self.run();
            assert!(task.is_woken(), "nobody wakes the task");
        }
        task.result()
    }
}

/// Has reloads run at once if the test says so.
pub fn at_once_if(at_once: bool) -> fn(CacheBuilder<u32, u32>) -> CacheBuilder<u32, u32> {
    if at_once { |builder| builder.executor(|job: Job| job()) } else { |builder| builder }
}

pub type Told = Arc<Mutex<Vec<(u32, RemovalCause)>>>;

pub struct Bench {
    pub cache: TasksLoadingAudited<u32, u32, &'static str>,
    pub hand: ManualClock,
    pub upstream: Upstream,
    pub jobs: Jobs,
    pub told: Told,
}

pub fn bench(configure: impl FnOnce(CacheBuilder<u32, u32>) -> CacheBuilder<u32, u32>) -> Bench {
    let (clock, hand) = Clock::manual();
    let (upstream, jobs, told) = (Upstream::default(), Jobs::default(), Told::default());
    let (queue, log) = (jobs.clone(), Arc::clone(&told));
    let builder = Cache::builder()
        .time_to_live(HARD)
        .refresh_after_write(SOFT)
        .executor(move |job| queue.0.lock().unwrap().push_back(job))
        .removal_listener(move |removed| {
            log.lock().unwrap().push((*removed.value(), removed.cause()));
        })
        .record_stats(true)
        .clock(clock);
    let cache = tasks_loading_audited(configure(builder).build_with_loader(upstream.clone()));
    assert_eq!(jobs.serve(cache.get(&7)), Ok(1));
    hand.advance(SOFT);
    upstream.asked();
    Bench { cache, hand, upstream, jobs, told }
}

impl Bench {
    pub fn told(&self) -> Vec<(u32, RemovalCause)> {
        at_once(self.cache.run_pending_tasks());
        std::mem::take(&mut self.told.lock().unwrap())
    }

    pub fn under_way(&self) -> u64 {
        self.cache.stats().reloads_under_way
    }
}
