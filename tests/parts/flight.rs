//! Single flight: threads and tasks share one result, a leader that goes away wakes everyone, and
//! the board registers one flight per key.
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use cortado::internals::flight::board::{Board, Changed};
use cortado::internals::flight::cell::{FlightCell, Follow, HasCell, Leader};
use cortado::internals::hash::Hash32;

/// Blocks until the flight has landed. Its result; `None` if it was abandoned.
fn wait<T: Clone>(flight: &FlightCell<T>) -> Option<T> {
    assert!(flight.wait_until(None) && !flight.is_running(), "it has landed");
    flight.result()
}

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counted() -> (Arc<Count>, Waker) {
    let count = Arc::new(Count::default());
    (Arc::clone(&count), Waker::from(count))
}

/// Starts a flight that is nothing but a cell.
fn start<T>() -> (Leader<FlightCell<T>>, Arc<FlightCell<T>>) {
    let leader = Leader::of(FlightCell::new());
    let flight = Arc::clone(leader.flight());
    (leader, flight)
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn threads_and_tasks_share_one_result() {
    let (mut leader, flight) = start();
    assert!(flight.is_running());
    let (count, waker) = counted();
    let mut task = Follow::new(Arc::clone(&flight));
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3).map(|_| scope.spawn(|| wait(&flight))).collect();
        leader.complete(|| "result".to_owned());
        for thread in waiting {
            assert_eq!(thread.join().unwrap(), Some("result".to_owned()));
        }
    });
    assert_eq!(count.0.load(SeqCst), 1);
    assert_eq!(poll(&mut task, &waker), Poll::Ready(Some("result".to_owned())));
    assert!(!flight.is_running());
    let mut late = Follow::new(Arc::clone(&flight));
    assert_eq!(poll(&mut late, &waker), Poll::Ready(Some("result".to_owned())));
    assert_eq!(count.0.load(SeqCst), 1);
}

#[test]
fn a_loader_that_panics_abandons_its_flight() {
    let (leader, flight) = start::<u32>();
    let (count, waker) = counted();
    let mut task = Follow::new(Arc::clone(&flight));
    assert_eq!(poll(&mut task, &waker), Poll::Pending);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| wait(&flight));
        let loader = scope.spawn(|| {
            let _leader = leader;
            panic!("seeded");
        });
        assert!(loader.join().is_err());
        assert_eq!(waiting.join().unwrap(), None);
    });
    assert_eq!(count.0.load(SeqCst), 1);
    assert_eq!(poll(&mut task, &waker), Poll::Ready(None));
}

#[test]
fn a_task_is_woken_by_its_latest_waker_only() {
    let (mut leader, flight) = start();
    let mut task = Follow::new(flight);
    let (first, first_waker) = counted();
    let (second, second_waker) = counted();
    assert_eq!(poll(&mut task, &first_waker), Poll::Pending);
    assert_eq!(poll(&mut task, &second_waker), Poll::Pending);
    drop(first_waker);
    assert_eq!(Arc::strong_count(&first), 1, "a replaced waker is kept");
    leader.complete(|| 1);
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (0, 1));
}

#[test]
fn a_cancelled_task_takes_its_waker_along() {
    let (mut leader, flight) = start();
    let (gone, gone_waker) = counted();
    let (stays, stays_waker) = counted();
    let mut cancelled = Follow::new(Arc::clone(&flight));
    let mut other = Follow::new(flight);
    assert_eq!(poll(&mut cancelled, &gone_waker), Poll::Pending);
    assert_eq!(poll(&mut other, &stays_waker), Poll::Pending);
    drop((cancelled, gone_waker));
    assert_eq!(Arc::strong_count(&gone), 1);
    leader.complete(|| ());
    assert_eq!((gone.0.load(SeqCst), stays.0.load(SeqCst)), (0, 1));
}

