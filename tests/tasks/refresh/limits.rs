//! Time limits of tasks, and loads of many keys. The timer is a gate that the test opens.

use super::bench::{Bench, HARD, SOFT, at_once_if, bench};
use crate::common::audited::{TasksAudited, tasks_audited, tasks_loading_audited};
use crate::common::{must_end, panic_of};
use crate::hand::{Gate, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{AsyncLoader, Clock, Job, Loaded, Reloaded};
use std::future::{pending, ready};
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
        assert!(b.cache.refresh(&7));
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
fn the_timer_gives_up_the_wait_and_not_the_reload() {
    must_end(|| {
        let b = bench(at_once_if(true));
        assert_eq!(wait_for_reload(&b, Gate::open), 1);
        assert_eq!(b.under_way(), 1);
        let next = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        let other = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        b.upstream.answer(Ok(Reloaded::new(2)));
        assert_eq!((next.end(), other.end()), (Ok(2), Ok(2)));
        assert_eq!(b.upstream.asked(), [Some(1)]);
    });
}

/// However long the executor's queue is: a value that another call brings is as good.
#[test]
fn a_task_that_waits_sees_what_others_insert() {
    must_end(|| {
        let b = bench(|builder| builder);
        let stale = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        let reloads = Task::waiting(b.cache.reload(&7));
        let first = Task::waiting(b.cache.get(&8));
        let second = Task::waiting(b.cache.get(&8));
        at_once(b.cache.insert(7, 70));
        b.cache.cache().sync().insert(8, 80);
        assert_eq!((stale.end(), reloads.end()), (Ok(70), Ok(70)));
        assert_eq!((first.end(), second.end()), (Ok(80), Ok(80)));
        let third = Task::waiting(b.cache.get(&9));
        at_once(b.cache.cache().entry(10).or_insert(0));
        let put = async |_| cortado::Op::Put(90);
        let mut computation = Task::waiting(b.cache.cache().entry(9).and_compute_with(put));
        // It waits for the load.
        assert!(!computation.poll());
        at_once(b.cache.insert(9, 91));
        assert_eq!(third.end(), Ok(91));
        b.jobs.run();
        drop(computation.end());
        assert_eq!((at_once(b.cache.get(&9)), b.upstream.asked()), (Ok(90), vec![]));
    });
}

/// The end of a reload wakes those who wait for its key.
#[test]
fn only_those_who_wait_for_a_key_are_woken_by_its_reload() {
    must_end(|| {
        let b = bench(|builder| builder);
        at_once(b.cache.insert(8, 1));
        b.hand.advance(SOFT);
        let of_7 = Task::waiting(b.cache.get_within(&7, pending::<()>()));
        let of_8 = Task::waiting(b.cache.get_within(&8, pending::<()>()));
        b.upstream.answer(Ok(Reloaded::new(2)));
        b.jobs.run();
        assert!(of_7.is_woken() && !of_8.is_woken());
        assert_eq!(of_7.end(), Ok(2));
        b.upstream.answer(Ok(Reloaded::new(3)));
        b.jobs.run();
        assert_eq!(of_8.end(), Ok(3));
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
        let first = Task::waiting(b.cache.get(&8));
        assert_eq!(b.jobs.run(), 1);
        assert_eq!((first.end(), b.upstream.asked()), (Ok(1), vec![None]));
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
fn errors_and_panics_of_a_load_reach_its_call() {
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
        for key in 1..3 {
            let mut load = Task::waiting(cache.get_within(&key, pending::<()>()));
            let waiter = Task::waiting(cache.get(&key));
            let job = || jobs.lock().unwrap().pop().unwrap()();
            job();
            if key == 1 {
                assert_eq!(load.end(), Err(Arc::new("no such key")));
                assert_eq!(waiter.end(), Err(Arc::new("no such key")));
                continue;
            }
            // The panic is the call's that has begun the load. Who has waited loads anew.
            assert_eq!(panic_of(|| load.run()), "planned");
            let mut waiter = waiter;
            assert!(!waiter.poll());
            // One that nobody waits for is caught.
            drop(waiter);
            job();
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
        let cache = tasks_loading_audited(
            Cache::builder().executor(|job: Job| job()).build_with_loader(loader.clone()),
        );
        at_once(cache.insert(2, 5));
        let many = Task::new(cache.get_many(&[1, 2, 4, 6, 4]));
        assert_eq!(many.end(), Ok(vec![None, Some(5), Some(40), Some(60), Some(40)]));
        assert_eq!(at_once(cache.cache().get(&100)), Some(1000));
        let failed = Task::new(cache.get_many(&[8, 99]));
        assert_eq!(failed.end(), Err(Arc::new("down")));
        assert_eq!(at_once(cache.cache().get(&8)), Some(80));
        assert_eq!(*loader.0.lock().unwrap(), [vec![1, 4, 6], vec![8, 99]]);
    });
}

#[test]
fn inside_a_load_a_task_waits_for_no_reload() {
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
