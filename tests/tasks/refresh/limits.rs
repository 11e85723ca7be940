//! Time limits of tasks, and loads of many keys. The timer is a gate that the test opens.

use super::bench::{Bench, HARD, SOFT, bench};
use crate::common::audited::{TasksAudited, tasks_audited, tasks_loading_audited};
use crate::common::{must_end, panic_of};
use crate::hand::{Gate, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{AsyncLoader, Clock, Equivalent, Job, LoadError, Loaded, Reloaded, ToKey};
use std::future::{pending, ready};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// Whether the wait of a task for the reload has ended by the timer or by the reload.
fn wait_for_reload(b: &Bench, amid: impl FnOnce(&Gate)) -> u32 {
    let gate = Gate::default();
    let timer = gate.clone();
    let waiting = Task::waiting(b.cache.get_within(&7, async move { timer.passed().await }));
    b.jobs.run();
    amid(&gate);
    assert!(waiting.is_woken());
    waiting.end().unwrap()
}

#[test]
fn a_task_waits_for_the_reload_of_a_stale_value_until_its_timer() {
    must_end(|| {
        let brings = |b: &Bench| {
            b.upstream.answer(Ok(Reloaded::new(2)));
            b.jobs.run();
        };
        let b = bench(|builder| builder);
        assert_eq!(wait_for_reload(&b, |_| brings(&b)), 2);
        let b = bench(|builder| builder);
        assert_eq!(wait_for_reload(&b, Gate::open), 1);
        // It goes on, and another task waits for it, and a thread.
        let waiting = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        assert_eq!(at_once(b.cache.get_within(&7, ready(()))), Ok(1));
        brings(&b);
        assert_eq!((waiting.end(), at_once(b.cache.get(&7))), (Ok(2), Ok(2)));
        // A fresh value is there at once, also while a reload is under way that a call asked for.
        assert_eq!(at_once(b.cache.get_within(&7, pending::<()>())), Ok(2));
        let _asking = Task::waiting(b.cache.refresh(&7));
        assert_eq!(b.under_way(), 1);
        assert_eq!(at_once(b.cache.get_within(&7, pending::<()>())), Ok(2));
    });
}

#[test]
fn a_wait_ends_with_a_reload_that_fails_or_is_dropped_or_overtaken() {
    must_end(|| {
        let b = bench(|builder| builder);
        let failed = wait_for_reload(&b, |_| {
            b.upstream.answer(Err("down"));
            b.jobs.run();
        });
        let b = bench(|builder| builder);
        let dropped = wait_for_reload(&b, |_| {
            b.upstream.answer(Ok(Reloaded::new(2)));
            drop(b.jobs.pop());
        });
        let b = bench(|builder| builder);
        let overtaken = wait_for_reload(&b, |_| {
            at_once(b.cache.insert(7, 50));
            b.upstream.answer(Ok(Reloaded::new(2)));
            b.jobs.run();
        });
        assert_eq!((failed, dropped, overtaken), (1, 1, 50));
    });
}

/// The entry ends while its reload waits in the executor, which then comes to nothing.
#[test]
fn a_wait_ends_with_a_reload_whose_entry_has_ended() {
    must_end(|| {
        let ends: [fn(&Bench); 2] = [|b| b.hand.advance(HARD), |b| b.cache.invalidate_all()];
        for end in ends {
            let b = bench(|builder| builder);
            let mut waiting = Task::waiting(b.cache.get_within(&7, pending::<()>()));
            end(&b);
            b.jobs.run();
            assert!(waiting.is_woken());
            // A load, since there is no value any more.
            assert!(!waiting.poll());
            b.jobs.run();
            assert_eq!((waiting.end(), b.upstream.asked()), (Ok(1), vec![None]));
        }
    });
}

#[test]
fn inline_the_timer_gives_the_reload_up() {
    must_end(|| {
        let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
        assert_eq!(wait_for_reload(&b, Gate::open), 1);
        assert_eq!(b.under_way(), 0);
        // The next task's takes over.
        let next = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        // Another one waits with it.
        let other = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        b.upstream.answer(Ok(Reloaded::new(2)));
        assert_eq!((next.end(), other.end()), (Ok(2), Ok(2)));
        assert_eq!(b.upstream.asked(), [Some(1), Some(1)]);
    });
}

#[test]
fn a_load_on_the_executor_outlives_the_task_that_waits_for_it() {
    must_end(|| {
        let b = bench(|builder| builder);
        let first = Task::waiting(b.cache.get_within(&8, pending::<()>()));
        drop(first);
        b.jobs.run();
        assert_eq!((at_once(b.cache.cache().get(&8)), b.upstream.asked()), (Some(1), vec![None]));
        // One whose job is dropped goes on in the task.
        let second = Task::waiting(b.cache.get_within(&9, pending::<()>()));
        drop(b.jobs.pop());
        assert!(second.is_woken());
        assert_eq!(second.end(), Ok(1));
    });
}

/// Those who give up and come again add neither jobs nor tasks.
#[test]
fn tasks_share_the_load_of_a_key_on_the_executor() {
    must_end(|| {
        let b = bench(|builder| builder);
        let come = || drop(Task::waiting(b.cache.get_within(&8, pending::<()>())));
        (0..100).for_each(|_| come());
        assert_eq!(b.jobs.0.lock().unwrap().len(), 1);
        // A task without a limit does not wait for the executor, which may be its own thread.
        let first = Task::new(b.cache.get(&8));
        assert_eq!((first.end(), b.upstream.asked()), (Ok(1), vec![None]));
        assert_eq!((b.jobs.run(), b.upstream.asked()), (1, vec![]));
        // A load by another caller is waited for where it is.
        let (gate, load) = (Gate::default(), b.cache.cache());
        let opened = gate.clone();
        let leader = Task::waiting(load.get_with(9, async move { (opened.passed().await, 90).1 }));
        let waiting = Task::waiting(b.cache.get_within(&9, pending::<()>()));
        assert_eq!(b.jobs.run(), 0);
        gate.open();
        assert_eq!((leader.end(), waiting.end()), (90, Ok(90)));
    });
}

#[test]
fn errors_and_panics_of_a_load_are_errors() {
    must_end(|| {
        let jobs = Arc::new(Mutex::new(Vec::<Job>::new()));
        let queue = Arc::clone(&jobs);
        let builder = Cache::<u32, u32>::builder().executor(move |job: Job| {
            queue.lock().unwrap().push(job);
        });
        let cache = tasks_loading_audited(builder.build_with_loader(|key: u32| async move {
            match key {
                1 => Err("no such key"),
                _ => panic!("planned"),
            }
        }));
        let expected = [LoadError::Failed(Arc::new("no such key")), LoadError::Panicked];
        for (key, expected) in [1, 2].into_iter().zip(expected) {
            let load = Task::waiting(cache.get_within(&key, pending::<()>()));
            let job = jobs.lock().unwrap().pop();
            job.unwrap()();
            assert_eq!(load.end(), Err(expected));
        }
    });
}

/// Notes the keys of each call, makes the even ones, and one that nobody asked for.
#[derive(Clone, Default)]
struct Evens(Arc<Mutex<Vec<Vec<u32>>>>);

impl AsyncLoader<u32, u32> for Evens {
    type Error = &'static str;

    async fn load(&self, _: &u32) -> Result<Loaded<u32>, &'static str> {
        unreachable!("each call is for many")
    }

    async fn load_many(&self, keys: &[&u32]) -> Vec<(u32, Result<Loaded<u32>, &'static str>)> {
        let keys: Vec<u32> = keys.iter().map(|key| **key).collect();
        self.0.lock().unwrap().push(keys.clone());
        pends(1).await;
        let answered = keys.into_iter().filter(|key| key % 2 == 0 || *key == 99).chain([100]);
        let answer = |key| if key == 99 { Err("down") } else { Ok(Loaded::new(key * 10)) };
        answered.map(|key| (key, answer(key))).collect()
    }
}

