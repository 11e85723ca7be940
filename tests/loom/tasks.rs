//! Loom models of tasks that wait beside threads.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `a_dropped_leader_hands_over_to_threads_and_tasks` | a leader is dropped while a thread and a task wait for it: both have a value in the end, by one load at a time | `flight-abandons-in-silence` |
//! | `a_task_that_is_dropped_takes_no_other_along` | of two tasks that wait one is dropped while the flight lands: the other is woken | `followers-go-together` |
//! | `a_cancelled_computation_of_a_cache` | a computation is cancelled while a thread and a task wait to write its key: both writes happen when its future is gone, and the computation has not | `flight-abandons-in-silence`, `cancelled-flights-land-first` |
//! | `a_cancelled_computation_whose_future_writes_the_key` | the destructor of a cancelled computation's future writes its key while another thread does: both writes happen | `destructors-wait-for-their-keys` |
//! | `a_cancelled_insert_of_a_cache` | an insert that waits for a computation is polled once more and dropped, while the computation ends: it has happened wholly or not at all, and another task that waits is woken | `followers-go-together` |
//! | `a_cancelled_load_of_a_cache` | the same as the first, of a whole cache: a load is cancelled beside a thread's `get_with` and a task's, whose loaders run when its future is gone | `flight-abandons-in-silence`, `cancelled-flights-land-first` |

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use cortado::Op;

use crate::support::engine_world::{Ledger, Plain, finish, model_at, race};
use crate::support::explore::model;
use crate::support::flights::start;
use cortado::internals::flight::board::Board;
use cortado::internals::flight::cell::{FlightCell, Follow};
use cortado::internals::hash::Hash32;
use cortado::internals::sync::{Arc, Condvar, Mutex, thread};

/// Blocks until the flight has landed. Its result; `None` if it was abandoned.
fn wait<T: Clone>(flight: &FlightCell<T>) -> Option<T> {
    assert!(flight.wait_until(None) && !flight.is_running(), "it has landed");
    flight.result()
}

const HASH: Hash32 = Hash32::from_raw(0);

/// The waker of a thread that polls one task: it blocks until the task is woken.
struct Signal {
    woken: Mutex<bool>,
    wakes: Condvar,
}

impl Wake for Signal {
    fn wake(self: std::sync::Arc<Self>) {
        *self.woken.lock() = true;
        self.wakes.notify_all();
    }
}

/// Polls whenever the task is woken. One that is not woken blocks for ever, which loom finds.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let signal = std::sync::Arc::new(Signal { woken: Mutex::new(false), wakes: Condvar::new() });
    let waker = Waker::from(std::sync::Arc::clone(&signal));
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return result;
        }
        let mut woken = signal.woken.lock();
        while !*woken {
            woken = signal.wakes.wait(woken);
        }
        *woken = false;
    }
}

/// A table with one key.
struct Loads {
    board: Board<FlightCell<u32>>,
    value: Mutex<Option<u32>>,
    loading: Mutex<bool>,
}

/// What to do next.
enum Turn {
    Done(u32),
    Wait(Arc<FlightCell<u32>>),
}

impl Loads {
    /// Looks, and loads if nobody else does.
    fn turn(&self) -> Turn {
        let shard = self.board.shard(HASH);
        loop {
            let (seen, flights) = shard.snapshot(HASH);
            if let Some(flight) = flights.first() {
                return Turn::Wait(Arc::clone(flight));
            }
            let (mut leader, flight) = start();
            if shard.try_insert(HASH, Arc::clone(&flight), seen).is_err() {
                continue;
            }
            let present = *self.value.lock();
            let value = present.unwrap_or_else(|| self.load());
            assert!(shard.remove(HASH, &flight));
            leader.complete(|| value);
            return Turn::Done(value);
        }
    }

    fn load(&self) -> u32 {
        assert!(!std::mem::replace(&mut *self.loading.lock(), true), "two loads at once");
        *self.value.lock() = Some(7);
        *self.loading.lock() = false;
        7
    }

    fn get(&self) -> u32 {
        loop {
            match self.turn() {
                Turn::Done(value) => return value,
                Turn::Wait(flight) => {
                    if let Some(value) = wait(&flight) {
                        return value;
                    }
                }
            }
        }
    }

    async fn get_async(&self) -> u32 {
        loop {
            match self.turn() {
                Turn::Done(value) => return value,
                Turn::Wait(flight) => {
                    if let Some(value) = Follow::new(flight).await {
                        return value;
                    }
                }
            }
        }
    }
}

#[test]
fn a_dropped_leader_hands_over_to_threads_and_tasks() {
    model(|| {
        let loads = Arc::new(Loads {
            board: Board::new(),
            value: Mutex::new(None),
            loading: Mutex::new(false),
        });
        let (leader, flight) = start();
        let (seen, _) = loads.board.shard(HASH).snapshot(HASH);
        loads.board.shard(HASH).try_insert(HASH, Arc::clone(&flight), seen).unwrap();
        let waits = {
            let loads = Arc::clone(&loads);
            thread::spawn(move || assert_eq!(loads.get(), 7))
        };
        let cancels = {
            let loads = Arc::clone(&loads);
            thread::spawn(move || {
                assert!(loads.board.shard(HASH).remove(HASH, &flight));
                drop(leader);
            })
        };
        assert_eq!(block_on(loads.get_async()), 7);
        waits.join().unwrap();
        cancels.join().unwrap();
        assert!(loads.board.is_empty());
    });
}

#[test]
fn a_task_that_is_dropped_takes_no_other_along() {
    model(|| {
        let (mut leader, flight) = start();
        let mut dropped = Follow::new(Arc::clone(&flight));
        let lands = thread::spawn(move || leader.complete(|| 7));
        let drops = thread::spawn(move || {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut dropped).poll(&mut context);
            drop(dropped);
        });
        assert_eq!(block_on(Follow::new(flight)), Some(7));
        lands.join().unwrap();
        drops.join().unwrap();
    });
}

