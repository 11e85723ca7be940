//! Short concurrent histories of the operations on a key, each checked exhaustively: is there an order
//! of the operations, consistent with which ended before which began, that explains every answer?
//!
//! `CORTADO_HISTORIES` sets the number of histories per test.
#![cfg(not(cortado_loom))]

use cortado::{Cache, Clock, CompResult, Entry, Expiry, Op as Decision};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 3;
/// Operations of each thread in a history.
const LENGTH: usize = 4;
/// The life of an entry with no term of its own in a cache with an idle time.
const IDLE: Duration = Duration::from_secs(3600);
/// What the read hook of the caches that have one gives.
const READ: Duration = Duration::from_secs(7);

fn histories() -> u64 {
    std::env::var("CORTADO_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000)
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Get,
    GetEntry,
    Peek,
    Touch,
    Insert(u64),
    InsertFor(u64, Duration),
    Remove,
    RemoveIfOdd,
    Put(u64),
    ComputeRemove,
    Look,
    SetTtl(Duration),
    Persist,
    ExpiresIn,
}

/// An entry as it is seen: value and remaining life.
type Seen = Option<(u64, Option<Duration>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Was(bool),
    Value(Option<u64>),
    Entry(Seen),
    Life(Option<Option<Duration>>),
    /// What a computation was shown.
    Shown(Seen),
}

#[derive(Clone, Copy, Debug)]
struct Event {
    op: Op,
    answer: Answer,
    began: u64,
    ended: u64,
}

/// Which lifetimes the cache has beside those of the calls.
#[derive(Clone, Copy, Debug)]
struct Setup {
    idle: bool,
    hook: bool,
}

/// What the operations mean, one after the other.
impl Setup {
    fn life(self, own: Option<Duration>) -> Option<Duration> {
        if self.idle { Some(own.map_or(IDLE, |own| own.min(IDLE))) } else { own }
    }

    /// The state after a read.
    fn read(self, (value, left): (u64, Option<Duration>)) -> (u64, Option<Duration>) {
        (value, if self.hook { self.life(Some(READ)) } else { left })
    }

    /// The answer to the operation in this state, and the state after it.
    fn apply(self, state: Seen, op: Op) -> (Answer, Seen) {
        let value = state.map(|(value, _)| value);
        let read = state.map(|entry| self.read(entry));
        let odd = value.is_some_and(|value| value % 2 == 1);
        match op {
            Op::Get => (Answer::Value(value), read),
            Op::GetEntry => (Answer::Entry(read), read),
            Op::Peek => (Answer::Entry(state), state),
            Op::Touch => (Answer::Was(state.is_some()), read),
            Op::Insert(new) => (Answer::Done, Some((new, self.life(None)))),
            Op::InsertFor(_, Duration::ZERO) => (Answer::Done, None),
            Op::InsertFor(new, ttl) => (Answer::Done, Some((new, self.life(Some(ttl))))),
            Op::Remove => (Answer::Value(value), None),
            Op::RemoveIfOdd if odd => (Answer::Value(value), None),
            Op::RemoveIfOdd => (Answer::Value(None), state),
            Op::Put(new) => (Answer::Shown(state), Some((new, self.life(None)))),
            Op::ComputeRemove => (Answer::Shown(state), None),
            Op::Look => (Answer::Shown(state), state),
            Op::SetTtl(Duration::ZERO) => (Answer::Was(state.is_some()), None),
            Op::SetTtl(ttl) => {
                (Answer::Was(state.is_some()), value.map(|value| (value, self.life(Some(ttl)))))
            }
            Op::Persist => {
                (Answer::Was(state.is_some()), value.map(|value| (value, self.life(None))))
            }
            Op::ExpiresIn => (Answer::Life(state.map(|(_, left)| left)), state),
        }
    }

    /// Where reads change lives, the life that is shown may be another: reads do not wait for a
    /// computation and may change it after that has looked, and they change nothing in an entry that
    /// has left since they found it.
    fn fits(self, expected: Answer, given: Answer) -> bool {
        match (expected, given) {
            (Answer::Shown(expected), Answer::Shown(given))
            | (Answer::Entry(expected), Answer::Entry(given))
                if self.hook =>
            {
                expected.map(|(value, _)| value) == given.map(|(value, _)| value)
            }
            (expected, given) => expected == given,
        }
    }

    /// Whether some order explains the history, from a key that is not there.
    fn explains(self, history: &[Event]) -> bool {
        let mut refuted = HashSet::new();
        self.search(history, 0, None, &mut refuted)
    }

    fn search(
        self,
        history: &[Event],
        done: u32,
        state: Seen,
        refuted: &mut HashSet<(u32, Seen)>,
    ) -> bool {
        if done.count_ones() as usize == history.len() {
            return true;
        }
        if !refuted.insert((done, state)) {
            return false;
        }
        let open = || (0..history.len()).filter(|n| done >> n & 1 == 0);
        let first_end = open().map(|n| history[n].ended).min().unwrap_or(u64::MAX);
        open().filter(|&n| history[n].began < first_end).any(|n| {
            let (answer, next) = self.apply(state, history[n].op);
            self.fits(answer, history[n].answer)
                && self.search(history, done | 1 << n, next, refuted)
        })
    }
}

struct ReadsGive;

impl Expiry<u64, u64> for ReadsGive {
    fn expire_after_create(&self, _: &u64, _: &u64, _: Instant) -> Option<Duration> {
        None
    }

    fn expire_after_read(
        &self,
        _: &u64,
        _: &u64,
        _: Instant,
        _: Option<Duration>,
        _: Instant,
    ) -> Option<Duration> {
        Some(READ)
    }
}

fn seen(entry: Option<&Entry<u64, u64>>) -> Seen {
    entry.map(|entry| (**entry, entry.expires_in()))
}

fn perform(cache: &Cache<u64, u64>, key: u64, op: Op) -> Answer {
    let compute = |decision: Decision<u64>| {
        let mut shown = None;
        let result = cache.entry(key).and_compute_with(|entry| {
            shown = seen(entry.as_ref());
            // Longer than the others take.
            (0..20).for_each(|_| std::hint::spin_loop());
            decision
        });
        match (result, decision, shown) {
            (CompResult::Inserted(new), Decision::Put(put), None)
            | (CompResult::ReplacedWith(new), Decision::Put(put), Some(_)) => assert_eq!(*new, put),
            (CompResult::Removed(old), Decision::Remove, Some(_))
            | (CompResult::Unchanged(old), Decision::Nop, Some(_)) => {
                assert_eq!(seen(Some(&old)), shown);
            }
            (CompResult::StillNone, Decision::Nop | Decision::Remove, None) => {}
            (result, _, _) => panic!("{decision:?} of {shown:?} came to {result:?}"),
        }
        Answer::Shown(shown)
    };
    match op {
        Op::Get => Answer::Value(cache.get(&key)),
        Op::GetEntry => Answer::Entry(seen(cache.get_entry(&key).as_ref())),
        Op::Peek => Answer::Entry(seen(cache.peek(&key).as_ref())),
        Op::Touch => Answer::Was(cache.touch(&key)),
        Op::Insert(value) => {
            cache.insert(key, value);
            Answer::Done
        }
        Op::InsertFor(value, ttl) => {
            cache.insert_with_ttl(key, value, ttl);
            Answer::Done
        }
        Op::Remove => Answer::Value(cache.remove(&key)),
        Op::RemoveIfOdd => Answer::Value(cache.remove_if(&key, |_, value| value % 2 == 1)),
        Op::Put(value) => compute(Decision::Put(value)),
        Op::ComputeRemove => compute(Decision::Remove),
        Op::Look => compute(Decision::Nop),
        Op::SetTtl(ttl) => Answer::Was(cache.set_ttl(&key, ttl)),
        Op::Persist => Answer::Was(cache.persist(&key)),
        Op::ExpiresIn => Answer::Life(cache.expires_in(&key)),
    }
}

/// The next number of a SplitMix64 sequence.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn random_op(random: u64, value: u64) -> Op {
    let ttl = Duration::from_secs([0, 5, 10, 20][(random >> 32) as usize % 4]);
    match random % 28 {
        0..3 => Op::Get,
        3..5 => Op::GetEntry,
        5 => Op::Peek,
        6 => Op::Touch,
        7..11 => Op::Insert(value),
        11..13 => Op::InsertFor(value, ttl),
        13..15 => Op::Remove,
        15 => Op::RemoveIfOdd,
        16..20 => Op::Put(value),
        20 => Op::ComputeRemove,
        21 => Op::Look,
        22..25 => Op::SetTtl(ttl),
        25 => Op::Persist,
        _ => Op::ExpiresIn,
    }
}

