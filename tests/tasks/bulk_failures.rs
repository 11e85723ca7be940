//! Bulk loads by tasks of which some keys fail: what is kept, what the call returns, and what those
//! get who wait for one of the keys.

use crate::common::audited::{TasksAudited, tasks_audited, tasks_loading_audited};
use crate::common::must_end;
use crate::hand::{Gate, Task, at_once};
use cortado::future::Cache;
use cortado::{AsyncLoader, Loaded};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Ten times the key; keys from 90 on fail.
fn load(key: u64) -> Result<u64, String> {
    if key < 90 { Ok(key * 10) } else { Err(format!("no {key}")) }
}

fn failed(error: &str) -> Result<u64, Arc<String>> {
    Err(Arc::new(error.to_owned()))
}

#[test]
fn a_key_that_fails_takes_no_other_along() {
    must_end(|| {
        let (gate, calls) = (Gate::default(), Arc::new(AtomicU64::new(0)));
        let (passes, counts) = (gate.clone(), Arc::clone(&calls));
        let loader = move |key: u64| {
            counts.fetch_add(1, SeqCst);
            let gate = passes.clone();
            async move {
                gate.passed().await;
                load(key).map(Loaded::new)
            }
        };
        let cache = tasks_loading_audited(
            Cache::builder().executor(|job: cortado::Job| job()).build_with_loader(loader),
        );
        let mut many = Task::waiting(cache.get_many(&[1, 2, 99, 98, 3, 99]));
        let mut waiters = [1, 99, 98, 3].map(|key| {
            let cache = &cache;
            Task::waiting(async move { cache.get(&key).await })
        });
        gate.open();
        many.run();
        assert_eq!(many.result(), Err(Arc::new("no 99".to_owned())), "the first one");
        waiters.iter_mut().for_each(Task::run);
        let got = waiters.map(Task::result);
        assert_eq!(got, [Ok(10), failed("no 99"), failed("no 98"), Ok(30)]);
        assert_eq!(
            cache.cache().sync().get_many(&[1, 2, 3, 99]),
            [Some(10), Some(20), Some(30), None]
        );
        assert_eq!(calls.load(SeqCst), 5, "each key once");
    });
}

/// The loader of a call makes all or nothing.
#[test]
fn a_loader_that_a_call_brings_fails_for_that_call_alone() {
    must_end(|| {
        let (gate, cache) = (Gate::default(), tasks_audited(Cache::builder().build()));
        let cache: &TasksAudited<u64, u64> = &cache;
        let mut many = Task::waiting(cache.try_get_many_with([1, 2, 3], |_| async {
            gate.passed().await;
            Err::<[(u64, u64); 0], _>("down".to_owned())
        }));
        let mut waiters =
            [1, 2].map(|key| Task::waiting(cache.try_get_with(key, async move { load(key) })));
        gate.open();
        many.run();
        assert_eq!(many.result(), Err(Arc::new("down".to_owned())));
        waiters.iter_mut().for_each(Task::run);
        assert_eq!(waiters.map(Task::result), [Ok(10), Ok(20)]);
        assert_eq!(cache.sync().get(&3), None);
    });
}

/// Answers as [`load`] does, and of many keys not at all for those between 50 and 90.
struct Silent(Gate);

impl AsyncLoader<u64, u64> for Silent {
    type Error = String;

    async fn load(&self, key: &u64) -> Result<Loaded<u64>, String> {
        load(*key).map(Loaded::new)
    }

    async fn load_many(&self, keys: &[&u64]) -> Vec<(u64, Result<Loaded<u64>, String>)> {
        self.0.passed().await;
        let answered = keys.iter().filter(|key| !(50..90).contains(**key));
        answered.map(|key| (**key, load(**key).map(Loaded::new))).collect()
    }
}

#[test]
fn who_waits_for_a_key_without_an_answer_loads_it() {
    must_end(|| {
        let gate = Gate::default();
        let loader = Silent(gate.clone());
        let cache = &tasks_loading_audited(
            Cache::builder().executor(|job: cortado::Job| job()).build_with_loader(loader),
        );
        let mut many = Task::waiting(cache.get_many(&[50, 1, 99, 51]));
        let mut waiters =
            [1, 50, 99].map(|key| Task::waiting(async move { cache.get(&key).await }));
        let tasks = cache.cache();
        let mut optional = Task::waiting(tasks.optionally_get_with(51, async { Some(5) }));
        gate.open();
        many.run();
        assert_eq!(many.result(), Err(Arc::new("no 99".to_owned())));
        waiters.iter_mut().for_each(Task::run);
        optional.run();
        assert_eq!(waiters.map(Task::result), [Ok(10), Ok(500), failed("no 99")]);
        assert_eq!(optional.result(), Some(5));
        assert_eq!(Task::new(cache.get_many(&[52, 2])).end(), Ok(vec![None, Some(20)]));
    });
}

/// The load of another call has not ended.
#[test]
fn the_error_of_the_first_key_is_returned_without_a_wait_for_later_ones() {
    must_end(|| {
        let gate = Gate::default();
        gate.open();
        let cache = &tasks_loading_audited(
            Cache::builder().executor(|job: cortado::Job| job()).build_with_loader(Silent(gate)),
        );
        let tasks = cache.cache();
        let later = Task::waiting(tasks.get_with(2, pending()));
        assert_eq!(at_once(cache.get_many(&[1, 99, 2])), Err(Arc::new("no 99".to_owned())));
        assert_eq!(at_once(cache.get_many(&[98, 99, 2])), Err(Arc::new("no 98".to_owned())));
        drop(later);
        let earlier = Task::waiting(tasks.get_with(90, pending()));
        let mut many = Task::waiting(cache.get_many(&[90, 99, 3]));
        assert_eq!(at_once(tasks.get(&3)), Some(30));
        drop(earlier);
        many.run();
        assert_eq!(many.result(), Err(Arc::new("no 90".to_owned())));
    });
}