#[test]
fn a_waker_that_panics_keeps_no_one_asleep() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("seeded");
        }
    }
    let (mut leader, flight) = start();
    let (count, waker) = counted();
    let mut before = Follow::new(Arc::clone(&flight));
    let mut bad = Follow::new(Arc::clone(&flight));
    let mut after = Follow::new(flight);
    assert_eq!(poll(&mut before, &waker), Poll::Pending);
    assert_eq!(poll(&mut bad, &Waker::from(Arc::new(Panics))), Poll::Pending);
    assert_eq!(poll(&mut after, &waker), Poll::Pending);
    leader.complete(|| ());
    assert_eq!(count.0.load(SeqCst), 2);
}

/// A result whose clone asks the flight itself would deadlock if it ran under the lock.
#[test]
fn a_result_is_cloned_outside_the_lock() {
    struct Asks(Weak<FlightCell<Asks>>);
    impl Clone for Asks {
        fn clone(&self) -> Self {
            assert!(!self.0.upgrade().unwrap().is_running());
            Self(Weak::clone(&self.0))
        }
    }
    let (mut leader, flight) = start();
    leader.complete(|| Asks(Arc::downgrade(&flight)));
    assert!(wait(&flight).is_some());
    let mut task = Follow::new(flight);
    assert!(poll(&mut task, Waker::noop()).is_ready());
}

#[test]
fn the_board_finds_flights_by_hash_and_identity() {
    let board = Board::new();
    let (seven, eight) = (Hash32::from_raw(7), Hash32::from_raw(8));
    let shard = board.shard(seven);
    assert!(shard.is_idle() && board.is_empty());
    let (seen, flights) = shard.snapshot(seven);
    assert!(flights.is_empty());
    let (one, two, other) = (Arc::new("one"), Arc::new("two"), Arc::new("other"));
    assert_eq!(shard.try_insert(seven, Arc::clone(&one), seen), Ok(()));
    assert_eq!(shard.try_insert(seven, Arc::clone(&two), seen), Err(Changed));
    assert_eq!(
        shard.try_insert(eight, Arc::clone(&other), seen),
        Ok(()),
        "another hash is no news"
    );
    let (seen, flights) = shard.snapshot(seven);
    assert_eq!(flights, [Arc::clone(&one)]);
    assert_eq!(shard.try_insert(seven, Arc::clone(&two), seen), Ok(()));
    assert_eq!(board.len(), 3);

    assert!(!shard.remove(seven, &Arc::new("one")), "equal is not the same");
    assert!(!shard.remove(eight, &one), "registered under another hash");
    assert!(shard.remove(seven, &one));
    assert!(!shard.remove(seven, &one));
    assert_eq!(shard.snapshot(seven).1, [Arc::clone(&two)]);
    assert!(!shard.is_idle());
    assert!(shard.remove(seven, &two));
    assert!(!shard.is_idle(), "the other hash is still there");
    assert!(shard.remove(eight, &other));
    assert!(shard.is_idle() && board.is_empty());
    drop(flights);
    assert_eq!(Arc::strong_count(&one), 1);
}

#[test]
fn a_removal_is_no_news_but_a_registration_is() {
    let board = Board::new();
    let hash = Hash32::from_raw(u32::MAX);
    let shard = board.shard(hash);
    let old = Arc::new(1);
    assert_eq!(shard.try_insert(hash, Arc::clone(&old), shard.snapshot(hash).0), Ok(()));
    let (seen, _) = shard.snapshot(hash);
    assert!(shard.lock_if(hash, seen).is_some());
    assert!(shard.remove(hash, &old));
    assert!(shard.lock_if(hash, seen).is_some());
    assert_eq!(shard.try_insert(hash, Arc::new(2), seen), Ok(()));
    assert!(shard.lock_if(hash, seen).is_none());
    assert!(shard.lock_if(Hash32::from_raw(u32::MAX - 1), seen).is_some());
}

