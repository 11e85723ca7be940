//! The forms that a job may have.

use crate::jobs::{Bench, MS};
use cortado::timer::{JobFuture, Missed, Repeat, Run};
use std::future::{Future, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

static NAMED: AtomicU64 = AtomicU64::new(0);

fn named(run: Run) {
    NAMED.fetch_add(run.number, SeqCst);
}

async fn named_async(run: Run) {
    NAMED.fetch_add(10 * run.number, SeqCst);
}

/// As a function of the user's would make jobs.
fn any(count: &Arc<AtomicU64>) -> impl FnMut(Run) -> JobFuture + Send + use<> {
    let count = Arc::clone(count);
    move |run| {
        let count = Arc::clone(&count);
        Box::pin(async move { _ = count.fetch_add(run.number, SeqCst) })
    }
}

fn opaque(count: &Arc<AtomicU64>) -> impl Future<Output = ()> + Send + use<> {
    let count = Arc::clone(count);
    async move { _ = count.fetch_add(100, SeqCst) }
}

#[test]
fn jobs_block_or_return_futures() {
    let bench = Bench::new();
    let (timer, count) = (&bench.timer, Arc::new(AtomicU64::new(0)));
    let adds = || {
        let count = Arc::clone(&count);
        move |by: u64| _ = count.fetch_add(by, SeqCst)
    };
    let (blocks, awaits, boxed) = (adds(), adds(), adds());
    timer.after(MS, move |run| blocks(run.number)).unwrap().detach();
    timer.after(MS, |run| async move { awaits(run.number) }).unwrap().detach();
    timer
        .after(MS, move |run| {
            boxed(run.number);
            ready(())
        })
        .unwrap()
        .detach();
    timer.after(MS, named).unwrap().detach();
    timer.after(MS, named_async).unwrap().detach();
    let future = opaque(&count);
    timer.after(MS, |_| future).unwrap().detach();
    timer.every(MS, Missed::Skip, named_async).unwrap().detach();
    timer.every_with_gap(MS, any(&count)).unwrap().detach();
    timer.intervals([MS], Repeat::Once, |_: Run| async {}).unwrap().detach();
    bench.step(1);
    assert_eq!((count.load(SeqCst), NAMED.load(SeqCst)), (3 + 100 + 1, 1 + 10 + 10));
    assert_eq!((timer.running(), timer.stats().fired), (0, 9));
}

/// A closure that returns never is a job that blocks.
#[test]
fn jobs_may_diverge() {
    let bench = Bench::new();
    bench.timer.after(MS, |_| panic!("at once")).unwrap().detach();
    bench.timer.every(MS, Missed::Skip, |_| -> () { panic!("again") }).unwrap().detach();
    bench.timer.after(MS, |_| async { panic!("in a future") }).unwrap().detach();
    bench.walk(2);
    assert_eq!(bench.timer.stats().panicked, 4);
}
