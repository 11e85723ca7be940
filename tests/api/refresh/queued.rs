//! Loads of `get_within` on an executor: however many callers come, give up and come again, a key
//! has one job; and nobody else waits for one that has not begun.

use super::bench::{self, Bench, SOFT, bench};
use crate::common::audited::{LoadingAudited, loading_audited};
use crate::common::{HANG, watched};
use cortado::{Cache, Clock, GuardResult, Job, LoadError, LoadLimits, Loaded, Op};
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

const NONE: LoadLimits = LoadLimits { soft: Duration::ZERO, hard: Duration::ZERO };
const AMPLE: LoadLimits = LoadLimits { soft: HANG, hard: HANG };

#[test]
fn callers_who_give_up_add_no_jobs_while_a_loader_hangs() {
    watched(|watch| {
        watch.begin("a loader that hangs".to_owned());
        let jobs = Arc::new(AtomicU32::new(0));
        let ((begin, begun), (end, ended)) = (channel(), channel::<()>());
        let (count, ended) = (Arc::clone(&jobs), Mutex::new(ended));
        let builder = Cache::<u32, u32>::builder().executor(move |job: Job| {
            count.fetch_add(1, SeqCst);
            thread::spawn(job);
        });
        let cache = loading_audited(builder.build_with_loader(move |_: &u32| {
            begin.send(()).unwrap();
            ended.lock().unwrap().recv().unwrap();
            Ok::<_, ()>(Loaded::new(1))
        }));
        let time_out = || assert_eq!(cache.get_within(&7, NONE), Err(LoadError::TimedOut));
        time_out();
        begun.recv().unwrap();
        (0..100).for_each(|_| time_out());
        assert_eq!(jobs.load(SeqCst), 1);
        end.send(()).unwrap();
        assert_eq!(cache.get_within(&7, AMPLE), Ok(1));
        // The job's handle on the cache is to go before the test's.
        while Arc::strong_count(&jobs) > 2 {
            thread::yield_now();
        }
    });
}

#[test]
fn a_job_that_waits_is_the_only_one_of_its_key() {
    let b = bench(|builder| builder);
    for _ in 0..100 {
        assert_eq!(b.cache.get_within(&7, NONE), Err(LoadError::TimedOut));
    }
    assert_eq!((b.jobs.len(), b.cache.refresh(&7)), (1, false));
    b.jobs.run();
    assert_eq!((b.cache.get_within(&7, NONE), b.asked()), (Ok(1), vec![(7, None)]));
    // A dropped one makes way for the next.
    for _ in 0..3 {
        assert_eq!(b.cache.get_within(&8, NONE), Err(LoadError::TimedOut));
        assert_eq!(b.jobs.len(), 1);
        b.jobs.drop_one();
    }
}

