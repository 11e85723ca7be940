//! Who does not wait for a queue that is longer than its limit, and who does not wait for ever.

use crate::common::audited::{Audited, audited};
use crate::common::noted::{Noted, eventually, noting};
use crate::common::{MINUTE, SECOND, must_end};
use cortado::{Cache, Clock, Job, Overflow};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

type Numbers = Audited<u64, u64>;
type Read = (&'static str, fn(&Numbers));

const READS: [Read; 7] = [
    ("peek", |cache| assert!(cache.peek(&1000).is_some())),
    ("iterate", |cache| assert_eq!(cache.entries().count(), 1)),
    ("touch", |cache| assert!(cache.touch(&1000))),
    ("view", |cache| assert!(cache.pin().get(&1000).is_some())),
    ("get", |cache| assert_eq!(cache.get(&1000), Some(0))),
    ("get of what is missing", |cache| assert_eq!(cache.get(&7777), None)),
    ("get_with", |cache| assert_eq!(cache.get_with(1000, || unreachable!("it is there")), 0)),
];

/// They would be held up by somebody else's listener. What makes the queue longer than its limit is
/// expiry, which is not held back; the reader is one that finds a pass due.
#[test]
fn readers_do_not_wait() {
    let held_up = READS.iter().filter(|&&(_, read)| must_end(move || is_held_up(read)));
    let held_up: Vec<&str> = held_up.map(|(name, _)| *name).collect();
    assert!(held_up.is_empty(), "held up by a stuck listener: {held_up:?}");
}

fn is_held_up(read: fn(&Numbers)) -> bool {
    let (entered, entrance) = channel();
    let (release, released) = channel::<()>();
    let gate = Mutex::new((entered, released));
    let (clock, hand) = Clock::manual();
    let cache: Numbers = audited(
        Cache::builder()
            .clock(clock)
            .notification_limit(10, Overflow::Wait)
            .removal_listener(move |_| {
                let gate = gate.lock().unwrap();
                let _ = gate.0.send(());
                // Until the other end is dropped.
                let _ = gate.1.recv();
            })
            .build(),
    );
    cache.insert(1000, 0);
    (1..100).for_each(|key| cache.insert_with_ttl(key, key, SECOND));
    cache.run_pending_tasks();
    thread::scope(|scope| {
        scope.spawn(|| {
            cache.insert(0, 0);
            cache.invalidate(&0);
        });
        entrance.recv().unwrap();
        hand.advance(MINUTE);
        let reader = scope.spawn(|| (0..100).for_each(|_| read(&cache)));
        for _ in 0..20_000 {
            if reader.is_finished() {
                break;
            }
            thread::sleep(std::time::Duration::from_micros(100));
        }
        let is_held_up = !reader.is_finished();
        drop(release);
        is_held_up
    })
}

/// The contract of `Execute`: "The executor may drop a job instead of running it. The cache
/// notices, and offers the work again later." Here the writer that waits is the only one who could.
#[test]
fn a_writer_that_waits_for_an_executor_offers_it_dropped_work_again() {
    must_end(|| {
        let (jobs, queue) = channel::<Job>();
        // Jobs that have not ended.
        let under_way = Arc::<AtomicU64>::default();
        let (taken, sent) = (AtomicU64::new(0), Arc::clone(&under_way));
        let executor = move |job: Job| {
            // None of the first, as one that has no thread at the time.
            if taken.fetch_add(1, SeqCst) > 50 {
                sent.fetch_add(1, SeqCst);
                jobs.send(job).unwrap();
            }
        };
        let ended = Arc::clone(&under_way);
        let runner = thread::spawn(move || {
            queue.into_iter().for_each(|job| {
                job();
                ended.fetch_sub(1, SeqCst);
            });
        });
        let (cache, log) =
            noting(|builder| builder.notification_limit(10, Overflow::Wait).executor(executor));
        for key in 0..1000 {
            cache.insert(key, Noted(log.clone()));
            cache.invalidate(&key);
        }
        eventually("all is told", || {
            assert!(cache.get_entry(&7777).is_none());
            cache.invalidate(&7777);
            log.counts().0 == 1000 && under_way.load(SeqCst) == 0
        });
        drop(cache);
        runner.join().unwrap();
    });
}
