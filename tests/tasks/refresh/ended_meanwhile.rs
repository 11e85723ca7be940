//! The task that waits for a reload looks at the entry again when the loader has made nothing: by
//! then the entry may have ended, or another operation may have taken it out.

use super::bench::{Bench, HARD, SOFT, bench};
use crate::common::audited::tasks_loading_audited;
use crate::common::must_end;
use crate::hand::{Boxed, Task, at_once};
use cortado::future::Cache;
use cortado::{Clock, Loaded, Reloaded, RemovalCause};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

type Get = for<'a> fn(&'a Bench) -> Boxed<'a, u32>;

/// The calls that wait for a reload.
const GETS: [(&str, Get); 2] = [
    ("get_within", |b| Box::pin(async { b.cache.get_within(&7, pending::<()>()).await.unwrap() })),
    ("reload", |b| Box::pin(async { b.cache.reload(&7).await.unwrap() })),
];

type End = (fn(&Bench), RemovalCause);

const ENDS: [End; 3] = [
    (|b| b.hand.advance(HARD), RemovalCause::Expired),
    (|b| b.cache.cache().sync().invalidate(&7), RemovalCause::Explicit),
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
                        b.cache.cache().sync().insert(7, 50);
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
            assert_eq!(at_once(cache.reload(&7)), Ok(2), "reading {nth}");
        }
    });
}