#[test]
fn many_keys_are_loaded_by_one_call() {
    must_end(|| {
        let loader = Evens::default();
        let cache = tasks_loading_audited(Cache::builder().build_with_loader(loader.clone()));
        at_once(cache.insert(2, 5));
        let many = Task::new(cache.get_many([1, 2, 4, 6, 4]));
        assert_eq!(many.end(), Ok(vec![None, Some(5), Some(40), Some(60), Some(40)]));
        assert_eq!(at_once(cache.cache().get(&100)), Some(1000));
        let failed = Task::new(cache.get_many([8, 99]));
        assert_eq!(failed.end(), Err(Arc::new("down")));
        assert_eq!(at_once(cache.cache().get(&8)), Some(80));
        assert_eq!(*loader.0.lock().unwrap(), [vec![1, 4, 6], vec![8, 99]]);
    });
}

/// Nor does it reload in its task: the outer load would keep its key as long.
#[test]
fn inside_a_load_a_task_reloads_nothing() {
    must_end(|| {
        let (clock, hand) = Clock::manual();
        let builder = Cache::builder()
            .refresh_after_write(SOFT)
            .executor(|job: cortado::Job| job())
            .clock(clock);
        let load = |_: u32| pending::<Result<Loaded<u32>, ()>>();
        let cache = tasks_loading_audited(builder.build_with_loader(load));
        at_once(cache.insert(7, 1));
        hand.advance(SOFT);
        let other: TasksAudited<u32, u32> = tasks_audited(Cache::new(10));
        let stale = async { cache.get_within(&7, pending::<()>()).await.ok().unwrap() };
        assert_eq!(at_once(other.get_with(1, stale)), 1);
    });
}

/// A key whose destructor panics, if it was made from a borrowed one.
struct Bomb(u32, bool);

impl Clone for Bomb {
    fn clone(&self) -> Self {
        Self(self.0, false)
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.1, "the key's destructor");
    }
}

impl PartialEq for Bomb {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for Bomb {}

impl Hash for Bomb {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[derive(Hash)]
struct By(u32);

impl Equivalent<Bomb> for By {
    fn equivalent(&self, key: &Bomb) -> bool {
        self.0 == key.0
    }
}

impl ToKey<Bomb> for By {
    fn to_key(&self) -> Bomb {
        Bomb(self.0, true)
    }
}

/// The panic reaches the call, which drops the entry that it would have returned.
#[test]
fn a_key_whose_destructor_panics_leaks_no_entry() {
    must_end(|| {
        for (inline, limited) in [(false, false), (false, true), (true, true)] {
            let value = Arc::new(());
            let made = Arc::clone(&value);
            let mut builder = Cache::builder();
            if !inline {
                builder = builder.executor(|job: Job| job());
            }
            let cache = tasks_loading_audited(builder.build_with_loader(move |_: Bomb| {
                let made = Arc::clone(&made);
                async move { Ok::<_, ()>(Loaded::new(made)) }
            }));
            let get = || {
                if limited {
                    at_once(cache.get_within(&By(7), ready(()))).is_ok()
                } else {
                    at_once(cache.get(&By(7))).is_ok()
                }
            };
            assert_eq!(panic_of(get), "the key's destructor");
            drop(cache);
            assert_eq!(Arc::strong_count(&value), 1, "inline {inline}, limited {limited}");
        }
    });
}
