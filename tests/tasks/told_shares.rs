//! How much of what waits an operation tells a listener that awaits, and what the end tells.

use crate::common::audited::{TasksAudited, tasks_audited};
use crate::common::must_end;
use crate::hand::{Boxed, Gate, Task, at_once, pends};
use crate::listeners::{Log, Shared, cache, cache_of_user, noting};
use cortado::future::{Cache, FutureExt};
use cortado::{Overflow, RemovalCause};
use pollster::block_on;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};

/// A cache whose listener notes what it is told when the gate is open.
fn gated(log: &Log, gate: &Gate) -> Shared {
    let (log, gate) = (log.clone(), gate.clone());
    cache(1, move |key, value, cause| {
        let (log, gate) = (log.clone(), gate.clone());
        async move {
            gate.passed().await;
            log.note(key, value, cause);
        }
        .boxed()
    })
}

/// A listener that notes what it is told when the gate is open, and is ready after so many polls
/// more.
fn telling(
    log: &Log,
    gate: &Gate,
    polls: u32,
) -> impl Fn(Arc<u64>, u64, RemovalCause) -> Boxed<'static, ()> + Send + Sync + 'static {
    let (log, gate) = (log.clone(), gate.clone());
    move |key, value, cause| {
        let (log, gate) = (log.clone(), gate.clone());
        async move {
            gate.passed().await;
            log.note(*key, value, cause);
            pends(polls).await;
        }
        .boxed()
    }
}

