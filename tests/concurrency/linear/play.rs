//! Threads that play random histories on a cache, one key after the other.

use super::jobs::{self, Jobs};
use super::perform::{self, dwell, perform};
use super::reloads::BEGUN;
use super::{Event, IDLE, Op, READ, RELOADED, Refresh, Setup, Time, tasks};
use crate::common::audited::{Audited, LoadingAudited, audited, loading_audited};
use crate::common::crowd::{counted, draw, seed};
use crate::common::effort::scale;
use cortado::{Cache, Clock, Expiry, Loaded, Loader, Reloaded};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const THREADS: usize = 3;
/// Operations of each thread in a history.
const LENGTH: usize = 4;

/// Histories of a test. Those that wait for other threads' jobs take longer, and are fewer.
fn histories(setup: Setup) -> u64 {
    let histories = scale("CORTADO_HISTORIES", 5_000);
    if setup.refresh == Refresh::Threads { histories / 4 } else { histories }
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
        Some(Duration::from_secs(READ))
    }
}

std::thread_local! {
    /// What the next load of the stored loader makes on this thread.
    pub static MAKES: Cell<u64> = const { Cell::new(0) };
    /// Reloads on this thread, and loads by the stored loader.
    pub static RELOADS: Cell<u64> = const { Cell::new(0) };
    static LOADS: Cell<u64> = const { Cell::new(0) };
}

/// Makes a new value of the old one, so that a reload that has landed over a later value shows.
struct Adds;

impl Loader<u64, u64> for Adds {
    type Error = ();

    fn load(&self, _: &u64) -> Result<Loaded<u64>, ()> {
        LOADS.set(LOADS.get() + 1);
        dwell();
        Ok(Loaded::new(MAKES.get()))
    }

    fn reload(&self, _: &u64, old: &u64) -> Result<Reloaded<u64>, ()> {
        RELOADS.set(RELOADS.get() + 1);
        dwell();
        Ok(Reloaded::new(old + RELOADED))
    }
}

/// The cache of a test.
pub enum Subject {
    Plain(Audited<u64, u64>),
    Refreshing(LoadingAudited<u64, u64, ()>),
}

impl Subject {
    pub fn cache(&self) -> &Cache<u64, u64> {
        match self {
            Self::Plain(cache) => cache,
            Self::Refreshing(cache) => cache.cache(),
        }
    }

    /// Has the entry reloaded, or loaded.
    pub fn refresh(&self, key: u64) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Refreshing(cache) => cache.refresh(&key),
        }
    }
}

fn random_op(setup: Setup, random: u64, value: u64) -> Op {
    let life = [0, 5, 10, 20][(random >> 32) as usize % 4];
    let (one, other) = (random >> 40 & 1 == 0, random >> 41 & 1 == 0);
    match random % 52 {
        0..3 => Op::Get,
        3..5 => Op::GetEntry,
        5 => Op::Peek,
        6 => Op::Touch,
        7..10 => Op::Insert(value),
        10..12 => Op::InsertFor(value, life),
        12..15 => Op::Load(value),
        15..17 => Op::Remove,
        17 => Op::RemoveIfOdd,
        18 => Op::Clear,
        19..23 => Op::Put(value),
        23 => Op::ComputeRemove,
        24 => Op::Look,
        25..28 => Op::SetTtl(life),
        28 => Op::Persist,
        29..32 => Op::ExpiresIn,
        32..35 => Op::LoadFallibly { value, fails: one, other_type: other },
        35..38 => Op::LoadOptionally { value, makes: one },
        38..41 => Op::Guard { value, drops: one },
        // What it replaces it has read before: where reads change lives, that is two operations.
        41..44 if setup.hook || setup.idle => Op::Load(value),
        41..44 => Op::LoadIf(value),
        44..46 => Op::Upsert(value),
        46..48 => Op::GetIf,
        48..50 if setup.refresh != Refresh::Never => Op::MakeStale,
        48..50 => Op::Get,
        _ if setup.refresh != Refresh::Never && one => Op::Reload(value),
        _ => Op::Replace(value),
    }
}