#[test]
fn a_shard_guard_keeps_registrations_out() {
    let board = Board::new();
    let hash = Hash32::FIRST;
    let shard = board.shard(hash);
    let (seen, _) = shard.snapshot(hash);
    let guard = shard.lock_if(hash, seen).unwrap();
    let held = AtomicBool::new(true);
    thread::scope(|scope| {
        let registers = scope.spawn(|| {
            let registered = shard.try_insert(hash, Arc::new(()), seen);
            assert!(!held.load(SeqCst), "registered under the guard");
            registered
        });
        for _ in 0..100 {
            assert!(shard.is_idle());
            thread::yield_now();
        }
        held.store(false, SeqCst);
        drop(guard);
        assert_eq!(registers.join().unwrap(), Ok(()));
    });
    assert!(!shard.is_idle());
}

/// A flight of the table in [`load`]: the key, and the cell.
struct Load {
    key: u32,
    cell: FlightCell<u32>,
}

impl HasCell for Load {
    type Result = u32;

    fn cell(&self) -> &FlightCell<u32> {
        &self.cell
    }
}

struct Loads {
    board: Board<Load>,
    values: Mutex<Vec<Option<u32>>>,
    loading: Vec<AtomicBool>,
    attempts: Vec<AtomicUsize>,
}

impl Loads {
    /// All keys share two hashes, and each load but the third of a key panics.
    fn get(&self, key: u32) -> u32 {
        let hash = Hash32::from_raw(key & 1);
        let shard = self.board.shard(hash);
        loop {
            if let Some(value) = self.values.lock().unwrap()[key as usize] {
                return value;
            }
            let (seen, flights) = shard.snapshot(hash);
            if let Some(flight) = flights.iter().find(|flight| flight.key == key) {
                match wait(&flight.cell) {
                    Some(value) => return value,
                    None => continue,
                }
            }
            let mut leader = Leader::of(Load { key, cell: FlightCell::new() });
            let flight = Arc::clone(leader.flight());
            if shard.try_insert(hash, Arc::clone(&flight), seen).is_err() {
                continue;
            }
            let present = self.values.lock().unwrap()[key as usize];
            let loaded = match present {
                Some(value) => Ok(value),
                None => catch_unwind(AssertUnwindSafe(|| self.load(key))),
            };
            if let Ok(value) = loaded {
                self.values.lock().unwrap()[key as usize] = Some(value);
            }
            assert!(shard.remove(hash, &flight));
            if let Ok(value) = loaded {
                leader.complete(|| value);
                return value;
            }
        }
    }

    fn load(&self, key: u32) -> u32 {
        let loading = &self.loading[key as usize];
        assert!(!loading.swap(true, SeqCst), "two loads at once");
        thread::yield_now();
        let attempt = self.attempts[key as usize].fetch_add(1, SeqCst);
        loading.store(false, SeqCst);
        assert!(attempt >= 2, "seeded");
        key * 10
    }
}

#[test]
fn a_key_is_loaded_by_one_at_a_time_until_it_succeeds() {
    const KEYS: u32 = 16;
    const THREADS: usize = 4;
    for _round in 0..50 {
        let loads = Loads {
            board: Board::new(),
            values: Mutex::new(vec![None; KEYS as usize]),
            loading: (0..KEYS).map(|_| AtomicBool::new(false)).collect(),
            attempts: (0..KEYS).map(|_| AtomicUsize::new(0)).collect(),
        };
        let start = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for key in 0..KEYS {
                        assert_eq!(loads.get(key), key * 10);
                    }
                });
            }
        });
        assert!(loads.board.is_empty());
        for attempts in loads.attempts {
            assert_eq!(attempts.into_inner(), 3);
        }
    }
}

/// A flight that nobody else holds makes no result.
#[test]
fn a_result_that_nobody_can_see_is_not_made() {
    let (mut leader, flight) = start::<u32>();
    drop(flight);
    leader.complete(|| unreachable!("nobody holds the flight"));
    assert!(!leader.is_running());
}