/// The only thread of the executor may be the one that asks, so a job that waits keeps nobody.
#[test]
fn others_do_not_wait_for_a_job_that_waits() {
    watched(|watch| {
        type Ask = (&'static str, fn(&Bench));
        let asks: [Ask; 6] = [
            ("get", |b| drop(b.cache.get(&7))),
            ("get_many", |b| drop(b.cache.get_many([7]))),
            ("get_with", |b| assert_eq!(b.cache.get_with(7, || 50), 50)),
            ("computation", |b| drop(b.cache.entry(7).and_compute_with(|_| Op::Put(50)))),
            ("guard", |b| match b.cache.get_value_or_guard(&7, None) {
                GuardResult::Guard(guard) => drop(guard.insert(50)),
                _ => unreachable!("the key has no value"),
            }),
            ("insert", |b| b.cache.insert(7, 50)),
        ];
        for (name, ask) in asks {
            watch.begin(name.to_owned());
            let b = bench(|builder| builder);
            assert_eq!(b.cache.get_within(&7, NONE), Err(LoadError::TimedOut));
            ask(&b);
            let value = b.cache.peek(&7).map(|it| *it);
            let asked = b.asked().len();
            assert_eq!((value.is_some(), asked), (true, usize::from(value == Some(1))), "{name}");
            // The job finds nothing to do.
            b.jobs.run();
            assert_eq!((b.cache.peek(&7).map(|it| *it), b.asked()), (value, vec![]), "{name}");
            assert_eq!(b.cache.get_within(&7, NONE).ok(), value);
        }
    });
}

/// What an invalidation came after is not for later callers.
#[test]
fn a_job_that_is_overtaken_is_for_none_who_come_later() {
    let b = bench(|builder| builder);
    assert_eq!(b.cache.get_within(&7, NONE), Err(LoadError::TimedOut));
    b.cache.invalidate(&7);
    assert_eq!(b.cache.get_within(&7, NONE), Err(LoadError::TimedOut));
    assert_eq!(b.jobs.len(), 2);
    b.jobs.run();
    assert_eq!((b.cache.get_within(&7, NONE), b.asked()), (Ok(1), vec![(7, None)]));
}

type Jobs = Arc<Mutex<Vec<Job>>>;

/// A cache whose executor first does this with the cache, and then runs its jobs or keeps them.
fn meddled(
    meddle: impl Fn(&Cache<u32, u32>) + Send + Sync + 'static,
    runs: bool,
) -> (LoadingAudited<u32, u32, ()>, Jobs, Arc<AtomicU32>) {
    let (kept, count) = (Jobs::default(), Arc::new(AtomicU32::new(0)));
    let place = Arc::new(Mutex::new(None::<Cache<u32, u32>>));
    let (jobs, submitted, seen) = (Arc::clone(&kept), Arc::clone(&count), Arc::clone(&place));
    let builder = Cache::<u32, u32>::builder().executor(move |job: Job| {
        submitted.fetch_add(1, SeqCst);
        let cache = seen.lock().unwrap().take();
        cache.iter().for_each(&meddle);
        drop(cache);
        if runs { job() } else { jobs.lock().unwrap().push(job) }
    });
    let load = |_: &u32| Ok::<_, ()>(Loaded::new(1));
    let cache = loading_audited(builder.build_with_loader(load));
    *place.lock().unwrap() = Some(cache.cache().clone());
    (cache, kept, count)
}

#[test]
fn a_value_that_comes_while_the_job_waits_is_returned() {
    watched(|watch| {
        watch.begin("a write while the job waits for ever".to_owned());
        let (cache, jobs, _) = meddled(|cache| cache.insert(7, 50), false);
        assert_eq!(cache.get_within(&7, NONE), Ok(50));
        jobs.lock().unwrap().clear();

        watch.begin("a load that goes past the job".to_owned());
        let (cache, _, jobs) = meddled(|cache| assert_eq!(cache.get_with(7, || 50), 50), true);
        assert_eq!(cache.get_within(&7, AMPLE), Ok(50));
        assert_eq!(jobs.load(SeqCst), 1, "the value is there");
    });
}

#[test]
fn a_load_that_is_overtaken_keeps_no_reload_away() {
    let b = bench(|builder| builder);
    assert_eq!(b.cache.get_within(&7, NONE), Err(LoadError::TimedOut));
    assert!(!b.cache.refresh(&7), "a load is under way");
    b.cache.insert(7, 50);
    assert!(b.cache.refresh(&7));
    b.jobs.run();
    assert_eq!(b.cache.get(&7), Ok(1));
}

/// However often a load is asked for, one job waits, and has one place.
#[test]
fn a_load_that_is_asked_for_again_is_under_way() {
    watched(|watch| {
        watch.begin("asked again".to_owned());
        let b = bench(|builder| builder);
        assert!(b.cache.refresh(&7) && !b.cache.refresh(&7));
        assert_eq!((b.jobs.len(), b.pending()), (1, 1));
        b.jobs.run();
        assert_eq!((b.cache.get(&7), b.asked(), b.pending()), (Ok(1), vec![(7, None)], 0));
        // A load that goes past the job makes the value, and the job ends without.
        assert!(b.cache.refresh(&8));
        assert_eq!(b.cache.get(&8), Ok(2));
        b.jobs.run();
        assert_eq!((b.asked(), b.pending()), (vec![(8, None)], 0));
        // A job that is dropped gives its place back.
        assert!(b.cache.refresh(&9));
        b.jobs.drop_one();
        assert!(b.pending() == 0 && b.cache.refresh(&9));
        b.jobs.run();
        assert_eq!(b.cache.get(&9), Ok(3));
    });
}

/// The number of a comparison, and what is done first then.
type Amid = (u32, Box<dyn FnOnce()>);

std::thread_local! {
    static AMID: RefCell<Option<Amid>> = const { RefCell::new(None) };
}

/// Keys of one hash.
#[derive(Clone, Debug)]
struct Colliding(u32);

impl Hash for Colliding {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(0);
    }
}

impl PartialEq for Colliding {
    fn eq(&self, other: &Self) -> bool {
        let due = AMID.with_borrow_mut(|amid| {
            amid.as_mut()?.0 -= 1;
            amid.take_if(|(number, _)| *number == 0)
        });
        if let Some((_, run)) = due {
            run();
        }
        self.0 == other.0
    }
}

impl Eq for Colliding {}

/// Whenever its late job runs: a load that was asked for meanwhile has said that it will come.
#[test]
fn a_reload_of_a_removed_entry_bypasses_no_load() {
    watched(|watch| {
        let mut number = 1;
        loop {
            watch.begin(format!("at comparison {number}"));
            let (clock, hand) = Clock::manual();
            let jobs = bench::Jobs::default();
            let queue = jobs.clone();
            let builder = Cache::builder().refresh_after_write(SOFT).clock(clock);
            let builder = builder.executor(move |job| queue.push(job));
            let load = |_: &Colliding| Ok::<_, ()>(Loaded::new(1));
            let cache = loading_audited(builder.build_with_loader(load));
            [7, 8].into_iter().for_each(|key| cache.insert(Colliding(key), 0));
            hand.advance(SOFT);
            assert_eq!(cache.get(&Colliding(7)), Ok(0));
            assert_eq!(cache.remove(&Colliding(7)), Some(0));
            let late = jobs.clone();
            let amid = move || thread::spawn(move || late.run_one()).join().unwrap();
            AMID.set(Some((number, Box::new(amid))));
            assert!(cache.refresh(&Colliding(7)));
            let was_reached = AMID.take().is_none();
            jobs.run();
            assert_eq!(cache.cache().get(&Colliding(7)), Some(1), "at comparison {number}");
            if !was_reached {
                break;
            }
            number += 1;
        }
        assert!(number > 2, "a comparison before the load is on the board, and one after it");
    });
}
