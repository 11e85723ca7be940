//! The task that runs a reload looks at the entry again when the loader has made nothing: by then
//! the entry may have ended, or another operation may have taken it out.

use super::bench::{Bench, HARD, SOFT, bench};
use crate::common::audited::{tasks_audited, tasks_loading_audited};
use crate::common::must_end;
use crate::hand::{Boxed, Task, at_once, pends};
use cortado::future::Cache;
use cortado::{Clock, Loaded, Reloaded, RemovalCause};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

type Get = for<'a> fn(&'a Bench) -> Boxed<'a, u32>;

/// The calls that return what the stored loader makes. Reloads run inline.
const GETS: [(&str, Get); 4] = [
    ("get", |b| Box::pin(async { b.cache.get(&7).await.unwrap() })),
    ("get_entry", |b| Box::pin(async { b.cache.get_entry(&7).await.unwrap().into_value() })),
    ("get_within", |b| Box::pin(async { b.cache.get_within(&7, pending::<()>()).await.unwrap() })),
    ("refresh", |b| Box::pin(async { b.cache.refresh(&7).await.unwrap() })),
];

type End = (fn(&Bench), RemovalCause);

const ENDS: [End; 3] = [
    (|b| b.hand.advance(HARD), RemovalCause::Expired),
    (|b| b.cache.sync().invalidate(&7), RemovalCause::Explicit),
    (|b| b.cache.invalidate_all(), RemovalCause::Explicit),
];

#[test]
fn an_entry_that_ends_while_its_reload_makes_nothing_is_loaded() {
    must_end(|| {
        for (name, get) in GETS {
            for (end, cause) in ENDS {
                for plan in [Err("down"), Err("panic"), Ok(Reloaded::not_modified())] {
                    let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
                    let reading = Task::waiting(get(&b));
                    end(&b);
                    b.upstream.answer(plan);
                    assert_eq!(reading.end(), 1, "{name}, {cause}, {plan:?}");
                    // The upstream's loads make the value 1.
                    assert_eq!(b.upstream.asked(), [Some(1), None], "{name}, {cause}, {plan:?}");
                    assert_eq!(b.told(), [(1, cause)], "{name}, {cause}, {plan:?}");
                }
            }
        }
    });
}

#[test]
fn otherwise_a_reload_that_makes_nothing_returns_what_is_there() {
    must_end(|| {
        for (name, get) in GETS {
            for (write, left) in [(false, 1), (true, 50)] {
                for plan in [Err("down"), Err("panic"), Ok(Reloaded::not_modified())] {
                    let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
                    let reading = Task::waiting(get(&b));
                    if write {
                        b.cache.sync().insert(7, 50);
                    }
                    b.upstream.answer(plan);
                    assert_eq!(reading.end(), left, "{name}, {plan:?}");
                    assert_eq!(b.upstream.asked(), [Some(1)], "{name}, {plan:?}");
                }
            }
        }
    });
}

#[test]
fn a_value_that_is_gone_is_loaded() {
    must_end(|| {
        for (name, get) in GETS {
            let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
            let reading = Task::waiting(get(&b));
            b.upstream.answer(Ok(Reloaded::gone()));
            assert_eq!((reading.end(), b.upstream.asked()), (1, vec![Some(1), None]), "{name}");
            assert_eq!(b.told(), [(1, RemovalCause::Explicit)], "{name}");
        }
    });
}

#[test]
fn the_entry_tells_that_the_task_has_made_it() {
    must_end(|| {
        for (plan, facts) in [
            (Ok(Reloaded::new(2)), (2, true, true, Duration::ZERO)),
            (Ok(Reloaded::not_modified()), (1, false, false, Duration::ZERO)),
            (Err("down"), (1, false, false, SOFT)),
        ] {
            let b = bench(|builder| builder.executor(|job: cortado::Job| job()));
            let reading = Task::waiting(b.cache.get_entry(&7));
            b.upstream.answer(plan);
            let entry = reading.end().unwrap();
            let seen = (*entry, entry.is_fresh(), entry.is_old_value_replaced(), entry.age());
            assert_eq!(seen, facts);
        }
    });
}

type Act = Arc<dyn Fn() + Send + Sync>;
type Failing = for<'a> fn(&'a Cache<u32, u32>, Act) -> Boxed<'a, Option<u32>>;

