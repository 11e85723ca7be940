//! Timers with a thread, on real time: what happens is checked, not when.

use cortado::Clock;
use cortado::timer::{CancelOutcome, Handle, Missed, Run, Stop, Timer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const MS: Duration = Duration::from_millis(1);

#[test]
fn jobs_come_in_order_and_never_early() {
    let timer = Timer::builder().run_here().start().unwrap();
    let (send, told) = channel();
    let start = Instant::now();
    let mut kept: Vec<Handle> = Vec::new();
    for ms in [40, 5, 20, 1, 20, 0] {
        let send = send.clone();
        let job = timer.after(MS * ms, move |_| send.send((ms, start.elapsed())).unwrap());
        kept.push(job.unwrap());
    }
    let told: Vec<(u32, Duration)> = told.iter().take(6).collect();
    assert!(told.iter().map(|it| it.0).eq([0, 1, 5, 20, 20, 40]), "{told:?}");
    assert!(told.iter().all(|&(ms, elapsed)| elapsed >= MS * ms), "{told:?}");
}

/// A job that is due sooner wakes a thread that sleeps for a later one, or for ever.
#[test]
fn an_earlier_job_wakes_the_thread() {
    let timer = Timer::new();
    let (send, told) = channel();
    let _far = timer.after(Duration::from_secs(3600), |_| ()).unwrap();
    while timer.stats().wake_ups == 0 {
        // It sleeps for the far one now, or will.
        timer.after(Duration::ZERO, |_| ()).unwrap().detach();
        std::thread::yield_now();
    }
    let _near = timer.after(MS, move |_| send.send(()).unwrap()).unwrap();
    told.recv().unwrap();
}

#[test]
fn an_idle_timer_does_not_wake_up() {
    let timer = Timer::new();
    let (send, told) = channel();
    let _far = timer.after(Duration::from_secs(3600), |_| ()).unwrap();
    let _once = timer.after(MS, move |_| send.send(()).unwrap()).unwrap();
    told.recv().unwrap();
    let before = timer.stats().wake_ups;
    std::thread::sleep(100 * MS);
    // At most the sleep that began meanwhile.
    assert!(timer.stats().wake_ups <= before + 1);
    // A later job does not wake it.
    let _later: Vec<Handle> =
        (1..100).map(|n| timer.after(Duration::from_secs(3600 + n), |_| ()).unwrap()).collect();
    assert!(timer.stats().wake_ups <= before + 1);
}

/// So no burst of jobs keeps another timer, or the listeners of caches, waiting.
#[test]
fn no_worker_runs_jobs_of_two_timers_or_of_a_timer_and_a_cache() {
    const ROUNDS: usize = 20;
    let (send, told) = channel();
    let of_cache = send.clone();
    let cache = cortado::Cache::<usize, usize>::builder()
        .scheduler(true)
        .time_to_live(MS)
        .expiry_resolution(MS)
        .removal_listener(move |_| of_cache.send(std::thread::current().id()).unwrap());
    let cache = crate::common::audited::audited(cache.build());
    let timers = [Timer::new(), Timer::new()];
    let mut workers = [const { Vec::new() }; 3];
    for round in 0..ROUNDS {
        for (timer, workers) in timers.iter().zip(&mut workers) {
            let send = send.clone();
            let job = move |_: Run| send.send(std::thread::current().id()).unwrap();
            timer.after(Duration::ZERO, job).unwrap().detach();
            workers.push(told.recv().unwrap());
        }
        cache.insert(round, round);
        workers[2].push(told.recv().unwrap());
    }
    for [one, another] in [[0, 1], [0, 2], [1, 2]] {
        let both = workers[one].iter().find(|thread| workers[another].contains(thread));
        assert_eq!(both, None, "{one} and {another} share a worker");
    }
}

/// A clock of the user's is looked at again and again while a job waits. It may panic.
#[test]
fn a_clock_of_the_users_is_followed() {
    let (start, reads) = (Instant::now(), AtomicUsize::new(0));
    let clock = Clock::custom(move || {
        let is_timers = std::thread::current().name() == Some("cortado-timer");
        assert!(!is_timers || reads.fetch_add(1, SeqCst) != 3, "a reading that fails");
        start.elapsed() * 1000
    });
    let timer = Timer::builder().clock(clock).start().unwrap();
    let (send, told) = channel();
    let job = timer.after(Duration::from_secs(2), move |run| send.send(run.number).unwrap());
    job.unwrap().detach();
    assert_eq!(told.recv().unwrap(), 1);
}

/// A clock of the user's may stand just before a deadline. The timer looks at it again no sooner
/// than a tick later, or once a second.
#[test]
fn a_clock_that_stands_is_looked_at_rarely() {
    let nanos = Arc::new(AtomicU64::new(0));
    let read = Arc::clone(&nanos);
    let clock = Clock::custom(move || Duration::from_nanos(read.load(SeqCst)));
    let tick = Duration::from_secs(10);
    let timer = Timer::builder().clock(clock).tick(tick).start().unwrap();
    let (send, told) = channel();
    nanos.store(tick.as_nanos() as u64 - 1, SeqCst);
    let job = timer.after(Duration::from_nanos(1), move |run| send.send(run.number).unwrap());
    job.unwrap().detach();
    let (start, before) = (Instant::now(), timer.stats().wake_ups);
    std::thread::sleep(100 * MS);
    let wake_ups = timer.stats().wake_ups - before;
    assert!(wake_ups <= 4 + start.elapsed().as_secs(), "{wake_ups} wake-ups");
    assert!(timer.shutdown(Stop::FireAll).is_empty());
    assert_eq!(told.recv().unwrap(), 1);
}

/// Threads insert, move and cancel jobs while they run: each job runs once, or was cancelled.
#[test]
fn each_job_ends_once_in_any_race() {
    let jobs = crate::common::effort::scale("CORTADO_TIMER_JOBS", 100_000) as usize / 4;
    let timer = Timer::builder().max_batch(16).start().unwrap();
    let (runs, cancelled) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (timer, runs, cancelled) = (&timer, &runs, &cancelled);
            scope.spawn(move || {
                let mut state = thread;
                let mut open = Vec::new();
                for number in 0..jobs {
                    let random = crate::common::crowd::draw(&mut state);
                    let runs = Arc::clone(runs);
                    let job = timer.after(MS * (random % 5) as u32, move |_| {
                        runs.fetch_add(1, SeqCst);
                        assert!(number % 1000 != 0, "one in a thousand panics");
                    });
                    open.push(job.unwrap().detach());
                    let other = open[(random >> 8) as usize % open.len()];
                    match random >> 40 & 3 {
                        0 | 1 if timer.cancel(other) == CancelOutcome::Cancelled => {
                            cancelled.fetch_add(1, SeqCst);
                        }
                        2 => _ = timer.reschedule(other, MS * (random >> 50 & 7) as u32),
                        _ => {}
                    }
                    if open.len() > 100 {
                        open.drain(..50);
                    }
                }
            });
        }
    });
    let unfired = timer.shutdown(Stop::Drain(Duration::from_secs(600)));
    assert_eq!((unfired.len(), timer.pending(), timer.running()), (0, 0, 0));
    let cancelled = cancelled.into_inner();
    assert_eq!(runs.load(SeqCst) + cancelled, 4 * jobs);
    let stats = timer.stats();
    assert_eq!((stats.fired, stats.cancelled), (runs.load(SeqCst) as u64, cancelled as u64));
    crate::common::crowd::counted(4 * jobs as u64, "jobs");
}

#[test]
fn a_series_goes_on_until_it_is_cancelled() {
    let timer = Timer::new();
    let (send, told) = channel();
    let series = timer.every(MS, Missed::Burst, move |run| send.send(run.number).unwrap());
    let series = series.unwrap();
    assert!(told.iter().take(10).eq(1..=10));
    let _ = series.cancel();
    // The channel closes when the job is dropped, at the latest after its last run.
    let rest: Vec<u64> = told.iter().collect();
    assert!(rest.iter().copied().eq(11..11 + rest.len() as u64));
}
