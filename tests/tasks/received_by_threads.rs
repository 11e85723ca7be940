//! Removals that a thread receives: it sleeps until one waits.

use crate::common::audited::{Audited, audited};
use crate::common::must_end;
use cortado::{Cache, RemovalCause, Removals, TimedOut};
use std::time::Duration;

type Received = (u32, u32, RemovalCause);

fn begun() -> (Audited<u32, u32>, Removals<u32, u32>) {
    let cache = audited(Cache::builder().removals(true).build());
    let removals = cache.removals().unwrap();
    (cache, removals)
}

#[test]
fn a_thread_receives_in_the_order_of_the_removals_until_the_end() {
    must_end(|| {
        let (cache, mut removals) = begun();
        let thread = std::thread::spawn(move || {
            let first = removals.recv_blocking().map(|it| it.into_parts());
            let mut all: Vec<Received> = first.into_iter().collect();
            for removed in &mut removals {
                all.push(removed.into_parts());
            }
            // The end stays the end.
            assert!(removals.recv_blocking().is_none());
            assert!(matches!(removals.recv_within(Duration::MAX), Ok(None)));
            all
        });
        // More than a stream gives in turn.
        for n in 0..1_000 {
            cache.insert(1, n);
        }
        cache.invalidate(&1);
        cache.close();
        let received = thread.join().unwrap();
        let expected = (0..999).map(|n| (1, n, RemovalCause::Replaced));
        let expected: Vec<_> = expected.chain([(1, 999, RemovalCause::Explicit)]).collect();
        assert_eq!(received, expected);
    });
}

#[test]
fn a_limit_ends_the_wait() {
    must_end(|| {
        let (cache, mut removals) = begun();
        for limit in [Duration::ZERO, Duration::from_millis(2)] {
            assert_eq!(removals.recv_within(limit).err(), Some(TimedOut));
        }
        cache.insert(1, 1);
        cache.invalidate(&1);
        for limit in [Duration::ZERO, Duration::MAX] {
            cache.insert(2, 2);
            cache.invalidate(&2);
            assert!(removals.recv_within(limit).unwrap().is_some());
        }
        // What waits is still handed out after the end.
        cache.close();
        assert_eq!(removals.waiting(), 1);
        assert!(removals.recv_within(Duration::ZERO).unwrap().is_some());
        assert!(removals.recv_within(Duration::ZERO).unwrap().is_none());
    });
}

/// A thread that sleeps is woken by the drop of the last handle.
#[test]
fn the_last_handle_ends_the_wait() {
    must_end(|| {
        let (cache, mut removals) = begun();
        cache.insert(1, 1);
        let thread = std::thread::spawn(move || removals.recv_blocking().is_none());
        drop(cache);
        assert!(thread.join().unwrap());
    });
}