/// Loads by a future of the call that makes nothing. `None` stands for the future's own reason.
const LOADS: [(&str, Failing); 7] = [
    ("try_get_with", |cache, act| Box::pin(async { cache.try_get_with(7, down(act)).await.ok() })),
    ("optionally_get_with", |cache, act| {
        Box::pin(cache.optionally_get_with(7, async { down(act).await.ok() }))
    }),
    ("load", |cache, act| {
        let load = async { down(act).await.map(Loaded::new) };
        Box::pin(async { cache.load(7, load).await.ok() })
    }),
    ("load_refreshing", |cache, act| {
        let load = async { down(act).await.map(Loaded::new) };
        Box::pin(async { cache.load_refreshing(7, load).await.ok() })
    }),
    ("or_try_insert_with", |cache, act| {
        Box::pin(async {
            cache.entry(7).or_try_insert_with(down(act)).await.ok().map(|entry| *entry)
        })
    }),
    ("or_optionally_insert_with", |cache, act| {
        let load = async { down(act).await.ok() };
        Box::pin(async { cache.entry(7).or_optionally_insert_with(load).await.map(|entry| *entry) })
    }),
    ("or_load_with", |cache, act| {
        let load = async { down(act).await.map(Loaded::new) };
        Box::pin(async { cache.entry(7).or_load_with(load).await.ok().map(|entry| *entry) })
    }),
];

async fn down(act: Act) -> Result<u32, &'static str> {
    pends(1).await;
    act();
    Err("down")
}

#[test]
fn a_loader_of_the_call_that_makes_nothing_leaves_what_lives() {
    must_end(|| {
        for (name, load) in LOADS {
            for amid in ["nothing", "the deadline", "an invalidation", "a clearing", "a write"] {
                let (clock, hand) = Clock::manual();
                let builder = Cache::builder().time_to_live(HARD).refresh_after_write(SOFT);
                let cache =
                    tasks_audited(builder.executor(|job: cortado::Job| job()).clock(clock).build());
                at_once(cache.insert(7, 1));
                hand.advance(SOFT);
                let (other, hand) = (cache.sync().clone(), hand.clone());
                let (act, left): (Act, _) = match amid {
                    "nothing" => (Arc::new(|| ()), Some(1)),
                    "the deadline" => (Arc::new(move || hand.advance(HARD)), None),
                    "an invalidation" => (Arc::new(move || other.invalidate(&7)), None),
                    "a clearing" => (Arc::new(move || other.invalidate_all()), None),
                    _ => (Arc::new(move || other.insert(7, 50)), Some(50)),
                };
                assert_eq!(Task::new(load(&cache, act)).end(), left, "{name}, {amid}");
                assert_eq!(at_once(cache.get(&7)), left, "{name}, {amid}");
            }
        }
    });
}

/// Whether it ends before the read, before the reload begins, or later: the loader runs once. The
/// clock passes the hard deadline at its nth reading.
#[test]
fn an_entry_that_ends_before_its_reload_begins_is_loaded() {
    must_end(|| {
        for nth in 1..16 {
            let (now, left) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicI64::new(0)));
            let (reads, counts) = (Arc::clone(&now), Arc::clone(&left));
            let clock = move || {
                if counts.fetch_sub(1, SeqCst) == 1 {
                    reads.fetch_add(HARD.as_secs(), SeqCst);
                }
                Duration::from_secs(reads.load(SeqCst))
            };
            let builder = Cache::builder().time_to_live(HARD).refresh_after_write(SOFT);
            let builder = builder.executor(|job: cortado::Job| job()).clock(Clock::custom(clock));
            let load = |_: u32| async { Ok::<_, ()>(Loaded::new(2)) };
            let cache = tasks_loading_audited(builder.build_with_loader(load));
            let arm = || {
                at_once(cache.insert(7, 1));
                now.fetch_add(SOFT.as_secs(), SeqCst);
                left.store(nth, SeqCst);
            };
            arm();
            assert_eq!(at_once(cache.get(&7)), Ok(2), "reading {nth}");
            arm();
            assert_eq!(at_once(cache.refresh(&7)), Ok(2), "reading {nth}");
            arm();
            assert_eq!(at_once(cache.cache().get_with(7, async { 2 })), 2, "reading {nth}");
        }
    });
}
