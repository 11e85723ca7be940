//! The caches for tasks, cortado's and moka's. The futures are polled in place: there is no runtime
//! whose cost would be measured too.

use super::cortado::Documented;
use super::moka::Lifetimes;
use super::{Lookup, Plan, Subject};
use crate::key::Key;
use crate::value::Value;
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
subject!(MokaFuture, ::moka::future::Cache, Lifetimes);
