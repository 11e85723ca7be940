//! Loom models of the outbox.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `everything_once_and_in_order` | two threads push and deliver: exactly once, in order per producer, one callback at a time, nothing stranded | `outbox-no-second-look`, `outbox-two-deliverers` |
//! | `a_limit_tells_that_more_is_left` | the same with a limit: what is left has been told to one of them | `outbox-no-second-look`, `outbox-two-deliverers` |
//! | `callbacks_follow_each_other` | what a callback did is seen by the next one, on whichever thread | `outbox-no-second-look`, `outbox-two-deliverers` |

use crate::support::explore::model;
use cortado::internals::outbox::Outbox;
use cortado::internals::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cortado::internals::sync::{Arc, Mutex, thread};

struct Client {
    outbox: Outbox<u32>,
    got: Mutex<Vec<u32>>,
    inside: AtomicBool,
    told_more: AtomicUsize,
}

impl Client {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            outbox: Outbox::with_limit(usize::MAX, false),
            got: Mutex::new(Vec::new()),
            inside: AtomicBool::new(false),
            told_more: AtomicUsize::new(0),
        })
    }

    fn deliver(&self, limit: usize) {
        let delivered = self.outbox.deliver(limit, |item| {
            assert!(!self.inside.swap(true, Ordering::AcqRel), "two callbacks at once");
            self.got.lock().push(item);
            self.inside.swap(false, Ordering::AcqRel);
        });
        if delivered.more {
            self.told_more.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn check(&self, items: &[u32]) {
        let mut got = self.got.lock().clone();
        for t in 0..2 {
            let of_thread: Vec<u32> = got.iter().copied().filter(|item| item / 10 == t).collect();
            assert!(of_thread.is_sorted_by(|a, b| a < b), "twice or out of order: {got:?}");
        }
        got.sort_unstable();
        assert_eq!(got, items);
    }
}

fn push_and_deliver(limit: usize) {
    model(move || {
        let client = Client::new();
        let threads: Vec<_> = (0..2)
            .map(|t| {
                let client = Arc::clone(&client);
                thread::spawn(move || {
                    for i in 1..=2 {
                        client.outbox.push(10 * t + i);
                        client.deliver(limit);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        if !client.outbox.is_empty() {
            assert!(
                client.told_more.load(Ordering::Acquire) > 0,
                "stranded: {}",
                client.outbox.len()
            );
            client.deliver(usize::MAX);
        }
        client.check(&[1, 2, 11, 12]);
    });
}

#[test]
fn everything_once_and_in_order() {
    push_and_deliver(usize::MAX);
}

#[test]
fn a_limit_tells_that_more_is_left() {
    push_and_deliver(1);
}

#[test]
fn callbacks_follow_each_other() {
    model(|| {
        let outbox = Arc::new(Outbox::with_limit(usize::MAX, false));
        let calls = Arc::new(AtomicUsize::new(0));
        let deliver = |outbox: &Outbox<u32>, calls: &AtomicUsize| {
            outbox.push(1);
            let _ = outbox.deliver(usize::MAX, |_| {
                calls.store(calls.load(Ordering::Relaxed) + 1, Ordering::Relaxed)
            });
        };
        let other = {
            let (outbox, calls) = (Arc::clone(&outbox), Arc::clone(&calls));
            thread::spawn(move || deliver(&outbox, &calls))
        };
        deliver(&outbox, &calls);
        other.join().unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    });
}
