//! What programs that come from tokio-util's queue rely on: when the task is woken, and when an
//! item comes, by the timer of a runtime whose time is paused.

use crate::streams::{Woken, on_a_runtime, poll};
use cortado::timer::delay_queue::{DelayQueue, Key};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Poll, Waker};
use std::time::Duration;
use tokio::time::{Instant, advance, sleep, sleep_until};

const MS: Duration = Duration::from_millis(1);

/// A queue, and how often its task is woken.
struct Bench {
    queue: DelayQueue<u32>,
    woken: Arc<Woken>,
    start: Instant,
}

impl Bench {
    fn new() -> Self {
        Self { queue: DelayQueue::new(), woken: Arc::default(), start: Instant::now() }
    }

    /// Inserts an item that is due so many milliseconds after the start, and named so.
    fn insert(&mut self, ms: u32) -> Key {
        self.queue.insert_at(ms, self.start + MS * ms)
    }

    fn reset(&mut self, key: &Key, ms: u32) {
        self.queue.reset_at(key, self.start + MS * ms);
    }

    fn poll(&mut self) -> Poll<Option<u32>> {
        poll(&mut self.queue, &Waker::from(Arc::clone(&self.woken)))
    }

    /// Whether the task was woken since this was asked last.
    fn is_woken(&self) -> bool {
        self.woken.0.swap(0, SeqCst) > 0
    }

    /// Polls at the deadline of each item that comes, and at no other time: the task is woken then.
    async fn due(&mut self) -> Vec<(u32, u32)> {
        let mut told = Vec::new();
        loop {
            match self.poll() {
                Poll::Ready(None) => return told,
                Poll::Ready(Some(item)) => {
                    told.push((self.start.elapsed().as_millis() as u32, item));
                }
                Poll::Pending => {
                    while !self.is_woken() {
                        sleep(MS).await;
                    }
                }
            }
        }
    }
}

/// A sleep of a paused runtime ends by its timer, which counts whole milliseconds since the start
/// of the runtime: so it lasts up to one longer by the clock. A deadline that falls between comes
/// with the sleep of the same deadline, and not with the one before.
#[test]
fn an_item_comes_no_sooner_than_a_sleep_of_its_deadline() {
    for micros in [0, 1, 300, 999] {
        on_a_runtime(async move {
            advance(Duration::from_micros(micros)).await;
            let mut bench = Bench::new();
            bench.insert(100);
            assert_eq!(bench.poll(), Poll::Pending);
            sleep_until(bench.start + MS * 99).await;
            assert_eq!((bench.is_woken(), bench.poll()), (false, Poll::Pending), "{micros} µs");
            sleep_until(bench.start + MS * 100).await;
            assert_eq!((bench.is_woken(), bench.poll()), (true, Poll::Ready(Some(100))));
        });
    }
}

/// What has passed for a tick waits for no timer.
#[test]
fn an_item_of_the_past_comes_with_the_next_poll() {
    for micros in [0, 300] {
        on_a_runtime(async move {
            advance(Duration::from_micros(micros)).await;
            let mut bench = Bench::new();
            let far = bench.insert(20_000);
            assert_eq!(bench.poll(), Poll::Pending);
            advance(MS * 80).await;
            assert!(!bench.is_woken());
            bench.insert(40);
            assert!(bench.is_woken());
            assert_eq!((bench.poll(), bench.poll()), (Poll::Ready(Some(40)), Poll::Pending));
            bench.reset(&far, 60);
            assert!(bench.is_woken());
            assert_eq!(
                (bench.poll(), bench.poll()),
                (Poll::Ready(Some(20_000)), Poll::Ready(None))
            );
            // It may be moved to the future again, and it may be removed.
            let late = bench.insert(1);
            bench.reset(&late, 30_000);
            bench.reset(&late, 100);
            assert_eq!(bench.poll(), Poll::Pending);
            let past = bench.insert(2);
            assert_eq!(bench.queue.remove(&past).into_inner(), 2);
            assert_eq!(bench.due().await.len(), 1);
        });
    }
}

/// What is due now comes no later than a sleep that ends now.
#[test]
fn an_item_without_a_timeout_comes_with_the_next_tick() {
    for micros in [0, 300] {
        on_a_runtime(async move {
            let mut bench = Bench::new();
            advance(MS * 5 + Duration::from_micros(micros)).await;
            bench.queue.insert(7, Duration::ZERO);
            sleep(Duration::ZERO).await;
            assert_eq!(bench.poll(), Poll::Ready(Some(7)), "{micros} µs");
        });
    }
}

/// The task is woken when an item is due, and not to move items within the wheel.
#[test]
fn the_task_is_woken_for_due_items_only() {
    on_a_runtime(async {
        let delays = [1000, 2, 234, 262_144 + 9 * 4096, 60, 10, 64, 4096];
        let mut bench = Bench::new();
        delays.iter().for_each(|&ms| _ = bench.insert(ms));
        let told = bench.due().await;
        let mut sorted = delays;
        sorted.sort_unstable();
        assert_eq!(told, sorted.map(|ms| (ms, ms)));
    });
}

