//! Loom models of the scheduler. Time stands still in them: a client is due when it is told so.
//!
//! | model | shows | fails under |
//! |---|---|---|
//! | `a_wake_is_not_lost` | what was changed before a wake is seen by a run, and the thread ends after the last client | `scheduler-wakes-without-fence`, `scheduler-arms-in-silence`, `scheduler-sleeps-on-without-clients` |
//! | `a_client_dies_while_it_runs` | the last handle goes away at any moment: nobody hangs, the thread ends | `scheduler-keeps-the-client`, `scheduler-sleeps-on-without-clients` |
//! | `the_thread_ends_and_begins_again` | a registration at the moment at which the thread ends is served | `scheduler-arms-in-silence`, `scheduler-sleeps-on-without-clients` |

use std::time::Duration;

use crate::support::explore::model;
use cortado::internals::scheduler::{Registration, Scheduled, Scheduler};
use cortado::internals::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use cortado::internals::sync::plain::{Arc, Weak};
use cortado::internals::sync::{Condvar, Mutex, thread};

/// Counts what it saw in two relaxed words that nothing but the scheduler orders.
struct Client {
    changed: [AtomicBool; 2],
    seen: Mutex<[bool; 2]>,
    saw: Condvar,
    runs: AtomicUsize,
}

impl Client {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            changed: [AtomicBool::new(false), AtomicBool::new(false)],
            seen: Mutex::new([false; 2]),
            saw: Condvar::new(),
            runs: AtomicUsize::new(0),
        })
    }

    fn register(self: &Arc<Self>, scheduler: &Scheduler) -> Registration {
        let weak: Weak<Self> = Arc::downgrade(self);
        scheduler.register(weak).unwrap()
    }

    fn wait_for(&self, word: usize) {
        let mut seen = self.seen.lock();
        while !seen[word] {
            seen = self.saw.wait(seen);
        }
    }
}

impl Scheduled for Client {
    fn run(&self) -> Option<Duration> {
        let changed = [0, 1].map(|word| self.changed[word].load(Ordering::Relaxed));
        self.runs.fetch_add(1, Ordering::Relaxed);
        let mut seen = self.seen.lock();
        for word in 0..2 {
            seen[word] |= changed[word];
        }
        drop(seen);
        self.saw.notify_all();
        None
    }
}

#[test]
fn a_wake_is_not_lost() {
    model(|| {
        let scheduler = Scheduler::new();
        let client = Client::new();
        let registration = Arc::new(client.register(&scheduler));
        let other = {
            let (client, registration) = (Arc::clone(&client), Arc::clone(&registration));
            thread::spawn(move || {
                client.changed[1].store(true, Ordering::Relaxed);
                registration.wake_now();
            })
        };
        client.changed[0].store(true, Ordering::Relaxed);
        registration.wake_now();
        client.wait_for(0);
        client.wait_for(1);
        other.join().unwrap();
    });
}

#[test]
fn a_client_dies_while_it_runs() {
    struct Owner {
        inner: Arc<Client>,
        registration: Mutex<Option<Registration>>,
    }
    impl Scheduled for Owner {
        fn run(&self) -> Option<Duration> {
            self.inner.run();
            Some(Duration::from_secs(1))
        }
    }
    model(|| {
        let scheduler = Scheduler::new();
        let inner = Client::new();
        let owner = Arc::new(Owner { inner: Arc::clone(&inner), registration: Mutex::new(None) });
        let weak: Weak<Owner> = Arc::downgrade(&owner);
        let registration = scheduler.register(weak).unwrap();
        registration.wake_now();
        *owner.registration.lock() = Some(registration);
        // loom does not see the handles, and would not try a run between arming and dropping. The
        // scheduler's lock it does see, and tries both orders of it.
        scheduler.counts();
        drop(owner);
    });
}

#[test]
fn the_thread_ends_and_begins_again() {
    model(|| {
        let scheduler = Scheduler::new();
        drop(Client::new().register(&scheduler));
        let client = Client::new();
        let registration = client.register(&scheduler);
        client.changed[0].store(true, Ordering::Relaxed);
        registration.wake_now();
        client.wait_for(0);
        drop(registration);
        assert_eq!(scheduler.counts().clients, 0);
        assert!((1..=2).contains(&scheduler.counts().threads_started));
    });
}