/// Whether the operation is a task's, in a history in which tasks play along. Three in four are,
/// of those that have a form for tasks.
fn is_by_task(setup: Setup, op: Op, random: u64) -> bool {
    let has_form =
        !matches!(op, Op::Peek | Op::ExpiresIn | Op::Clear | Op::Reload(_) | Op::MakeStale);
    setup.tasks && has_form && random >> 42 & 3 != 0
}

fn told(history: &[Event]) -> String {
    let line = |Event { op, answer, began, ended, loader, readings }: &Event| {
        let loader = loader.map_or(String::new(), |(from, to)| format!(" (loader {from}..{to})"));
        format!("\n{began:9}..{ended:<9} at {readings:?} {op:?} -> {answer:?}{loader}")
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

std::thread_local! {
    static STALLS: Cell<u64> = const { Cell::new(1) };
}

/// Holds its thread up now and then: between a reading of the clock and what is done by it.
fn stall() {
    let mut state = STALLS.get();
    let random = draw(&mut state);
    STALLS.set(state);
    if random.is_multiple_of(8) {
        (0..random >> 54).for_each(|_| std::hint::spin_loop());
    }
}

/// A clock, and all that it has read in this round.
#[derive(Default)]
pub struct Dial {
    time: Arc<AtomicU64>,
    read: Mutex<Vec<Time>>,
}

impl Dial {
    pub fn now(&self) -> Time {
        self.time.load(Ordering::SeqCst)
    }

    fn advance(&self, by: Time) {
        let mut read = self.read.lock().unwrap();
        self.time.fetch_add(by, Ordering::SeqCst);
        read.push(self.now());
    }

    fn start(&self) {
        *self.read.lock().unwrap() = vec![self.now()];
    }

    /// What it read from one reading to another.
    fn between(&self, from: Time, to: Time) -> Vec<Time> {
        let read = self.read.lock().unwrap();
        read.iter().copied().filter(|time| (from..=to).contains(time)).collect()
    }
}

/// Numbers what happens, in all tests that run.
pub static ORDER: AtomicU64 = AtomicU64::new(1);

/// What is known of a round.
#[derive(Default)]
pub struct Record {
    pub dial: Dial,
    pub history: Mutex<Vec<Event>>,
    /// Jobs of the executor that have not ended.
    pub jobs: AtomicUsize,
    /// Reloads of such jobs, in all rounds.
    pub reloads: AtomicU64,
}

impl Record {
    /// The events of the round, in order. Nobody performs anything, but for jobs of the executor,
    /// for whose ends this waits.
    fn take(&self) -> Vec<Event> {
        while self.jobs.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        let mut history = std::mem::take(&mut *self.history.lock().unwrap());
        history.sort_by_key(|event| event.began);
        for event in &mut history {
            event.readings = self.dial.between(event.readings[0], event.readings[1]);
        }
        history
    }
}

/// The most reloads that one operation runs: each operation leaves one at most.
const MOST_RELOADS: u64 = (THREADS * LENGTH) as u64;

/// The time until an entry is stale, where the clock moves.
const SOFT: Time = 3;

fn build(setup: Setup) -> (Subject, Arc<Record>, Vec<JoinHandle<()>>) {
    let record = Arc::<Record>::default();
    let reading = Arc::clone(&record.dial.time);
    let clock = Clock::custom(move || {
        let now = Duration::from_secs(reading.load(Ordering::SeqCst));
        stall();
        now
    });
    let mut builder = Cache::builder().clock(clock);
    if setup.idle {
        builder = builder.time_to_idle(Duration::from_secs(IDLE));
    }
    if setup.hook {
        builder = builder.expire_after(ReadsGive);
    }
    let mut workers = Vec::new();
    if setup.refresh == Refresh::Threads {
        let (jobs, threads) = Jobs::new(&record);
        builder = builder.executor(move |job| jobs.submit(job));
        workers = threads;
    }
    let subject = if setup.refresh == Refresh::Never {
        Subject::Plain(audited(builder.build()))
    } else {
        let soft = Duration::from_secs(if setup.moves { SOFT } else { 0 });
        if setup.refresh == Refresh::AtOnce {
            builder = builder.executor(|job: cortado::Job| job());
        }
        let builder = builder.refresh_after_write(soft);
        Subject::Refreshing(loading_audited(builder.build_with_loader(Adds)))
    };
    (subject, record, workers)
}

/// Plays histories, one per key, and has each explained. Some of its operations are of the kind
/// `favoured`.
pub fn check(setup: Setup, test: u64, favoured: &(dyn Fn(Op) -> bool + Sync)) {
    let histories = histories(setup);
    let (cache, record, workers) = build(setup);
    let meeting = Meeting::default();
    let by_tasks = cache.cache().future();
    let one = |key: u64, op: Op, drawn: u64, mine: &mut Vec<Event>| {
        // The others are for reloads: one that a read triggers, and those that others have left.
        let began = ORDER.fetch_add(1 + MOST_RELOADS, Ordering::SeqCst);
        let from = record.dial.now();
        RELOADS.set(0);
        LOADS.set(0);
        perform::begin();
        jobs::begin(op, began, from);
        let answer = if is_by_task(setup, op, drawn) {
            tasks::perform(&by_tasks, key, op, drawn >> 44 & 1 == 0)
        } else {
            perform(&cache, key, op)
        };
        let to = record.dial.now();
        let ended = ORDER.fetch_add(1, Ordering::SeqCst);
        // The readings are filled in when nobody moves the clock any more.
        let loader = perform::loader_ran().filter(|_| op.load().is_some());
        let readings = vec![from, to];
        let event = |op, answer, began, loader| Event {
            op,
            answer,
            began,
            ended,
            loader,
            readings: readings.clone(),
        };
        // A call that asks for a reload may hand on one that another call has left, as the other
        // may hand on this one's.
        let has_begun = matches!(op, Op::Reload(_)) && answer == BEGUN;
        jobs::answer(has_begun);
        if setup.refresh == Refresh::Threads && has_begun {
            // Its job notes it.
            return;
        }
        mine.push(event(op, answer, began, loader));
        let own = u64::from(has_begun && LOADS.get() == 0);
        let renewals = RELOADS.get().saturating_sub(own);
        assert!(renewals <= MOST_RELOADS, "{op:?} has run {renewals} reloads");
        for n in 1..=renewals {
            mine.push(event(Op::Renewal, BEGUN, began + n, None));
        }
    };
    let work = |thread: usize| {
        let _attendance = Attendance(&meeting);
        let mut random = seed(test << 8 | thread as u64);
        for round in 1..=histories {
            if thread == 0 {
                record.dial.start();
            }
            if !meeting.wait(2 * round as usize - 1) {
                return;
            }
            let mut mine = Vec::with_capacity(LENGTH);
            for n in 0..LENGTH {
                let value = (thread * LENGTH + n) as u64;
                let mut drawn = draw(&mut random);
                if setup.moves && drawn >> 60 < 4 {
                    record.dial.advance(1 + (drawn >> 48) % 6);
                }
                while !favoured(random_op(setup, drawn, value)) {
                    drawn = draw(&mut random);
                }
                one(round, random_op(setup, drawn, value), drawn, &mut mine);
            }
            record.history.lock().unwrap().append(&mut mine);
            if !meeting.wait(2 * round as usize) {
                return;
            }
            // The others wait for this one at the next meeting.
            if thread == 0 {
                let history = record.take();
                assert!(setup.explains(&history), "{setup:?}: {}", told(&history));
                if round.is_multiple_of(1000) {
                    cache.cache().invalidate_all();
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
    drop((by_tasks, cache));
    // They end with the cache, which has their queue.
    workers.into_iter().for_each(|worker| worker.join().unwrap());
    let by_jobs = record.reloads.load(Ordering::Relaxed);
    assert_eq!(by_jobs > 0, setup.refresh == Refresh::Threads, "{by_jobs} reloads on threads");
    counted(histories, "histories");
}