fn told(history: &[Event]) -> String {
    let line = |Event { op, answer, began, ended }: &Event| {
        format!("\n{began:9}..{ended:<9} {op:?} -> {answer:?}")
    };
    history.iter().map(line).fold("no order explains".to_owned(), |text, line| text + &line)
}

/// Where all threads wait for each other, again and again.
#[derive(Default)]
struct Meeting {
    arrived: AtomicUsize,
    broken: AtomicBool,
}

impl Meeting {
    /// Waits for the others; false if one of them has failed.
    fn wait(&self, number: usize) -> bool {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        let mut spins = 0u32;
        while self.arrived.load(Ordering::Acquire) < THREADS * number {
            if self.broken.load(Ordering::Acquire) {
                return false;
            }
            spins += 1;
            if spins.is_multiple_of(64) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
        true
    }
}

/// Breaks the meeting up if its thread panics.
struct Attendance<'a>(&'a Meeting);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}

fn build(setup: Setup) -> Cache<u64, u64> {
    let (clock, _) = Clock::manual();
    let mut builder = Cache::builder().clock(clock);
    if setup.idle {
        builder = builder.time_to_idle(IDLE);
    }
    if setup.hook {
        builder = builder.expire_after(ReadsGive);
    }
    builder.build()
}

fn check(setup: Setup, seed: u64) {
    let cache = build(setup);
    let (time, meeting) = (AtomicU64::new(0), Meeting::default());
    let history = Mutex::new(Vec::new());
    let work = |thread: usize| {
        let _attendance = Attendance(&meeting);
        let mut random = seed << 8 | thread as u64;
        for round in 1..=histories() {
            if !meeting.wait(2 * round as usize - 1) {
                return;
            }
            let mut mine: Vec<_> = (0..LENGTH)
                .map(|n| {
                    let op = random_op(draw(&mut random), (thread * LENGTH + n) as u64);
                    let began = time.fetch_add(1, Ordering::SeqCst);
                    let answer = perform(&cache, round, op);
                    let ended = time.fetch_add(1, Ordering::SeqCst);
                    Event { op, answer, began, ended }
                })
                .collect();
            history.lock().unwrap().append(&mut mine);
            if !meeting.wait(2 * round as usize) {
                return;
            }
            // The others wait for this one at the next meeting.
            if thread == 0 {
                let mut history = std::mem::take(&mut *history.lock().unwrap());
                history.sort_by_key(|event| event.began);
                assert!(setup.explains(&history), "{setup:?}: {}", told(&history));
                if round.is_multiple_of(1000) {
                    cache.invalidate_all();
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|n| scope.spawn(move || work(n))).collect();
        for thread in threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    cache.audit();
}

#[test]
fn with_terms_of_their_own() {
    check(Setup { idle: false, hook: false }, 1);
}

#[test]
fn with_an_idle_time() {
    check(Setup { idle: true, hook: false }, 2);
}

#[test]
fn with_a_read_hook() {
    check(Setup { idle: false, hook: true }, 3);
}

#[test]
fn with_an_idle_time_and_a_read_hook() {
    check(Setup { idle: true, hook: true }, 4);
}

/// The checker itself: it takes what can be explained and nothing else.
#[test]
fn the_checker_tells_the_difference() {
    let setup = Setup { idle: false, hook: false };
    let event = |op, answer, began, ended| Event { op, answer, began, ended };
    let insert = event(Op::Insert(1), Answer::Done, 0, 3);
    let found = |began, ended| event(Op::Get, Answer::Value(Some(1)), began, ended);
    let missed = |began, ended| event(Op::Get, Answer::Value(None), began, ended);
    assert!(setup.explains(&[insert, missed(1, 2), found(4, 5)]));
    assert!(setup.explains(&[insert, found(1, 2), found(4, 5)]));
    assert!(!setup.explains(&[insert, found(1, 2), missed(4, 5)]));
    assert!(!setup.explains(&[insert, missed(4, 5)]));
    let removal = event(Op::Remove, Answer::Value(Some(1)), 1, 6);
    assert!(setup.explains(&[insert, removal, missed(4, 5)]));
    assert!(!setup.explains(&[insert, removal, event(Op::Remove, Answer::Value(Some(1)), 1, 6)]));
}
