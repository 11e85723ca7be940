//! What the behaviour tests share: a cache on a manual clock whose removals are written down, and
//! the matrix of configurations.
#![allow(dead_code, reason = "each test binary uses its part")]

pub mod amid;
pub mod audited;
pub mod crowd;
pub mod effort;
pub mod fuse;
pub mod neighbour;
pub mod noted;
pub mod refusals;
pub mod same_hash;
pub mod unplanned;
use cortado::{Builder, Cache, Clock, Expiry, ManualClock, RemovalCause, Removed};
use std::fmt::Debug;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub const SECOND: Duration = Duration::from_secs(1);
pub const MINUTE: Duration = Duration::from_secs(60);
/// More than the default tick of the timer wheel, 2^24 ns.
pub const TICK: Duration = Duration::from_millis(17);
/// After this a test has hung; nothing is measured by it.
pub const HANG: Duration = Duration::from_secs(120);

/// Keeps something until the process ends, where a leak checker finds it: for hooks that know the
/// cache that knows them.
pub fn kept<T: Send + Sync>(what: T) -> &'static T {
    static KEPT: Mutex<Vec<&'static (dyn Sync + Send)>> = Mutex::new(Vec::new());
    let what: &'static T = Box::leak(Box::new(what));
    KEPT.lock().unwrap().push(what);
    what
}

/// What the listener was told.
#[derive(Clone, Debug, PartialEq)]
pub struct Told<K, V> {
    pub key: K,
    pub value: V,
    pub cause: RemovalCause,
    pub deadline: Option<Instant>,
    pub late_by: Option<Duration>,
    pub age: Duration,
    pub weight: u32,
}

impl<K: Clone, V: Clone> Told<K, V> {
    pub fn of(removed: &Removed<K, V>) -> Self {
        Self {
            key: removed.key().clone(),
            value: removed.value().clone(),
            cause: removed.cause(),
            deadline: removed.deadline(),
            late_by: removed.late_by(),
            age: removed.age(),
            weight: removed.weight(),
        }
    }
}

/// A cache with a manual clock, statistics and a listener that writes everything down.
pub struct Tested<K, V> {
    pub cache: Cache<K, V>,
    pub hand: ManualClock,
    told: Arc<Mutex<Vec<Told<K, V>>>>,
    taken: Mutex<usize>,
}

pub fn tested<K, V>(configure: impl FnOnce(Builder<K, V>) -> Builder<K, V>) -> Tested<K, V>
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let (clock, hand) = Clock::manual();
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let builder = Cache::builder()
        .clock(clock)
        .record_stats(true)
        .removal_listener(move |removed| log.lock().unwrap().push(Told::of(&removed)));
    Tested { cache: configure(builder).build(), hand, told, taken: Mutex::new(0) }
}

impl<K, V> Tested<K, V>
where
    K: Hash + Eq + Clone + Debug + Ord + Send + Sync + 'static,
    V: Clone + Debug + Send + Sync + 'static,
{
    /// Finishes the maintenance and waits until the listener, which the scheduler's thread may be
    /// running at this moment, has been told of every removal that was counted.
    pub fn settle(&self) {
        self.cache.run_pending_tasks();
        let stats = self.cache.stats();
        let removed: u64 = RemovalCause::ALL.iter().map(|&cause| stats.removed(cause)).sum();
        let taken = *self.taken.lock().unwrap();
        let started = Instant::now();
        loop {
            let told = taken + self.told.lock().unwrap().len();
            assert!(told as u64 <= removed, "{told} announced, {removed} removed");
            if told as u64 == removed {
                return;
            }
            assert!(started.elapsed() < HANG, "{told} announced of {removed} removed");
            std::thread::yield_now();
        }
    }

    /// Moves the clock and finishes the maintenance.
    pub fn pass(&self, time: Duration) {
        self.hand.advance(time);
        self.settle();
    }

    /// What the listener was told since the last call.
    pub fn told(&self) -> Vec<Told<K, V>> {
        self.settle();
        let told = std::mem::take(&mut *self.told.lock().unwrap());
        *self.taken.lock().unwrap() += told.len();
        told
    }

    /// The same, keys and causes only, in the order of the keys.
    pub fn causes(&self) -> Vec<(K, RemovalCause)> {
        let mut causes: Vec<_> =
            self.told().into_iter().map(|told| (told.key, told.cause)).collect();
        causes.sort_by(|a, b| a.0.cmp(&b.0));
        causes
    }

    pub fn audit(&self) {
        self.settle();
        self.cache.audit();
    }
}

/// However a test ends well, the cache is as it has to be.
impl<K, V> Drop for Tested<K, V> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.cache.audit();
        }
    }
}

impl<K, V> Deref for Tested<K, V> {
    type Target = Cache<K, V>;

    fn deref(&self) -> &Cache<K, V> {
        &self.cache
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    None,
    Count,
    Weight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    None,
    /// `time_to_live`
    Write,
    /// `time_to_idle`
    Access,
    /// An [`Expiry`]
    Variable,
}

/// The lifetime of entries in every configuration that has one.
pub const LIFE: Duration = MINUTE;
/// The bound of every configuration that has one.
pub const CAPACITY: u64 = 1000;

/// Gives every value [`LIFE`].
struct Variable;

impl Expiry<u64, u64> for Variable {
    fn expire_after_create(&self, _: &u64, _: &u64, _: Instant) -> Option<Duration> {
        Some(LIFE)
    }
}

/// One cell of the matrix.
pub struct Bench {
    pub bound: Bound,
    pub life: Life,
    pub scheduler: bool,
    tested: Tested<u64, u64>,
}

impl Deref for Bench {
    type Target = Tested<u64, u64>;