/// What a cancelled future owns. Others may come in the middle of its destructor.
struct Permit {
    is_held: std::sync::Arc<AtomicBool>,
    at_end: Option<Box<dyn FnOnce() + Send>>,
}

impl Permit {
    fn new() -> (Self, impl Fn() + Clone + Send) {
        let is_held = std::sync::Arc::new(AtomicBool::new(true));
        let permit = Self { is_held: std::sync::Arc::clone(&is_held), at_end: None };
        (permit, move || assert!(!is_held.load(Relaxed), "the cancelled future is still there"))
    }

    async fn keep<T>(self) -> T {
        let _kept = &self;
        pending().await
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        thread::yield_now();
        if let Some(at_end) = self.at_end.take() {
            at_end();
        }
        self.is_held.store(false, Relaxed);
    }
}

#[test]
fn a_cancelled_load_of_a_cache() {
    model_at(("LOOM_ENGINE_PREEMPTIONS", 1), || {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        let tasks = cache.future();
        let (other, loads) = (cache.clone(), tasks.clone());
        let (permit, assert_gone) = Permit::new();
        let mut leader = Box::pin(async move {
            loads.entry(1).or_insert_with(permit.keep()).await;
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(leader.as_mut().poll(&mut context).is_pending());
        let gone = assert_gone.clone();
        race(
            || {
                let load = tasks.entry(1).or_insert_with(async {
                    assert_gone();
                    ledger.value(1)
                });
                assert_eq!(block_on(load).number(), 1);
            },
            [
                Box::new(move || drop(leader)),
                Box::new(move || {
                    let load = || {
                        gone();
                        ledger.value(1)
                    };
                    assert_eq!(other.entry(1).or_insert_with(load).number(), 1);
                }),
            ],
        );
        drop(tasks);
        finish(&cache);
        assert_eq!((cache.entry_count(), ledger.dropped(1)), (1, 0));
    });
}

#[test]
fn a_cancelled_computation_of_a_cache() {
    model_at(("LOOM_ENGINE_PREEMPTIONS", 1), || {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        let tasks = cache.future();
        let (other, computes) = (cache.clone(), tasks.clone());
        let (permit, assert_gone) = Permit::new();
        let mut owner = Box::pin(async move {
            computes.entry(1).and_compute_with(|_| permit.keep()).await;
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(owner.as_mut().poll(&mut context).is_pending());
        let gone = assert_gone.clone();
        race(
            || {
                block_on(tasks.insert(1, ledger.value(1)));
                assert_gone();
            },
            [
                Box::new(move || drop(owner)),
                Box::new(move || {
                    other.insert(1, ledger.value(2));
                    gone();
                }),
            ],
        );
        drop(tasks);
        ledger.settle(&cache, 2);
        assert_eq!(cache.entry_count(), 1);
    });
}

#[test]
fn a_cancelled_computation_whose_future_writes_the_key() {
    model_at(("LOOM_ENGINE_PREEMPTIONS", 1), || {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        let (writes, computes) = (cache.clone(), cache.future());
        let (mut permit, _) = Permit::new();
        permit.at_end = Some(Box::new(move || writes.insert(1, ledger.value(1))));
        let mut owner = Box::pin(async move {
            computes.entry(1).and_compute_with(|_| permit.keep()).await;
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(owner.as_mut().poll(&mut context).is_pending());
        race(|| cache.insert(1, ledger.value(2)), [Box::new(move || drop(owner))]);
        ledger.settle(&cache, 2);
        assert_eq!(cache.entry_count(), 1);
    });
}

#[test]
fn a_cancelled_insert_of_a_cache() {
    model_at(("LOOM_ENGINE_PREEMPTIONS", 1), || {
        let ledger = Ledger::new();
        let cache = ledger.listening_builder().build_with_hasher(Plain);
        let tasks = cache.future();
        let (computes, first, inserts) = (tasks.clone(), tasks.clone(), tasks);
        let mut has_waited = false;
        let once = poll_fn(move |_| {
            if std::mem::replace(&mut has_waited, true) { Poll::Ready(()) } else { Poll::Pending }
        });
        let mut owner = Box::pin(async move {
            let compute = async |_| {
                once.await;
                Op::Put(ledger.value(1))
            };
            computes.entry(1).and_compute_with(compute).await;
        });
        let mut first = Box::pin(async move { first.insert(1, ledger.value(3)).await });
        let mut insert = Box::pin(async move { inserts.insert(1, ledger.value(2)).await });
        let mut context = Context::from_waker(Waker::noop());
        assert!(owner.as_mut().poll(&mut context).is_pending());
        // It waits before the one that is dropped.
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(insert.as_mut().poll(&mut context).is_pending());
        race(
            || block_on(first),
            [
                Box::new(move || {
                    let mut context = Context::from_waker(Waker::noop());
                    assert!(owner.as_mut().poll(&mut context).is_ready());
                }),
                Box::new(move || {
                    let mut context = Context::from_waker(Waker::noop());
                    let _ = insert.as_mut().poll(&mut context);
                    drop(insert);
                }),
            ],
        );
        finish(&cache);
        let there: Vec<u8> = cache.entries().map(|entry| entry.number()).collect();
        assert_eq!(there.len(), 1);
        for number in 1..=3 {
            let stays = usize::from(there[0] == number);
            assert_eq!(ledger.dropped(number), 1 - stays, "{number}, {:?}", ledger.notices());
            // Only the value of a cancelled insert leaves without a word.
            assert!(ledger.cause(number).is_some() || stays == 1 || number == 2);
        }
    });
}
