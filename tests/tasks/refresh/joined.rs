//! A call that waits for another call's reload holds the old value meanwhile, whose destructor may
//! panic.

use super::bench::SOFT;
use crate::common::audited::{TasksLoadingAudited, tasks_loading_audited};
use crate::common::must_end;
use crate::hand::{Boxed, Gate, Task, at_once};
use cortado::future::Cache;
use cortado::{AsyncLoader, Clock, Loaded, Reloaded};
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::task::{Context, Poll};

/// A value, and how many there are. The destructor of a value that was inserted panics.
struct Value {
    is_inserted: bool,
    living: Arc<AtomicI64>,
}

impl Value {
    fn new(is_inserted: bool, living: &Arc<AtomicI64>) -> Self {
        living.fetch_add(1, SeqCst);
        Self { is_inserted, living: Arc::clone(living) }
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Self::new(false, &self.living)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.living.fetch_sub(1, SeqCst);
        if self.is_inserted {
            resume_unwind(Box::new(()));
        }
    }
}

/// Reloads when the gate is open.
struct Source(Gate, Arc<AtomicI64>);

impl AsyncLoader<u32, Value> for Source {
    type Error = ();

    async fn load(&self, _: &u32) -> Result<Loaded<Value>, ()> {
        Ok(Loaded::new(Value::new(false, &self.1)))
    }

    async fn reload(&self, _: &u32, _: &Value) -> Result<Reloaded<Value>, ()> {
        self.0.passed().await;
        Ok(Loaded::new(Value::new(false, &self.1)).into())
    }
}

type Pages = TasksLoadingAudited<u32, Value, ()>;
type Call = for<'a> fn(&'a Pages) -> Boxed<'a, ()>;

const CALLS: [Call; 2] = [
    |cache| Box::pin(async { drop(cache.refresh(&7).await) }),
    |cache| Box::pin(async { drop(cache.get_within(&7, pending::<()>()).await) }),
];

#[test]
fn the_old_values_destructor_leaks_no_new_value() {
    must_end(|| {
        for (call, is_removed) in CALLS.iter().flat_map(|call| [(call, false), (call, true)]) {
            let (gate, living) = (Gate::default(), Arc::new(AtomicI64::new(0)));
            let (clock, hand) = Clock::manual();
            let builder =
                Cache::builder().refresh_after_write(SOFT).executor(|job: cortado::Job| job());
            let source = Source(gate.clone(), Arc::clone(&living));
            let cache = tasks_loading_audited(builder.clock(clock).build_with_loader(source));
            at_once(cache.insert(7, Value::new(true, &living)));
            hand.advance(SOFT);
            let mut reload = Task::waiting(async { drop(cache.refresh(&7).await) });
            let mut joined = Task::waiting(call(&cache));
            if is_removed {
                at_once(cache.invalidate(&7));
            }
            gate.open();
            let run =
                |task: &mut Task<'_, ()>| catch_unwind(AssertUnwindSafe(|| task.run())).is_ok();
            run(&mut reload);
            at_once(cache.run_pending_tasks());
            // It drops the last count on the old value, unless a guard of another test protects
            // that.
            run(&mut joined);
            drop((reload, joined));
            drop(cache);
            assert_eq!(living.load(SeqCst), 0, "values that nobody has dropped");
        }
    });
}

/// A time limit that is never over. Its destructor panics.
struct Limit;

impl Future for Limit {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        resume_unwind(Box::new(()));
    }
}

/// Whether the key has a value, is stale or missing.
#[test]
fn the_limits_destructor_leaks_no_value() {
    must_end(|| {
        for case in 0..3 {
            let (gate, living) = (Gate::default(), Arc::new(AtomicI64::new(0)));
            gate.open();
            let (clock, hand) = Clock::manual();
            let builder =
                Cache::builder().refresh_after_write(SOFT).executor(|job: cortado::Job| job());
            let source = Source(gate, Arc::clone(&living));
            let cache = tasks_loading_audited(builder.clock(clock).build_with_loader(source));
            if case > 0 {
                at_once(cache.insert(7, Value::new(false, &living)));
            }
            if case > 1 {
                hand.advance(SOFT);
            }
            let mut call = Task::new(async { drop(cache.get_within(&7, Limit).await) });
            let panics = catch_unwind(AssertUnwindSafe(|| call.run())).is_err();
            assert!(panics, "the limit's destructor");
            drop(call);
            drop(cache);
            assert_eq!(living.load(SeqCst), 0, "values that nobody has dropped");
        }
    });
}