    fn deref(&self) -> &Tested<u64, u64> {
        &self.tested
    }
}

impl Bench {
    fn new(bound: Bound, life: Life, scheduler: bool) -> Self {
        let tested = tested(|mut builder: Builder<u64, u64>| {
            builder = match bound {
                Bound::None => builder,
                Bound::Count => builder.max_capacity(CAPACITY),
                Bound::Weight => {
                    builder.max_capacity(CAPACITY).weigher(|_, value| (value % 3 + 1) as u32)
                }
            };
            builder = match life {
                Life::None => builder,
                Life::Write => builder.time_to_live(LIFE),
                Life::Access => builder.time_to_idle(LIFE),
                Life::Variable => builder.expire_after(Variable),
            };
            builder.scheduler(scheduler)
        });
        Self { bound, life, scheduler, tested }
    }

    /// How long a new entry lives.
    pub fn lives(&self) -> Option<Duration> {
        (self.life != Life::None).then_some(LIFE)
    }

    /// What an entry weighs.
    pub fn weight(&self, value: u64) -> u32 {
        if self.bound == Bound::Weight { (value % 3 + 1) as u32 } else { 1 }
    }

    /// With what a value leaves that was removed, or replaced, after its life was over.
    pub fn cause_if_over(&self, otherwise: RemovalCause) -> RemovalCause {
        if self.life == Life::None { otherwise } else { RemovalCause::Expired }
    }
}

/// Runs the case in every cell of the matrix, each with a cache of its own, and audits that.
pub fn for_each_config(case: impl Fn(&Bench)) {
    for bound in [Bound::None, Bound::Count, Bound::Weight] {
        for life in [Life::None, Life::Write, Life::Access, Life::Variable] {
            for scheduler in [false, true] {
                // Shown if the case fails.
                eprintln!("bound {bound:?}, life {life:?}, scheduler {scheduler}");
                let bench = Bench::new(bound, life, scheduler);
                case(&bench);
                bench.audit();
            }
        }
    }
}

/// Lets other threads get as far as they can. On a busy machine one turn of theirs takes
/// milliseconds.
pub fn yield_a_while() {
    let started = Instant::now();
    let is_short = |_: &usize| started.elapsed() < 2 * TICK;
    (0..1000).take_while(is_short).for_each(|_| std::thread::yield_now());
}

/// Runs `work` on a thread of its own and returns its result, which must come.
pub fn must_end<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        let _ = sender.send(result);
    });
    let result = receiver.recv_timeout(HANG).expect("it hangs");
    worker.join().expect("the worker has sent its result");
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a single case may take is ten seconds: so many naps of the thread that watches, in which
/// the case did not come to its end. The clock on the wall would count against it what the machine
/// does elsewhere; the processor's time would not see a thread that waits for ever. Naps are late
/// where others want the processors, or the machine stands still. (Not all: beside ten busy
/// threads on two cores a case of some milliseconds once took 100 naps.)
const NAP: Duration = Duration::from_millis(10);
const NAPS: u32 = 1000;

/// Tells what its thread is at.
pub struct Watch(std::sync::mpsc::Sender<String>);

impl Watch {
    /// The case before is at its end, and this one begins.
    pub fn begin(&self, case: String) {
        // Shown if the case fails.
        eprintln!("{case}");
        self.begin_silently(case);
    }

    /// The same for a case that prints what it is when it fails.
    pub fn begin_silently(&self, case: String) {
        self.0.send(case).expect("somebody watches");
    }
}

/// Runs `work` on a thread of its own; each case that it begins must come to its end within ten
/// seconds.
pub fn watched(work: impl FnOnce(&Watch) + Send + 'static) {
    watched_for(NAPS, work);
}

/// The same, within so many naps.
pub fn watched_for(most: u32, work: impl FnOnce(&Watch) + Send + 'static) {
    use std::sync::mpsc::RecvTimeoutError::{Disconnected, Timeout};
    let (sender, receiver) = std::sync::mpsc::channel();
    let worker = std::thread::spawn(move || work(&Watch(sender)));
    let (mut doing, mut naps) = ("the beginning".to_owned(), 0);
    loop {
        match receiver.recv_timeout(NAP) {
            Ok(next) => (doing, naps) = (next, 0),
            Err(Disconnected) => break,
            Err(Timeout) => naps += 1,
        }
        assert!(naps < most, "it hangs: {doing}");
    }
    if let Err(panic) = worker.join() {
        std::panic::resume_unwind(panic);
    }
}

/// The message of a panic that `work` must end with.
pub fn panic_of<T>(work: impl FnOnce() -> T) -> String {
    let panic = match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(_) => panic!("it did not panic"),
        Err(panic) => panic,
    };
    match panic.downcast::<String>() {
        Ok(message) => *message,
        Err(panic) => panic.downcast_ref::<&str>().expect("a message").to_string(),
    }
}
