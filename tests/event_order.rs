//! An update takes its predecessor's place on the wheel and on the policy's lists. What threads do
//! to one key reaches the maintenance in the order of the write buffer's stripes, not in that in
//! which it happened: here all short histories of a key over three threads, drained from each
//! stripe on.
//!
//! Seen to fail under the seeds `shortened-in-silence`, `added-after-removed` and
//! `removed-before-added`.

mod common;

use common::{SECOND, TICK, Tested, tested};
use cortado::RemovalCause;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A new value, with so many seconds to live.
    Insert(u64),
    /// So many seconds to live for the value that is there.
    SetTtl(u64),
    Remove,
}

/// Shorter and longer than those before, on two levels of the wheel.
const STEPS: [Step; 5] =
    [Step::Insert(100), Step::Insert(20), Step::SetTtl(5), Step::SetTtl(200), Step::Remove];
const LENGTH: u32 = 3;
/// The write buffer has no more stripes than this.
const MAX_STRIPES: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// A thread with a stripe of its own in the write buffer.
struct Hand {
    jobs: Sender<Job>,
    done: Receiver<()>,
}

impl Hand {
    fn new() -> Self {
        let ((jobs, inbox), (ready, done)) = (channel::<Job>(), channel());
        thread::spawn(move || {
            for job in inbox {
                job();
                ready.send(()).unwrap();
            }
        });
        Self { jobs, done }
    }

    fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.jobs.send(Box::new(job)).unwrap();
        self.done.recv().expect("the job did not panic");
    }
}

/// What is to become of the key.
struct Expected {
    inserted: u32,
    deadline: Option<u64>,
}

impl Expected {
    fn follow(&mut self, step: Step) {
        match step {
            Step::Insert(ttl) => {
                self.inserted += 1;
                self.deadline = Some(ttl);
            }
            Step::SetTtl(ttl) => self.deadline = self.deadline.map(|_| ttl),
            Step::Remove => self.deadline = None,
        }
    }
}

/// A cache in which nothing runs a pass unasked: its clock stands still, and no batch is ever
/// complete. The values number themselves, and every other weighs more.
fn subject() -> Tested<u8, u32> {
    tested(|builder| builder.max_capacity(100_000).weigher(|_, value| 1 + value % 2))
}

/// `heard`: whether the maintenance knows of the first value when the others come.
fn play(hands: &[Hand], history: &[(usize, Step)], heard: bool, turns: usize) {
    let cache = subject();
    for _ in 0..turns {
        // Each drain begins with another stripe.
        let _ = cache.run_pending_tasks_up_to(0);
    }
    let mut expected = Expected { inserted: 0, deadline: None };
    let first = [(0, Step::Insert(50))];
    for (n, &(hand, step)) in first.iter().chain(history).enumerate() {
        expected.follow(step);
        let (handle, value) = (cache.cache.clone(), expected.inserted);
        hands[hand].run(move || match step {
            Step::Insert(ttl) => handle.insert_with_ttl(1, value, SECOND * ttl as u32),
            Step::SetTtl(ttl) => _ = handle.set_ttl(&1, SECOND * ttl as u32),
            Step::Remove => handle.invalidate(&1),
        });
        if n == 0 && heard {
            cache.settle();
        }
    }
    cache.audit();
    if let Some(deadline) = expected.deadline {
        cache.hand.set(SECOND * deadline as u32 - Duration::from_nanos(1));
        cache.audit();
        assert_eq!(cache.entry_count(), 1);
        cache.hand.set(SECOND * deadline as u32 + TICK);
    }
    cache.audit();
    assert_eq!(cache.entry_count(), 0);
    let told = cache.told();
    let values: Vec<u32> = told.iter().map(|told| told.value).collect();
    assert_eq!(values, (1..=expected.inserted).collect::<Vec<_>>());
    if expected.deadline.is_some() {
        assert_eq!(told.last().unwrap().cause, RemovalCause::Expired);
    }
}

#[test]
fn events_of_one_key_may_come_in_any_order() {
    let stripes = thread::available_parallelism().map_or(MAX_STRIPES, usize::from);
    let stripes = stripes.min(MAX_STRIPES).next_power_of_two();
    let hands = [Hand::new(), Hand::new()];
    // In this order they get neighbouring stripes.
    hands.iter().for_each(|hand| hand.run(|| subject().insert(0, 0)));
    let choices = hands.len() * STEPS.len();
    for number in 0..choices.pow(LENGTH) {
        let history: Vec<_> = (0..LENGTH)
            .map(|n| number / choices.pow(n) % choices)
            .map(|choice| (choice % hands.len(), STEPS[choice / hands.len()]))
            .collect();
        for (heard, turns) in (0..2 * stripes).map(|n| (n % 2 == 0, n / 2)) {
            let run = AssertUnwindSafe(|| play(&hands, &history, heard, turns));
            let played = std::panic::catch_unwind(run);
            assert!(played.is_ok(), "{history:?}, first one heard of: {heard}, turns: {turns}");
        }
    }
}