#[test]
fn a_driver_tells_what_comes_while_it_tells() {
    must_end(|| {
        let (log, gate) = (Log::default(), Gate::default());
        let cache = gated(&log, &gate);
        at_once(cache.insert_many((0..10).map(|key| (key, key))));
        let mut driver = Task::waiting(cache.invalidate(&0));
        (1..5).for_each(|key| at_once(cache.invalidate(&key)));
        (5..9).for_each(|key| cache.sync().invalidate(&key));
        gate.open();
        driver.run();
        assert_eq!(log.values(), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    });
}

/// However much waits, a read awaits one notice, and a write 64. What is left waits for the next
/// operations, and for one that tells all.
#[test]
fn an_operation_tells_its_share() {
    must_end(|| {
        let log = Log::default();
        let cache = noting(&log, 1);
        cache.sync().insert_many((0..200).map(|key| (key, key)));
        (1..200).for_each(|key| cache.sync().invalidate(&key));
        let mut told = 0;
        let mut tells = |more: usize| {
            told += more;
            assert_eq!(log.values(), (1..=told as u64).collect::<Vec<_>>());
        };
        block_on(cache.get(&0));
        tells(1);
        block_on(cache.get_with(0, async { unreachable!("it is there") }));
        tells(1);
        block_on(cache.insert(300, 0));
        tells(64);
        // A read that is cancelled tells nothing; the next one goes on with its notice.
        drop(Task::waiting(cache.get(&0)));
        tells(0);
        block_on(cache.touch(&0));
        tells(1);
        block_on(cache.run_pending_tasks());
        tells(199 - 67);
    });
}

/// What a call that is to tell all leaves to a driver is owed until that is told, and no longer.
#[test]
fn a_read_after_a_driver_that_told_all_tells_its_share() {
    must_end(|| {
        let (log, gate) = (Log::default(), Gate::default());
        let cache = gated(&log, &gate);
        at_once(cache.insert_many((0..10).map(|key| (key, key))));
        let driver = Task::waiting(cache.invalidate(&0));
        cache.sync().invalidate(&1);
        at_once(cache.run_pending_tasks());
        gate.open();
        driver.end();
        assert_eq!(log.values().len(), 2);
        (2..9).for_each(|key| cache.sync().invalidate(&key));
        block_on(cache.get(&9));
        assert_eq!(log.values().len(), 3);
        block_on(cache.run_pending_tasks());
        assert_eq!(log.values().len(), 9);
    });
}

/// A listener may be ready at once: a driver that tells all lets other tasks run after each 64
/// notices. Beyond a limit, a task that waits goes on for one that has written.
#[test]
fn a_driver_takes_turns() {
    must_end(|| {
        for (limited, asks) in [(false, false), (true, false), (true, true)] {
            let (log, gate) = (Log::default(), Gate::default());
            let mut builder = Cache::builder().record_stats(true);
            if limited {
                builder = builder.notification_limit(70, Overflow::Wait);
            }
            let cache = Arc::new(tasks_audited(
                builder.async_eviction_listener(telling(&log, &gate, 0)).build(),
            ));
            at_once(cache.insert_many((0..100).map(|key| (key, key))));
            let mut driver = if asks {
                cache.sync().invalidate(&0);
                Task::waiting(cache.run_pending_tasks())
            } else {
                Task::waiting(cache.invalidate(&0))
            };
            (1..71).for_each(|key| at_once(cache.invalidate(&key)));
            let next = cache.invalidate(&71);
            let next = if limited {
                Some(Task::waiting(next))
            } else {
                at_once(next);
                None
            };
            gate.open();
            // A request tells what waited when it began.
            let told = if asks { 1 } else { 64 };
            assert_eq!((driver.poll(), log.values().len()), (true, told));
            match next {
                Some(next) => next.end(),
                None => block_on(cache.insert(0, 0)),
            }
            block_on(cache.run_pending_tasks());
            assert_eq!(log.values(), (0..72).collect::<Vec<_>>());
        }
    });
}

/// Where more waits than the limit allows, a driver goes on; but not if a task waits that can tell
/// the rest.
#[test]
fn a_driver_is_relieved_by_who_waits() {
    must_end(|| {
        let (log, gate) = (Log::default(), Gate::default());
        let builder = Cache::builder().notification_limit(10, Overflow::Wait);
        let cache = tasks_audited(builder.async_eviction_listener(telling(&log, &gate, 0)).build());
        at_once(cache.insert_many((0..90).map(|key| (key, key))));
        let mut driver = Task::waiting(cache.invalidate(&0));
        (1..11).for_each(|key| at_once(cache.invalidate(&key)));
        let keys: Vec<u64> = (11..90).collect();
        let writes: Vec<_> = keys.iter().map(|key| Task::waiting(cache.invalidate(key))).collect();
        gate.open();
        assert_eq!((driver.poll(), log.values().len()), (true, 64));
        writes.into_iter().for_each(Task::end);
        assert_eq!(log.values(), (0..90).collect::<Vec<_>>());
    });
}

/// What a listener puts back into its closed cache is counted, and not told: that would have no
/// end.
#[test]
fn the_end_does_not_tell_a_listener_of_what_it_puts_back() {
    must_end(|| {
        let log = Log::default();
        let noted = log.clone();
        let cache = cache_of_user(move |cache, key, value, cause| {
            let log = noted.clone();
            async move {
                log.note(key, value, cause);
                pends(1).await;
                cache.insert(key, value + 10).await;
            }
            .boxed()
        });
        block_on(cache.insert_many([(1, 1), (2, 2)]));
        block_on(cache.close());
        let mut told = log.values();
        told.sort_unstable();
        assert_eq!((told, cache.stats().refused_after_close), (vec![1, 2], 2));
        // Another one's value is told.
        block_on(cache.insert(3, 3));
        assert_eq!((log.values()[2..].to_vec(), cache.stats().refused_after_close), (vec![3], 3));
    });
}

/// A call that is to tell all, and finds a driver, leaves that to it: the driver goes on beyond its
/// share. So does the next one, if it is cancelled.
#[test]
fn a_driver_tells_all_for_a_call_that_is_to() {
    must_end(|| {
        for (closes, is_cancelled) in [(true, false), (false, false), (false, true)] {
            let log = Log::default();
            let cache = noting(&log, 1);
            cache.sync().insert_many((0..100).map(|key| (key, key)));
            (0..100).for_each(|key| cache.sync().invalidate(&key));
            let driver = Task::waiting(cache.get(&0));
            if closes {
                at_once(cache.close());
            } else {
                at_once(cache.run_pending_tasks());
            }
            if is_cancelled {
                drop(driver);
                block_on(cache.get(&0));
            } else {
                driver.end();
            }
            assert_eq!(log.values().len(), 100);
            // The next one has its share again.
            cache.sync().insert_many((0..3).map(|key| (key, key)));
            (0..3).for_each(|key| cache.sync().invalidate(&key));
            block_on(cache.get(&0));
            assert_eq!(log.values().len(), 101);
        }
    });
}

/// Writers that wait for room in the queue of a listener that awaits are not woken before there is
/// some.
#[test]
fn a_notice_that_leaves_no_room_wakes_no_writer() {
    must_end(|| {
        let (log, gate) = (Log::default(), Gate::default());
        let builder = Cache::builder().notification_limit(2, Overflow::Wait);
        let cache = tasks_audited(builder.async_eviction_listener(telling(&log, &gate, 1)).build());
        at_once(cache.insert_many((0..10).map(|key| (key, key))));
        let mut driver = Task::waiting(cache.invalidate(&0));
        (1..3).for_each(|key| at_once(cache.invalidate(&key)));
        let keys: Vec<u64> = (3..10).collect();
        let waiting: Vec<_> = keys.iter().map(|key| Task::waiting(cache.invalidate(key))).collect();
        gate.open();
        // Each poll ends one notice and begins another. Nine waited for the first.
        for told in 1..7 {
            assert!(!driver.poll());
            assert_eq!(log.values().len(), told);
            assert!(!waiting.iter().any(Task::is_woken), "{told} told");
        }
        driver.run();
        waiting.into_iter().for_each(Task::end);
        assert_eq!(log.values().len(), 10);
    });
}

/// Each notice is followed by another, and a call that is to tell all has left them to the read.
#[test]
fn a_read_ends_though_removals_go_on() {
    let told = Arc::new(AtomicUsize::new(0));
    let tells = Arc::clone(&told);
    let cache = Arc::new_cyclic(|weak: &Weak<TasksAudited<u64, u64>>| {
        let weak = weak.clone();
        let listener = move |_, _, _| {
            let (weak, told) = (weak.clone(), Arc::clone(&tells));
            async move {
                pends(1).await;
                told.fetch_add(1, SeqCst);
                // As other threads do meanwhile.
                weak.upgrade().unwrap().sync().insert(1, 0);
            }
            .boxed()
        };
        tasks_audited(Cache::builder().async_eviction_listener(listener).build())
    });
    (0..4).for_each(|value| cache.sync().insert(1, value));
    let mut read = Task::waiting(async { cache.get(&1).await });
    at_once(cache.run_pending_tasks());
    let polls = (0..1000).take_while(|_| !read.poll()).count();
    assert!(polls < 100, "{} removals told by a read", told.load(SeqCst));
}