/// Deadlines are moved while the task sleeps for the first of them. It wakes for what is due now.
#[test]
fn moved_items_come_at_their_last_deadlines() {
    on_a_runtime(async {
        type Moves = &'static [(usize, u32)];
        let cases: [(Moves, [u32; 2]); 7] = [
            (&[(0, 100)], [100, 250]),
            (&[(1, 100)], [100, 200]),
            (&[(0, 300)], [250, 300]),
            (&[(0, 300), (1, 350), (0, 400)], [350, 400]),
            (&[(0, 50), (0, 40)], [40, 250]),
            (&[(0, 50), (0, 120)], [120, 250]),
            (&[(1, 10), (0, 20), (1, 200)], [20, 200]),
        ];
        for (moves, expected) in cases {
            let mut bench = Bench::new();
            let keys = [200, 250].map(|ms| bench.insert(ms));
            assert_eq!(bench.poll(), Poll::Pending);
            for &(item, ms) in moves {
                sleep(MS).await;
                bench.reset(&keys[item], ms);
            }
            let times: Vec<u32> = bench.due().await.iter().map(|&(at, _)| at).collect();
            assert_eq!(times, expected, "{moves:?}");
        }
    });
}

/// Here tokio-util's queue wakes its task at the reset, which finds nothing due: its wheel has to
/// move on. One wake-up is left here, too: that for the old deadline.
#[test]
fn a_later_deadline_wakes_nobody() {
    on_a_runtime(async {
        let mut bench = Bench::new();
        let key = bench.insert(100);
        assert_eq!(bench.poll(), Poll::Pending);
        sleep(MS * 80).await;
        bench.reset(&key, 120);
        assert!(!bench.is_woken());
        sleep(MS * 20).await;
        assert_eq!((bench.is_woken(), bench.poll()), (true, Poll::Pending));
        sleep(MS * 19).await;
        assert!(!bench.is_woken());
        sleep(MS).await;
        assert_eq!((bench.is_woken(), bench.poll()), (true, Poll::Ready(Some(100))));
    });
}

/// Items are inserted and removed between the items of one deadline.
#[test]
fn a_queue_may_be_changed_while_items_are_due() {
    on_a_runtime(async {
        let mut bench = Bench::new();
        let mut keys: BTreeMap<u32, Key> = BTreeMap::new();
        for item in 0..4 {
            keys.insert(item, bench.queue.insert(item, MS * 64));
        }
        assert_eq!(bench.poll(), Poll::Pending);
        sleep(MS * 80).await;
        let first = bench.poll().map(Option::unwrap);
        let Poll::Ready(first) = first else { panic!("{first:?}") };
        keys.remove(&first);
        let (item, key) = keys.pop_first().unwrap();
        assert_eq!(bench.queue.remove(&key).into_inner(), item);
        bench.insert(500);
        let mut rest = bench.due().await;
        rest.sort_unstable();
        let expected = keys.keys().map(|&item| (80, item)).chain([(500, 500)]);
        assert!(rest.iter().copied().eq(expected), "{rest:?}");
    });
}

#[test]
fn peek_names_the_item_that_comes_next() {
    on_a_runtime(async {
        let mut bench = Bench::new();
        let keys = [5, 1, 10].map(|ms| bench.insert(ms));
        sleep(MS * 6).await;
        for (key, ms) in [(keys[1], 1), (keys[0], 5)] {
            assert_eq!(bench.queue.peek(), Some(key));
            assert_eq!(bench.poll(), Poll::Ready(Some(ms)));
        }
        assert_eq!((bench.queue.peek(), bench.poll()), (Some(keys[2]), Poll::Pending));
        assert_eq!(bench.due().await, [(10, 10)]);
        assert_eq!(bench.queue.peek(), None);
    });
}

/// Two years and more, in two steps.
#[test]
fn a_queue_of_any_age_takes_items() {
    on_a_runtime(async {
        let mut queue = DelayQueue::new();
        for _ in 0..2 {
            advance(Duration::from_millis(1 << 35)).await;
            queue.insert(0, Duration::ZERO);
            assert!(queue.next().await.is_some());
        }
        queue.insert(1, MS);
        assert_eq!(queue.next().await.unwrap().into_inner(), 1);
    });
}

/// Here the keys do not change, and one whose item has left names nothing.
#[test]
fn compacting_gives_memory_back_and_leaves_keys_valid() {
    on_a_runtime(async {
        let mut bench = Bench::new();
        let keys = [10, 11, 20, 21].map(|ms| bench.insert(ms));
        sleep(MS * 11).await;
        assert_eq!((bench.poll(), bench.poll()), (Poll::Ready(Some(10)), Poll::Ready(Some(11))));
        bench.queue.compact();
        let again = bench.insert(30);
        for (key, ms) in [(keys[2], 20), (keys[3], 21)] {
            assert_eq!(bench.queue.remove(&key).into_inner(), ms);
        }
        bench.queue.compact();
        assert_eq!((bench.queue.len(), bench.queue.capacity()), (1, 1));
        for key in keys {
            assert!(bench.queue.try_remove(&key).is_none());
            assert!(catch_unwind(AssertUnwindSafe(|| bench.queue.remove(&key))).is_err());
        }
        bench.reset(&again, 40);
        assert_eq!(bench.due().await, [(40, 30)]);
        bench.queue.shrink_to_fit();
        assert_eq!(bench.queue.capacity(), 0);
    });
}
