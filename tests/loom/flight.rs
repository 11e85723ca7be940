//! Loom models of single flight.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `a_loader_that_fails_hands_over` | three threads want one key, the first load fails: nobody hangs, all get the value, one load at a time | `flight-abandons-in-silence`, `board-registers-over-news` |
//! | `a_task_follows_a_thread` | a task polled while the flight lands is woken or ready | `flight-abandons-in-silence` |
//! | `a_writer_sees_the_flights_of_its_key` | registration before bucket lock, idleness asked under it: the writer sees the flight, or the computation sees the write | `board-removal-idles-the-shard` |
//! | `a_guard_keeps_flights_away` | between `lock_if` and its release no flight of the hash appears | `board-lock-ignores-news` |

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use crate::support::explore::model;
use crate::support::flights::start;
use cortado::internals::flight::board::Board;
use cortado::internals::flight::cell::{FlightCell, Follow};
use cortado::internals::hash::Hash32;
use cortado::internals::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cortado::internals::sync::{Arc, Mutex, thread};

/// Blocks until the flight has landed. Its result; `None` if it was abandoned.
fn wait<T: Clone>(flight: &FlightCell<T>) -> Option<T> {
    assert!(flight.wait_until(None) && !flight.is_running(), "it has landed");
    flight.result()
}

const HASH: Hash32 = Hash32::from_raw(0);
const NEXT_HASH: Hash32 = Hash32::from_raw(1);

/// A table with one key.
struct Loads {
    board: Board<FlightCell<u32>>,
    value: Mutex<Option<u32>>,
    loading: AtomicBool,
    attempts: AtomicUsize,
}

impl Loads {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            board: Board::new(),
            value: Mutex::new(None),
            loading: AtomicBool::new(false),
            attempts: AtomicUsize::new(0),
        })
    }

    fn get(&self) -> u32 {
        let shard = self.board.shard(HASH);
        loop {
            let (seen, flights) = shard.snapshot(HASH);
            if let Some(flight) = flights.first() {
                match wait(flight) {
                    Some(value) => return value,
                    None => continue,
                }
            }
            let (mut leader, flight) = start();
            if shard.try_insert(HASH, Arc::clone(&flight), seen).is_err() {
                continue;
            }
            let present = *self.value.lock();
            let loaded = present.or_else(|| self.load());
            if loaded.is_some() {
                *self.value.lock() = loaded;
            }
            assert!(shard.remove(HASH, &flight));
            if let Some(value) = loaded {
                leader.complete(|| value);
                return value;
            }
        }
    }

    /// The first attempt fails; the leader that asked for it is dropped as a panic would drop it.
    fn load(&self) -> Option<u32> {
        assert!(!self.loading.swap(true, Ordering::AcqRel), "two loads at once");
        let attempt = self.attempts.fetch_add(1, Ordering::AcqRel);
        self.loading.swap(false, Ordering::AcqRel);
        (attempt > 0).then_some(7)
    }
}

#[test]
fn a_loader_that_fails_hands_over() {
    model(|| {
        let loads = Loads::new();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let loads = Arc::clone(&loads);
                thread::spawn(move || assert_eq!(loads.get(), 7))
            })
            .collect();
        assert_eq!(loads.get(), 7);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(loads.attempts.load(Ordering::Acquire), 2);
        assert!(loads.board.is_empty());
    });
}

struct Flag(std::sync::atomic::AtomicBool);

impl Wake for Flag {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_task_follows_a_thread() {
    for succeeds in [true, false] {
        model(move || {
            let (mut leader, flight) = start();
            let loader = thread::spawn(move || {
                if succeeds {
                    leader.complete(|| 7);
                } else {
                    drop(leader);
                }
            });
            let flag = std::sync::Arc::new(Flag(std::sync::atomic::AtomicBool::new(false)));
            let waker = Waker::from(std::sync::Arc::clone(&flag));
            let mut task = Follow::new(flight);
            let mut poll = || Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
            let first = poll();
            loader.join().unwrap();
            let expected = if succeeds { Some(7) } else { None };
            if first.is_pending() {
                assert!(flag.0.load(Ordering::SeqCst), "asleep for ever");
            } else {
                assert_eq!(first, Poll::Ready(expected));
            }
            assert_eq!(poll(), Poll::Ready(expected));
        });
    }
}

/// A computation and a writer of one key, and a flight of another key in the same shard that ends
/// meanwhile. The bucket holds what the writer wrote.
#[test]
fn a_writer_sees_the_flights_of_its_key() {
    model(|| {
        let board = Arc::new(Board::new());
        let bucket = Arc::new(Mutex::new(false));
        let other = Arc::new(());
        let shard = board.shard(HASH);
        shard.try_insert(NEXT_HASH, Arc::clone(&other), shard.snapshot(NEXT_HASH).0).unwrap();
        let computes = {
            let (board, bucket) = (Arc::clone(&board), Arc::clone(&bucket));
            thread::spawn(move || {
                let shard = board.shard(HASH);
                let (seen, _) = shard.snapshot(HASH);
                shard.try_insert(HASH, Arc::new(()), seen).unwrap();
                *bucket.lock()
            })
        };
        let ends = {
            let board = Arc::clone(&board);
            thread::spawn(move || assert!(board.shard(HASH).remove(NEXT_HASH, &other)))
        };
        let idle = {
            let mut bucket = bucket.lock();
            *bucket = true;
            board.shard(HASH).is_idle()
        };
        let saw_the_write = computes.join().unwrap();
        ends.join().unwrap();
        assert!(!idle || saw_the_write, "neither saw the other");
    });
}

#[test]
fn a_guard_keeps_flights_away() {
    model(|| {
        let board = Arc::new(Board::new());
        let (seen, _) = board.shard(HASH).snapshot(HASH);
        let computes = {
            let board = Arc::clone(&board);
            thread::spawn(move || {
                board.shard(HASH).try_insert(HASH, Arc::new(()), seen).unwrap();
            })
        };
        if let Some(guard) = board.shard(HASH).lock_if(HASH, seen) {
            assert!(board.shard(HASH).is_idle());
            thread::yield_now();
            assert!(board.shard(HASH).is_idle());
            drop(guard);
        }
        computes.join().unwrap();
        assert_eq!(board.len(), 1);
    });
}
