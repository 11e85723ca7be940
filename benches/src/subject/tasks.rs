//! The caches for tasks, cortado's and moka's. The futures are polled in place: there is no runtime
//! whose cost would be measured too.

use super::cortado::{Documented, a_second_ago};
use super::moka::Lifetimes;
use super::{Lookup, Plan, Subject};
use crate::key::Key;
use crate::value::Value;
use ::cortado::ClockTime;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future until it is ready. Other threads may have to move on for it.
#[inline]
fn now<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::yield_now(),
        }
    }
}

/// cortado's cache for tasks.
pub struct CortadoFuture<K, V>(::cortado::future::Cache<K, V>);

/// moka's cache for tasks, with an expiry policy.
pub struct MokaFuture<K, V>(::moka::future::Cache<K, V, ahash::RandomState>);

macro_rules! subject {
    ($name:ident, $cache:path, $policy:expr) => {
        impl<K: Key, V: Value> Lookup<K> for $name<K, V> {
            #[inline]
            fn look_up(&self, key: &K) -> bool {
                now(self.0.get(key)).inspect(Value::look).is_some()
            }
        }

        impl<K: Key, V: Value> Subject<K, V> for $name<K, V> {
            type Reader<'a> = &'a Self;

            fn new(plan: Plan) -> Self {
                use $cache as Cache;
                let builder = Cache::builder().max_capacity(plan.capacity);
                let builder = match plan.idle {
                    Some(idle) => builder.time_to_idle(idle),
                    None => builder.expire_after($policy),
                };
                Self(builder.build_with_hasher(ahash::RandomState::new()))
            }

            fn reader(&self) -> Self::Reader<'_> {
                self
            }

            #[inline]
            fn insert(&self, key: K, value: V) {
                now(self.0.insert(key, value));
            }

            fn settle(&self) {
                now(self.0.run_pending_tasks());
            }
        }
    };
}

subject!(CortadoFuture, ::cortado::future::Cache, Documented);
/// cortado's cache for tasks, read by a condition on the time of writing.
pub struct CortadoFutureIf<K, V> {
    tasks: CortadoFuture<K, V>,
    earlier: ClockTime,
}

impl<K: Key, V: Value> Lookup<K> for CortadoFutureIf<K, V> {
    #[inline]
    fn look_up(&self, key: &K) -> bool {
        let earlier = self.earlier;
        let read = self.tasks.0.get_if(key, |_, read| read.written > earlier);
        now(read).inspect(Value::look).is_some()
    }
}

impl<K: Key, V: Value> Subject<K, V> for CortadoFutureIf<K, V> {
    type Reader<'a> = &'a Self;

    fn new(plan: Plan) -> Self {
        let tasks = CortadoFuture::<K, V>::new(plan);
        let earlier = tasks.0.sync().clock_time(a_second_ago());
        Self { tasks, earlier }
    }

    fn reader(&self) -> Self::Reader<'_> {
        self
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        self.tasks.insert(key, value);
    }

    fn settle(&self) {
        self.tasks.settle();
    }
}

subject!(MokaFuture, ::moka::future::Cache, Lifetimes);
