//! Insert, read, load, remove, with an expiry policy and a listener.

#![allow(dead_code, unused_imports, unused_macros)]

mod poll;

use moka::sync::Cache;
use std::hash::Hash;
use std::future::ready;
use std::hint::black_box;
use std::time::{Duration, Instant};

struct Minute;

impl<K, V> moka::Expiry<K, V> for Minute {
    fn expire_after_create(&self, _: &K, _: &V, _: Instant) -> Option<Duration> {
        Some(Duration::from_secs(black_box(60)))
    }
}

/// A type of cache for values of each of these lengths.
macro_rules! each_length {
    ([$($n:literal)*]) => {
        $(exercise(|number| (number, [number as u8; $n]));)*
    };
}

/// One more load, in another place of the program, for each number.
macro_rules! load_each {
    ($cache:ident, $pair:ident, [$($n:literal)*]) => {
        $(black_box($cache.get_with($pair($n).0, || $pair(black_box($n)).1));)*
    };
}

/// A lifetime for all entries, an insert and a read.
fn least<K, V>(key: K, value: V)
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let lifetime = Duration::from_secs(black_box(60));
    let cache: moka::sync::Cache<K, V> =
        moka::sync::Cache::builder().max_capacity(black_box(1000)).time_to_live(lifetime).build();
    cache.insert(key.clone(), value);
    black_box(cache.get(&key));
}

fn exercise<K, V>(pair: impl Fn(u64) -> (K, V))
where
    K: Hash + Eq + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    let cache: Cache<K, V> = Cache::builder()
        .max_capacity(black_box(1000))
        .expire_after(Minute)
        .eviction_listener(|_, _, cause| _ = black_box(cause))
        .build();
    for number in 0..black_box(10) {
        let (key, value) = pair(number);
        cache.insert(key, value);
    }
    let (key, value) = pair(black_box(3));
    black_box(cache.get(&key));
    black_box(cache.get_with(key.clone(), || value));
    #[cfg(feature = "loads")]
    load_each!(cache, pair, [10 11 12 13 14 15 16 17 18 19]);
    cache.invalidate(&key);
}

/// One more load by a task, in another place of the program, for each number.
macro_rules! await_each {
    ($cache:ident, [$($n:literal)*]) => {
        $(black_box($cache.get_with($n, async { ready(()).await; black_box($n).to_string() }).await);)*
    };
}

#[cfg(feature = "tasks")]
async fn exercise_tasks() {
    let cache: moka::future::Cache<u64, String> = moka::future::Cache::new(1000);
    cache.insert(black_box(1), String::new()).await;
    await_each!(cache, [1]);
    #[cfg(feature = "task-loads")]
    await_each!(cache, [10 11 12 13 14 15 16 17 18 19]);
}

fn main() {
    #[cfg(feature = "least")]
    least(black_box(7_u64), String::new());
    #[cfg(feature = "least-two")]
    least(black_box(String::from("k")), 7_u32);
    #[cfg(feature = "fifteen")]
    each_length!([1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
    #[cfg(feature = "one")]
    exercise(|number| (number, number.to_string()));
    #[cfg(feature = "two")]
    exercise(|number| (number.to_string(), vec![number as u8]));
    #[cfg(feature = "tasks")]
    poll::to_the_end(exercise_tasks());
    println!("{}", black_box(String::from("done")));
}
